//! Stores that are no part of this repository's drivers: the same job on stores that do nothing, as libraries in C and
//! Go, a binding in Java and a program in Python, where their compilers are here; suites and series on a plug-in in C.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{ended, json, run_line, scratch, summary, taillight, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Runs a compiler, which must succeed. Errors: it is not here.
fn made(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|e| e.to_string())?;
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    Ok(())
}

fn c_library(dir: &Path) -> Result<String, String> {
    let (root, out) = (root(), dir.join("null-c.so"));
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DKEYED", "-I",
    ]);
    cc.arg(root.join("sdk")).arg("-o").arg(&out).arg(root.join("sdk/examples/c/null.c"));
    made(&mut cc).map(|()| out.display().to_string())
}

/// Builds `records.so`, the SDK's example of a store that keeps records.
fn records(dir: &Path) {
    let root = root();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-shared", "-fPIC", "-pthread", "-I"]).arg(root.join("sdk"));
    let sources = root.join("sdk/examples/c/records.c");
    made(cc.arg("-o").arg(dir.join("records.so")).arg(sources)).expect("a C compiler");
}

fn go_library(dir: &Path, flags: &str) -> Result<String, String> {
    let out = dir.join(format!("null-go{flags}.so"));
    let mut go = Command::new("go");
    // No look at the repository, which may be another user's.
    go.args(["build", "-buildvcs=false", "-buildmode=c-shared", "-o"]).arg(&out).arg(".");
    go.current_dir(root().join("sdk/examples/go")).env("CGO_CFLAGS", format!("-O2 {flags}"));
    made(&mut go).map(|()| out.display().to_string())
}

fn java_classes(dir: &Path) -> Result<String, String> {
    let sources = root().join("crates/driver/src/jvm/testing");
    let out = dir.join("classes");
    let mut javac = Command::new("javac");
    javac.args(["--release", "8", "-Xlint:-options", "-sourcepath"]).arg(&sources);
    made(javac.arg("-d").arg(&out).arg(sources.join("Null.java")))
        .map(|()| out.display().to_string())
}

/// Runs a job; operations and errors that it counted, by kind. What the bridge costs must have been printed.
fn counted(dir: &Path, driver: &str, options: &[String]) -> Vec<(String, u64, u64)> {
    let mut run = taillight(dir);
    run.args(["run", "--driver", driver, "--output", "out"]);
    for option in options {
        run.args(["--set", &format!("target.options.{option}")]);
    }
    let job = "--ops 3000 --set run.seed=7 --set workload.0.keys.count=200 --set workload.0.block_size=100B \
               --set workload.0.mix.get=2 --set workload.0.mix.update=1 --set workload.0.mix.insert=1";
    let (out, err) = ended(&run.args(job.split_whitespace()).output().expect("a run"), 0);
    assert!((out + &err).contains("the bridge to the plug-in costs "), "{driver}: {err}");
    let summary = summary(dir, "out");
    std::fs::remove_dir_all(dir.join("out")).expect("gone");
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let ops = summary["ops"].as_object().expect("operations").iter();
    ops.map(|(op, of)| (op.clone(), number(&of["count"]), number(&of["errors"]))).collect()
}

#[test]
fn the_same_job_counts_the_same_in_c_go_java_and_python() {
    let dir = scratch();
    let test = "the_same_job_counts_the_same_in_c_go_java_and_python";
    let python = format!("command=python3 {}", root().join("sdk/examples/null.py").display());
    let first = counted(dir.path(), "process", &[python]);
    let sum: u64 = first.iter().map(|(_, count, _)| count).sum();
    assert!(first.len() == 3 && sum == 3000, "{first:?}");
    assert!(first.iter().all(|(_, _, errors)| *errors == 0), "{first:?}");
    let library = |made: Result<String, String>| made.map(|file| vec![format!("library={file}")]);
    let java = java_classes(dir.path()).map(|classes| {
        let options = ["class=Null", "stores_data=false", "jvm_args=[\"-Xmx64m\"]"];
        let options = options.map(str::to_owned).into_iter();
        options.chain([format!("classpath={classes}")]).collect()
    });
    for (language, driver, options) in [
        ("C", "plugin", library(c_library(dir.path()))),
        ("Go", "plugin", library(go_library(dir.path(), "-DKEYED"))),
        ("Java", "jvm", java),
    ] {
        match options {
            Err(why) => eprintln!("skipped: {test}: no {language} compiler: {why}"),
            Ok(options) => assert_eq!(counted(dir.path(), driver, &options), first, "{language}"),
        }
    }
}

