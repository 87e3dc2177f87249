//! Whole reports from run directories: true numbers, reasons of the verdict, damaged files, hostile names, no network,
//! pages of many runs.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{self, Sample};
use taillight_core::plan::Arrival;
use taillight_core::units::Span;
use taillight_core::{LatencyKind, OpKind};
use taillight_report::{MadeReport, ReportOptions, format, make};
use taillight_rundir::manifest::ScheduleInfo;
use taillight_rundir::summary::{QosStatus, VerdictStatus};
use taillight_rundir::verify::{PassInfo, VerifyCounts, VerifyReport};
use taillight_rundir::{LatencySource, Manifest, RunDir, RunStatus, Summary, names};

fn sample() -> Sample {
    Sample { seconds: 2, stalls: vec![(1_200_000_000, 90_000_000)], ..Sample::default() }
}

fn written(root: &Path, name: &str, sample: &Sample) -> PathBuf {
    let path = root.join(name);
    common::write(&path, sample);
    path
}

fn report(path: &Path) -> MadeReport {
    make(&[path], &ReportOptions::default(), &mut |_| true).unwrap()
}

fn summary(path: &Path) -> Summary {
    report(path).summaries.remove(0)
}

fn edit(path: &Path, change: impl FnOnce(&mut Manifest)) {
    let file = path.join(names::MANIFEST);
    let mut manifest: Manifest = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(&file, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

fn codes(summary: &Summary) -> Vec<&str> {
    summary.verdict.reasons.iter().map(|r| r.code.as_str()).collect()
}

#[test]
fn numbers_are_those_of_the_ios() {
    let root = tempfile::tempdir().unwrap();
    let sample = Sample { fail_every: Some(1_000), ..sample() };
    let path = written(root.path(), "run", &sample);
    let made = summary(&path);
    let all: Vec<_> = (0..sample.workers).flat_map(|w| common::worker(&sample, w)).collect();
    for op in [OpKind::Read, OpKind::Write] {
        let of_op = || all.iter().filter(|r| r.op == op);
        let mut good: Vec<u64> =
            of_op().filter(|r| r.status.is_ok()).map(|r| r.service_ns()).collect();
        good.sort_unstable();
        let totals = &made.ops[&op];
        assert_eq!(totals.count, of_op().count() as u64);
        assert_eq!(totals.errors, totals.count - good.len() as u64);
        assert_eq!(totals.bytes, good.len() as u64 * 4096);
        assert_eq!(totals.latencies.service.max_ns, good.last().copied());
        assert_eq!(totals.latencies.service.source, LatencySource::Capture);
        for it in totals.latencies.service.percentiles.iter().filter(|p| p.resolved) {
            let share: f64 = it.p.parse().unwrap();
            let rank = (good.len() as f64 * share / 100.0 - 1e-6).ceil() as usize;
            assert_eq!(it.ns, Some(good[rank - 1]), "{} of {op:?}", it.p);
        }
        let worst = &made.outliers[&op][0];
        assert_eq!(Some(worst.latency_ns), totals.latencies.service.max_ns);
        let bins = &made.distribution[&op].service;
        let binned = bins.below + bins.above + bins.bins.iter().map(|b| b.count).sum::<u64>();
        assert_eq!(binned, good.len() as u64);
    }
    assert_eq!(made.verdict.status, VerdictStatus::Errors);
    assert_eq!(made.errors.kinds[0].status, 5);
    // What is on disk is what was returned.
    let saved = RunDir::open(&path).unwrap().read::<Summary>().unwrap().unwrap();
    assert_eq!((saved.verdict, saved.outliers), (made.verdict, made.outliers));
}

#[test]
fn an_open_loop_leads_with_response_and_names_saturation() {
    let root = tempfile::tempdir().unwrap();
    let calm = Sample { rate: Some(20_000), stalls: vec![], ..sample() };
    let made = summary(&written(root.path(), "calm", &calm));
    assert!(!made.saturation.saturated);
    assert_eq!(made.saturation.asked_per_s, Some(20_000.0));
    assert_eq!(made.verdict.status, VerdictStatus::Good, "{:?}", made.verdict);
    let response = made.totals.latencies.get(LatencyKind::Response).unwrap();
    assert!(response.mean_ns > made.totals.latencies.service.mean_ns);
    let over = Sample { rate: Some(200_000), ..calm };
    let made = summary(&written(root.path(), "over", &over));
    assert!(made.saturation.saturated);
    assert_eq!(made.verdict.status, VerdictStatus::Saturated);
    assert!(made.verdict.text.contains("not reached"), "{}", made.verdict.text);
}

#[test]
fn a_slow_last_io_is_not_saturation() {
    let root = tempfile::tempdir().unwrap();
    let slow_end = Sample {
        rate: Some(1_000),
        depth: 256,
        stalls: vec![(1_900_000_000, 400_000_000)],
        ..sample()
    };
    let made = summary(&written(root.path(), "slow", &slow_end));
    assert!(made.totals.duration_ns > 2_200_000_000);
    assert!(!made.saturation.saturated, "{:?}", made.saturation);
    let off = made.saturation.achieved_per_s / 1_000.0 - 1.0;
    assert!(off.abs() < 0.002, "{:?}", made.saturation);
}

#[test]
fn idle_workers_are_explained_by_what_the_plan_lets_them_do() {
    let root = tempfile::tempdir().unwrap();
    let one = Sample { depth: 1, ..sample() };
    let path = written(root.path(), "run", &one);
    // More workers than there were: some of them had nothing under way.
    edit(&path, |m| m.plan.workloads[0].workers *= 4);
    let said = |made: &Summary| {
        let mut reasons = made.verdict.reasons.iter();
        let found = reasons.find(|r| r.code == "littles_law");
        found.map(|r| r.text.clone())
    };
    let plain = said(&summary(&path)).unwrap();
    assert!(plain.contains("under way: making keys"), "{plain}");
    edit(&path, |m| m.plan.run.operations = Some(1000));
    let counted = said(&summary(&path)).unwrap();
    assert!(counted.contains("under way: done before others, making"), "{counted}");
    edit(&path, |m| m.plan.workloads[0].access.kind = taillight_core::plan::AccessKind::Follow);
    assert_eq!(said(&summary(&path)), None, "readers wait for writers");
}

/// An update that waited for a lock from the warm-up on, through all of the run, stood in no figure, and its worker was
/// said to have made keys.
#[test]
fn an_operation_of_the_warm_up_that_outlasts_the_measured_ones_is_told() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &Sample { depth: 1, ..sample() });
    edit(&path, |m| m.plan.workloads[0].workers *= 4);
    let with = |ns| {
        edit(&path, |m| m.losses.warmup_carried_ns = ns);
        summary(&path)
    };
    let slowest = with(None).totals.latencies.main().max_ns.unwrap();
    assert!(!codes(&with(Some(slowest))).contains(&"from_warmup"), "one of many");
    let told = with(Some(slowest + 1));
    assert!(codes(&told).contains(&"from_warmup") && told.verdict.status == VerdictStatus::Warned);
    let text = told.verdict.reasons.iter().find(|r| r.code == "littles_law").unwrap().text.clone();
    assert!(text.contains("under way: making keys"), "it explains little: {text}");
    let told = with(Some(3_000_000_000));
    assert_eq!(told.verdict.status, VerdictStatus::Warned);
    let text = |code: &str| {
        let mut reasons = told.verdict.reasons.iter();
        reasons.find(|r| r.code == code).unwrap().text.clone()
    };
    let expected =
        "An operation that began in the warm-up went on for 3.00 s after it, longer than any";
    assert!(text("from_warmup").starts_with(expected), "{}", text("from_warmup"));
    assert!(text("littles_law").contains("under way: one of the warm-up, making keys"));
}

