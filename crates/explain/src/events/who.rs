//! Names a thread for people, by its name and the numbers that belong to it. All come from one event of the
//! trace, so that a name never goes with another thread's number.

use taillight_rundir::layers::{LayerKind, LayerRow};

use crate::overlays::held_pages::READ_AHEAD;

/// A thread, or what stands in for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who<'a> {
    pub name: &'a str,
    pub tid: Option<u64>,
    pub pid: Option<u64>,
    pub command: Option<&'a str>,
    pub cgroup: Option<&'a str>,
}

/// Threads that Taillight has beside its workers, by the names they are started with.
const OWN: [(&str, &str); 6] = [
    ("trace", "tracer"),
    ("trace-names", "tracer"),
    ("still", "tracer"),
    ("host", "sampler of the machine"),
    ("capture", "writer of captured I/Os"),
    ("live", "live page"),
];

/// What to call a thread: with its process, and by what it does where that is the benchmark's `own`.
pub fn called(name: &str, tid: Option<u64>, pid: Option<u64>, own: bool) -> String {
    let is = |(known, _): &&(&str, &str)| own && *known == name;
    let called = match OWN.iter().find(is) {
        Some((_, what)) => format!("Taillight's own {what}"),
        None if own => format!("{name}, a thread of this program"),
        None => name.to_owned(),
    };
    match (pid, tid) {
        (Some(pid), _) => format!("{called} (pid {pid})"),
        (None, Some(tid)) => format!("{called} (thread {tid})"),
        _ => called,
    }
}

impl<'a> Who<'a> {
    /// No thread.
    pub fn nobody(name: &'a str) -> Who<'a> {
        Who { name, ..Who::default() }
    }

    /// Whom `comm` names.
    pub fn ran(row: &'a LayerRow) -> Option<Who<'a>> {
        // In old runs one number is somebody else's: that of a preempted thread, of a thread of the kernel
        // and of what the kernel read ahead.
        let name = row.comm.as_deref()?;
        let others = row.state == Some(0) || row.kind == LayerKind::Kthread || name == READ_AHEAD;
        Some(Who {
            name,
            tid: row.comm_tid.or(row.pid.filter(|_| !others)),
            pid: row.comm_pid,
            command: row.command.as_deref(),
            cgroup: row.cgroup.as_deref(),
        })
    }

    /// Whom `other` names: who woke a thread up, or a thread of the kernel itself.
    pub fn other(row: &'a LayerRow) -> Option<Who<'a>> {
        let itself = row.kind == LayerKind::Kthread;
        Some(Who {
            name: row.other.as_deref()?,
            tid: if itself { row.pid } else { row.waker_pid },
            pid: row.other_pid,
            command: row.other_command.as_deref(),
            cgroup: row.other_cgroup.as_deref(),
        })
    }

    /// Whether it is a thread of the process `own`, the benchmark's.
    pub fn is_of(&self, own: Option<u64>) -> bool {
        self.pid.is_some() && self.pid == own
    }

    /// What to call it, where the benchmark's process is `own`.
    pub fn words(&self, own: Option<u64>) -> String {
        called(self.name, self.tid, self.pid, self.is_of(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_called_with_its_process_and_taillights_own_by_what_it_does() {
        let of = |name, pid| Who { name, tid: Some(9), pid, ..Who::default() }.words(Some(77));
        assert_eq!(of("backup", Some(8)), "backup (pid 8)");
        assert_eq!(of("backup", None), "backup (thread 9)");
        assert_eq!(of("trace", Some(77)), "Taillight's own tracer (pid 77)");
        assert_eq!(of("trace", Some(8)), "trace (pid 8)", "somebody else's of the same name");
        assert_eq!(of("rocksdb:low", Some(77)), "rocksdb:low, a thread of this program (pid 77)");
        assert_eq!(Who::nobody("a limit").words(None), "a limit");
    }
}
