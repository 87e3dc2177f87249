//! Pauses of the JVM: the times at which it stops every thread of its own, from its log of safepoints, on our clock.
//! Collections say in the same log what they were and what asked for them.

use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use taillight_core::{Error, Result};

use crate::contract::TargetPause;

/// Most pauses of a load that are kept; each takes some 100 B.
const MOST: usize = 200_000;

/// The log, which has no name any more, so that nothing is left of it.
static LOG: Mutex<Option<PauseLog>> = Mutex::new(None);

/// The log, and what was read of it.
#[derive(Default)]
struct PauseLog {
    file: Option<File>,
    /// The last line, as long as its end is missing.
    rest: String,
    reader: LogReader,
    /// A part could not be read.
    lost: bool,
}

/// A directory of nobody else's: the VM, which may be root's, follows a link that stands where its log is to be.
fn home() -> &'static PathBuf {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let random = RandomState::new().hash_one(std::process::id());
        std::env::temp_dir().join(format!("taillight-jvm-{random:016x}"))
    })
}

/// The argument by which the VM writes its log, in one file, with times of CLOCK_MONOTONIC.
pub fn argument() -> String {
    format!("-Xlog:gc,safepoint:file=\"{}\":timenanos:filecount=0", home().join("log").display())
}

/// Makes room for the log of a VM that is to be started. Errors: `Unavailable` where no directory can be made.
pub fn prepare() -> Result<()> {
    DirBuilder::new().mode(0o700).create(home()).map_err(|e| {
        Error::unavailable("no directory for the log of the JVM can be made")
            .with("path", home().display())
            .source(e)
            .hint("set TMPDIR to a directory that can be written")
    })
}

/// Takes the log of the VM that was just started, or was not.
pub fn begin() {
    let file = File::open(home().join("log")).ok();
    let _ = std::fs::remove_dir_all(home());
    let log = PauseLog { lost: file.is_none(), file, ..PauseLog::default() };
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

/// Forgets the pauses so far, as a load begins: they are of an earlier one, or of opening the target.
pub fn forget() {
    with_log(|log| log.reader.forget());
}

/// Pauses since the load began; `None` where the log cannot be read, or parts of it, or where they are too many.
pub fn all() -> Option<Vec<TargetPause>> {
    with_log(|log| (!log.lost && !log.reader.full).then(|| log.reader.all())).flatten()
}

/// How many there were since the VM was started, and how long all together, as samples; none where that is not known.
pub fn samples() -> Vec<(&'static str, f64)> {
    let sums = with_log(|log| {
        let (count, ns) = (log.reader.count as f64, log.reader.paused_ns as f64);
        (!log.lost).then_some([("jvm_pauses_total", count), ("jvm_paused_ns_total", ns)])
    });
    sums.flatten().into_iter().flatten().collect()
}

/// The log as it is now, with what the VM wrote since the last look.
fn with_log<T>(look: impl FnOnce(&mut PauseLog) -> T) -> Option<T> {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let log = log.as_mut()?;
    log.read_appended();
    Some(look(log))
}

impl PauseLog {
    fn read_appended(&mut self) {
        let mut more = Vec::new();
        let read = self.file.as_mut().map(|file| file.read_to_end(&mut more));
        self.lost |= !matches!(read, Some(Ok(_)));
        let text = std::mem::take(&mut self.rest) + &String::from_utf8_lossy(&more);
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        text[..whole].lines().for_each(|line| self.reader.line(line));
        text[whole..].clone_into(&mut self.rest);
    }
}

/// The pauses in words: how many, the longest with what it was, all together.
pub fn describe() -> String {
    match all() {
        Some(pauses) => in_words(&pauses),
        None if with_log(|log| log.reader.full) == Some(true) => {
            format!("more than {MOST} times: which I/Os met one is not told")
        }
        None => "an unknown number of times: its log cannot be read".to_owned(),
    }
}

fn in_words(pauses: &[TargetPause]) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    match pauses.iter().max_by_key(|pause| pause.ns()) {
        None => "0 times".to_owned(),
        Some(longest) => format!(
            "{} times, at most for {:.2} ms ({}), for {:.2} ms in all",
            pauses.len(),
            ms(longest.ns()),
            longest.what,
            ms(pauses.iter().map(TargetPause::ns).sum())
        ),
    }
}

/// Makes pauses of lines. Since Java 13 a pause is one line behind its end:
/// `Safepoint "G1CollectFull", Time since last: N ns, Reaching safepoint: N ns, ..., Total: N ns`; before, a line says
/// what it is and another one at its end how long it took. Collections in it come before that.
///
/// A line is stamped when it is logged: threads run again by then, and may have taken the CPU of the one that logs.
/// Since Java 13 lengths and distances are exact, so that the least delay of all lines tells when each pause ended.
#[derive(Default)]
struct LogReader {
    /// Since the load began; times are behind `zero`.
    pauses: Vec<TargetPause>,
    /// Some of them were left out, being more than `MOST`.
    full: bool,
    /// How many there ever were, and how long all together, ns.
    count: u64,
    paused_ns: u64,
    /// The end of the last one behind `zero`: all lengths and distances so far.
    chain: i64,
    /// Where the chain begins, by the line that was logged with the least delay; none before Java 13, where times are
    /// those of the log.
    zero: Option<i64>,
    /// What the collections since the last pause were.
    collections: Vec<String>,
    /// Before Java 13: what the pause is for that is under way.
    entered: String,
}