#[test]
fn a_workload_done_early_has_rates_of_its_own_time() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    edit(&path, |m| m.phases[1].end_ns = m.phases[1].end_ns.map(|e| e + 8_000_000_000));
    let made = summary(&path);
    assert!(codes(&made).contains(&"finished_early"), "{:?}", codes(&made));
    let twice = codes(&made).contains(&"littles_law");
    assert!(!twice, "who was done has nothing outstanding");
    let ratio = made.workloads[0].totals.iops / made.totals.iops;
    assert!((4.9..5.1).contains(&ratio), "{ratio}");
    // The pause between two bursts is no end.
    edit(&path, |m| {
        m.plan.workloads[0].arrival = Arrival::Bursts {
            rate: "1000/s".parse().unwrap(),
            on: Span(1_000_000_000),
            off: Span(9_000_000_000),
        }
    });
    let made = summary(&path);
    assert!(!codes(&made).contains(&"finished_early"));
    assert_eq!(made.workloads[0].totals.iops, made.totals.iops);
}

#[test]
fn without_the_capture_histograms_speak_and_say_so() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    let exact = summary(&path);
    fs::remove_file(path.join(names::IOS)).unwrap();
    edit(&path, |m| m.capture.mode = taillight_core::plan::CaptureMode::Off);
    let made = summary(&path);
    assert_eq!(made.totals.latencies.service.source, LatencySource::Histogram);
    assert_eq!(made.totals.latencies.service.error, 0.001);
    // Histograms of two intervals do not say how far I/Os depend on each other.
    assert_eq!(codes(&made), ["ceiling_undecided", "from_histogram"]);
    assert_eq!(made.totals.count, exact.totals.count);
    let at = |s: &Summary| s.ops[&OpKind::Read].latencies.service.percentiles[6].ns.unwrap() as f64;
    assert!((at(&made) / at(&exact) - 1.0).abs() <= 0.001);
}

