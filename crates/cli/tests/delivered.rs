//! What packages install: completions, manual pages, the long version, the selftest. Also what is promised of formats:
//! job files of earlier versions give the same plans, a run directory of a later one is refused.

use std::process::Command;

use crate::common::{binary, run, scratch, skipped, text};
use toml::Value;

/// What bash offers after these words.
fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let ask = format!(
        "{script}\nCOMP_WORDS=(taillight {}); COMP_CWORD={}; COMP_LINE=\"${{COMP_WORDS[*]}}\"; \
         _taillight taillight \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len()
    );
    let output = Command::new("bash").args(["--norc", "-c", &ask]).output().expect("bash");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_drivers() {
    let dir = scratch();
    let (script, _) = run(dir.path(), &["completions", "bash"], 0);
    assert_eq!(offered(&script, &["ru"]), ["run"]);
    assert_eq!(offered(&script, &["run", "--workl"]), [""]);
    assert_eq!(offered(&script, &["run", "--worke"]), ["--workers"]);
    assert_eq!(offered(&script, &["run", "--driver", "fi"]), ["file", "filestream"]);
    assert_eq!(offered(&script, &["suite", "slc"]), ["slc-paper"]);
    assert_eq!(offered(&script, &["completions", "b"]), ["bash"]);
}

#[test]
fn scripts_of_bash_zsh_and_fish_are_sound() {
    let dir = scratch();
    for shell in ["bash", "zsh", "fish"] {
        let (script, _) = run(dir.path(), &["completions", shell], 0);
        let file = dir.path().join(shell);
        std::fs::write(&file, script).expect("written");
        match Command::new(shell).arg("-n").arg(&file).output() {
            Ok(checked) => assert!(checked.status.success(), "{}", text(&checked.stderr)),
            Err(e) => assert!(skipped(shell, Some(e.to_string()))),
        }
    }
}

#[test]
fn manual_pages_are_sound() {
    let dir = scratch();
    run(dir.path(), &["man", "pages"], 0);
    let pages: Vec<_> =
        std::fs::read_dir(dir.path().join("pages")).expect("made").flatten().collect();
    assert!(pages.len() > 15, "{pages:?}");
    let mut lint = Command::new("mandoc");
    lint.args(["-T", "lint", "-W", "warning"]).args(pages.iter().map(|page| page.path()));
    match lint.output() {
        Ok(found) => assert_eq!(text(&found.stdout), ""),
        Err(e) => assert!(skipped("mandoc", Some(e.to_string()))),
    }
}

#[test]
fn the_long_version_names_build_and_libraries() {
    let dir = scratch();
    let (said, _) = run(dir.path(), &["--version", "-v"], 0);
    for wanted in ["commit ", "features", "BPF sha256 ", "librocksdb"] {
        assert!(said.contains(wanted), "{wanted}\n{said}");
    }
}

#[test]
fn the_selftest_passes_and_leaves_nothing() {
    let dir = scratch();
    let run = Command::new(binary())
        .args(["selftest", "--json"])
        .env("TMPDIR", dir.path())
        .output()
        .expect("it starts");
    let said: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(said["passed"], true, "{said:#}");
    assert!(run.status.success());
    assert!(said["checks"].as_array().expect("a list").len() > 15);
    assert!(said["machine"]["clock_ns"].as_f64().expect("measured") > 0.0);
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
}

/// Plans as they are printed, one below the other.
fn plans(text: &str) -> Value {
    let plans = text.split("\n[run]\n").skip(1).map(|plan| format!("[run]\n{plan}"));
    Value::Array(plans.map(|plan| toml::from_str(&plan).expect("a plan")).collect())
}

/// Whether all that was planned still is; fields may have been added.
fn holds(is: &Value, was: &Value) -> bool {
    match (is, was) {
        (Value::Table(is), Value::Table(was)) => {
            was.iter().all(|(name, was)| is.get(name).is_some_and(|is| holds(is, was)))
        }
        (Value::Array(is), Value::Array(was)) => {
            is.len() == was.len() && is.iter().zip(was).all(|(is, was)| holds(is, was))
        }
        _ => is == was,
    }
}

/// A run directory's job file is its plan; the other files have theirs beside them.
#[test]
fn job_files_of_earlier_versions_still_give_the_same_plans() {
    let formats = concat!(env!("CARGO_MANIFEST_DIR"), "/../../formats");
    let files = |folder: &str| {
        let entries = std::fs::read_dir(format!("{formats}/{folder}")).expect("formats").flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let runs = files("").into_iter().map(|run| run.join("job.toml")).filter(|job| job.exists());
    let mut jobs: Vec<_> = runs.map(|job| (job.clone(), job)).collect();
    let others = files("jobs").into_iter().filter(|job| job.extension() == Some("toml".as_ref()));
    jobs.extend(others.map(|job| (job.clone(), job.with_extension("plan"))));
    assert!(jobs.len() >= 6, "{jobs:?}");
    let dir = scratch();
    for (job, plan) in jobs {
        let job = job.to_str().expect("a plain path");
        let command = if job.ends_with("-suite.toml") { "suite" } else { "run" };
        let (printed, _) = run(dir.path(), &[command, job, "--print-plan"], 0);
        let was = plans(&std::fs::read_to_string(plan).expect("a plan"));
        assert!(was.as_array().is_some_and(|plans| !plans.is_empty()), "{job}");
        assert!(holds(&plans(&printed), &was), "{job}\n{printed}");
    }
}

#[test]
fn a_run_of_a_later_version_is_refused_with_both_numbers() {
    let formats = concat!(env!("CARGO_MANIFEST_DIR"), "/../../formats/v1-sim");
    let dir = scratch();
    for file in std::fs::read_dir(formats).expect("formats").flatten() {
        std::fs::copy(file.path(), dir.path().join(file.file_name())).expect("copied");
    }
    let manifest = dir.path().join("manifest.json");
    let now = std::fs::read_to_string(&manifest).expect("read");
    let later = now.replacen("\"schema\": 1", "\"schema\": 7", 1);
    assert_ne!(later, now);
    std::fs::write(&manifest, later).expect("written");
    let (_, said) = run(dir.path(), &["report", "."], 4);
    assert!(said.contains("schema: 7") && said.contains("known: 1"), "{said}");
}
