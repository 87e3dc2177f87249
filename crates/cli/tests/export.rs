//! Example jobs as fio job files: fio accepts each that is exported, and does the same with two of
//! them; the others are refused by name. Also the sums of a run's metrics (`openmetrics`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{run, scratch, summary};
use serde_json::Value;

/// Examples whose load fio cannot make on a file either, and what is said about each.
const REFUSED: &[(&str, &str)] = &[
    ("access-skewed", "fio has no `exponential`"),
    ("arrival-bursts", "fio has no such schedule"),
    ("arrival-ramp", "fio has no such schedule"),
    ("arrival-replay", "fio has no such schedule"),
    ("arrival-steps", "fio has no such schedule"),
    ("file-reverse", "fio has no `reverse`"),
    ("file-strided", "fio has no `strided`"),
    ("file-trim", "no mix of these operations"),
    ("sbk-end-to-end", "writer's stamp"),
];

/// The repository: examples name files from here.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("jobs")).expect("the examples");
    let paths = entries.flatten().map(|e| e.path());
    let jobs = paths.filter(|p| p.extension().is_some_and(|x| x == "toml"));
    let mut names: Vec<String> =
        jobs.filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

/// The driver of an example, where it is none of fio's.
fn driver(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(root().join(format!("jobs/{name}.toml"))).ok()?;
    let job: toml::Table = text.parse().ok()?;
    let driver = job.get("target")?.get("driver")?.as_str()?;
    (!["file", "null"].contains(&driver)).then(|| driver.to_owned())
}

/// Whether fio is here; says so if not.
fn fio_is_here(test: &str) -> bool {
    let here = Command::new("fio").arg("--version").output().is_ok();
    if !here {
        println!("skipped: {test}: no fio (Debian package fio)");
    }
    here
}