#[test]
fn stores_that_do_nothing_keep_the_contract() {
    let dir = scratch();
    let test = "stores_that_do_nothing_keep_the_contract";
    let python = format!("python3 {}", root().join("sdk/examples/null.py").display());
    let names =
        [("Python", Ok(python)), ("C", c_library(dir.path())), ("Go", go_library(dir.path(), ""))];
    for (language, name) in names {
        let name = match name {
            Ok(name) => name,
            Err(why) => {
                eprintln!("skipped: {test}: no {language} compiler: {why}");
                continue;
            }
        };
        let done = taillight(dir.path()).args(["drivers", "--check", &name]).output();
        let (out, _) = ended(&done.expect("a check"), 0);
        assert!(out.contains("keeps the contract"), "{language}: {out}");
    }
}

#[test]
fn standard_loads_and_series_run_on_a_plug_in() {
    let dir = scratch();
    records(dir.path());
    let library = "--driver plugin --set target.options.library=./records.so";
    let line = format!(
        "suite ycsb --workload a,e,f {library} --path ycsb.db --records 300 --operations 600 --threads 2 \
         --output ycsb"
    );
    let (out, _) = run_line(dir.path(), &line, 0);
    for workload in ["load", "a", "e", "f"] {
        let summary = summary(&dir.path().join("ycsb"), workload);
        assert_eq!(summary["totals"]["errors"], 0, "{workload}: {out}");
    }
    // --runtime leaves preconditioning as it is, which would write as fast as memory takes it for seconds.
    let line = format!(
        "suite dirth --scale quick {library} --path dirth.db --runtime 30ms --output dirth \
         --set suite.phase.precondition.job.run.duration=30ms \
         --set suite.phase.rounds.before.job.run.duration=30ms \
         --set suite.phase.histograms.before.job.run.duration=30ms \
         --set suite.phase.precondition.steady.max_rounds=5 --set suite.phase.rounds.steady.max_rounds=5 \
         --set suite.phase.rounds.loop.0.values=[8,2,1] --set workload.0.keys.count=200"
    );
    let (out, _) = run_line(dir.path(), &line, 0);
    assert!(out.contains("a store, not a device"), "{out}");
    let line = format!(
        "run {library} --path open.db --rate 500/s --ops 200 --set workload.0.keys.count=100 \
         --set workload.0.block_size=100B --sweep workload.0.workers=1,2 --output sweep"
    );
    run_line(dir.path(), &line, 0);
    assert!(dir.path().join("sweep/series.json").exists());
}

#[test]
fn a_matrix_of_slc_factors_is_made_of_any_store() {
    let dir = scratch();
    records(dir.path());
    let suite = "rule = \"slc-paper\"\nname = \"slc-mine\"\nabout = \"one store of mine\"\nsizes = [\"100B\"]\n\
                 published = []\n[scale.short]\ntime = \"200ms\"\nbytes = \"1MB\"\n[[system]]\nname = \"mine\"\n\
                 title = \"Mine\"\ndriver = \"plugin\"\noptions = { library = \"./records.so\" }\n\
                 write = \"insert\"\nread = \"get\"\n";
    std::fs::write(dir.path().join("mine.toml"), suite).expect("written");
    run_line(dir.path(), "suite mine.toml --path disk --output out", 0);
    let runs = json(&dir.path().join("out/slc-paper.json"))["runs"].clone();
    let runs = runs.as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run["errors"] == 0 && run["count"].as_u64() > Some(0)));
}
