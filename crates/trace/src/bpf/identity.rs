//! Command line and control group of the threads that events name; the collectors of runs and of watching ask.
//!
//! Each thread is looked up once at most, soon after its first event, and only where `/proc` still has the thread that
//! the event saw: the same numbers and name, and the same begin to 10 ms. A thread that has ended by then, or runs a
//! program of another name, has neither. (One that runs another program of the same name has those of that program.)
//! Look-ups have a thread of their own: `/proc/PID/cmdline` takes locks and memory of that process, and hangs with it
//! while storage stalls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taillight_core::secret::masked_command;
use taillight_machine::Sys;
use taillight_machine::process::ProcessStat;

use super::layout::{self, ThreadSeen};
use super::look_ups::LookUps;

/// Threads looked up at most: those of a busy machine for days, in some MiB.
const THREADS_MAX: usize = 16_384;
/// Bytes of a command line that are kept.
const COMMAND_MAX: usize = 256;
/// A tick of `/proc/PID/stat`, ns, on every Linux that runs this.
const TICK_NS: u64 = 10_000_000;

/// What is known of a thread's process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    pub command: Option<Arc<str>>,
    pub cgroup: Option<Arc<str>>,
}

/// Threads that events named.
#[derive(Debug)]
pub struct SeenThreads {
    known: BTreeMap<ThreadSeen, ProcessFacts>,
    look_ups: LookUps<ThreadSeen, (ThreadSeen, ProcessFacts)>,
    /// Threads that are not looked up: the queue was full, or there were `THREADS_MAX` others.
    missed: u64,
    /// Those of `missed` that came after `THREADS_MAX` others, by number and begin: as many again at most.
    beyond: BTreeSet<(u32, u64)>,
}

impl SeenThreads {
    /// Starts the thread that looks up.
    pub fn begin(sys: Sys) -> SeenThreads {
        let find = move |seen: ThreadSeen| (seen, look_up(&seen, &sys).unwrap_or_default());
        SeenThreads {
            known: BTreeMap::new(),
            look_ups: LookUps::begin("trace-names", find),
            missed: 0,
            beyond: BTreeSet::new(),
        }
    }

    /// Has a thread looked up when it is noted first; never waits.
    pub fn note(&mut self, seen: &ThreadSeen) {
        if seen.tid == 0 || self.known.contains_key(seen) {
            return;
        }
        if self.known.len() >= THREADS_MAX {
            // Each thread is counted once, and none any more when `beyond` is full.
            let new = self.beyond.len() < THREADS_MAX && self.beyond.insert((seen.tid, seen.start));
            self.missed += u64::from(new);
            return;
        }
        self.known.insert(*seen, ProcessFacts::default());
        self.missed += u64::from(!self.look_ups.ask(*seen));
    }

    /// Takes what was looked up since.
    pub fn settle(&mut self) {
        self.known.extend(self.look_ups.settle());
    }

    /// Waits for answers, a second at most. Returns how many threads nobody looked up, or nobody has answered for yet.
    pub fn end(&mut self) -> u64 {
        self.known.extend(self.look_ups.end());
        self.missed + self.look_ups.unanswered
    }

    pub fn get(&self, seen: &ThreadSeen) -> ProcessFacts {
        self.known.get(seen).cloned().unwrap_or_default()
    }
}

/// None where another thread, or none, has the numbers, before or after.
fn look_up(seen: &ThreadSeen, sys: &Sys) -> Option<ProcessFacts> {
    let place = format!("proc/{}", seen.pid);
    let thread = format!("{}/task/{}", seen.pid, seen.tid);
    let read = |name: &str| std::fs::read(sys.path(name)).ok();
    let still = || is_of(&ProcessStat::of(sys, &thread)?, seen).then_some(());
    still()?;
    let command = command(&read(&format!("{place}/cmdline")).unwrap_or_default());
    let groups = read(&format!("{place}/cgroup")).unwrap_or_default();
    still()?;
    Some(ProcessFacts { command, cgroup: cgroup(&String::from_utf8_lossy(&groups)) })
}

/// Whether a stat is that of the thread that was seen. Threads of work queues have longer names there.
fn is_of(stat: &ProcessStat, seen: &ThreadSeen) -> bool {
    let (name, own) = (stat.name(), layout::name(&seen.comm).unwrap_or_default());
    let longer = own.starts_with("kworker/") && name.starts_with(&own);
    (name == own || longer) && stat.started() == Some(seen.start / TICK_NS)
}

/// A command line, its words separated by spaces and cut; those that may hold a secret are hidden. None of a
/// thread of the kernel.
fn command(bytes: &[u8]) -> Option<Arc<str>> {
    let text = String::from_utf8_lossy(bytes);
    let mut line = masked_command(text.trim_end_matches('\0').split('\0'));
    let cut = line.floor_char_boundary(COMMAND_MAX);
    if cut < line.len() {
        line.truncate(cut);
        line.push_str("...");
    }
    (!line.is_empty()).then(|| line.into())
}