#[test]
fn a_count_that_does_not_match_is_said() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    edit(&path, |m| m.phases[1].ios += 7);
    let made = summary(&path);
    assert_eq!(made.verdict.status, VerdictStatus::Warned);
    assert!(codes(&made).contains(&"counts_differ"), "{:?}", codes(&made));
    assert_eq!(made.totals.latencies.service.source, LatencySource::Histogram);
}

#[test]
fn damaged_files_become_troubles() {
    for name in [names::IOS, names::INTERVALS, names::HISTOGRAMS] {
        let root = tempfile::tempdir().unwrap();
        let path = written(root.path(), "run", &sample());
        let file = path.join(name);
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() * 2 / 3]).unwrap();
        if name == names::HISTOGRAMS {
            fs::remove_file(path.join(names::IOS)).unwrap();
        }
        let made = summary(&path);
        assert_ne!(made.verdict.status, VerdictStatus::Good, "{name}");
        assert!(made.verdict.text.len() > 20);
    }
    let root = tempfile::tempdir().unwrap();
    let missing = make(&[root.path()], &ReportOptions::default(), &mut |_| true);
    assert!(missing.is_err_and(|e| e.message().contains("no manifest")));
}

#[test]
fn samples_that_cannot_be_read_are_named_by_the_explanation() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    let trace = r#"{"mode":"outliers","rung":"bpf"}"#;
    edit(&path, |m| m.trace = Some(serde_json::from_str(trace).unwrap()));
    let unknown = "What the machine did meanwhile is unknown";
    let explained = |path| report(path).explained.remove(0).unwrap();
    assert!(!explained(&path).contains(unknown));
    fs::write(path.join(names::HOST), "PAR1 cut short").unwrap();
    let text = explained(&path);
    assert!(text.contains(unknown) && text.contains("damaged"), "{text}");
    assert!(codes(&summary(&path)).contains(&"host_unreadable"));
}

