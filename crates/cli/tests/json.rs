//! What `--json` prints for job files of Taillight, fio and YCSB, a sweep, repetitions and a suite: one document each.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::common::{run_line, scratch};
use serde_json::Value;

/// What the command prints on standard output, which must be JSON.
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
    // The short form has one schema for all, and less than 1.5 kB a run.
    let schema = printed(dir.path(), "schema short");
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (line, runs) in [
        ("run job.toml --json=short --output s1", 1),
        ("report s1 --json=short", 1),
        ("run two.fio --json=short --output s2", 2),
        ("report s1 s2/a --json short --output s4", 2),
        ("run job.toml --sweep workload.0.workers=1,2 --json=short --output s3", 2),
        ("suite ycsb --records 100 --operations 100 --json=short --output s5", 2),
    ] {
        let found = printed(dir.path(), line);
        let problems: Vec<_> = validator.iter_errors(&found).collect();
        assert!(problems.is_empty(), "{line}: {problems:?}");
        let all = found["runs"].as_array().unwrap();
        assert_eq!(all.len(), runs, "{line}: {found}");
        assert!(found["answer"].as_str().is_some_and(|text| !text.is_empty()), "{line}");
        assert!(Path::new(&dir.path().join(found["report"].as_str().unwrap())).is_file(), "{line}");
        assert!(dir.path().join(all[0]["path"].as_str().unwrap()).is_dir(), "{line}");
        assert!(all[0]["ops"].as_object().unwrap().values().all(|op| op["p99_ns"].is_u64()));
        assert!(found.to_string().len() < 1500 * runs, "{line}: {found}");
    }
    assert!(printed(dir.path(), "run job.toml --json -q")["verdict"].is_object());
}
