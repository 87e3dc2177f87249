//! What others state and the report has no names for: the samples of a driver, the stamps of a tracing source, the
//! counts of a witness.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use crate::common::{self, START, Sample};
use taillight_core::OpKind;
use taillight_core::samples::{SampleDisplay, SampleFigure, SamplePanel, SamplePhrase, SampleUnit};
use taillight_core::units::Span;
use taillight_core::witness::{Witness, WitnessUnit};
use taillight_explain::{InFront, Layer, RequestSum};
use taillight_report::{MadeReport, ReportOptions, make};
use taillight_rundir::layers::{LayerRow, LayerWriter};
use taillight_rundir::store::{StoreRow, store_writer};
use taillight_rundir::{Manifest, RunDir, fixture, names};

fn sample() -> Sample {
    Sample {
        seconds: 1,
        read_ns: 400_000.0,
        write_ns: 200_000.0,
        stalls: vec![(400_000_000, 90_000_000)],
        ..Sample::default()
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut Manifest)) {
    let file = path.join(names::MANIFEST);
    let mut manifest: Manifest = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(&file, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

fn report(path: &Path) -> MadeReport {
    make(&[path], &ReportOptions::default(), &mut |_| true).unwrap()
}

/// Rows of two series whose names no part of the report has.
fn sampled(path: &Path) {
    let row = |n: i64, series: &str, value: f64| StoreRow {
        at_ns: START + n * 250_000_000,
        series: series.into(),
        value,
    };
    let both = |n: i64| {
        [
            row(n, "shards_moved_total", 3.0 * n as f64),
            row(n, "quorum_wait_ns_total", 5e7 * n as f64),
        ]
    };
    let dir = RunDir::open(path).unwrap();
    store_writer(&dir).write((0..5).flat_map(both)).unwrap();
}

#[test]
fn samples_of_an_unknown_driver_are_drawn_and_said_as_it_states() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    common::write(&path, &sample());
    sampled(&path);
    let panel = SamplePanel::new("Shards & <quorum>", SampleUnit::PercentOfTime);
    let stated = SampleDisplay {
        panels: vec![panel.line("quorum_wait_ns_total", "waiting for a quorum")],
        phrases: vec![SamplePhrase::new(
            "shards_moved_total",
            SampleFigure::Rise,
            "{} shards moved",
        )],
    };
    edit(&path, |m| m.samples = Some(stated));
    let made = report(&path);
    assert_eq!(made.summaries[0].store_text.as_deref(), Some("12 shards moved"));
    let page = fs::read_to_string(made.html.unwrap()).unwrap();
    assert!(page.contains("waiting for a quorum") && page.contains("12 shards moved"));
    assert!(
        page.contains("Shards &amp; &lt;quorum&gt;")
            || page.contains("Shards &#38; &#60;quorum&#62;")
    );
    assert!(!page.contains("<quorum>"), "a heading is text");
    assert!(!page.contains("shards moved a second"));

    // One that states nothing has its series by their units.
    edit(&path, |m| m.samples = Some(SampleDisplay::default()));
    let made = report(&path);
    assert_eq!(made.summaries[0].store_text, None);
    let page = fs::read_to_string(made.html.unwrap()).unwrap();
    for words in ["quorum wait", "shards moved", "Time, % of the time", "Events, per second"] {
        assert!(page.contains(words), "{words}");
    }
}

/// The rows that a source makes which sees nothing but issue and end of block I/O.
fn stamped(path: &Path, sample: &Sample) -> u64 {
    let dir = RunDir::open(path).unwrap();
    let mut writer = LayerWriter::begin(&dir);
    let mut rows = Vec::new();
    for worker in 0..sample.workers {
        rows.extend(common::worker(sample, worker).iter().map(|r| LayerRow {
            worker: Some(worker.into()),
            op: Some(r.op),
            offset: r.offset,
            bio_ns: Some(r.submit.0 + 1_000),
            issue_ns: Some(r.submit.0 + 1_000),
            done_ns: Some(r.complete.0 - 1_000),
            ..fixture::traced_io(r.submit.0, r.complete.0)
        }));
    }
    let kept = rows.len() as u64;
    writer.rows(rows.into_iter()).unwrap();
    writer.commit().unwrap();
    kept
}

#[test]
fn stamps_of_any_source_end_in_a_verdict() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    common::write(&path, &sample());
    let kept = stamped(&path, &sample());
    let trace = format!(r#"{{"mode":"all","rung":"procfs","operations":{kept},"kept":{kept}}}"#);
    edit(&path, |m| m.trace = Some(serde_json::from_str(&trace).unwrap()));
    let made = report(&path);
    let found = made.explanations[0].as_ref().unwrap();
    let device = found.layers.iter().find(|share| share.layer == Layer::Device).unwrap();
    assert!(device.outliers > 0 && device.outliers == found.outliers, "{:?}", found.layers);
}

#[test]
fn all_ios_of_a_run_say_what_stood_in_front_of_its_slow_ones() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    common::write(&path, &sample());
    let kept = stamped(&path, &sample());
    let counts = format!(r#""operations":{kept},"kept":{kept},"disks_watched":true"#);
    let trace = format!(r#"{{"mode":"all","rung":"bpf",{counts}}}"#);
    let found = |direct: bool, warmup_ns: u64| -> Vec<(i64, InFront)> {
        edit(&path, |m| {
            m.trace = Some(serde_json::from_str(&trace).unwrap());
            m.plan.target.options.insert("direct".into(), direct.into());
            m.plan.run.warmup = Span(warmup_ns);
        });
        let made = report(&path);
        let ios = &made.explanations[0].as_ref().unwrap().ios;
        ios.iter().map(|v| (v.slow.submit_ns, v.in_front.unwrap())).collect()
    };
    let all: Vec<_> = (0..sample().workers).flat_map(|w| common::worker(&sample(), w)).collect();
    let mut most = 0;
    for (submit_ns, front) in found(true, 0) {
        // Each is queued 1 us after its submit.
        let queued_ns = submit_ns + 1_000;
        let before = all.iter().filter(|r| r.submit.0 < submit_ns && r.complete.0 > queued_ns);
        let requests = before.count() as u64;
        let own = RequestSum { requests, bytes: requests * 4096, at_least: false };
        assert_eq!(front.own, Some(own));
        most = most.max(requests);
    }
    assert!(most > 0, "several were in flight");
    // Through the page cache nobody knows which of them were at the disk.
    let none = Some(RequestSum::default());
    assert!(found(false, 0).iter().all(|(_, front)| (front.own, front.others) == (None, none)));
    // Operations of the warm-up are not kept: right after it some may be in front.
    let least = |own: Option<RequestSum>| own.is_none_or(|own| own.at_least);
    assert!(found(true, 500_000_000).iter().all(|(_, front)| least(front.own)));
}

/// What a kernel's counter of reads said of a run that counted a GiB.
fn witness(witnessed: u64) -> Witness {
    Witness {
        source: "/proc/diskstats of vda, bytes read".into(),
        unit: WitnessUnit::Bytes,
        ops: vec![OpKind::Read],
        counted: 1 << 30,
        witnessed,
        uncertain: 0,
        own: None,
        less: None,
        more: None,
        shared: true,
    }
}

#[test]
fn a_witness_that_nothing_explains_is_a_warning() {
    for (witnessed, explained) in [(1 << 30, true), (3 << 30, true), (1 << 29, false)] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        common::write(&path, &sample());
        edit(&path, |manifest| manifest.witness = vec![witness(witnessed)]);
        let made = report(&path);
        let summary = &made.summaries[0];
        let it = &summary.witness[0];
        let ratio = witnessed as f64 / (1u64 << 30) as f64;
        assert_eq!((it.explained, it.ratio), (explained, Some(ratio)));
        let warned = summary.verdict.reasons.iter().any(|reason| reason.code == "witness");
        assert_eq!(warned, !explained, "{:?}", summary.verdict);
        let page = fs::read_to_string(path.join(names::REPORT)).unwrap();
        assert!(page.contains("vda, bytes read: "), "{witnessed}");
    }
}