/// Puts the checksums of the files as they are into the manifest, as the end of a run does.
fn sealed(path: &Path) {
    let files = taillight_rundir::sums::file_sums(&RunDir::open(path).unwrap()).unwrap();
    assert_eq!(files.len(), 4, "with the job");
    edit(path, |m| m.files = files);
}

/// Flips one bit in the middle of a file.
fn flip(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

#[test]
fn one_flipped_bit_is_said_first_and_the_sound_file_speaks() {
    for name in [names::IOS, names::INTERVALS, names::HISTOGRAMS] {
        let root = tempfile::tempdir().unwrap();
        let path = written(root.path(), "run", &sample());
        sealed(&path);
        let sound = summary(&path);
        assert!(!taillight_report::damaged(&sound.verdict));
        flip(&path.join(name));
        let made = report(&path);
        let it = &made.summaries[0];
        assert!(taillight_report::damaged(&it.verdict), "{name}");
        assert_eq!(it.verdict.status, VerdictStatus::Warned, "{name}");
        assert_eq!(it.verdict.reasons[0].code, "file_damaged", "{name}");
        let said = format!("{name} is damaged: it has another checksum");
        assert!(it.verdict.text.starts_with(&said), "{}", it.verdict.text);
        assert!(made.text.contains("\nDamaged: "), "{}", made.text);
        assert_eq!(made.text.matches(name).count(), 1, "said once: {}", made.text);
        let source = match name {
            names::IOS => LatencySource::Histogram,
            _ => LatencySource::Capture,
        };
        assert_eq!(it.totals.latencies.service.source, source, "{name}");
        // A capture that is not believed gives nothing: no outliers, no failed I/Os of its own.
        let none = it.outliers.values().all(Vec::is_empty);
        assert_eq!(none, name == names::IOS, "{name}");
        if name != names::INTERVALS {
            assert_eq!(it.totals.count, sound.totals.count, "{name}");
        }
    }
}

#[test]
fn a_removed_file_is_named_but_is_no_damage() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    sealed(&path);
    fs::remove_file(path.join(names::IOS)).unwrap();
    let made = summary(&path);
    assert!(codes(&made).contains(&"file_missing"), "{:?}", made.verdict);
    assert!(!taillight_report::damaged(&made.verdict));
}

#[test]
fn acknowledged_writes_that_are_gone_are_told_with_what_was_promised() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    for missing in ["0", "3"] {
        edit(&path, |m| {
            let facts = serde_json::json!({"tpcb.check.missing": missing, "tpcb.check.acknowledged": "1234",
                "tpcb.check.promise": "A crash may lose the last ones"});
            m.environment.insert("driver".into(), facts);
        });
        let made = summary(&path);
        let told = made.verdict.reasons.iter().find(|r| r.code == "not_kept");
        assert_eq!(told.is_some(), missing == "3", "{:?}", made.verdict);
        let says = "3 of 1,234 writes that the target acknowledged are not there after the run. A crash may lose \
                    the last ones.";
        assert!(told.is_none_or(|r| r.text == says), "{told:?}");
    }
}

