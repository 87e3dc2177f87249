//! What `--json` prints for every form of a job: one document, whatever runs.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{run_line, scratch};
use serde_json::Value;

/// What it prints for a program.
fn printed(dir: &Path, line: &str) -> Value {
    let (out, err) = run_line(dir, line, 0);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{line}: {e}: {out}{err}"))
}

#[test]
fn json_is_one_document_whatever_runs() {
    let dir = scratch();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let job = "[run]\noperations = 100\n[target]\ndriver = \"sim\"\n";
    write("job.toml", job);
    write("one.fio", "[a]\nioengine=null\nsize=1m\nrw=read\nnumber_ios=10\n");
    write(
        "two.fio",
        "[global]\nioengine=null\nsize=1m\nnumber_ios=10\n[a]\nrw=read\n[b]\nstonewall\nrw=write\n",
    );
    write("load.properties", "recordcount=100\noperationcount=100\nreadproportion=1\n");
    let name = |summary: &Value| summary["name"].as_str().unwrap().to_owned();
    for (line, form) in [
        ("run job.toml", "run"),
        ("run one.fio", "run"),
        ("run two.fio", "a b"),
        ("run load.properties", "load-load load"),
        ("run job.toml --sweep workload.0.workers=1,2", "series"),
        ("run job.toml --set run.repeat=2", "series"),
        ("suite ycsb --records 100 --operations 100", "series"),
    ] {
        let out = line.replace([' ', '.', '=', ','], "-");
        let found = printed(dir.path(), &format!("{line} --json --output {out}"));
        let again = printed(dir.path(), &format!("report {out} --json"));
        match form {
            "run" => assert!(found["verdict"].is_object(), "{line}: {found}"),
            "series" => assert!(found["runs"].is_array(), "{line}: {found}"),
            names => {
                let list = found.as_array().unwrap_or_else(|| panic!("{line}: {found}"));
                assert_eq!(list.iter().map(name).collect::<Vec<_>>().join(" "), names);
                assert_eq!(again, found, "{line}");
            }
        }
    }
    assert!(printed(dir.path(), "run job.toml --json -q")["verdict"].is_object());
}