impl LogReader {
    fn line(&mut self, line: &str) {
        let Some((at, said)) = stamped(line) else { return };
        if let Some(rest) = said.strip_prefix("Safepoint \"") {
            let ns = |name: &str| {
                let after = rest.rsplit_once(name)?.1;
                after.split(' ').next()?.trim_end_matches("ns").parse::<i64>().ok()
            };
            let Some((total, what)) = ns("Total: ").zip(rest.split('"').next()) else { return };
            let start = ns("Time since last: ").map_or_else(
                || at.saturating_sub(total).saturating_sub(self.zero.unwrap_or(at - total)),
                |since| self.chain.saturating_add(since),
            );
            self.chain = start.saturating_add(total);
            let zero = at.saturating_sub(self.chain);
            self.zero = Some(self.zero.map_or(zero, |least| least.min(zero)));
            self.pause((start, ns("Reaching safepoint: "), self.chain), what);
        } else if let Some(rest) = said.strip_prefix("Entering safepoint region: ") {
            rest.trim().clone_into(&mut self.entered);
        } else if said.starts_with("Total time for which application threads were stopped: ") {
            let ns = |name: &str| {
                let after = said.split_once(name)?.1.split(' ').next()?;
                Some((after.replace(',', ".").parse::<f64>().ok()? * 1e9) as i64)
            };
            let Some(total) = ns("were stopped: ") else { return };
            let what = std::mem::take(&mut self.entered);
            self.pause((at - total, ns("Stopping threads took: "), at), &what);
        } else if let Some(what) = collection(said) {
            self.collections.push(what);
        }
    }

    /// The chain goes on: how late lines are logged is known better with each.
    fn forget(&mut self) {
        self.pauses.clear();
        self.full = false;
    }

    /// The pauses on our clock.
    fn all(&self) -> Vec<TargetPause> {
        let at = |ns: i64| ns.saturating_add(self.zero.unwrap_or(0));
        let on_clock = |pause: &TargetPause| TargetPause {
            start_ns: at(pause.start_ns),
            stopped_ns: at(pause.stopped_ns),
            end_ns: at(pause.end_ns),
            what: pause.what.clone(),
        };
        self.pauses.iter().map(on_clock).collect()
    }

    /// A pause of these times (begin, until all threads stood, end); `what`: the VM's name of the operation.
    fn pause(&mut self, (start_ns, reaching, end_ns): (i64, Option<i64>, i64), what: &str) {
        // The thread that logs a collection logs its pause next.
        let mut inside = std::mem::take(&mut self.collections);
        inside.dedup();
        let what = if inside.is_empty() { what.to_owned() } else { inside.join(", then ") };
        let stopped_ns = (start_ns + reaching.unwrap_or(0)).clamp(start_ns, end_ns);
        let pause = TargetPause { start_ns, stopped_ns, end_ns, what };
        self.count += 1;
        self.paused_ns += pause.ns();
        match self.pauses.len() < MOST {
            true => self.pauses.push(pause),
            false => self.full = true,
        }
    }
}

/// The stamp in front of a line, and what it says.
fn stamped(line: &str) -> Option<(i64, &str)> {
    let (at, said) = line.strip_prefix('[')?.split_once("ns]")?;
    Some((at.parse().ok()?, said.trim_start()))
}

