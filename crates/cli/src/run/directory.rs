//! The run directory of a new run: its name, its first manifest, and the job file that repeats the run; also the
//! directory of a series, plans as text, and command lines as a shell takes them.

use std::path::{Path, PathBuf};
use taillight_driver::bind;
use taillight_driver::targets::sample_display;

use taillight_core::capability::TargetKind;
use taillight_core::plan::Plan;
use taillight_core::secret::masked;
use taillight_core::{Clock, Error, MonoClock, Result, clock};
use taillight_driver::ownership::SIDECAR;
use taillight_rundir::manifest::{CaptureInfo, ClockInfo, ProcessInfo};
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::{Manifest, RunDir, names};
use taillight_suite::host::JobSource;
use taillight_suite::runner::DEFAULT_PARENT;

/// A run directory that was just made.
pub struct NewRun {
    pub dir: RunDir,
    pub run_id: String,
    /// The clock pair of the manifest.
    pub clock: ClockInfo,
    /// Whether the directory was absent before.
    fresh: bool,
}

/// Makes the directory with a manifest that says "running", and `job.toml`. Errors: `Usage` when the output directory
/// holds something, or it and a target lie in each other; `Unavailable` when it cannot be written.
pub fn create(
    plan: &Plan,
    job: Option<&JobSource>,
    destroy: &[String],
    environment: &serde_json::Map<String, serde_json::Value>,
    origin: RunOrigin,
) -> Result<NewRun> {
    let clock = clock_info(plan)?;
    let stamp = utc(clock.realtime_ns);
    let run_id = new_run_id(&stamp);
    let path = match &plan.run.output {
        Some(output) if output.is_empty() => return Err(names_nothing()),
        Some(output) => PathBuf::from(output),
        None => free_name(&format!("{DEFAULT_PARENT}/{}-{stamp}", plan.run.name))?,
    };
    let mut facts = bind(&plan.target)?.capabilities().facts;
    // Of several targets an offset alone does not say which file it is in.
    facts.single_file &= plan.targets.is_empty();
    for target in plan.all_targets().filter_map(|(_, target)| target.path.as_deref()) {
        let local = taillight_machine::block::local(target);
        if let Some(what) = local.and_then(|t| clash(t, &path, facts.kind == TargetKind::Keyed)) {
            return Err(Error::usage(what)
                .with("target", target)
                .with("path", path.display())
                .hint("name another directory with --output"));
        }
    }
    // A rank alone is no run to repeat.
    let repeat = plan.ranks.is_none().then(|| repeat_command(&path, destroy, &origin));
    let manifest = Manifest {
        origin,
        command: command_line(arguments()),
        driver: Some(facts),
        samples: Some(sample_display(plan)?),
        environment: environment.clone(),
        capture: CaptureInfo {
            mode: plan.capture.mode,
            budget: plan.capture.budget.0,
            kept: 0,
            degraded: None,
            path: Some(capture_path(&run_id)),
            dir: plan.capture.dir.clone(),
            used: None,
            spilled: None,
        },
        repeat,
        process: ProcessInfo::current(),
        ..Manifest::new(run_id.clone(), plan.clone(), clock.clone())
    };
    let fresh = !path.exists();
    let run = NewRun { dir: RunDir::create(&path, &manifest)?, run_id, clock, fresh };
    match job_text(plan, job).and_then(|text| run.dir.write_job(&text)) {
        Ok(()) => Ok(run),
        Err(e) => {
            run.discard();
            Err(e)
        }
    }
}

fn names_nothing() -> Error {
    Error::usage("--output names no directory")
        .hint("name a new or empty directory, or leave --output out")
}

/// Why a target and an output directory cannot be used together; neither need exist. `database`: the
/// target is a directory of a store's own.
fn clash(target: &Path, output: &Path, database: bool) -> Option<&'static str> {
    let (at, out) = (real(target), real(output));
    let directory = at.is_dir() || target.as_os_str().as_encoded_bytes().ends_with(b"/");
    // A database with a mark is known whatever else is in its directory.
    let fits = if database { at.join(SIDECAR).exists() } else { directory };
    if at == out {
        Some("the output directory is the target itself")
    } else if !database && !directory && at.parent() == Some(&*out) {
        Some("the target lies in the output directory, which the run keeps locked")
    } else if out.starts_with(&at) && !fits {
        Some("the output directory lies in the target, which must be new or empty")
    } else {
        None
    }
}

