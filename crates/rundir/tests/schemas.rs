//! The JSON Schemas of manifest and summary accept what is written, that of the manifest refuses an unknown status and
//! a missing plan; field order is as listed here.
#![allow(clippy::unwrap_used)]

use taillight_rundir::{JsonFile, Manifest, RunDir, Summary, fixture, names};

/// The file of that name in a run directory written from the fixtures.
fn written(name: &str) -> serde_json::Value {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("one")).unwrap();
    dir.write(&fixture::summary("one")).unwrap();
    let text = std::fs::read(root.path().join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn manifest_validates_and_keeps_its_order() {
    let value = written(names::MANIFEST);
    let validator = jsonschema::validator_for(&Manifest::schema()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        keys(&value)[..13],
        [
            "schema",
            "taillight",
            "run_id",
            "status",
            "plan",
            "command",
            "seed",
            "clock",
            "phases",
            "environment",
            "capture",
            "losses",
            "overhead"
        ]
    );
    let mut wrong = value.clone();
    wrong["status"] = "dead".into();
    assert!(!validator.is_valid(&wrong));
    let mut missing = value;
    missing.as_object_mut().unwrap().remove("plan");
    assert!(!validator.is_valid(&missing));
}

#[test]
fn summary_validates_and_keeps_its_order() {
    let value = written(names::SUMMARY);
    let validator = jsonschema::validator_for(&Summary::schema()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        keys(&value),
        [
            "schema",
            "taillight",
            "run_id",
            "name",
            "status",
            "verdict",
            "totals",
            "ops",
            "workloads",
            "qos",
            "slc",
            "distribution",
            "outliers",
            "saturation",
            "errors",
            "losses",
            "overhead",
            "cause",
            "files",
            "crc32"
        ]
    );
    assert_eq!(keys(&value["verdict"]), ["status", "text", "reasons"]);
    assert_eq!(
        keys(&value["totals"])[..7],
        ["count", "bytes", "duration_ns", "iops", "bytes_per_s", "in_phase", "errors"]
    );
}

#[test]
fn objects_of_the_summary_keep_their_order() {
    let value = written(names::SUMMARY);
    let service = &value["ops"]["read"]["service"];
    assert_eq!(
        keys(service),
        [
            "count",
            "min_ns",
            "max_ns",
            "mean_ns",
            "stddev_ns",
            "skewness",
            "kurtosis",
            "source",
            "error",
            "percentiles",
            "nines",
            "observed"
        ]
    );
    assert_eq!(
        keys(&service["percentiles"][0])[..6],
        ["p", "ns", "observed_ns", "lo_ns", "hi_ns", "resolved"]
    );
    assert!(service["nines"][0]["ns"].is_null());
    assert_eq!(keys(&value["slc"]["read"]), ["slc1", "slc2", "sbk21", "sbk28", "unit", "latency"]);
    assert_eq!(
        keys(&value["qos"][0])[..6],
        ["ceiling_ns", "at", "status", "above", "episodes", "needs"]
    );
}

#[test]
fn each_top_field_of_manifest_and_summary_has_a_description() {
    for schema in [Manifest::schema(), Summary::schema()] {
        let properties = schema["properties"].as_object().unwrap();
        for (name, field) in properties {
            assert!(field["description"].is_string(), "{name}");
        }
    }
}
