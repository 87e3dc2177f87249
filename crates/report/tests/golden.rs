//! The words and the skeletons people see, pinned. Run `cargo insta review` after a change.

#![allow(clippy::unwrap_used)]

use crate::common::{self, Sample};
use taillight_core::{LatencyKind, OpKind};
use taillight_report::render::TEXTS;
use taillight_report::{AnalysedRun, ConsoleStyle, analyse, console_text, html, summarise};
use taillight_rundir::origin::{
    Fidelity, ImportSource, ImportedBin, ImportedFile, ImportedLatency, ImportedOp,
    ImportedPercentile, ImportedWorkload, RunOrigin, write_imported,
};
use taillight_rundir::{RunDir, RunStatus};

/// Writes, reads and summarises a small run.
fn run(sample: &Sample) -> AnalysedRun {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    common::write(&path, sample);
    let dir = RunDir::open(&path).unwrap();
    let mut analysis = analyse::analyse(&dir, None, &mut |_| true).unwrap();
    // Sizes of compressed files are no part of what is pinned.
    for file in &mut analysis.files {
        file.bytes = 4096;
    }
    let mut summary = summarise(&analysis).unwrap();
    summary.taillight = "0.1.0".to_owned();
    let (label, shown) = (sample.name.to_owned(), sample.name.to_owned());
    AnalysedRun { label, shown, analysis, summary, explanation: None }
}

fn small() -> Sample {
    Sample { seconds: 2, stalls: vec![(1_200_000_000, 90_000_000)], ..Sample::default() }
}

fn open_loop() -> Sample {
    Sample { name: "rate", rate: Some(5_000), sync: true, fail_every: Some(997), ..small() }
}

fn overloaded() -> Sample {
    Sample { name: "too-much", rate: Some(60_000), depth: 1, stalls: vec![], ..small() }
}

/// Readers that are timed while a writer only makes load.
fn beside_load() -> Sample {
    Sample { name: "readers", writes: 0, load: true, ..small() }
}

/// Readers that follow a writer and measure from its stamp.
fn end_to_end() -> Sample {
    Sample { name: "end-to-end", writes: 0, end_to_end: true, ..small() }
}

#[test]
fn load_and_end_to_end_stand_in_summary_markdown_and_page() {
    for (sample, wanted) in [
        (beside_load(), ["Load, not measured", "writers", "1,000"]),
        (end_to_end(), ["read end to end", "read", "service"]),
    ] {
        let run = run(&sample);
        let json = serde_json::to_value(&run.summary).unwrap();
        match sample.load {
            true => {
                assert_eq!(json["load"][0]["name"], "writers");
                assert_eq!(json["load"][0]["errors"], 4);
                assert!(run.summary.ops.keys().all(|op| op.name() == "read"));
            }
            false => {
                let all = &json["totals"]["end_to_end"];
                assert_eq!(all["count"], json["totals"]["service"]["count"]);
                // The stamp is older than the submit of every read.
                let mean = |part: &str| json["totals"][part]["mean_ns"].as_f64().unwrap();
                assert!(mean("end_to_end") > mean("service") + 3_000.0);
            }
        }
        let runs = [run];
        let markdown = taillight_report::render::markdown(&runs);
        let page = html::page_with(&runs, "/* plotly */").unwrap();
        for wanted in wanted {
            assert!(markdown.contains(wanted), "{wanted}\n{markdown}");
            assert!(page.contains(wanted), "{wanted}");
        }
    }
}

#[test]
fn console() {
    for (name, sample) in [
        ("console_load", beside_load()),
        ("console_end_to_end", end_to_end()),
        ("console_closed", small()),
        ("console_rate", open_loop()),
        ("console_saturated", overloaded()),
    ] {
        let text = console_text(&[run(&sample)], ConsoleStyle::default());
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(!text.contains('\x1b') && text.replace('·', "").is_ascii(), "{text}");
        assert!(text.lines().all(|l| l == l.trim_end()));
        insta::assert_snapshot!(name, text);
    }
}

