//! A job file, the flags of `run` and `search`, and `--set` into one plan; what comes later wins, in this order. Also
//! reads job files, and tells the driver of a `--path`.

use std::io::Read;
use std::path::Path;

use taillight_core::job::{FlagValue, Job};
use taillight_core::plan::Plan;
use taillight_core::{Error, ErrorKind, Result, regular};
use taillight_machine::Sys;
use taillight_trace::memory_budget;

use taillight_suite::host::JobSource;

use crate::args::{RunArgs, Rw};
use crate::registry::Registry;
use crate::{search, trace};

/// A job file is small; anything larger is another file.
const MOST_BYTES: u64 = 1 << 20;

/// What to do about a path that is no job file.
const JOB_FILE_HINT: &str = "give the path of a job file or suite file (.toml), or of a fio job (.fio); \
                             the folders jobs/ and suites/ have examples";

/// The resolved plan of a job file, if there is one, and the flags. `seed` is used where neither names
/// one. Errors: `Usage` with field and place; `Unavailable` when the machine has not enough of
/// something.
pub fn plan(args: &RunArgs, source: Option<&JobSource>, seed: Option<u64>) -> Result<Plan> {
    plan_of(job(args, source)?, args, seed)
}

/// A job file, if there is one, with the flags. Errors: `Usage` with field and place.
pub fn job(args: &RunArgs, source: Option<&JobSource>) -> Result<Job> {
    let mut job = match source {
        Some(source) => source.job()?,
        None if args.driver.is_none() && args.path.is_none() && args.set.is_empty() => {
            return Err(no_job());
        }
        None => Job::empty(),
    };
    match args.path.as_deref() {
        Some(path) if args.driver.is_none() && source.is_none() => {
            job.apply("--path", "target.driver", FlagValue::Text(driver_of(path)?))?;
        }
        path => path.map_or(Ok(()), check_scheme)?,
    }
    apply_target(args, &mut job)?;
    apply_load(args, &mut job)?;
    apply_every_day(args, &mut job)?;
    if let Some(range) = &args.searched {
        search::apply(args, range, &mut job)?;
    }
    for assignment in &args.set {
        job.apply_set(assignment)?;
    }
    if args.searched.is_some() {
        search::complete(args, &mut job)?;
    }
    for sweep in &args.sweep {
        job.add_sweep(sweep)?;
    }
    Ok(job)
}

/// The plan that another rank wrote as a job file. Errors: as [`resolve`].
pub fn plan_of_text(text: &str) -> Result<Plan> {
    resolve(&Job::from_values(text, "the plan of rank 0")?)
}

/// The resolved plan of a job that has its flags already. Errors: as [`plan`].
pub fn plan_of(mut job: Job, args: &RunArgs, seed: Option<u64>) -> Result<Plan> {
    if let Some(seed) = seed.filter(|_| !job.has("run.seed")) {
        job.apply("seed", "run.seed", FlagValue::Toml(&seed.to_string()))?;
    }
    let plan = resolve(&job)?;
    if !args.destroy.is_empty() && !plan.all_targets().any(|(_, target)| target.destroy) {
        return Err(Error::usage("--destroy needs `destroy = true` in [target] as well")
            .hint("two confirmations guard your data: add --set target.destroy=true"));
    }
    Ok(plan)
}

/// The plan of a job, with the drivers, the memory and the files of this machine. Errors: as
/// [`plan`].
pub fn resolve(job: &Job) -> Result<Plan> {
    let memory = memory_budget::read(&Sys::default())?;
    job.resolve(&Registry, memory, &|path| regular::read_to_string(path))
}

fn no_job() -> Error {
    Error::usage("no job file and no driver given").hint(
        "taillight run JOB.toml, or: \
         taillight run --driver file --path data/ --size 1GiB --rw randread --runtime 30s",
    )
}

