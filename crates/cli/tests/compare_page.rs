//! The page of `taillight compare`, and what only the I/Os of both sides tell: quantiles, episodes, phases of traced
//! runs.

use std::path::Path;

use crate::common::{self, json, run, run_line, scratch, unwrapped};
use serde_json::{Value, json};

/// Three runs of 60,000 reads on virtual time with a stall of 20 ms each so many milliseconds.
fn side(dir: &Path, name: &str, period_ms: u32) {
    let stalls = format!(
        "target.options.stalls=[{{start=\"500ms\",length=\"20ms\",period=\"{period_ms}ms\"}}]"
    );
    for nth in 1..=3 {
        let (output, seed) = (format!("{name}/{nth}"), format!("run.seed={period_ms}{nth}"));
        let args = ["run", "--driver", "sim", "--ops", "60000", "--size", "1GiB", "--depth", "4"];
        let more = ["--rw", "randread", "--output", &output, "--set", &stalls, "--set", &seed];
        run(dir, &[&args[..], &more].concat(), 0);
    }
}

#[test]
fn stalls_that_were_made_are_the_episodes_of_each_side() {
    let dir = scratch();
    side(dir.path(), "a", 2_000);
    side(dir.path(), "b", 500);
    run_line(dir.path(), "compare a b", 0);
    let found = json(&dir.path().join("taillight-compare/compare.json"));
    // 6.06 s of three runs have stalls at 0.5, 2.5, 4.5 s; 6.24 s at 0.5, 1.0, ... 6.0 s.
    let episodes = &found["episodes"][0];
    assert_eq!(episodes["base"]["episodes"], 9, "{episodes}");
    assert_eq!(episodes["new"]["episodes"], 36, "{episodes}");
    assert_eq!((&episodes["base"]["ios"], &episodes["base"]["largest"]), (&json!(36), &json!(4)));
    let [lo, ratio, hi] = ["lo", "ratio", "hi"].map(|k| episodes[k].as_f64().expect("a number"));
    assert!(1.0 < lo && lo < ratio && (3.5..4.1).contains(&ratio) && ratio < hi, "{episodes}");
    let quantiles = found["quantiles"].as_array().expect("quantiles");
    let names: Vec<&str> = quantiles.iter().filter_map(|q| q["figure"].as_str()).collect();
    assert!(names.starts_with(&["p1", "p5", "p10", "p25", "p50"]), "{names:?}");
    let (schema, _) = run(dir.path(), &["schema", "compare"], 0);
    jsonschema::validate(&serde_json::from_str(&schema).expect("JSON"), &found).expect("valid");
    let page = std::fs::read_to_string(dir.path().join("taillight-compare/report.html"));
    let page = page.expect("a page");
    for part in ["plot-shift-0", "plot-forest", "base 3", "new 1", "Episodes of slow"] {
        assert!(page.contains(part), "{part}");
    }
}

/// A copy of the traced run that is kept for its format.
fn traced(dir: &Path, name: &str) {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../formats/v1-rocksdb-traced");
    std::fs::create_dir(dir.join(name)).expect("made");
    for entry in std::fs::read_dir(kept).expect("kept") {
        let from = entry.expect("a file").path();
        std::fs::copy(&from, dir.join(name).join(from.file_name().expect("a name")))
            .expect("copied");
    }
    change(&dir.join(name), |manifest| manifest["run_id"] = json!(name));
}

fn change(run: &Path, change: impl FnOnce(&mut Value)) {
    let mut manifest = json(&run.join("manifest.json"));
    change(&mut manifest);
    common::write_uncovered(&run.join("manifest.json"), &manifest);
}

#[test]
fn where_both_sides_were_traced_the_difference_is_told_by_phase() {
    let dir = scratch();
    traced(dir.path(), "a");
    traced(dir.path(), "b");
    let (out, _) = run_line(dir.path(), "compare a b --json", 0);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    let level = &found["phases"][0];
    assert_eq!((&level["op"], &level["p"]), (&json!("get"), &json!("50")));
    assert!(level["base_ios"].as_u64().is_some_and(|n| n > 0), "{level}");
    for phase in level["phases"].as_array().expect("phases") {
        assert_eq!(phase["base_ns"], phase["new_ns"], "the same I/Os");
    }
    let page = std::fs::read_to_string(dir.path().join("taillight-compare/report.html"));
    assert!(page.expect("a page").contains("Where the difference lies"));
    change(&dir.path().join("b"), |manifest| manifest["trace"] = Value::Null);
    let (out, _) = run_line(dir.path(), "compare a b", 0);
    let said = "Not every run of both sides was traced: by layer the difference is unknown.";
    assert!(unwrapped(&out).contains(said), "{out}");
}
