//! The benchmark's own threads: CPU time, waits for a CPU (schedstat), waits for block I/O (delay
//! accounting).

use std::collections::BTreeMap;

use taillight_machine::Sys;
use taillight_machine::process::ProcessStat;

use super::{HostSource, SampleOutput};

const NAME: &str = "tasks";
/// Threads looked at; more would make a sample dear.
const THREADS_MAX: usize = 1024;
/// Ticks of `/proc/PID/stat` per second, on every Linux that runs this.
const TICKS: f64 = 100.0;

/// Counters of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ThreadTimes {
    /// CPU time and wait for a CPU, ns.
    sched: Option<(u64, u64)>,
    /// Wait for block I/O, ticks.
    blkio: Option<u64>,
}

/// `cpu_ns wait_ns slices` of a schedstat file.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map_while(|w| w.parse().ok());
    Some((words.next()?, words.next()?))
}

/// The field of a `stat` with the wait for block I/O, ticks, by its number in proc(5).
const BLKIO: usize = 42;

/// Threads of this process.
#[derive(Debug, Default)]
pub(crate) struct TaskSource {
    before: BTreeMap<String, ThreadTimes>,
    /// The last reading had not all threads: one that it lacks may be an old one.
    partial: bool,
    accounted: bool,
    lacks: Option<String>,
    cut: bool,
}

impl TaskSource {
    fn read(&mut self, sys: &Sys) -> BTreeMap<String, ThreadTimes> {
        let mut names = sys.names("/proc/self/task");
        // Those that were looked at before first: a place that becomes free is taken by one that ran unseen.
        names.sort_by_cached_key(|name| !self.before.contains_key(name));
        self.partial = names.len() > THREADS_MAX;
        self.cut |= self.partial;
        names.truncate(THREADS_MAX);
        let accounted = self.accounted;
        let read = |name: String| {
            let sched = || schedstat(&sys.text(&format!("/proc/self/task/{name}/schedstat"))?);
            let blkio = || ProcessStat::of(sys, &format!("self/task/{name}"))?.number(BLKIO);
            let thread =
                ThreadTimes { sched: sched(), blkio: if accounted { blkio() } else { None } };
            (name, thread)
        };
        names.into_iter().map(read).collect()
    }
}

impl HostSource for TaskSource {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, sys: &Sys, out: Option<&mut SampleOutput>) {
        if out.is_none() {
            self.accounted = sys.number("/proc/sys/kernel/task_delayacct") == Some(1);
        }
        let partial = self.partial;
        let now = self.read(sys);
        if now.values().all(|t| t.sched.is_none()) {
            self.lacks =
                Some("the kernel has no schedstat: waits for a CPU are unknown".to_owned());
        }
        let before = std::mem::replace(&mut self.before, now);
        let Some(out) = out else {
            return;
        };
        // A new thread began at zero; what a thread did after its last reading is not seen.
        let new = ThreadTimes { sched: Some((0, 0)), blkio: Some(0) };
        let new = if partial { ThreadTimes::default() } else { new };
        let was = |name: &String| before.get(name).copied().unwrap_or(new);
        let (mut run, mut wait, mut io) = (None, None, None);
        let add = |sum: &mut Option<f64>, n: u64| *sum = Some(sum.unwrap_or(0.0) + n as f64);
        for (name, thread) in &self.before {
            let was = was(name);
            if let (Some(n), Some(b)) = (thread.sched, was.sched) {
                add(&mut run, n.0.saturating_sub(b.0));
                add(&mut wait, n.1.saturating_sub(b.1));
            }
            if let (Some(n), Some(b)) = (thread.blkio, was.blkio) {
                add(&mut io, n.saturating_sub(b));
            }
        }
        for (name, ns) in [("run", run), ("wait", wait)] {
            if let Some(ns) = ns {
                out.rate(NAME, name, None, ns / 1e6);
            }
        }
        if let Some(ticks) = io {
            out.rate(NAME, "blkio", None, ticks * 1000.0 / TICKS);
        }
        if !self.before.is_empty() {
            out.put(NAME, "threads", None, self.before.len() as f64);
        }
    }

    fn missing(&self) -> Option<String> {
        let cut = format!("only the first {THREADS_MAX} threads are looked at");
        let off = "waits for block I/O are not accounted: set kernel.task_delayacct=1";
        let parts: Vec<String> = [
            self.lacks.clone(),
            self.cut.then_some(cut),
            (!self.accounted).then(|| off.to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{of, put, two};
    use super::*;

    fn stat(ticks: u64) -> String {
        let zeros = "0 ".repeat(38);
        format!("7 (a) b) R {zeros}{ticks} 0 0\n")
    }

    #[test]
    fn threads_are_added_up_and_new_ones_begin_at_zero() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        put(root, "proc/sys/kernel/task_delayacct", "1\n");
        put(root, "proc/self/task/7/schedstat", "1000000 500000 3\n");
        put(root, "proc/self/task/7/stat", &stat(10));
        let mut tasks = TaskSource::default();
        let values = two(&mut tasks, root, || {
            put(root, "proc/self/task/7/schedstat", "5000000 2500000 9\n");
            put(root, "proc/self/task/7/stat", &stat(30));
            put(root, "proc/self/task/8/schedstat", "2000000 4000000 9\n");
            put(root, "proc/self/task/8/stat", &stat(2));
        });
        assert_eq!(of(&values, "run"), Some(3.0));
        assert_eq!(of(&values, "wait"), Some(3.0));
        assert_eq!(of(&values, "blkio"), Some(110.0));
        assert_eq!(of(&values, "threads"), Some(2.0));
        assert_eq!(tasks.missing(), None);
    }

    #[test]
    fn a_thread_that_was_not_looked_at_before_has_not_done_all_in_one_window() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let task = |n: usize| format!("proc/self/task/{n}/schedstat");
        for n in 10_000..10_000 + THREADS_MAX + 8 {
            put(root, &task(n), "9000000000 9000000000 3\n");
        }
        let mut tasks = TaskSource::default();
        let values = two(&mut tasks, root, || {
            for n in 10_000..10_008 {
                std::fs::remove_dir_all(root.join(format!("proc/self/task/{n}"))).unwrap();
            }
            put(root, &task(10_008), "9004000000 9002000000 9\n");
        });
        assert_eq!(of(&values, "run"), Some(2.0));
        assert_eq!(of(&values, "wait"), Some(1.0));
        assert!(tasks.missing().unwrap().contains("only the first"));
    }

    #[test]
    fn what_is_off_is_said_and_not_zero() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        put(root, "proc/sys/kernel/task_delayacct", "0\n");
        put(root, "proc/self/task/7/stat", &stat(10));
        let mut tasks = TaskSource::default();
        let values = two(&mut tasks, root, || ());
        assert_eq!((of(&values, "wait"), of(&values, "blkio")), (None, None));
        let said = tasks.missing().unwrap();
        assert!(said.contains("schedstat") && said.contains("task_delayacct=1"));
    }
}