/// The place that a path means, links resolved as far as it exists.
pub fn real(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = whole.ancestors().find_map(|a| Some((a.canonicalize().ok()?, a)));
    let real = there.and_then(|(real, a)| Some(real.join(whole.strip_prefix(a).ok()?)));
    real.unwrap_or(whole).components().collect()
}

/// An id like that of a run, for something else that needs one of its own.
pub fn fresh_id() -> String {
    new_run_id(&utc(clock::realtime_ns()))
}

fn new_run_id(stamp: &str) -> String {
    format!("{stamp}-{:08x}", run_number(MonoClock.now().0))
}

/// The directory for the runs of a series: the one asked for, new or empty unless the series in it
/// is `resumed`, or a new one. Nothing is made yet. Errors: `Usage` when it holds something.
pub fn series_directory(asked: Option<&Path>, name: &str, resumed: bool) -> Result<PathBuf> {
    let path = match asked {
        Some(path) if path.as_os_str().is_empty() => {
            return Err(names_nothing());
        }
        Some(path) => path.to_owned(),
        None => free_name(&format!("{DEFAULT_PARENT}/{name}-{}", utc(clock::realtime_ns())))?,
    };
    match !resumed && std::fs::read_dir(&path).is_ok_and(|mut d| d.next().is_some()) {
        false => Ok(path),
        true => Err(Error::usage("the output directory is not empty")
            .with("path", path.display())
            .hint("name a new or empty directory with --output")),
    }
}

impl NewRun {
    /// Removes job file and manifest of a run that measured nothing, and a directory that was made for it and is empty.
    pub fn discard(self) {
        let path = self.dir.path().to_owned();
        for name in [names::JOB, names::MANIFEST] {
            let _ = std::fs::remove_file(self.dir.file(name));
        }
        if !self.fresh {
            return;
        }
        // Both are left alone when they hold anything.
        let _ = std::fs::remove_dir(&path);
        if let Some(parent) = path.parent().filter(|p| p.ends_with(DEFAULT_PARENT)) {
            let _ = std::fs::remove_dir(parent);
        }
    }
}

/// The clock of the run's stamps; virtual time begins at zero.
fn clock_info(plan: &Plan) -> Result<ClockInfo> {
    let realtime_ns = clock::realtime_ns();
    Ok(match bind(&plan.target)?.capabilities().virtual_time {
        true => ClockInfo { monotonic_ns: 0, realtime_ns, source: "virtual".to_owned() },
        false => clock_now(),
    })
}

/// This machine's clocks.
pub fn clock_now() -> ClockInfo {
    let source = taillight_trace::availability::clock::source(&taillight_machine::Sys::default());
    ClockInfo {
        monotonic_ns: MonoClock.now().0,
        realtime_ns: clock::realtime_ns(),
        source: source.unwrap_or_else(|| "unknown".to_owned()),
    }
}

fn capture_path(run_id: &str) -> String {
    taillight_capture::dir::capture_dir(run_id).to_string_lossy().into_owned()
}

/// The plan as a job file with a line that says what it is. Errors: `Internal` when the plan has no
/// TOML form.
pub fn plan_text(plan: &Plan) -> Result<String> {
    Ok(format!(
        "# The resolved plan. Running it again is the same run: same seed, same operations.\n\n{}",
        plan.to_toml()?
    ))
}

/// What `--print-plan` shows: the plan, and what it leaves to the run and to the machine. Errors:
/// `Internal` when the plan has no TOML form.
pub fn plan_shown(plan: &Plan) -> Result<String> {
    let driver = bind(&plan.target)?;
    let mut notes = driver.plan_notes(plan);
    if let Some((blocks, bytes)) = plan.ledger(plan.target.size.map(|s| s.0)) {
        notes.push(format!(
            "[verify] keeps a record of the writes to {blocks} blocks or records: {bytes} B of \
             memory, and ledger.parquet in the run directory."
        ));
    }
    notes.push(
        "capture.budget is a quarter of the memory free on this machine now, unless the job sets it."
            .to_owned(),
    );
    if driver.capabilities().guarded {
        notes.push(
            "Not looked at yet: the target. Rights, space and the guard are checked by the run, \
             before it touches anything."
                .to_owned(),
        );
    }
    let notes: String = notes.iter().map(|n| format!("# {n}\n")).collect();
    let text = plan_text(plan)?;
    Ok(text.replacen("\n\n", &format!("\n{notes}\n"), 1))
}

