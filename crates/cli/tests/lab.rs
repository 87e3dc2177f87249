//! A short injection lab: faults with known truth beside traced runs, and what explain blames. The
//! whole lab is `cargo xtask lab`. Needs root, loop devices, FUSE and the controllers of version 1;
//! else it skips.

use std::collections::BTreeMap;

use crate::common::traced::lab;
use taillight_lab::cleanup::StopSignal;
use taillight_lab::faults::find;
use taillight_lab::score::Score;
use taillight_lab::setting::Setting;
use taillight_lab::trial;

/// Faults whose stages are quick to build and whose outliers are sure to come.
const SHORT: &[(&str, &str)] = &[
    ("clean", "sync"),
    ("cgroup-io", "sync"),
    ("slow-device", "uring"),
    ("slow-fuse", "uring"),
    ("freeze-ext4", "sync"),
    ("rt-hog", "sync"),
    ("stop", "uring"),
    ("evict", "sync"),
];
/// Strong enough to stand out on a busy machine, ms.
const MS: u64 = 100;
/// On a machine shared with others; the whole lab on a quiet one asks for more.
const RIGHT_PERCENT: u64 = 90;

#[test]
fn faults_are_blamed_on_their_layers() {
    if let Some(why) = trial::cannot() {
        eprintln!("skipped: faults_are_blamed_on_their_layers: {why}");
        return;
    }
    let taillight = assert_cmd::cargo::cargo_bin("taillight");
    let stop = StopSignal::install().expect("signal handlers");
    let lab = lab();
    let mut sum = Score::default();
    let (mut right, mut wrong) = (0, 0);
    for (name, engine) in SHORT {
        let fault = find(name).expect("a known fault");
        let again = || trial::trial(&stop, &taillight, fault, engine, MS, Setting::Clean, None);
        // A fault may find nothing in flight each time, as with a real-time thread and short pauses between I/Os.
        let nothing = |score: &Score| fault.layer != "none" && score.injected() == 0;
        let mut made = again();
        for _ in 0..2 {
            if made.as_ref().is_ok_and(nothing) {
                made = again();
            }
        }
        let score = match made {
            Ok(score) => score,
            // Controllers and file systems differ between machines; what fails says so.
            Err(e) if format!("{e:#}").contains("no control group") => {
                eprintln!("skipped: {name}: {e:#}");
                continue;
            }
            Err(e) => panic!("{name} {engine}: {e:#}"),
        };
        println!("{name} {engine}: {:?}; others {:?}", score.blamed, score.others);
        if fault.layer == "none" {
            assert_eq!(score.injected(), 0);
            continue;
        }
        assert!(score.injected() > 0, "{name}: no outlier was injected");
        right += score.right();
        wrong += score.wrong();
        let blamed: BTreeMap<String, u64> = score.blamed;
        for (layer, n) in blamed {
            *sum.blamed.entry(layer).or_default() += n;
        }
    }
    drop(lab);
    let all = sum.injected();
    println!("{right} of {all} right, {wrong} wrong");
    assert!(right * 100 >= all * RIGHT_PERCENT, "{right} of {all}: {:?}", sum.blamed);
}
