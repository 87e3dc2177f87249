//! Pauses of the JVM: the times at which it stops every thread of its own, from its log of safepoints.

use std::fs::File;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// The log, which has no name any more, so that nothing is left of it.
static LOG: Mutex<Option<File>> = Mutex::new(None);

fn path() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("taillight-jvm-{}.log", std::process::id()))
}

/// The argument by which the VM writes its log, in one file, with times of CLOCK_MONOTONIC.
pub fn argument() -> String {
    format!("-Xlog:safepoint:file={}:timenanos:filecount=0", path().display())
}

/// Takes the log of the VM that was just started.
pub fn begin() {
    let file = File::open(path()).ok();
    let _ = std::fs::remove_file(path());
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = file;
}

/// Pauses since this was asked last, in words: how many, the longest, all together.
pub fn since() -> String {
    let mut text = String::new();
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let read = log.as_mut().map(|file| file.read_to_string(&mut text));
    match read {
        Some(Ok(_)) => words(&text),
        _ => "an unknown number of times: its log cannot be read".to_owned(),
    }
}

fn words(log: &str) -> String {
    let total = |line: &str| {
        let after = line.split_once("Safepoint \"")?.1.rsplit_once("Total: ")?.1;
        after.split(' ').next()?.trim_end_matches("ns").parse::<u64>().ok()
    };
    let all: Vec<u64> = log.lines().filter_map(total).collect();
    let ms = |ns: u64| ns as f64 / 1e6;
    match all.iter().max() {
        None => "0 times".to_owned(),
        Some(longest) => format!(
            "{} times, at most for {:.2} ms, for {:.2} ms in all",
            all.len(),
            ms(*longest),
            ms(all.iter().sum())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_those_of_the_log() {
        let log = "[5000ns] Safepoint \"G1CollectForAllocation\", Time since last: 9 ns, Reaching safepoint: 1 ns, \
                   Cleanup: 1 ns, At safepoint: 1 ns, Total: 6400000 ns\n[1ns] other Total: 7 ns\n\
                   [9000ns] Safepoint \"Cleanup\", Time since last: 9 ns, Total: 100000 ns\n";
        assert_eq!(words(log), "2 times, at most for 6.40 ms, for 6.50 ms in all");
        assert_eq!(words(""), "0 times");
    }
}