/// Only where a connection was lost, and nothing else is wrong: else it is wrong data, whatever was promised.
#[test]
fn records_that_a_failed_target_let_go_are_told_with_what_was_promised() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    let promise = "off promises no more: a crash loses the last commits";
    let all = [("target.promise", promise), ("target.connection_lost", "true")];
    for (facts, status, flipped, code) in [
        (&all[..], RunStatus::Failed, 0, "not_kept"),
        (&all[..], RunStatus::Failed, 1, "wrong_data"),
        (&all[..], RunStatus::Complete, 0, "wrong_data"),
        (&all[..1], RunStatus::Failed, 0, "wrong_data"),
        (&all[..0], RunStatus::Failed, 0, "wrong_data"),
    ] {
        edit(&path, |m| {
            m.status = status;
            let facts: std::collections::BTreeMap<_, _> = facts.iter().copied().collect();
            m.environment.insert("driver".into(), serde_json::json!(facts));
        });
        let kinds = VerifyCounts { lost: 2, missing: 1, flipped, ..VerifyCounts::default() };
        let (checked, wrong) = (1000, 3 + flipped);
        let schema = taillight_rundir::SCHEMA_VERSION;
        let found = VerifyReport { schema, checked, wrong, kinds, ..VerifyReport::default() };
        fs::write(path.join(names::VERIFY), serde_json::to_vec(&found).unwrap()).unwrap();
        let made = summary(&path);
        let all = codes(&made);
        assert!(all.contains(&code), "{:?}", made.verdict);
        assert_eq!(all.contains(&"not_kept"), code == "not_kept");
        let told = made.verdict.reasons.iter().find(|r| r.code == "not_kept");
        assert!(told.is_none_or(|r| r.text.contains(promise)), "{told:?}");
    }
}

#[test]
fn a_lost_connection_of_a_target_that_promises_less_is_told_where_nobody_looked() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    for (facts, told) in [
        (serde_json::json!({"target.promise": "off keeps less"}), false),
        (serde_json::json!({"target.connection_lost": "true"}), false),
        (
            serde_json::json!({"target.connection_lost": "true", "target.promise": "off keeps less"}),
            true,
        ),
    ] {
        edit(&path, |m| drop(m.environment.insert("driver".into(), facts.clone())));
        let made = summary(&path);
        assert_eq!(codes(&made).contains(&"not_looked_for"), told, "{:?}", made.verdict);
    }
    let pass = Some(PassInfo { complete: true, ..PassInfo::default() });
    let schema = taillight_rundir::SCHEMA_VERSION;
    let found = VerifyReport { schema, pass, ..VerifyReport::default() };
    fs::write(path.join(names::VERIFY), serde_json::to_vec(&found).unwrap()).unwrap();
    assert!(!codes(&summary(&path)).contains(&"not_looked_for"), "a pass has looked");
}

#[test]
fn writes_into_a_file_without_blocks_are_no_overwrites() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    for (allocates, seen) in [("true", true), ("false", false)] {
        edit(&path, |m| {
            let facts = serde_json::json!({"files.writes_allocate": allocates});
            m.environment.insert("driver".into(), facts);
        });
        let made = summary(&path);
        assert_eq!(codes(&made).contains(&"writes_allocate"), seen);
    }
    // A stream appends: it is no overwriting, and nobody takes it for that.
    edit(&path, |m| {
        let facts = serde_json::json!({"files.writes_allocate": "true", "files.grows": "true"});
        m.environment.insert("driver".into(), facts);
    });
    assert!(!codes(&summary(&path)).contains(&"writes_allocate"));
}

#[test]
fn the_runs_own_count_of_what_was_not_sent_comes_first() {
    let root = tempfile::tempdir().unwrap();
    let over = Sample { rate: Some(200_000), stalls: vec![], ..sample() };
    let path = written(root.path(), "over", &over);
    let reckoned = summary(&path).saturation;
    edit(&path, |m| {
        m.schedule = Some(ScheduleInfo {
            backlog_max: reckoned.backlog_max + 5,
            unsent: reckoned.unsent - 3,
            left_at_end: reckoned.unsent - 3,
        });
    });
    let counted = summary(&path).saturation;
    assert_eq!(counted.backlog_max, reckoned.backlog_max + 5);
    assert_eq!(counted.unsent, reckoned.unsent - 3);
}

