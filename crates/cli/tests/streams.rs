//! Streams through the binary: end to end on a store in memory, the end of the data, idleness, load
//! that is not measured.

mod common;

use std::collections::HashMap;
use std::path::Path;

use common::{run_job, scratch, summary};
use taillight_core::OpKind;
use taillight_rundir::ios::{ColumnSet, read_ios};

/// Writers and readers on one stream of a store in memory.
fn job(run: &str, writers: &str, end_to_end: bool) -> String {
    let common = format!(
        "block_size = \"100B\"\naccess = \"follow\"\nkeys = {{ count = 0 }}\n\
         end_to_end = {end_to_end}\n"
    );
    format!(
        "[run]\n{run}\n[target]\ndriver = \"memory\"\n\
         [[workload]]\nname = \"writers\"\nmix = \"insert\"\n{common}{writers}\n\
         [[workload]]\nname = \"readers\"\nworkers = 2\nmix = \"get\"\n{common}"
    )
}

fn go(job: &str, code: i32) -> (tempfile::TempDir, String, String) {
    let dir = scratch();
    let (out, err) = run_job(dir.path(), job, code);
    (dir, out, err)
}

#[test]
fn readers_measure_from_the_writers_stamp() {
    let writers = "arrival = { kind = \"constant\", rate = \"2000/s\" }\nmeasured = false";
    let (dir, said, _) = go(&job("operations = 2000\nduration = \"60s\"", writers, true), 0);
    let json = summary(dir.path(), "out");
    // Each of two readers reads each record once.
    let get = &json["ops"]["get"];
    assert_eq!(get["count"], 2000);
    assert_eq!(get["errors"], 0);
    assert_eq!(get["end_to_end"]["count"], 2000);
    // From the stamp of the writer to the end of the read: never less than the read itself.
    for field in ["min_ns", "mean_ns", "max_ns"] {
        let of = |part: &str| get[part][field].as_f64().expect("a number");
        assert!(of("end_to_end") >= of("service"), "{field}");
    }
    assert!(json["ops"]["insert"].is_null(), "load is in no latency");
    assert_eq!(json["load"][0]["name"], "writers");
    let written = json["load"][0]["count"].as_u64().expect("a number");
    assert!(written >= 1000, "{written}");
    for wanted in ["end to end", "Load, not measured"] {
        assert!(said.contains(wanted), "{said}");
    }
    let page = std::fs::read_to_string(dir.path().join("out/report.md")).expect("a report");
    assert!(page.contains("end to end"), "{page}");
}

#[test]
fn a_stream_that_stands_still_ends_the_run() {
    let writers =
        "arrival = { kind = \"bursts\", rate = \"1000/s\", on = \"100ms\", off = \"5min\" }";
    let (dir, _, err) = go(&job("duration = \"10min\"\nidle_timeout = \"1s\"", writers, false), 5);
    assert!(err.contains("idle time-out"), "{err}");
    let json = summary(dir.path(), "out");
    assert_eq!(json["status"], "partial");
    // What was done before is kept: 100 records, read by both.
    assert_eq!(json["ops"]["insert"]["count"], 100);
    assert_eq!(json["ops"]["get"]["count"], 200);
}

#[test]
fn a_run_ends_at_the_end_of_its_data() {
    let (dir, _, _) = go(
        "[run]\nduration = \"10min\"\n[target]\ndriver = \"file\"\npath = \"f\"\nsize = \"1MiB\"\n\
         [[workload]]\nworkers = 2\nmix = \"write\"\naccess = \"sequential\"\npasses = 3\n",
        0,
    );
    let json = summary(dir.path(), "out");
    assert_eq!(json["ops"]["write"]["count"], 3 * 256);
    assert_eq!(json["status"], "complete");
}

#[test]
fn readers_are_timed_while_writers_only_load() {
    let (dir, said, _) = go(
        "[run]\noperations = 500\n[target]\ndriver = \"file\"\npath = \"f\"\nsize = \"1MiB\"\n\
         [[workload]]\nname = \"readers\"\naccess = \"random\"\n\
         arrival = { kind = \"constant\", rate = \"1000/s\" }\n\
         [[workload]]\nname = \"writers\"\nmix = \"write\"\naccess = \"random\"\nmeasured = false\n\
         arrival = { kind = \"constant\", rate = \"400/s\" }\n",
        0,
    );
    let json = summary(dir.path(), "out");
    assert_eq!(json["totals"]["count"], 500, "operations are those of the readers");
    assert_eq!(json["ops"]["read"]["count"], 500);
    assert!(json["ops"]["write"].is_null());
    let written = json["load"][0]["count"].as_u64().expect("a number");
    assert!(written > 0);
    assert!(said.contains("Load, not measured"), "{said}");
}

/// Every I/O of a run: its operation, its block or key, submit, complete, the writer's stamp.
fn ios(dir: &Path) -> Vec<(OpKind, u64, i64, i64, Option<i64>)> {
    let mut all = Vec::new();
    let columns = ColumnSet::OP
        | ColumnSet::OFFSET
        | ColumnSet::KEY
        | ColumnSet::SUBMIT
        | ColumnSet::COMPLETE
        | ColumnSet::ORIGIN;
    read_ios(&dir.join("out/ios.parquet"), columns, &mut |b| {
        let place = |i: usize| b.offset[i].or(b.key[i]).expect("a place");
        let row = |i: usize| (b.op[i], place(i), b.submit[i], b.complete[i], b.origin[i]);
        all.extend((0..b.rows).map(row));
        Ok(())
    })
    .expect("I/Os");
    all
}

#[test]
fn the_record_carries_the_writers_stamp() {
    let stamped = job("operations = 3000\nduration = \"60s\"", "workers = 2", true);
    let on_file = "[run]\noperations = 3000\nduration = \"60s\"\n\
        [target]\ndriver = \"file\"\npath = \"f\"\nsize = \"64MiB\"\n\
        options = { direct = false }\n\
        [[workload]]\nname = \"writers\"\nworkers = 2\nmix = \"write\"\naccess = \"follow\"\n\
        end_to_end = true\n\
        [[workload]]\nname = \"readers\"\nworkers = 2\nmix = \"read\"\naccess = \"follow\"\n\
        end_to_end = true\n";
    for (text, reads) in [(stamped.as_str(), "get"), (on_file, "read")] {
        let (dir, _, _) = go(text, 0);
        let all = ios(dir.path());
        let is_read = |op: OpKind| op.name() == reads;
        let written: HashMap<u64, i64> = all
            .iter()
            .filter(|io| !is_read(io.0))
            .map(|io| {
                assert_eq!(io.4, None, "a write has no writer before it");
                (io.1, io.2)
            })
            .collect();
        let (mut count, mut most, mut least) = (0, i64::MIN, i64::MAX);
        for (_, place, _, complete, origin) in all.iter().filter(|io| is_read(io.0)) {
            let origin = origin.expect("every read has the stamp of its writer");
            assert_eq!(Some(&origin), written.get(place), "the submit of that write");
            // Two threads' clocks: their stamps may differ by some hundred nanoseconds.
            assert!(origin < *complete, "{place}");
            count += 1;
            most = most.max(complete - origin);
            least = least.min(complete - origin);
        }
        let figures = summary(dir.path(), "out")["ops"][reads]["end_to_end"].clone();
        assert!(count > 100, "{reads}: {count}");
        assert_eq!(figures["count"], count);
        assert_eq!(figures["max_ns"], most, "end to end = complete - origin");
        assert_eq!(figures["min_ns"], least);
    }
}