/// Reads a job file; `-` is standard input. Errors: `Usage` when it cannot be read or is no job
/// file.
pub fn read(path: &Path) -> Result<JobSource> {
    let shown = path.display().to_string();
    let cannot = |e: std::io::Error| {
        Error::usage("cannot read the job file").with("path", &shown).source(e).hint(JOB_FILE_HINT)
    };
    if let Some(e) = trace::refused(&shown, "job file") {
        return Err(e);
    }
    let (name, input): (String, Box<dyn Read>) = match path == Path::new("-") {
        true => ("stdin".to_owned(), Box::new(std::io::stdin().lock())),
        false => (shown.clone(), Box::new(std::fs::File::open(path).map_err(cannot)?)),
    };
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::usage("this is no job file: it is larger than 1 MiB")
            .with("path", name)
            .hint(JOB_FILE_HINT));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::usage("this is no job file: it is not text").with("path", &name).hint(JOB_FILE_HINT)
    })?;
    Ok(JobSource::written(name, text))
}

/// The words of a command line of another benchmark, as a shell would have to be given them.
pub fn command_line(words: &[String]) -> JobSource {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,%+@".contains(c);
    let quoted = words.iter().map(|word| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    });
    JobSource::written("command line", quoted.collect::<Vec<_>>().join(" "))
}

/// Sets `path` from a flag that may be absent.
fn set(job: &mut Job, flag: &str, path: &str, value: Option<FlagValue<'_>>) -> Result<()> {
    match value {
        Some(value) => job.apply(flag, path, value),
        None => Ok(()),
    }
}

fn apply_target(args: &RunArgs, job: &mut Job) -> Result<()> {
    for (flag, path, value) in [
        ("--driver", "target.driver", &args.driver),
        ("--path", "target.path", &args.path),
        ("--size", "target.size", &args.size),
        ("--output", "run.output", &args.output),
    ] {
        set(job, flag, path, value.as_deref().map(FlagValue::Text))?;
    }
    let runtime = args.runtime.as_deref().filter(|_| args.searched.is_none());
    set(job, "--runtime", "run.duration", runtime.map(FlagValue::Text))?;
    for (flag, path, value) in [
        ("--direct", "target.options.direct", args.direct),
        ("--keep", "target.options.keep", args.keep),
    ] {
        set(job, flag, path, value.map(|v| v.to_string()).as_deref().map(FlagValue::Toml))?;
    }
    Ok(())
}

fn apply_load(args: &RunArgs, job: &mut Job) -> Result<()> {
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    for (flag, path, value) in [
        ("--ops", "run.operations", number(args.ops)),
        ("--depth", "workload.0.queue_depth", number(args.depth.map(u64::from))),
        ("--workers", "workload.0.workers", number(args.workers.map(u64::from))),
        ("--bs", "workload.0.block_size", args.bs.clone()),
    ] {
        set(job, flag, path, value.as_deref().map(FlagValue::Toml))?;
    }
    if let Some(rw) = args.rw {
        let (mix, access) = mix_and_access(rw);
        job.apply("--rw", "workload.0.mix", FlagValue::Toml(mix))?;
        job.apply("--rw", "workload.0.access.kind", FlagValue::Text(access))?;
    }
    let replay = args.replay.as_deref().map(FlagValue::Text);
    set(job, "--replay", "workload.0.trace.file", replay)?;
    set(job, "--sync", "workload.0.sync", args.sync.as_deref().map(FlagValue::Text))?;
    let kind = args.arrival_name();
    if let Some(rate) = &args.rate {
        // Replaces whatever arrival the job has: a burst has no rate to change.
        // Without a kind it is the default one, which a search has of its own.
        let table = kind.map_or("{}".to_owned(), |kind| format!("{{ kind = \"{kind}\" }}"));
        job.apply("--rate", "workload.0.arrival", FlagValue::Toml(&table))?;
        job.apply("--rate", "workload.0.arrival.rate", FlagValue::Text(rate))?;
    } else if let Some(kind) = kind.filter(|_| args.searched.is_none()) {
        job.apply("--arrival", "workload.0.arrival.kind", FlagValue::Text(kind))?;
    }
    Ok(())
}