/// A result of another tool: one job, its reads with bins, its syncs with percentiles only.
fn imported() -> AnalysedRun {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    let mut manifest = taillight_rundir::fixture::manifest("fio-00000000");
    (manifest.status, manifest.process) = (RunStatus::Complete, None);
    manifest.plan.workloads.truncate(1);
    manifest.origin = RunOrigin::Imported(ImportSource {
        tool: "fio".into(),
        version: Some("3.33".into()),
        file: "a.json".into(),
        file_sha256: "00000000".into(),
        file_crc32: String::new(),
        fidelity: Fidelity::Percentiles,
        spans: "from issue to completion (clat)".into(),
        notes: Vec::new(),
        failed: Vec::new(),
    });
    manifest.phases[0].end_ns = Some(manifest.phases[0].start_ns + 1_000_000_000);
    let op = |latency: ImportedLatency| ImportedOp {
        count: latency.count,
        errors: 0,
        bytes: 4096 * latency.count,
        duration_ns: 1_000_000_000,
        iops: latency.count as f64,
        bytes_per_s: 4096.0 * latency.count as f64,
        latency,
    };
    let latency = ImportedLatency {
        count: 10_000,
        min_ns: Some(80_000),
        max_ns: Some(9_000_000),
        mean_ns: Some(100_000.0),
        stddev_ns: Some(90_000.0),
        ..ImportedLatency::default()
    };
    let bin = |lo_ns, count| ImportedBin { lo_ns, hi_ns: lo_ns + 1023, count };
    let bins = vec![bin(80_896, 9_890), bin(120_832, 60), bin(8_999_936, 50)];
    let percentiles = ["50", "99", "99.9"].map(|p| ImportedPercentile { p: p.into(), ns: 90_000 });
    let reads = op(ImportedLatency { bins, ..latency.clone() });
    let syncs = op(ImportedLatency { percentiles: percentiles.into(), ..latency });
    let ops = [(OpKind::Read, reads), (OpKind::Fsync, syncs)].into();
    let workloads = vec![ImportedWorkload { name: "w0".into(), group: 0, ops }];
    let figures = ImportedFile { schema: taillight_rundir::SCHEMA_VERSION, workloads };
    write_imported(&path, &manifest, &figures).unwrap();
    let analysis = analyse::analyse(&RunDir::open(&path).unwrap(), None, &mut |_| true).unwrap();
    let summary = summarise(&analysis).unwrap();
    let (label, shown) = ("a".to_owned(), "a".to_owned());
    AnalysedRun { label, shown, analysis, summary, explanation: None }
}

