//! Eight ways to read a file are operations that are watched, and what a limit holds back is told as that.

use crate::watch_waits::WatchedProgram;

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
fn eight_ways_to_read_are_seen_and_led_to_the_limit_behind_them() {
    let name = "eight_ways_to_read_are_seen_and_led_to_the_limit_behind_them";
    let words = ["data", "copy"];
    let Some(WatchedProgram { lines, .. }) = WatchedProgram::run(name, "calls", &words) else {
        return;
    };
    // Of more than 20 in a second, as after one in which the watch had no CPU, the slowest alone have lines.
    let least = if lines.contains("more slow operations") { 1 } else { 3 };
    for (thread, call) in WAYS {
        let of = |line: &&str| {
            let mut words = line.split_whitespace().skip(1);
            let who = words.next().is_some_and(|who| who.starts_with(&format!("{thread}[")));
            who && words.collect::<Vec<_>>().join(" ").starts_with(call)
        };
        let told: Vec<&str> = lines.lines().filter(of).collect();
        let right = told.iter().filter(|line| line.contains(" held back")).count();
        // On a busy machine a wait for a CPU may be most of one.
        assert!(right >= least && right * 2 > told.len(), "{thread}: {told:?}\n{lines}");
    }
}
