//! YCSB's property files and the `ycsb` suite through the binary.

use std::io::{BufRead, BufReader};

use crate::common::{self, run, run_job, run_line, scratch, signal, start, summary};
use serde_json::{Value, json};

fn count(summary: &Value, op: &str) -> u64 {
    summary["ops"][op]["count"].as_u64().unwrap_or(0)
}

#[test]
fn the_suite_loads_runs_in_order_and_reports_in_ycsb_s_terms() {
    let dir = scratch();
    let args = "suite ycsb --workload e,f,d,a --driver memory --records 500 --operations 2000 \
                --threads 2 --set run.seed=3 --output out -p dataintegrity=true -p fieldcount=12";
    let (out, _) = run_line(dir.path(), args, 0);
    let points = out.lines().filter(|l| !l.starts_with(' ') && l.contains(" of 6"));
    let steps: Vec<&str> = points.filter_map(|l| l.split(' ').next()).collect();
    // D inserts, so that E begins with a new load.
    assert_eq!(steps, ["load", "a", "f", "d", "load-e", "e"]);
    let of = |name: &str| summary(&dir.path().join("out"), name);
    for load in ["load", "load-e"] {
        assert_eq!(count(&of(load), "insert"), 500);
    }
    let f = of("f");
    let rmw = count(&f, "rmw");
    assert!(rmw > 800, "{rmw}");
    assert_eq!(f["totals"]["count"], 2000);
    assert_eq!(count(&f, "get") + rmw, 2000);
    assert_eq!((count(&f, "rmw_get"), count(&f, "rmw_update")), (rmw, rmw));
    let requests = |op: &str| f["requests"][op]["count"].as_u64();
    assert_eq!(requests("get"), Some(2000), "plain reads, and one in each read-modify-write");
    assert_eq!(requests("update"), Some(rmw));
    let text = std::fs::read_to_string(dir.path().join("out/ycsb.txt")).expect("the table");
    let f_part = text.split("# f\n").nth(1).expect("workload f");
    let f_part = f_part.split("\n# ").next().expect("workload f");
    let value = |start: &str| -> f64 {
        let line = f_part.lines().find_map(|l| l.strip_prefix(start));
        line.expect(start).parse().expect("a number")
    };
    let ops = value("[OVERALL], Throughput(ops/sec), ") * value("[OVERALL], RunTime(ms), ") / 1e3;
    assert!((ops - 2000.0).abs() < 2.0, "a read-modify-write counts once: {ops}");
    assert_eq!(value("[READ-MODIFY-WRITE], Return=OK, "), rmw as f64);
    assert_eq!(value("[READ], Return=OK, "), 2000.0, "as YCSB counts reads");
    assert!(f_part.contains("[UPDATE], 99thPercentileLatency(us), "), "{f_part}");
    let report = std::fs::metadata(dir.path().join("out/report.html")).expect("a report");
    assert!(report.len() > 10_000);
}

#[test]
fn property_files_become_jobs_that_run() {
    let dir = scratch();
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("written");
    };
    write(
        "workloada",
        "# Workload A\nrecordcount=1000\noperationcount=1000\n\
         workload=site.ycsb.workloads.CoreWorkload\nreadallfields=true\nreadproportion=0.5\n\
         updateproportion=0.5\nscanproportion=0\ninsertproportion=0\nrequestdistribution=zipfian\n",
    );
    write("big.properties", "operationcount=5000000000\nrecordcount=3000000000\nstatus=true\n");
    let line = "import workloada -P big.properties -p threadcount=3 --output jobs/";
    let (out, err) = run_line(dir.path(), line, 0);
    assert_eq!(out, "jobs/workloada-load.toml\njobs/workloada.toml\n");
    assert!(err.contains("big.properties:3, status: "), "{err}");
    let (plan, _) = run(dir.path(), &["run", "jobs/workloada.toml", "--print-plan"], 0);
    let plan: toml::Table = plan.parse().expect("TOML");
    // Beyond 2^31 on purpose: YCSB itself stops there.
    assert_eq!(plan["run"]["operations"].as_integer(), Some(5_000_000_000));
    let w = &plan["workload"][0];
    assert_eq!(w["keys"]["count"].as_integer(), Some(3_000_000_000));
    assert_eq!(w["workers"].as_integer(), Some(3));
    assert_eq!(w["access"]["kind"].as_str(), Some("scrambled"));
    assert_eq!(w["mix"].to_string(), "{ get = 1, update = 1 }");
    let (plan, _) = run(dir.path(), &["run", "jobs/workloada-load.toml", "--print-plan"], 0);
    let plan: toml::Table = plan.parse().expect("TOML");
    assert_eq!(plan["run"]["operations"].as_integer(), Some(3_000_000_000));
    assert_eq!(plan["workload"][0]["keys"]["count"].as_integer(), Some(0));
    run(dir.path(), &["run", "workloada", "--output", "out"], 0);
    assert_eq!(count(&summary(dir.path(), "out/workloada-load"), "insert"), 1000);
    let done = summary(dir.path(), "out/workloada");
    assert_eq!(count(&done, "get") + count(&done, "update"), 1000);
}