#[test]
fn a_killed_run_is_partial_and_an_empty_one_failed() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "killed", &sample());
    edit(&path, |m| {
        m.status = RunStatus::Running;
        m.phases[1].end_ns = None;
        m.phases[1].ios = 0;
    });
    fs::remove_file(path.join(names::INTERVALS)).unwrap();
    let made = summary(&path);
    assert_eq!((made.status, made.verdict.status), (RunStatus::Partial, VerdictStatus::Partial));
    assert!(made.totals.iops > 10_000.0);
    let why = &made.verdict.reasons[0];
    assert!(why.text.contains("The run ended early: "), "{}", why.text);
    let kept = format!("All {} I/Os of its ", format::count(made.totals.count));
    assert!(why.text.contains(&kept), "{}", why.text);
    let path = written(root.path(), "empty", &sample());
    for name in [names::IOS, names::INTERVALS, names::HISTOGRAMS] {
        fs::remove_file(path.join(name)).unwrap();
    }
    edit(&path, |m| m.phases[1].ios = 0);
    let made = summary(&path);
    assert_eq!(made.verdict.status, VerdictStatus::Failed);
    assert!(codes(&made).contains(&"nothing_measured"));
}

#[test]
fn a_killed_run_of_outliers_only_gives_no_percentiles() {
    for degraded in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let path = written(root.path(), "killed", &sample());
        edit(&path, |m| {
            m.status = RunStatus::Partial;
            m.reason = Some("the run was killed".into());
            if degraded {
                m.capture.degraded = Some(taillight_rundir::manifest::Degraded {
                    at_ns: common::START,
                    not_kept: 0,
                    reason: "only outliers were kept from some point on".into(),
                });
            } else {
                m.capture.mode = taillight_core::plan::CaptureMode::Outliers;
            }
        });
        for name in [names::INTERVALS, names::HISTOGRAMS] {
            fs::remove_file(path.join(name)).unwrap();
        }
        let report = report(&path);
        let made = &report.summaries[0];
        assert_eq!(made.verdict.status, VerdictStatus::Partial);
        assert!(codes(made).contains(&"outliers_only"), "{:?}", codes(made));
        let why = made.verdict.reasons.iter().find(|r| r.code == "partial");
        assert!(why.unwrap().text.contains("from some point on only slow ones"));
        assert!(made.verdict.text.contains("unknown"), "{}", made.verdict.text);
        assert_eq!((made.totals.iops, made.totals.latencies.service.count), (0.0, 0));
        let sets = made.ops.values().chain([&made.totals]);
        assert!(sets.flat_map(|t| &t.latencies.service.percentiles).all(|p| p.ns.is_none()));
        assert!(!made.outliers[&OpKind::Read].is_empty());
        for wrong in ["exact", "nothing lost", "0 IOPS", "come from histograms", "unresolved"] {
            assert!(!report.text.contains(wrong), "{wrong}: {}", report.text);
        }
    }
}

#[test]
fn ceilings_are_answered_with_what_they_need() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    edit(&path, |m| {
        let ceiling = |ceiling: &str, at: &str| {
            taillight_core::plan::Ceiling::new(ceiling.parse().unwrap(), at.parse().unwrap())
        };
        m.plan.qos.ceilings =
            vec![ceiling("1s", "99.9"), ceiling("90us", "99"), ceiling("1s", "99.99999")];
    });
    let made = summary(&path);
    let status: Vec<_> = made.qos.iter().map(|q| q.status).collect();
    assert_eq!(status, [QosStatus::Pass, QosStatus::Fail, QosStatus::Undecided]);
    assert!(made.qos[2].needs >= Some(36_888_793), "{:?}", made.qos[2]);
    // The answer stands before the figures, in a word of its own.
    assert_eq!(made.verdict.status, VerdictStatus::Warned);
    assert_eq!(made.verdict.reasons[0].code, "ceiling_failed");
    assert!(made.verdict.text.starts_with("Missed: "), "{}", made.verdict.text);
    assert!(report(&path).text.contains("\nCeiling missed: "));
    edit(&path, |m| {
        m.plan.qos.ceilings.remove(1);
    });
    let made = report(&path);
    assert!(made.text.contains("\nCeiling undecided: "), "{}", made.text);
}

