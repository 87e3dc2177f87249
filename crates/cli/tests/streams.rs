//! Streams through the binary: end to end on a store in memory, the end of the data, idleness, load
//! that is not measured.

use crate::common::{run, scratch, summary};

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
    std::fs::write(dir.path().join("job.toml"), job).expect("written");
    let (out, err) = run(dir.path(), &["run", "job.toml", "--output", "out", "-v"], code);
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
    // Each of two readers ended after its 1,000; what was written after that nobody read.
    let blocks = &json["end_to_end"];
    assert_eq!((&blocks["readers"], &blocks["verified"]), (&2.into(), &2000.into()), "{blocks}");
    assert_eq!((&blocks["failed"], &blocks["written"]), (&0.into(), &written.into()), "{blocks}");
    assert_eq!(blocks["unread"], 2 * written - 2000, "{blocks}");
    let unread = format!("{written} blocks written for 2 readers: 2,000 reads verified");
    let flat = said.replace(',', "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(&unread.replace(',', "")), "{said}");
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
