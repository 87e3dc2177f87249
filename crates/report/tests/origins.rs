//! What is said of runs of each origin, whatever they have: no setting and no flag that only runs of another origin have.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use crate::common::{self, Sample};
use taillight_core::plan::{CaptureMode, Ceiling};
use taillight_report::{AnalysedRun, ConsoleStyle, analyse, console_text, summarise};
use taillight_rundir::fixture::foreign_word;
use taillight_rundir::origin::{Fidelity, ImportSource, RunOrigin, SampleTime};
use taillight_rundir::{Manifest, RunDir, names};

/// What a run directory has of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kept {
    All,
    /// Counts of all, and slow I/Os one by one.
    Counts,
    SlowAlone,
    /// No I/O, though some were seen.
    Seen,
    Nothing,
}

const KEPT: [Kept; 5] = [Kept::All, Kept::Counts, Kept::SlowAlone, Kept::Seen, Kept::Nothing];

fn few() -> Sample {
    Sample {
        name: "few",
        seconds: 1,
        workers: 1,
        depth: 1,
        read_ns: 20e6,
        write_ns: 10e6,
        stalls: Vec::new(),
        ..Sample::default()
    }
}

fn many() -> Sample {
    Sample { seconds: 1, stalls: vec![(400_000_000, 90_000_000)], ..Sample::default() }
}

fn imported() -> RunOrigin {
    RunOrigin::Imported(ImportSource {
        tool: "fio".into(),
        version: None,
        file: "a.json".into(),
        file_sha256: "0".into(),
        file_crc32: String::new(),
        fidelity: Fidelity::EveryIo,
        spans: "from issue to completion".into(),
        notes: Vec::new(),
        failed: Vec::new(),
    })
}

fn by_sample() -> RunOrigin {
    let mut origin = RunOrigin::watched("db");
    if let RunOrigin::Watched { sample, .. } = &mut origin {
        *sample = Some(SampleTime { windows: 5, ns: 500_000_000 });
    }
    origin
}

fn edit(path: &Path, change: impl FnOnce(&mut Manifest)) {
    let file = path.join(names::MANIFEST);
    let mut manifest: Manifest = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(&file, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

fn write(path: &Path, sample: &Sample, kept: Kept, origin: &RunOrigin) {
    common::write(path, sample);
    let without: &[&str] = match kept {
        Kept::All | Kept::Counts => &[],
        Kept::SlowAlone => &[names::INTERVALS, names::HISTOGRAMS],
        Kept::Seen | Kept::Nothing => &[names::IOS, names::INTERVALS, names::HISTOGRAMS],
    };
    without.iter().for_each(|name| fs::remove_file(path.join(name)).unwrap());
    let ceiling = |time: &str, at: &str| Ceiling::new(time.parse().unwrap(), at.parse().unwrap());
    edit(path, |manifest| {
        // The ranks of a run over several are not in it.
        if !matches!(origin, RunOrigin::Merged { .. }) {
            manifest.origin = origin.clone();
        }
        manifest.plan.qos.ceilings =
            vec![ceiling("1s", "99.9"), ceiling("90us", "99"), ceiling("1s", "99.99999")];
        if kept != Kept::All {
            manifest.capture.mode = CaptureMode::Outliers;
        }
        if without.contains(&names::IOS) {
            manifest.capture.kept = 0;
            manifest.phases.iter_mut().for_each(|phase| phase.ios = 0);
            manifest.phases[1].ios = if kept == Kept::Seen { 5 } else { 0 };
        }
    });
}

/// Everything that is said of such a run.
fn said(sample: &Sample, kept: Kept, origin: &RunOrigin) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    write(&path, sample, kept, origin);
    let mut analysis =
        analyse::analyse(&RunDir::open(&path).unwrap(), None, &mut |_| true).unwrap();
    analysis.manifest.origin = origin.clone();
    let summary = summarise(&analysis).unwrap();
    let mut all: Vec<String> = summary.verdict.reasons.iter().map(|r| r.text.clone()).collect();
    all.push(summary.verdict.text.clone());
    let (label, shown) = ("a".to_owned(), "a".to_owned());
    let run = AnalysedRun { label, shown, analysis, summary, explanation: None };
    all.push(console_text(&[run], ConsoleStyle { colour: false, detail: true }));
    all
}

#[test]
fn no_run_is_told_of_settings_that_only_others_have() {
    let watched = RunOrigin::watched("db");
    let alone = watched.clone().of_requests([taillight_core::OpKind::Read]);
    let merged = RunOrigin::Merged { ranks: 2 };
    for (origin, own) in [
        (RunOrigin::Measured, vec!["--runtime"]),
        (merged, vec!["--runtime"]),
        (watched, vec!["--for", "--exact 5%"]),
        (alone, vec!["--for", "--exact 5%"]),
        (by_sample(), vec!["--for"]),
        (imported(), Vec::new()),
    ] {
        let mut all = Vec::new();
        for sample in [few(), many()] {
            KEPT.iter().for_each(|kept| all.extend(said(&sample, *kept, &origin)));
        }
        for text in &all {
            assert_eq!(foreign_word(&origin, text), None, "{origin:?}: {text}");
        }
        // What helps is told, each with the words of its own.
        for word in own {
            assert!(all.iter().any(|text| text.contains(word)), "{origin:?}: {word}");
        }
    }
}

/// Whatever a watch lacks, it says how it gets that; one that counted every call lacks nothing.
#[test]
fn a_watch_without_percentiles_says_how_it_gets_them() {
    let watched = RunOrigin::watched("db");
    for kept in [Kept::SlowAlone, Kept::Seen, Kept::Nothing] {
        let all = said(&few(), kept, &watched);
        let answer = &all[all.len() - 2];
        assert!(answer.contains("(--exact 5% counts every call)"), "{kept:?}: {answer}");
        assert!(!answer.contains("measured"), "{kept:?}: {answer}");
    }
    let all = said(&few(), Kept::Counts, &by_sample());
    assert!(all.iter().all(|text| !text.contains("--exact")), "{all:?}");
}