/// Refuses an address that no driver has. Errors: `Usage`, with the one to write.
fn check_scheme(path: &str) -> Result<()> {
    let Some((scheme, rest)) = path.split_once("://") else { return Ok(()) };
    if ["http", "https", "redis", "postgres", "postgresql", "kafka"].contains(&scheme)
        || Path::new(path).exists()
    {
        return Ok(());
    }
    let (bucket, _) = rest.split_once('/').unwrap_or((rest, ""));
    let hint = match scheme {
        "s3" => format!(
            "an object store is named by its address: --path http://HOST:PORT/{bucket}, at Amazon \
             --path https://s3.REGION.amazonaws.com/{bucket} (docs/s3.md, docs/credentials.md)"
        ),
        "file" => format!("a file is named by its path: --path {rest}"),
        _ => "known are http://, https:// (object stores), postgres://, redis://, kafka:// and HOST:PORT; a file has a path alone"
            .to_owned(),
    };
    Err(Error::usage(format!("no driver takes {scheme}://")).with("--path", path).hint(hint))
}

/// `HOST:PORT`, where no file has this name.
fn server(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once(':').filter(|(host, at)| {
        let digits = !at.is_empty() && at.bytes().all(|b| b.is_ascii_digit());
        !host.is_empty() && !host.contains('/') && digits && !Path::new(path).exists()
    })
}

/// The error, with a hint where the address of a server that cannot be reached may be meant as a file.
pub fn or_a_file(args: &RunArgs, e: Error) -> Error {
    let path = args.path.as_deref().filter(|_| args.driver.is_none() && args.job.is_none());
    match path.filter(|path| server(path).is_some() && e.kind() == ErrorKind::Unavailable) {
        None => e,
        Some(path) => {
            let own = e.hint_text().map_or(String::new(), |hint| format!("{hint}; "));
            e.hint(format!(
                "{own}HOST:PORT is a Redis server, a file of this name is --path ./{path}"
            ))
        }
    }
}

/// The driver of a path that is given without one. Errors: `Usage` for HOST:PORT with a port above 65535, and for an
/// address that no driver has.
pub fn driver_of(path: &str) -> Result<&'static str> {
    check_scheme(path)?;
    let server = server(path);
    if let Some((_, port)) = server.filter(|(_, at)| at.parse::<u16>().is_err()) {
        return Err(Error::usage("a port is a number up to 65535")
            .with("--path", path)
            .with("port", port)
            .hint(format!("correct it; a file of this name is --path ./{path}")));
    }
    Ok(if server.is_some() || path.starts_with("redis://") || path.starts_with("unix:/") {
        "redis"
    } else if ["postgres://", "postgresql://"].iter().any(|scheme| path.starts_with(scheme)) {
        "postgres"
    } else if path.starts_with("kafka://") {
        "kafka"
    } else if path.starts_with("http://") || path.starts_with("https://") {
        "s3"
    } else {
        "file"
    })
}

fn apply_every_day(args: &RunArgs, job: &mut Job) -> Result<()> {
    set(job, "--warmup", "run.warmup", args.warmup.as_deref().map(FlagValue::Text))?;
    set(job, "--trace", "trace.mode", args.trace.as_deref().map(FlagValue::Text))?;
    if !args.ceiling.is_empty() && args.searched.is_none() {
        let ceilings: Vec<String> =
            args.ceiling.iter().map(|text| ceiling(text)).collect::<Result<_>>()?;
        let list = format!("[{}]", ceilings.join(", "));
        job.apply("--ceiling", "qos.ceilings", FlagValue::Toml(&list))?;
    }
    Ok(())
}

/// `20ms@99.9` as a table of a job file.
fn ceiling(text: &str) -> Result<String> {
    ceiling_parts(text).map(|(time, at)| format!("{{ ceiling = \"{time}\", at = \"{at}\" }}"))
}