#[test]
fn the_page_needs_no_network_and_escapes_names() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    let evil = "</script><img src=http://x/ onerror=alert(1)>";
    edit(&path, |m| {
        m.plan.run.name = evil.into();
        m.plan.workloads[0].name = evil.into();
        m.command = evil.into();
        m.run_id = evil.into();
        m.environment.insert(evil.into(), evil.into());
    });
    let made = report(&path);
    let page = fs::read_to_string(made.html.unwrap()).unwrap();
    assert!(!page.contains("<img"), "names stay text");
    let library = page.find("id=\"plotly\">").unwrap();
    let (before, rest) = page.split_at(library);
    let after = rest.split_once("</script>").unwrap().1;
    for part in [before, after] {
        for bad in
            ["src=\"http", "src='http", "href=\"http", "href='http", "url(http", "@import", "<link"]
        {
            assert!(!part.contains(bad), "{bad}");
        }
    }
    assert!(before.contains("Content-Security-Policy\" content=\"default-src 'none'"));
    assert_eq!(page.matches("<script src").count(), 0);
    let markdown = fs::read_to_string(path.join("report.md")).unwrap();
    let outside_fences: String = markdown.split("```").step_by(2).collect();
    assert!(!outside_fences.contains("<img"));
}

#[test]
fn several_runs_share_their_charts_and_keep_their_names() {
    let root = tempfile::tempdir().unwrap();
    let first = written(root.path(), "a", &sample());
    let second = written(root.path(), "b", &Sample { seed: 11, ..sample() });
    let output = root.path().join("both.html");
    let options = ReportOptions { output: Some(output.clone()), ..ReportOptions::default() };
    let made = make(&[first, second], &options, &mut |_| true).unwrap();
    assert_eq!(made.summaries.len(), 2);
    let page = fs::read_to_string(&output).unwrap();
    for label in ["</span>a</a>", "</span>b</a>"] {
        assert!(page.contains(label), "runs of one name are told apart by their directories");
    }
    assert!(page.len() < 4_000_000, "{}", page.len());
    assert!(made.text.contains("p99.9"));
    assert!(!root.path().join("report.md").exists(), "an .html output is the page alone");
}

/// A copy of a traced run of a released version.
fn traced(root: &Path, name: &str) -> PathBuf {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../formats/v1-rocksdb-traced");
    let path = root.join(name);
    fs::create_dir(&path).unwrap();
    for file in fs::read_dir(kept).unwrap().flatten() {
        fs::copy(file.path(), path.join(file.file_name())).unwrap();
    }
    path
}

/// What stands between these two, wherever they are.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(after)?.0)).collect()
}

/// `2026-11-27` is not shown as "11-27 (2026)".
#[test]
fn only_directories_of_a_series_are_renamed() {
    let root = tempfile::tempdir().unwrap();
    let names = ["2026-11-27", "4-disks"];
    let runs = names.map(|name| written(root.path(), name, &sample()));
    let title = || {
        let output = root.path().join("both.html");
        let options = ReportOptions { output: Some(output.clone()), ..ReportOptions::default() };
        make(&runs, &options, &mut |_| true).unwrap();
        let page = fs::read_to_string(&output).unwrap();
        between(&page, "<h1>", "</h1>")[0].to_owned()
    };
    assert_eq!(title(), "2 runs: 2026-11-27, 4-disks");
    fs::write(root.path().join(names::SERIES), "{}").unwrap();
    assert_eq!(title(), "2 runs: 11 27 (2026), disks (4)");
}

/// A page of ten runs, eight of them traced, without the plotting library.
fn page_of_ten() -> String {
    let root = tempfile::tempdir().unwrap();
    let mut runs: Vec<PathBuf> =
        (0..8).map(|n| traced(root.path(), &format!("traced-{n}"))).collect();
    runs.push(written(root.path(), "plain-8", &sample()));
    runs.push(written(root.path(), "plain-9", &Sample { seed: 11, ..sample() }));
    let output = root.path().join("ten.html");
    let options = ReportOptions { output: Some(output.clone()), ..ReportOptions::default() };
    make(&runs, &options, &mut |_| true).unwrap();
    let page = fs::read_to_string(&output).unwrap();
    assert!(page.len() < 4_000_000, "{}", page.len());
    page.split_once("id=\"plotly\">").unwrap().0.to_owned()
}