/// `job.toml` of the run directory: the plan, and below it as a comment the job file as it was given, secrets masked.
pub(super) fn job_text(plan: &Plan, job: Option<&JobSource>) -> Result<String> {
    let mut plan = plan.clone();
    // The directory is taken now; a repetition gets its own.
    plan.run.output = None;
    plan.ranks = None;
    let mut text = plan_text(&plan)?;
    if let Some(job) = job {
        text.push_str(&format!("\n# The job file as it was given ({}):\n#\n", job.name));
        for line in job.text.lines() {
            text.push_str(format!("# {}", masked(line)).trim_end());
            text.push('\n');
        }
    }
    Ok(text)
}

/// The command that repeats the run from its directory.
fn repeat_command(path: &Path, destroy: &[String], origin: &RunOrigin) -> String {
    let job = path.join(names::JOB).to_string_lossy().into_owned();
    let program = match origin {
        RunOrigin::Merged { ranks } => {
            format!("mpirun{} -n {ranks} taillight-mpi", crate::ranks::as_root())
        }
        _ => "taillight".to_owned(),
    };
    let mut words: Vec<String> = program.split(' ').map(str::to_owned).collect();
    words.extend(["run".to_owned(), job]);
    for target in destroy {
        words.extend(["--destroy".to_owned(), target.clone()]);
    }
    command_line(words.into_iter())
}

/// The first name of `name`, `name-2`, ... to `name-999` that is free.
fn free_name(name: &str) -> Result<PathBuf> {
    (1..1000)
        .map(|n| match n {
            1 => PathBuf::from(name),
            n => PathBuf::from(format!("{name}-{n}")),
        })
        .find(|p| !p.exists())
        .ok_or_else(|| Error::unavailable("no free name for the run directory").with("name", name))
}

/// The words of this command; those that are no text are refused before anything is kept of them.
pub fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Words as a shell takes them.
pub fn command_line(words: impl Iterator<Item = String>) -> String {
    let quoted = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// Tells runs apart that start in the same second: process and clock, mixed.
fn run_number(monotonic_ns: i64) -> u32 {
    let mixed = (monotonic_ns as u64)
        .wrapping_add(u64::from(std::process::id()) << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

/// `20260102T030405Z` for nanoseconds since the epoch.
fn utc(realtime_ns: i64) -> String {
    let text = taillight_report::model::about::utc(realtime_ns);
    text.replace(['-', ':'], "").replace(" UTC", "Z").replace(' ', "T")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_827_696, "20000229T123456Z"),
            (1_767_322_845, "20260102T030045Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000_000), text);
        }
    }

    #[test]
    fn output_and_target_lie_apart_where_they_must() {
        let tmp = tempfile::tempdir().expect("a directory");
        let at = |name: &str| tmp.path().join(name);
        for name in ["set", "kept"] {
            std::fs::create_dir(at(name)).expect("made");
        }
        std::fs::write(at("kept").join(SIDECAR), "{}").expect("written");
        std::os::unix::fs::symlink(at("set"), at("link")).expect("made");
        for (target, output, database, works) in [
            ("run", "run", false, false),
            ("link", "set/", false, false),
            ("run/data", "run", false, false),
            ("link/data", "set", false, false),
            ("run/set/", "run", false, true),
            ("run/db", "run", true, true),
            ("data", "data/run", false, false),
            ("set", "link/run", false, true),
            ("new/", "new/run", false, true),
            ("db", "db/run/1", true, false),
            ("set", "set/run", true, false),
            ("kept", "kept/run", true, true),
            ("data", "database", false, true),
        ] {
            let found = clash(&at(target), &at(output), database);
            assert_eq!(found.is_none(), works, "{target} {output} {found:?}");
        }
    }

    #[test]
    fn a_run_is_repeated_by_as_many_ranks() {
        let of = |origin| repeat_command(Path::new("RUN"), &["h0:a=1".to_owned()], &origin);
        assert_eq!(of(RunOrigin::Measured), "taillight run RUN/job.toml --destroy h0:a=1");
        let ranks = of(RunOrigin::Merged { ranks: 3 });
        assert_eq!(ranks, "mpirun -n 3 taillight-mpi run RUN/job.toml --destroy h0:a=1");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["taillight", "--set", "a={ b = 1 }", "it's", ""].map(str::to_owned);
        assert_eq!(command_line(words.into_iter()), r"taillight --set 'a={ b = 1 }' 'it'\''s' ''");
    }

    #[test]
    fn two_runs_have_two_numbers() {
        assert_ne!(run_number(1), run_number(2));
    }
}
