//! Command line and control group of the threads that events name.
//!
//! What it is: looked up once for each thread, soon after its first event, and only where `/proc` still has the
//! thread that the event saw: the same numbers, name and begin. What it is not: a guess; a thread that has ended,
//! or runs another program by then, has neither. (A program that was replaced by one of the same name since the
//! event is not told from it.)

use std::collections::BTreeMap;
use std::sync::Arc;

use taillight_machine::Sys;

use super::layout::{self, ThreadSeen};

/// Threads looked up at most: those of a busy machine for days, in some MiB.
const THREADS_MAX: usize = 16_384;
/// Bytes of a command line that are kept.
const COMMAND_MAX: usize = 256;
/// A tick of `/proc/PID/stat`, ns, on every Linux that runs this.
const TICK_NS: u64 = 10_000_000;
/// Words of an argument that may hold a secret.
const SECRETS: [&str; 6] = ["pass", "secret", "token", "key", "auth", "cred"];
const HIDDEN: &str = "[hidden]";

/// What is known of a thread's process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    pub command: Option<Arc<str>>,
    pub cgroup: Option<Arc<str>>,
}

/// Threads that events named.
#[derive(Debug, Default)]
pub struct SeenThreads(BTreeMap<ThreadSeen, ProcessFacts>);

impl SeenThreads {
    /// Looks a thread up, once.
    pub fn note(&mut self, seen: &ThreadSeen, sys: &Sys) {
        if seen.tid == 0 || self.0.len() >= THREADS_MAX || self.0.contains_key(seen) {
            return;
        }
        self.0.insert(*seen, look_up(seen, sys).unwrap_or_default());
    }

    pub fn get(&self, seen: &ThreadSeen) -> ProcessFacts {
        self.0.get(seen).cloned().unwrap_or_default()
    }
}

/// None where another thread, or none, has the numbers, before or after.
fn look_up(seen: &ThreadSeen, sys: &Sys) -> Option<ProcessFacts> {
    let place = format!("proc/{}", seen.pid);
    let stat = format!("{place}/task/{}/stat", seen.tid);
    let read = |name: &str| std::fs::read(sys.path(name)).ok();
    let still = || is_of(&String::from_utf8_lossy(&read(&stat)?), seen).then_some(());
    still()?;
    let command = command(&read(&format!("{place}/cmdline")).unwrap_or_default());
    let groups = read(&format!("{place}/cgroup")).unwrap_or_default();
    still()?;
    Some(ProcessFacts { command, cgroup: cgroup(&String::from_utf8_lossy(&groups)) })
}

/// Whether a stat file is that of the thread that was seen. Threads of work queues have longer names there.
fn is_of(stat: &str, seen: &ThreadSeen) -> bool {
    let fields = || {
        let (name, rest) = stat.rsplit_once(')')?;
        let start: u64 = rest.split_whitespace().nth(19)?.parse().ok()?;
        Some((name.split_once('(')?.1.to_owned(), start))
    };
    let own = layout::name(&seen.comm).unwrap_or_default();
    fields().is_some_and(|(name, start)| {
        let longer = own.starts_with("kworker/") && name.starts_with(&own);
        (name == own || longer) && start == seen.start / TICK_NS
    })
}

/// A command line, its words separated by spaces and cut; those that may hold a secret are hidden. None of a
/// thread of the kernel.
fn command(bytes: &[u8]) -> Option<Arc<str>> {
    let text = String::from_utf8_lossy(bytes);
    let mut hide_next = false;
    let words: Vec<String> = text
        .trim_end_matches('\0')
        .split('\0')
        .enumerate()
        .map(|(i, word)| {
            let hidden = std::mem::take(&mut hide_next);
            let small = word.to_lowercase();
            let names = i > 0 && SECRETS.iter().any(|s| small.contains(s));
            let login = word.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
            match word.split_once('=').filter(|_| names) {
                _ if hidden || login => HIDDEN.to_owned(),
                Some((name, _)) => format!("{name}={HIDDEN}"),
                None => {
                    hide_next = names && word.starts_with('-');
                    word.to_owned()
                }
            }
        })
        .collect();
    let mut line = words.join(" ");
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
    use super::*;
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
            let mut threads = SeenThreads::default();
            threads.note(seen, &sys);
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

    #[test]
    fn secrets_of_other_programs_are_not_kept() {
        let of = |words: &str| command(words.as_bytes()).map(|c| c.to_string()).unwrap_or_default();
        assert_eq!(of("tool\0--password\0hunter2\0x\0"), "tool --password [hidden] x");
        assert_eq!(of("tool\0--api-key=abc\0"), "tool --api-key=[hidden]");
        assert_eq!(of("curl\0https://me:pw@host/\0"), "curl [hidden]");
        assert_eq!(of("tar\0cf\0-\0/home"), "tar cf - /home");
        assert_eq!(of(&"ä".repeat(300)).len(), COMMAND_MAX + 3);
        assert_eq!(command(b""), None);
    }
}