/// Figures that Taillight did not measure in one process are told as what they are.
#[test]
fn console_of_each_origin() {
    let of = |origin: RunOrigin| {
        let mut run = run(&small());
        run.analysis.manifest.origin = origin;
        run.summary = summarise(&run.analysis).unwrap();
        run
    };
    for (name, run) in [
        ("console_watched", of(RunOrigin::watched("db_bench --num=1000"))),
        ("console_merged", of(RunOrigin::Merged { ranks: 4 })),
        ("console_imported", imported()),
    ] {
        let style = ConsoleStyle { colour: false, detail: true };
        let text = console_text(&[run], style);
        let overhead = text.lines().filter(|l| l.contains("per I/O on null")).count();
        assert_eq!(overhead, 0, "{text}");
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn an_imported_run_without_its_figures_is_damaged() {
    let run = imported();
    let percentile = |op, p: &str| {
        let all = &run.summary.ops[&op].latencies.service.percentiles;
        all.iter().find(|entry| entry.p == p).and_then(|entry| entry.ns)
    };
    assert_eq!(percentile(OpKind::Read, "99"), Some(121_344));
    assert_eq!(percentile(OpKind::Fsync, "99"), Some(90_000));
    assert_eq!(percentile(OpKind::Fsync, "90"), None);
    // Of both together there is no percentile: those of the syncs do not add up with bins.
    assert!(run.summary.totals.latencies.service.percentiles.iter().all(|p| p.ns.is_none()));
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    RunDir::create(&path, &run.analysis.manifest).unwrap();
    let dir = RunDir::open(&path).unwrap();
    let error = analyse::analyse(&dir, None, &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn colour_only_adds_codes() {
    let runs = [run(&open_loop())];
    let detail = true;
    let plain = console_text(&runs, ConsoleStyle { colour: false, detail });
    let mut coloured = console_text(&runs, ConsoleStyle { colour: true, detail });
    assert!(coloured.contains("\x1b[1;31m"), "errors are red");
    while let Some(start) = coloured.find('\x1b') {
        let end = coloured[start..].find('m').unwrap() + start;
        coloured.replace_range(start..=end, "");
    }
    assert_eq!(coloured, plain);
}

#[test]
fn markdown_and_csv() {
    let runs = [run(&small()), run(&open_loop())];
    for text in TEXTS {
        let all = (text.render)(&runs);
        let name = text.file.replace('.', "_");
        // Some lines of the long ones are enough to pin their form.
        let kept: Vec<&str> = all.lines().take(40).collect();
        insta::assert_snapshot!(name, kept.join("\n"));
    }
}

#[test]
fn summary_json() {
    let mut summary = run(&open_loop()).summary;
    summary.workloads.truncate(0);
    for bins in summary.distribution.values_mut() {
        bins.service.bins.truncate(1);
        if let Some(response) = bins.get_mut(LatencyKind::Response) {
            response.bins.truncate(1);
        }
    }
    for list in summary.outliers.values_mut() {
        list.truncate(1);
    }
    for totals in summary.ops.values_mut().chain([&mut summary.totals]) {
        for (kind, latency) in totals.latencies.iter_mut() {
            if matches!(kind, LatencyKind::Service | LatencyKind::Response) {
                continue;
            }
            latency.percentiles.truncate(1);
            latency.nines.truncate(1);
        }
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap());
}

/// The page without figures, library, style and script.
fn skeleton(page: &str) -> String {
    let mut out = String::new();
    let mut skip: Option<&str> = None;
    for line in page.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if let Some(end) = skip {
            if line.contains(end) {
                skip = None;
            }
            continue;
        }
        let data = line.find("<script type=\"application/json\"");
        let shown = match data {
            Some(at) => format!("{}...", &line[..line[at..].find('>').unwrap() + at + 1]),
            None => line.to_owned(),
        };
        out.push_str(&shown);
        out.push('\n');
        for (start, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
            if line.starts_with(start) && !line.contains(end) {
                skip = Some(end);
            }
        }
    }
    out
}

#[test]
fn page() {
    let one = html::page_with(&[run(&small())], "/* plotly */").unwrap();
    insta::assert_snapshot!("page_one", skeleton(&one));
    let several = html::page_with(&[run(&small()), run(&open_loop())], "/* plotly */").unwrap();
    insta::assert_snapshot!("page_several", skeleton(&several));
}

/// What a stopped run says of itself that was to do as many operations as `planned` makes of two counts: of all its
/// I/Os, and of the read-modify-writes whose parts are among these.
fn stopped(planned: impl Fn(u64, u64) -> u64) -> String {
    let mut run = run(&small());
    let whole = run.analysis.groups[0].clone();
    let (all, twice) = (run.summary.totals.count, whole.tally.count);
    run.analysis.groups.push(analyse::IoGroup { op: taillight_core::OpKind::Rmw, ..whole });
    run.analysis.status = taillight_rundir::RunStatus::Partial;
    run.analysis.manifest.plan.run.duration = None;
    run.analysis.manifest.plan.run.operations = Some(planned(all, twice));
    let verdict = summarise(&run.analysis).unwrap().verdict;
    verdict.reasons[0].text.clone()
}

/// In runs of versions that gave the parts no kind of their own, gets and updates stand in the
/// totals; since then the whole does.
#[test]
fn totals_add_a_read_modify_write_or_its_parts_never_both() {
    use taillight_core::OpKind::{Rmw, RmwGet};
    let mut run = run(&small());
    let before = summarise(&run.analysis).unwrap();
    let whole = run.analysis.groups[0].clone();
    let more = whole.tally.count;
    run.analysis.groups.push(analyse::IoGroup { op: Rmw, ..whole.clone() });
    let old = summarise(&run.analysis).unwrap();
    assert_eq!(old.totals, before.totals);
    assert_eq!((old.ops[&Rmw].count, old.requests.len()), (more, 0));
    run.analysis.groups.push(analyse::IoGroup { op: RmwGet, ..whole });
    let new = summarise(&run.analysis).unwrap();
    assert_eq!(new.totals.count, before.totals.count + more);
    assert_eq!(new.requests[&taillight_core::OpKind::Get].count, more);
    assert_eq!(new.saturation.achieved_per_s, new.totals.count as f64 / 2.0);
}

#[test]
fn a_read_modify_write_counts_once_against_the_plan() {
    let whole = stopped(|all, twice| all - twice);
    assert!(whole.contains("measured to its end"), "{whole}");
    let cut = stopped(|all, twice| all - twice + 1);
    assert!(cut.contains("ended early"), "{cut}");
}

#[test]
fn cpus_that_others_kept_busy_are_warned_about() {
    let said = |clock: &str, busy: f64, others: f64| {
        let mut run = run(&small());
        run.analysis.manifest.clock.source = clock.to_owned();
        let during = serde_json::json!({"busy_percent": busy, "others_percent": others});
        let load = serde_json::json!({ "during": during });
        run.analysis.manifest.environment.insert("load".into(), load);
        let reasons = summarise(&run.analysis).unwrap().verdict.reasons;
        let quiet = reasons.into_iter().find(|r| r.code == "busy_machine");
        quiet.map(|r| r.text)
    };
    let text = said("monotonic", 99.7, 80.0).unwrap();
    assert!(text.contains("took 80 % of the CPUs"), "{text}");
    // The run itself may use them all, and idle CPUs are free to be taken.
    assert_eq!((said("monotonic", 99.7, 10.0), said("monotonic", 70.0, 65.0)), (None, None));
    assert_eq!(said("virtual", 99.7, 80.0), None, "nothing waits for this machine");
}