#[test]
fn skewed_keys_run_with_fields_of_any_length() {
    // The calibration once took the endless space of a store for a space of so many bytes.
    let dir = scratch();
    let text = "recordcount=200\noperationcount=500\nfieldlengthdistribution=uniform\n\
                requestdistribution=hotspot\n";
    std::fs::write(dir.path().join("w.properties"), text).expect("written");
    run(dir.path(), &["run", "w.properties", "--output", "out"], 0);
    let done = summary(dir.path(), "out/w");
    assert_eq!(count(&done, "get") + count(&done, "update"), 500);
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let dir = scratch();
    for (args, said) in [
        ("--workload g", "no workload `g`"),
        ("-p recordscount=5", "did you mean `recordcount`"),
        ("--runtime 5s --operations 3", "cannot be used with"),
        ("--driver file --path f --set target.size=1MiB", "knows no keys"),
    ] {
        let (_, err) = run_line(dir.path(), &format!("suite ycsb {args}"), 2);
        assert!(err.contains(said), "{args}: {err}");
        assert!(!dir.path().join("taillight-runs").exists(), "{args}");
    }
}

#[test]
fn a_store_of_the_properties_that_is_not_used_is_told() {
    let dir = scratch();
    let both = "suite ycsb -p rocksdb.dir=/no/such --print-plan";
    let (_, err) = run_line(dir.path(), &format!("{both} --path mine/"), 0);
    assert!(err.contains("rocksdb.dir=/no/such is not used"), "{err}");
    let (_, err) = run_line(dir.path(), &format!("{both} --driver memory"), 2);
    assert!(err.contains("rocksdb.dir names a store") && err.contains("hint: "), "{err}");
}

#[test]
fn values_of_another_kind_give_exit_code_6() {
    let dir = scratch();
    let both = "block_size = \"100B\"\nkeys = { count = 50 }\npayload = \"text\"\n";
    let job = format!(
        "[run]\noperations = 200\n[target]\ndriver = \"memory\"\n\
         [[workload]]\nmix = \"update\"\nvalue = {{ fields = 2 }}\n{both}\
         [[workload]]\nmix = \"get\"\nvalue = {{ fields = 2, integrity = true }}\n{both}"
    );
    let (out, _) = run_job(dir.path(), &job, 6);
    assert!(common::unwrapped(&out).contains("data read is not the data written"), "{out}");
    let summary = summary(dir.path(), "out");
    assert_eq!(summary["ops"]["get"]["errors"], 100);
}

#[test]
fn a_stopped_suite_marks_what_is_partial() {
    let dir = scratch();
    let args = "suite ycsb --workload a,b --driver memory --records 500 --runtime 60s --output out \
                --set run.interval=200ms -v";
    let mut child = start(dir.path(), args);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut until = |said: &str| {
        let found = lines.find(|l| l.as_ref().is_ok_and(|l| l.contains(said)));
        found.expect(said).expect("text");
    };
    until("== a (");
    until("measure");
    signal(&child, "INT");
    let rest: Vec<String> = lines.map(|l| l.expect("text")).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let marked = |l: &&String| l.contains("a (partial)") && l.contains("[OVERALL]");
    assert_eq!(rest.iter().filter(marked).count(), 1, "{rest:?}");
    let text = std::fs::read_to_string(dir.path().join("out/ycsb.txt")).expect("the table");
    let heads: Vec<&str> = text.lines().filter(|l| l.starts_with('#')).collect();
    assert_eq!(heads, ["# load", "# a (partial)", "# b (not run)"]);
}

/// Totals, intervals and ceilings count it once, as a whole; its parts stand beside it.
#[test]
fn a_read_modify_write_is_one_operation() {
    let dir = scratch();
    let job = "[run]\noperations = 3000\n[target]\ndriver = \"memory\"\n\
               [qos]\nceilings = [{ ceiling = \"10s\", at = \"50\" }]\n\
               [[workload]]\nmix = \"rmw\"\naccess = \"random\"\nblock_size = \"100B\"\n\
               keys = { count = 100 }\n";
    std::fs::write(dir.path().join("job.toml"), job).expect("written");
    let output =
        common::taillight(dir.path()).args(["run", "job.toml", "--output", "out", "-v"]).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // So few I/Os may decide no ceiling.
    assert!(matches!(output.status.code(), Some(0 | 8)), "{said}");
    let made = summary(dir.path(), "out");
    let totals = &made["totals"];
    assert_eq!((&totals["count"], &made["qos"][0]["count"]), (&json!(3000), &json!(3000)));
    for op in ["rmw", "rmw_get", "rmw_update"] {
        assert_eq!(count(&made, op), 3000, "{op}");
    }
    // What it read and what it wrote.
    assert_eq!(totals["bytes"], 3000 * 200);
    assert_eq!(made["ops"]["rmw"]["service"], totals["service"]);
    let us = |op: &str| made["ops"][op]["service"]["mean_ns"].as_f64().expect("a mean");
    assert!(us("rmw") >= us("rmw_get") + us("rmw_update"));
    assert_eq!(common::manifest(dir.path(), "out")["phases"][0]["ios"], 3000);
    assert!(said.contains("parts of rmw"), "{said}");
    let csv = std::fs::read_to_string(dir.path().join("out/intervals.csv")).expect("intervals");
    let ops = |op: &str| -> u64 {
        let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        rows.filter(|r| r[2] == op).map(|r| r[5].parse::<u64>().expect("a number")).sum()
    };
    assert_eq!((ops("rmw"), ops("rmw_get"), ops("rmw_update"), ops("get")), (3000, 3000, 3000, 0));
    for word in ["rmw_get", "rmw_update"] {
        let (_, err) = run_job(dir.path(), &job.replace("\"rmw\"", &format!("\"{word}\"")), 2);
        assert!(err.contains(word), "no mix draws a part: {err}");
    }
}
