//! Every way to read a file is an operation that is watched, and pages that a limit holds back are told as that.

use std::process::Command;

use crate::common::{binary, ended, skipped};
use crate::watch_waits::{place_with, slow_reads};
use taillight_lab::cleanup::{Undo, tool};

/// Thread and call.
const WAYS: [(&str, &str); 8] = [
    ("pread64", "pread64"),
    ("sendfile", "sendfile"),
    ("splice", "splice"),
    ("copy_file_range", "copy_file_range"),
    ("preadv2", "preadv2"),
    ("after-readahead", "pread64"),
    ("io_submit", "io_submit"),
    ("page-fault", "page fault"),
];

#[test]
fn every_way_to_read_is_seen_and_led_to_the_limit_behind_it() {
    let name = "every_way_to_read_is_seen_and_led_to_the_limit_behind_it";
    let Some(dir) = place_with(name, "calls") else { return };
    let mut undo = Undo::default();
    let group = match slow_reads(&mut undo, dir.path()) {
        Ok(group) => group,
        Err(e) => {
            skipped(name, Some(e));
            return;
        }
    };
    std::fs::write(dir.path().join("data"), vec![7; 256 << 10]).expect("written");
    tool("sync", &["-f", &dir.path().to_string_lossy()]).expect("on the disk");
    let within = group.within();
    let out = Command::new(&within[0])
        .args(&within[1..])
        .arg(binary())
        .args(["watch", "--slower", "30ms", "--output", "out", "--", "./calls", "data", "copy"])
        .current_dir(dir.path())
        .output()
        .expect("it starts");
    let (_, err) = ended(&out, 0);
    for (thread, call) in WAYS {
        let of = |line: &&str| {
            let mut words = line.split_whitespace().skip(1);
            let who = words.next().is_some_and(|who| who.starts_with(&format!("{thread}[")));
            who && words.collect::<Vec<_>>().join(" ").starts_with(call)
        };
        let told: Vec<&str> = err.lines().filter(of).collect();
        let right = told.iter().filter(|line| line.contains(" held back")).count();
        // On a busy machine a wait for a CPU may be most of one.
        assert!(right >= 3 && right * 2 > told.len(), "{thread}: {told:?}\n{err}");
    }
}