/// One line for each hierarchy; the longest path says most, and `/` says nothing.
fn cgroup(groups: &str) -> Option<Arc<str>> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.filter(|path| path.len() > 1).max_by_key(|path| path.len()).map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bpf::look_ups::QUEUE;
    use crate::host::testing::put;

    fn seen(comm: &str, start: u64) -> ThreadSeen {
        let mut name = [0; 16];
        name[..comm.len()].copy_from_slice(comm.as_bytes());
        ThreadSeen { tid: 12, pid: 11, start, comm: name }
    }

    #[test]
    fn only_the_very_thread_has_a_command() {
        let home = tempfile::tempdir().unwrap();
        let sys = Sys::at(home.path());
        let stat = |name: &str, ticks: u64| {
            let text = format!("12 ({name}) R{} {ticks} 0", " 0".repeat(18));
            put(home.path(), "proc/11/task/12/stat", &text);
        };
        stat("ba)tch", 500);
        put(home.path(), "proc/11/cmdline", "/bin/batch\0--all\0");
        put(home.path(), "proc/11/cgroup", "4:cpu:/jobs\n0::/\n");
        let look = |seen: &ThreadSeen| {
            let mut threads = SeenThreads::begin(sys.clone());
            threads.note(seen);
            assert_eq!(threads.end(), 0);
            threads.get(seen)
        };
        let found = look(&seen("ba)tch", 5_009_999_999));
        assert_eq!(found.command.as_deref(), Some("/bin/batch --all"));
        assert_eq!(found.cgroup.as_deref(), Some("/jobs"));
        // The number is another thread's by now; or the thread runs another program.
        assert_eq!(look(&seen("ba)tch", 4_990_000_000)), ProcessFacts::default());
        assert_eq!(look(&seen("batch", 5_000_000_000)), ProcessFacts::default());
        stat("kworker/0:1-events", 500);
        assert!(look(&seen("kworker/0:1", 5_000_000_000)).cgroup.is_some());
        std::fs::remove_file(home.path().join("proc/11/task/12/stat")).unwrap();
        assert_eq!(look(&seen("kworker/0:1", 5_000_000_000)), ProcessFacts::default(), "ended");
    }

    /// A process whose memory waits for storage holds up whoever reads its command line.
    #[test]
    fn a_look_up_that_hangs_holds_nobody_up_and_is_counted() {
        let home = tempfile::tempdir().unwrap();
        let stat = format!("12 (x) R{} 500 0", " 0".repeat(18));
        put(home.path(), "proc/11/task/12/stat", &stat);
        let pipe = home.path().join("proc/11/cmdline");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (done, ended) = std::sync::mpsc::channel();
        let sys = Sys::at(home.path());
        std::thread::spawn(move || {
            let mut threads = SeenThreads::begin(sys);
            let hangs = seen("x", 5_000_000_000);
            threads.note(&hangs);
            for tid in 0..QUEUE as u32 + 10 {
                threads.note(&ThreadSeen { tid: tid + 100, ..hangs });
                threads.settle();
            }
            done.send((threads.end(), threads.get(&hangs))).unwrap();
        });
        let (unknown, facts) = ended.recv_timeout(Duration::from_secs(60)).expect("it goes on");
        assert_eq!((unknown, facts), (QUEUE as u64 + 11, ProcessFacts::default()));
        // Lets the thread go.
        drop(std::fs::OpenOptions::new().write(true).open(&pipe));
    }

    #[test]
    fn threads_beyond_what_is_kept_are_counted_once() {
        let home = tempfile::tempdir().unwrap();
        let mut threads = SeenThreads::begin(Sys::at(home.path()));
        threads.look_ups.questions = None;
        for round in 0..2 {
            for tid in 1..=THREADS_MAX as u32 + 5 {
                threads.note(&ThreadSeen { tid, ..seen("x", 0) });
            }
            assert_eq!(threads.missed, THREADS_MAX as u64 + 5, "{round}");
        }
    }

    #[test]
    fn secrets_of_other_programs_are_not_kept() {
        let of = |words: &str| command(words.as_bytes()).map(|c| c.to_string()).unwrap_or_default();
        assert_eq!(of("tool\0--password\0hunter2\0x\0"), "tool --password *** x");
        assert_eq!(of("tool\0--api-key=abc\0"), "tool --api-key=***");
        assert_eq!(of("curl\0https://me:pw@host/\0"), "curl https://***@host/");
        assert_eq!(of("mysql\0-phunter2\0db\0"), "mysql -p*** db");
        assert_eq!(of("redis-cli\0-a\0hunter2\0"), "redis-cli -a ***");
        assert_eq!(of("sh\0-c\0PGPASSWORD=hunter2 psql\0"), "sh -c PGPASSWORD=***");
        assert_eq!(of("tar\0cf\0-\0/home"), "tar cf - /home");
        assert_eq!(of(&"ä".repeat(300)).len(), COMMAND_MAX + 3);
        assert_eq!(command(b""), None);
    }
}