/// Of `GC(3) Pause Full (System.gc()) 12M->2M(64M) 6.400ms` what it was: `Pause Full (System.gc())`.
fn collection(said: &str) -> Option<String> {
    let rest = said.strip_prefix("GC(")?.split_once(") ")?.1;
    let words = rest.split(' ').take_while(|word| !word.contains("->") && !word.ends_with("ms"));
    let what: Vec<&str> = words.collect();
    (rest.starts_with("Pause ") && rest.ends_with("ms")).then(|| what.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(log: &str) -> Vec<TargetPause> {
        let mut reader = LogReader::default();
        log.lines().for_each(|line| reader.line(line));
        reader.all()
    }

    fn pause(start_ns: i64, stopped_ns: i64, end_ns: i64, what: &str) -> TargetPause {
        TargetPause { start_ns, stopped_ns, end_ns, what: what.to_owned() }
    }

    #[test]
    fn a_pause_has_the_times_of_the_safepoint_and_the_name_of_the_collection_in_it() {
        let log = "[8000000ns] GC(1) Pause Young (System.gc()) 13M->12M(64M) 2.400ms\n\
                   [9000000ns] GC(2) Pause Full (System.gc()) 12M->2M(64M) 1.400ms\n\
                   [9000500ns] Safepoint \"G1CollectFull\", Time since last: 2000000 ns, Reaching safepoint: 20000 ns, \
                   Cleanup: 1 ns, At safepoint: 1 ns, Total: 6500000 ns\n[9000600ns] GC(3) Concurrent Mark 7.1ms\n\
                   [9900000ns] Safepoint \"ICBufferFull\", Time since last: 799500 ns, Reaching safepoint: 30 ns, At safepoint: \
                   1 ns, Leaving safepoint: 2 ns, Total: 100000 ns, Threads: 0 runnable, 12 total\nno stamp\n[1ns\n";
        let two = "Pause Young (System.gc()), then Pause Full (System.gc())";
        let full = pause(2_500_500, 2_520_500, 9_000_500, two);
        let other = pause(9_800_000, 9_800_030, 9_900_000, "ICBufferFull");
        assert_eq!(read(log), [full.clone(), other.clone()]);
        let said = format!("2 times, at most for 6.50 ms ({two}), for 6.60 ms in all");
        assert_eq!(in_words(&[full, other]), said);
        assert_eq!(in_words(&[]), "0 times");
    }

    #[test]
    fn a_line_that_is_logged_late_does_not_shift_its_pause() {
        let line = |at: i64, since: i64| {
            format!(
                "[{at}ns] GC(1) Pause Full (System.gc()) 12M->2M(64M) 0.100ms\n[{at}ns] Safepoint \"F\", \
                 Time since last: {since} ns, Reaching safepoint: 10 ns, At safepoint: 1 ns, Total: 100 ns\n"
            )
        };
        // Ends at 1000, 2000 and 3000, logged late by 5000, 4005 and 2.
        let log = line(6_000, 900) + &line(6_005, 900) + &line(3_002, 900);
        let ends = |log: &str| read(log).iter().map(|p| (p.start_ns, p.end_ns)).collect::<Vec<_>>();
        assert_eq!(ends(&log), [(902, 1002), (1902, 2002), (2902, 3002)]);
        assert!(read(&log).iter().all(|pause| pause.what == "Pause Full (System.gc())"));
        assert_eq!(ends(&line(6_000, 900)), [(5_900, 6_000)], "of one alone nothing else is known");
    }

    #[test]
    fn a_load_has_its_own_pauses_and_totals_go_on() {
        let mut reader = LogReader::default();
        let mut line = |at: i64| {
            reader.line(&format!("[{at}ns] Safepoint \"F\", Time since last: 90 ns, Total: 10 ns"));
        };
        line(1_000);
        line(1_105);
        reader.forget();
        assert!(reader.all().is_empty());
        reader.line("[1250ns] Safepoint \"F\", Time since last: 90 ns, Total: 10 ns");
        assert_eq!(reader.all(), [pause(1_190, 1_190, 1_200, "F")], "with what was learnt before");
        assert_eq!((reader.count, reader.paused_ns), (3, 30));
        (0..MOST).for_each(|_| reader.pause((0, None, 1), "F"));
        assert!(reader.full && reader.pauses.len() == MOST && reader.count == 3 + MOST as u64);
        reader.forget();
        assert!(!reader.full);
    }

    #[test]
    fn java_11_says_it_in_two_lines() {
        let log = "[5000ns] Entering safepoint region: G1CollectForAllocation\n\
                   [8000000ns] GC(4) Pause Young (Normal) (G1 Evacuation Pause) 24M->3M(64M) 2,500ms\n\
                   [8000100ns] Leaving safepoint region\n\
                   [8000200ns] Total time for which application threads were stopped: 0.0030000 seconds, Stopping \
                   threads took: 0.0000500 seconds\n\
                   [9000000ns] Entering safepoint region: RevokeBias\n\
                   [9100000ns] Total time for which application threads were stopped: 0.0001000 seconds, Stopping \
                   threads took: 0.0000000 seconds\n";
        let young = "Pause Young (Normal) (G1 Evacuation Pause)";
        let first = pause(5_000_200, 5_050_200, 8_000_200, young);
        assert_eq!(read(log), [first, pause(9_000_000, 9_000_000, 9_100_000, "RevokeBias")]);
    }

    #[test]
    fn a_line_that_the_vm_has_not_ended_is_read_with_its_end() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        std::fs::write(&path, "[10ns] Safepoint \"Cleanup\", Reaching safepoint: 1 ns, To")
            .unwrap();
        let file = File::open(&path).ok();
        let mut log = PauseLog { file, ..PauseLog::default() };
        log.read_appended();
        assert!(log.reader.pauses.is_empty());
        let mut more = File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut more, b"tal: 5 ns\n[20ns] ").unwrap();
        log.read_appended();
        assert_eq!(log.reader.all(), [pause(5, 6, 10, "Cleanup")]);
        assert!(!log.lost && log.rest == "[20ns] ");
    }
}