#[test]
fn fio_accepts_what_is_exported_and_the_rest_is_refused_by_name() {
    let fio = fio_is_here("fio accepts what is exported");
    let dir = scratch();
    let (mut exported, mut refused) = (0, 0);
    for name in examples() {
        let job = format!("jobs/{name}.toml");
        let why = match REFUSED.iter().find(|(n, _)| *n == name) {
            Some((_, why)) => Some((*why).to_owned()),
            None => driver(&name).map(|driver| format!("driver `{driver}`")),
        };
        let words = ["export", &job, "--format", "fio-job"];
        let (text, err) = run(&root(), &words, if why.is_some() { 2 } else { 0 });
        if let Some(why) = why {
            assert!(err.contains(&why), "{name}: no `{why}` in:\n{err}");
            assert!(err.contains("hint: "), "{err}");
            assert_eq!(text, "");
            refused += 1;
            continue;
        }
        exported += 1;
        if !fio {
            continue;
        }
        let file = dir.path().join(format!("{name}.fio"));
        std::fs::write(&file, &text).expect("written");
        let parsed = Command::new("fio").arg("--parse-only").arg(&file).output();
        let parsed = parsed.expect("fio starts");
        let said = [parsed.stdout, parsed.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(parsed.status.success() && said.is_empty(), "{name}\n{said}\n{text}");
    }
    assert!(refused > REFUSED.len(), "{refused}");
    assert!(exported >= 12, "{exported}");
}

/// An example made small: its target, and its end, are the test's.
fn small(name: &str, operations: i64) -> String {
    let text = std::fs::read_to_string(root().join(format!("jobs/{name}.toml"))).expect("there");
    let mut job: toml::Table = text.parse().expect("TOML");
    let run = job["run"].as_table_mut().expect("[run]");
    for gone in ["duration", "warmup", "bytes"] {
        run.remove(gone);
    }
    run.insert("operations".into(), operations.into());
    run.insert("seed".into(), 7.into());
    let target = job["target"].as_table_mut().expect("[target]");
    target.insert("path".into(), "data".into());
    target.insert("size".into(), "16MiB".into());
    let options: toml::Table =
        "engine = \"sync\"\ndirect = false\nlayout = \"always\"\nkeep = true"
            .parse()
            .expect("TOML");
    target.insert("options".into(), options.into());
    for w in job["workload"].as_array_mut().expect("workloads") {
        // psync has one I/O in flight.
        w.as_table_mut().expect("a table").remove("queue_depth");
    }
    job.to_string()
}

/// Operations and bytes of reads and writes, as fio counts them.
fn by_fio(dir: &Path, job: &str) -> [(u64, u64); 2] {
    let output = Command::new("fio")
        .args(["--output-format=json", job])
        .current_dir(dir)
        .output()
        .expect("fio starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let json: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
    let jobs = json["jobs"].as_array().expect("jobs");
    ["read", "write"].map(|op| {
        let sum = |field: &str| -> u64 {
            let all = jobs.iter().map(|j| j[op][field].as_u64());
            all.map(|n| n.expect("a number")).sum()
        };
        (sum("total_ios"), sum("io_bytes"))
    })
}

/// The same of a run directory.
fn by_taillight(dir: &Path) -> [(u64, u64); 2] {
    let summary = summary(dir, "out");
    ["read", "write"].map(|op| {
        let number = |field: &str| summary["ops"][op][field].as_u64().unwrap_or(0);
        (number("count"), number("bytes"))
    })
}

#[test]
fn fio_does_the_same_with_an_exported_job() {
    if !fio_is_here("fio does the same with an exported job") {
        return;
    }
    for (name, operations) in [("file-randread", 2000i64), ("file-mixed", 3000)] {
        let dir = scratch();
        let dir = dir.path();
        std::fs::write(dir.join("job.toml"), small(name, operations)).expect("written");
        run(dir, &["run", "job.toml", "--output", "out"], 0);
        let words = ["export", "job.toml", "--format", "fio-job", "--output", "job.fio"];
        run(dir, &words, 0);
        std::fs::remove_file(dir.join("data")).expect("fio lays out its own");
        let (ours, theirs) = (by_taillight(dir), by_fio(dir, "job.fio"));
        let total = |all: [(u64, u64); 2]| all[0].0 + all[1].0;
        assert_eq!(total(ours), operations as u64, "{name}");
        assert_eq!(total(theirs), operations as u64, "{name}: {theirs:?}");
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            // Two draws of the same shares: 4 standard deviations of their difference, of a share of
            // a half at most. Where nothing is drawn both are exact.
            let drawn = name == "file-mixed";
            let far = if drawn { 4.0 * (2.0 * operations as f64 * 0.25).sqrt() } else { 0.0 };
            let off = ours.0.abs_diff(theirs.0) as f64;
            assert!(off <= far, "{name}: {ours:?} {theirs:?}");
            // The mean block of each kind of operation, within 15 % where sizes are drawn.
            let mean = |(count, bytes): (u64, u64)| bytes as f64 / count.max(1) as f64;
            let off = (mean(ours) - mean(theirs)).abs() / mean(ours).max(1.0);
            assert!(off <= if drawn { 0.15 } else { 0.0 }, "{name}: {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn what_fio_dies_of_is_said_in_the_exported_file() {
    let dir = scratch();
    let job = |arrival: &str| {
        let text = format!(
            "[target]\ndriver = \"file\"\npath = \"data\"\nsize = \"4MiB\"\n[[workload]]\n\
             mix = \"write\"\nsync = \"fdatasync:1\"\narrival = {arrival}\n"
        );
        std::fs::write(dir.path().join("job.toml"), text).expect("written");
        run(dir.path(), &["export", "job.toml", "--format", "fio-job"], 0).0
    };
    let what = ";   workload w0: arrival, sync: fio 3.33 dies of a division by zero";
    assert!(job("{ kind = \"poisson\", rate = \"10/s\" }").contains(what));
    assert!(!job("{ rate = \"10/s\" }").contains(what));
}

#[test]
fn fio_ends_after_the_passes_of_an_exported_job() {
    // `time_based` once made it go round until the duration was over.
    if !fio_is_here("fio ends after the passes") {
        return;
    }
    let dir = scratch();
    let job = "[run]\nduration = \"1min\"\n\
               [target]\ndriver = \"file\"\npath = \"data\"\nsize = \"4MiB\"\n\
               options = { engine = \"sync\", direct = false }\n\
               [[workload]]\nmix = \"write\"\npasses = 2\n\
               access = { kind = \"random\", cover = true }\n";
    std::fs::write(dir.path().join("job.toml"), job).expect("written");
    run(dir.path(), &["run", "job.toml", "--output", "out"], 0);
    let words = ["export", "job.toml", "--format", "fio-job", "--output", "job.fio"];
    run(dir.path(), &words, 0);
    let expected = [(0, 0), (2048, 8 << 20)];
    assert_eq!(by_taillight(dir.path()), expected);
    assert_eq!(by_fio(dir.path(), "job.fio"), expected);
}

#[test]
fn sums_of_an_export_are_those_of_the_ios() {
    use taillight_rundir::ios::{ColumnSet, read_ios};

    let dir = scratch();
    let line = "run --driver sim --size 1GiB --ops 20000 --rate 20000/s --output out";
    run(dir.path(), &line.split(' ').collect::<Vec<_>>(), 0);
    let (mut service, mut response) = (0i64, 0i64);
    let columns = ColumnSet::PHASE
        | ColumnSet::INTENDED
        | ColumnSet::SUBMIT
        | ColumnSet::COMPLETE
        | ColumnSet::STATUS;
    read_ios(&dir.path().join("out/ios.parquet"), columns, &mut |batch| {
        for i in (0..batch.rows).filter(|i| batch.phase_name(*i) == "measure") {
            let intended = batch.intended(i).unwrap_or(batch.submit(i)).min(batch.submit(i));
            service += batch.complete(i) - batch.submit(i);
            response += batch.complete(i) - intended;
        }
        Ok(())
    })
    .expect("rows");
    let (text, _) = run(dir.path(), &["export", "out", "--format", "openmetrics"], 0);
    let sum = |name: &str| {
        let of = |line: &&str| line.starts_with(&format!("taillight_io_{name}_seconds_sum{{"));
        let last = text.lines().rfind(of).unwrap_or_else(|| panic!("no {name}: {text}"));
        let value: f64 =
            last.split(' ').nth_back(1).expect("value, time").parse().expect("a number");
        (value * 1e9).round() as i64
    };
    assert!(response > service, "some were late");
    assert_eq!((sum("service"), sum("response")), (service, response));
}