#[test]
fn ten_runs_are_first_compared_and_then_shown_one_by_one() {
    let page = page_of_ten();
    let mut sections = page.split("<details class=\"card long run\"");
    let shared = sections.next().unwrap();
    let places = [
        "id=\"answer\"",
        "id=\"cards\"",
        "<nav ",
        "<section class=\"chart\" id=\"tail\">",
        "<section class=\"chart\" id=\"holders\">",
        "<section class=\"chart\" id=\"distribution\">",
        "<section class=\"chart\" id=\"throughput-time\">",
        "<caption>Verdicts</caption>",
        "<h2 id=\"runs\">",
    ];
    let at: Vec<usize> = places.iter().map(|place| shared.find(place).unwrap()).collect();
    assert!(at.is_sorted(), "{at:?}");
    assert!(!shared.contains("Why the tail is slow") && !shared.contains("<h3>At "));
    // Figures that are open leave room for the tables in 12,000 pixels.
    let open = between(shared, "<section class=\"chart\"", "</section>");
    let open = open.iter().filter(|section| !section.contains("<details"));
    let high: usize = open
        .map(|section| {
            let high = between(section, "style=\"height:", "px");
            let high: usize = high.iter().map(|px| px.parse::<usize>().unwrap()).sum();
            // Two beside each other.
            if section.contains("figures halves") { high / 2 } else { high }
        })
        .sum();
    assert!((1..9_000).contains(&high), "{high} px of figures");
    // Everything about a run is in its own section, which is closed.
    let sections: Vec<&str> = sections.collect();
    assert_eq!(sections.len(), 10);
    for (n, section) in sections.iter().enumerate() {
        assert!(section.starts_with(&format!(" id=\"run{n}\"><summary>")), "{section:.99}");
        let (own, _) = section.rsplit_once("</details>").unwrap();
        assert_eq!(own.matches("<details").count(), own.matches("</details>").count(), "{n}");
        assert_eq!(own.contains("Why the tail is slow"), n < 8, "{n}");
        assert!(own.contains("Repeat this run") && !own.contains("class=\"plot\""), "{n}");
    }
    // Every traced run is in the table of layers, each with its colour.
    let holders = between(shared, "id=\"holders\">", "</section>")[0];
    assert_eq!(holders.matches("<td><a href=\"#run").count(), 8);
    assert!(holders.contains("plain-8, plain-9."), "{holders}");
    assert!(!between(holders, "<th scope=\"col\"><span class=\"chip\"", "</th>").is_empty());
}

#[test]
fn the_contents_of_ten_runs_name_every_part_in_its_order() {
    let page = page_of_ten();
    let ids = between(&page, " id=\"", "\"");
    for id in &ids {
        assert_eq!(ids.iter().filter(|other| *other == id).count(), 1, "{id}");
    }
    let links = between(&page, " href=\"#", "\"");
    assert!(links.iter().all(|link| ids.contains(link)), "{links:?}");
    let (shared, _) = page.split_once("<h2 id=\"runs\">").unwrap();
    let mut parts = between(shared, "<section class=\"chart\" id=\"", "\"");
    parts.push("runs");
    let contents = between(&page, "<nav ", "</nav>")[0];
    assert_eq!(between(contents, " href=\"#", "\""), parts);
}

#[test]
fn work_can_be_stopped() {
    let root = tempfile::tempdir().unwrap();
    let path = written(root.path(), "run", &sample());
    let stopped = make(&[path], &ReportOptions::default(), &mut |_| false);
    assert!(stopped.is_err());
}