/// The time and the percentile of `20ms@99.9`. Errors: `Usage` for anything else.
pub fn ceiling_parts(text: &str) -> Result<(&str, &str)> {
    let known =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '.');
    let parts = text.split_once('@').map(|(time, at)| (time, at.trim_end_matches('%')));
    parts.filter(|(time, at)| known(time) && known(at)).ok_or_else(|| {
        Error::usage("a ceiling is a time and a percentile")
            .with("--ceiling", text)
            .hint("like --ceiling 20ms@99.9")
    })
}

/// What `--rw` means: the mix of operations, and the kind of access.
fn mix_and_access(rw: Rw) -> (&'static str, &'static str) {
    const HALF: &str = "{ read = 50, write = 50 }";
    match rw {
        Rw::Read => ("read", "sequential"),
        Rw::Write => ("write", "sequential"),
        Rw::Mixed => (HALF, "sequential"),
        Rw::Randread => ("read", "random"),
        Rw::Randwrite => ("write", "random"),
        Rw::Randrw => (HALF, "random"),
        Rw::Trim => ("trim", "sequential"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Every job file in `jobs/` and `jobs/demo/`. Names in them count from the root of the project.
    fn examples() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::env::set_current_dir(root).expect("the root");
        let mut found: Vec<PathBuf> = ["jobs", "jobs/demo"]
            .iter()
            .flat_map(|dir| std::fs::read_dir(dir).expect("jobs/ is there").flatten())
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .collect();
        found.sort();
        assert!(found.len() >= 8, "{found:?}");
        found
    }

    fn resolved(source: &JobSource) -> Plan {
        plan(&RunArgs::default(), Some(source), None).expect(&source.name)
    }

    #[test]
    fn a_path_tells_its_driver() {
        for (path, driver) in [
            ("data/", "file"),
            ("127.0.0.1:6379", "redis"),
            ("redis://db.example/1", "redis"),
            ("postgres://db.example/bench", "postgres"),
            ("kafka://127.0.0.1:9092/bench", "kafka"),
            ("http://127.0.0.1:9000/bench", "s3"),
            ("/mnt/a:1", "file"),
            ("file:12", "redis"),
        ] {
            assert_eq!(driver_of(path).unwrap(), driver, "{path}");
        }
        for (path, said) in [
            ("s3://bench/x", "s3.REGION.amazonaws.com/bench"),
            ("file:///data", "--path /data"),
            ("hdfs://n/x", "http://"),
        ] {
            let e = driver_of(path).unwrap_err();
            assert!(e.hint_text().unwrap().contains(said), "{path}: {e}");
        }
        let e = driver_of("localhost:99999").unwrap_err();
        assert!(e.to_string().contains("65535"), "{e}");
    }

    #[test]
    fn ceilings_are_a_time_and_a_percentile() {
        assert_eq!(ceiling("20ms@99.9").unwrap(), r#"{ ceiling = "20ms", at = "99.9" }"#);
        for wrong in ["20ms", "@99", "20ms@", "1\"@9"] {
            assert!(ceiling(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_plan_of_a_plan_is_the_plan() {
        for job in examples() {
            let first = resolved(&read(&job).expect("readable"));
            let text = first.to_toml().expect("TOML");
            let again = resolved(&JobSource::written("plan.toml", text.clone()));
            assert_eq!(again.to_toml().expect("TOML"), text, "{}", job.display());
        }
    }

    #[test]
    fn examples_and_their_plans_fit_the_published_schema() {
        let schema = crate::schema::job();
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let fits = |text: &str, name: &str| {
            let value: toml::Value = toml::from_str(text).expect("TOML");
            let value = serde_json::to_value(value).expect("JSON");
            let problems: Vec<_> = validator.iter_errors(&value).collect();
            assert!(problems.is_empty(), "{name}: {problems:?}");
        };
        for job in examples() {
            let source = read(&job).expect("readable");
            fits(&source.text, &source.name);
            fits(&resolved(&source).to_toml().expect("TOML"), &source.name);
        }
    }
}
