//! Names a thread for people, by its name and the numbers that belong to it. All come from one event of the
//! trace, so that a name never goes with another thread's number.

use std::sync::Arc;

/// A thread, or what stands in for one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// Empty where it is not known.
    pub name: Arc<str>,
    pub tid: Option<u64>,
    pub pid: Option<u64>,
    pub command: Option<Arc<str>>,
    pub cgroup: Option<Arc<str>>,
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

/// What to call a control group: the innermost container in its path, else the innermost unit of systemd, else the
/// path. Of a container it is the short id, which its tools know (the kernel does not know its name); of LXC the name.
pub fn group_called(path: &str) -> String {
    let unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    match (path.rsplit('/').find_map(container), path.rsplit('/').find(unit)) {
        (Some(id), _) => format!("container {id}"),
        (None, Some(unit)) => format!("unit {unit}"),
        (None, None) => format!("control group {path}"),
    }
}

/// The container that a part of a path is: `docker-ID.scope`, `cri-containerd-ID.scope`, `libpod-ID.scope`, or its bare id;
/// of LXC its name.
fn container(part: &str) -> Option<&str> {
    let id = part.strip_suffix(".scope").unwrap_or(part).rsplit(['-', ':']).next()?;
    let whole = id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    if whole { id.get(..12) } else { part.strip_prefix("lxc.payload.") }
}

impl Thread {
    /// One of which no more than the name is known, or no thread at all.
    pub fn named(name: &str) -> Arc<Thread> {
        Arc::new(Thread { name: name.into(), ..Thread::default() })
    }

    pub fn has_name(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether it is a thread of the process `own`, the benchmark's.
    pub fn is_of(&self, own: Option<u64>) -> bool {
        self.pid.is_some() && self.pid == own
    }

    /// What to call it, where the benchmark's process is `own`.
    pub fn words(&self, own: Option<u64>) -> String {
        called(&self.name, self.tid, self.pid, self.is_of(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_called_with_its_process_and_taillights_own_by_what_it_does() {
        let of = |name: &str, pid| {
            Thread { name: name.into(), tid: Some(9), pid, ..Thread::default() }.words(Some(77))
        };
        assert_eq!(of("backup", Some(8)), "backup (pid 8)");
        assert_eq!(of("backup", None), "backup (thread 9)");
        assert_eq!(of("trace", Some(77)), "Taillight's own tracer (pid 77)");
        assert_eq!(of("trace", Some(8)), "trace (pid 8)", "somebody else's of the same name");
        assert_eq!(of("rocksdb:low", Some(77)), "rocksdb:low, a thread of this program (pid 77)");
        assert_eq!(Thread::named("a limit").words(None), "a limit");
    }

    #[test]
    fn a_control_group_is_called_by_its_unit_or_container() {
        let id = "3f2a1b9c0d4e".to_owned() + &"5".repeat(52);
        let of = |path: &str| group_called(&path.replace("ID", &id));
        assert_eq!(of("/system.slice/backup.service"), "unit backup.service");
        assert_eq!(of("/user.slice/user@7.service/app.slice/app-x.scope"), "unit app-x.scope");
        for path in [
            "/docker/ID",
            "/system.slice/docker-ID.scope",
            "/kubepods.slice/kubepods-pod7.slice/cri-containerd-ID.scope",
            "/system.slice/containerd.service/kubepods-pod7.slice:cri-containerd:ID",
            "/docker/ID/system.slice/backup.service",
        ] {
            assert_eq!(of(path), "container 3f2a1b9c0d4e", "{path}");
        }
        assert_eq!(of("/lxc.payload.web"), "container web");
        assert_eq!(of("/batch/jobs-7"), "control group /batch/jobs-7");
    }
}
