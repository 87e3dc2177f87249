//! A loop device over a file on the machine's disk, followed to the bottom: the time in the loop
//! device is split into its own, the lower queue and the lower device; and one whose requests a limit
//! holds back. Needs root; else it skips.

use crate::common::skipped;
use crate::common::traced::{Run, TestDisk, limited_reads, open_place};
use serde_json::Value;
use taillight_lab::cleanup::Undo;

const NAME: &str = "a_loop_device_over_a_file";

/// A traced run on a loop device; none, and a printed reason, where that cannot be.
fn explained(direct: bool, words: &str) -> Option<(Value, String)> {
    let disk = TestDisk::new(NAME, 64, direct)?;
    let dir = open_place();
    let words = format!(
        "--driver file --path {} --bs 4KiB --direct --ops 3000 --set trace.mode=all \
         --set trace.threshold=1us --set target.destroy=true --destroy {} {words}",
        disk.device, disk.device
    );
    let (value, text, _) = Run::start(dir.path(), &["env"], &words).explained();
    if value["rung"] != "bpf" {
        eprintln!("skipped: {NAME}: no trace programs here");
        return None;
    }
    Some((value, text))
}

fn phase(io: &Value, name: &str) -> u64 {
    io["phases"][name].as_u64().unwrap_or(0)
}

/// Nearly every I/O has time on the lower device, and the phases of each add up to its service time.
fn followed(value: &Value, text: &str) {
    let ios = value["ios"].as_array().expect("a list");
    assert!(ios.len() >= 2900, "{} I/Os", ios.len());
    let split = ios.iter().filter(|io| phase(io, "lower_device") > 0).count();
    assert!(split * 100 >= ios.len() * 95, "{split} of {}\n{text}", ios.len());
    for io in ios {
        let phases = io["phases"].as_object().expect("phases");
        let sum: u64 = phases.values().filter_map(Value::as_u64).sum();
        let stamp = |name: &str| io[name].as_i64().expect("a stamp");
        let service = stamp("complete_ns") - stamp("submit_ns");
        assert_eq!(i64::try_from(sum).expect("small"), service, "{io}");
    }
    // The disk is what such a read waits for, wherever the loop device's worker was.
    let sum = |name: &str| ios.iter().map(|io| phase(io, name)).sum::<u64>();
    let (low, all) = (
        sum("lower_device") + sum("lower_queue"),
        sum("lower_device") + sum("lower_queue") + sum("device"),
    );
    assert!(low > 0 && all > low, "{text}");
}

#[test]
fn a_loop_device_over_a_file() {
    for words in [
        "--rw randread --set target.options.engine=sync",
        "--rw randwrite --set target.options.engine=sync",
        "--rw randread --set target.options.engine=uring --depth 8",
    ] {
        let Some((value, text)) = explained(true, words) else {
            return;
        };
        followed(&value, &text);
    }
}

#[test]
fn a_loop_device_that_reads_through_the_page_cache() {
    // Its worker's reads go through the page cache of the lower file system and do not lead back
    // to the I/O: all of it is the loop device's time.
    let words = "--rw randread --set target.options.engine=sync";
    let Some((value, text)) = explained(false, words) else {
        return;
    };
    let ios = value["ios"].as_array().expect("a list");
    for io in ios {
        assert_eq!(phase(io, "lower_device"), 0, "{io}");
    }
    // A thread of the run that must make room in memory waits for the page cache indeed: rare, and the
    // machine's. The loop device's reads are all I/Os.
    let blamed = |io: &&Value| {
        let layer = io["layer"].as_str().expect("a name");
        ["file_system", "page_cache", "throttle"].contains(&layer)
    };
    let blamed: Vec<&Value> = ios.iter().filter(blamed).collect();
    assert!(blamed.len() * 100 <= ios.len(), "{blamed:?}");
    assert!(
        ios.iter().filter(|io| phase(io, "device") > 0).count() * 100 >= ios.len() * 95,
        "{text}"
    );
}

/// Completions take all stamps of such a run, but a part that was held back is seen when it is queued as well.
#[test]
fn a_request_of_a_ring_that_a_limit_holds_back_is_seen_whole() {
    let name = "a_request_of_a_ring_that_a_limit_holds_back_is_seen_whole";
    let Some(disk) = TestDisk::new(name, 64, true) else { return };
    let mut undo = Undo::default();
    let number = ["lsblk", "-dno", "MAJ:MIN", &disk.device];
    let Some(group) = limited_reads(name, &mut undo, "taillight-lab-ring", &number, 60) else {
        return;
    };
    let dir = open_place();
    let words = format!(
        "--driver file --path {} --bs 4KiB --direct --runtime 4s --rw randread --depth 8 \
         --set target.options.engine=uring --set trace.mode=outliers \
         --set trace.threshold=20ms",
        disk.device
    );
    let within = group.within();
    let before: Vec<&str> = within.iter().map(String::as_str).collect();
    let (value, text, _) = Run::start(dir.path(), &before, &words).explained();
    if skipped(name, (value["rung"] != "bpf").then(|| "no trace programs here".to_owned())) {
        return;
    }
    let ios = value["ios"].as_array().expect("a list");
    let held = ios.iter().filter(|io| io["layer"] == "throttle").count();
    let unsplit = value["coverage"]["unsplit"].as_u64().expect("a count") as usize;
    assert!(held >= 50 && unsplit * 5 <= held, "{unsplit} in part, {held} held back\n{text}");
}
