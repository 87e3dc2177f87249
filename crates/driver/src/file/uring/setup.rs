//! Which ring this kernel gives for some options: tried at open, used the same way by every session
//! with these.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::{Builder, IoUring};
use rustix::process::{Resource, getrlimit};
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::rights::{Capability, has};

use crate::file::options::FileOptions;

/// How rings are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSetup {
    /// One thread only; completion work runs in our own calls (Linux 6.1).
    pub deferred: bool,
    /// Completion work never interrupts us (Linux 5.19).
    pub cooperative: bool,
    /// No indirection array (Linux 6.6).
    pub no_array: bool,
    /// The device is polled.
    pub iopoll: bool,
    /// A kernel thread submits.
    pub sqpoll: bool,
    /// CPU of that thread.
    pub sqpoll_cpu: Option<u32>,
    /// Asked for, and this process may lock memory without a limit.
    pub fixed_buffers: bool,
    pub registered_files: bool,
    /// Worker threads of a ring at most; 0 leaves it to the kernel.
    pub io_workers: u32,
    /// Every so many-th operation goes to one of them at once; 0 = none.
    pub force_async: u32,
    /// Trims block, and are no entries of the ring.
    pub blocking_trims: bool,
}

/// Idle time after which a submitting kernel thread sleeps.
const SQPOLL_IDLE_MS: u32 = 1000;

impl RingSetup {
    /// The best ring this kernel gives for these options. Errors: `Unavailable` when no ring can be
    /// made or entered here, or it is older than Linux 5.11.
    pub fn probe(options: &FileOptions) -> Result<RingSetup> {
        let wanted = RingSetup {
            deferred: !options.sqpoll,
            cooperative: !options.sqpoll,
            no_array: true,
            iopoll: options.iopoll,
            sqpoll: options.sqpoll,
            sqpoll_cpu: u32::try_from(options.sqpoll_cpu).ok(),
            fixed_buffers: options.fixed_buffers && registers_buffers(),
            registered_files: options.registered_files,
            io_workers: options.io_workers,
            force_async: options.force_async,
            blocking_trims: options.blocking_trims,
        };
        let older = RingSetup { no_array: false, ..wanted };
        let old = RingSetup { deferred: false, ..older };
        let oldest = RingSetup { cooperative: false, ..old };
        let mut last = io::Error::from_raw_os_error(libc::EINVAL);
        for setup in [wanted, older, old, oldest] {
            match builder(&setup, 1).build(1) {
                Ok(mut ring) if ring.params().is_feature_ext_arg() => {
                    return super::sys::enter(&mut ring).map(|()| setup).map_err(no_entry);
                }
                Ok(_) => {
                    return Err(Error::unavailable(
                        "this kernel's io_uring is too old (Linux 5.11)",
                    )
                    .hint("set options.engine = \"sync\" and queue_depth = 1"));
                }
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => last = e,
                Err(e) => return Err(no_ring(e)),
            }
        }
        Err(no_ring(last))
    }

    /// What is in use, for the manifest.
    pub fn describe(&self) -> String {
        let flags = [
            (self.deferred, "single_issuer defer_taskrun"),
            (self.cooperative && !self.deferred, "coop_taskrun"),
            (self.no_array, "no_sqarray"),
            (self.iopoll, "iopoll"),
            (self.sqpoll, "sqpoll"),
            (self.fixed_buffers, "fixed_buffers"),
            (self.registered_files, "registered_files"),
            (self.blocking_trims, "blocking_trims"),
        ];
        let mut on: Vec<String> = flags.iter().filter(|f| f.0).map(|f| f.1.into()).collect();
        if self.io_workers > 0 {
            on.push(format!("io_workers={}", self.io_workers));
        }
        if self.force_async > 0 {
            on.push(format!("force_async={}", self.force_async));
        }
        on.join(" ")
    }
}

/// Whether this process may lock as much memory as it likes. A limit would let some points of a sweep
/// register their buffers and others not: the kernel counts a whole huge page for each of them.
fn locks_freely(limit: Option<u64>, sys: &Sys) -> bool {
    limit.is_none() || has(sys, Capability::IpcLock)
}

/// Whether buffers can be registered here, with any ring.
pub fn registers_buffers() -> bool {
    locks_freely(getrlimit(Resource::Memlock).current, &Sys::default())
}

/// A builder with room for `entries` submissions and their completions.
pub fn builder(setup: &RingSetup, entries: u32) -> Builder {
    let mut b = IoUring::builder();
    b.dontfork().setup_cqsize((entries * 2).max(2));
    if setup.deferred {
        b.setup_single_issuer().setup_defer_taskrun();
    } else if setup.cooperative {
        b.setup_coop_taskrun();
    }
    if setup.deferred || setup.cooperative {
        b.setup_taskrun_flag().setup_submit_all();
    }
    if setup.no_array {
        b.setup_no_sqarray();
    }
    if setup.iopoll {
        b.setup_iopoll();
    }
    if setup.sqpoll {
        b.setup_sqpoll(SQPOLL_IDLE_MS);
        if let Some(cpu) = setup.sqpoll_cpu {
            b.setup_sqpoll_cpu(cpu);
        }
    }
    b
}

/// A ring that can be made and not used.
fn no_entry(e: io::Error) -> Error {
    Error::unavailable("cannot use an io_uring: io_uring_enter is refused").source(e).hint(
        "a container's seccomp profile allows io_uring_setup alone; allow io_uring_enter and \
         io_uring_register, too, or set options.engine = \"sync\" with queue_depth = 1",
    )
}

fn no_ring(e: io::Error) -> Error {
    let hint = match e.raw_os_error() {
        Some(libc::EPERM) => {
            "a container's seccomp profile or kernel.io_uring_disabled forbids it; allow it, or \
             set options.engine = \"sync\" with queue_depth = 1"
        }
        Some(libc::ENOSYS) => {
            "this kernel was built without it; set options.engine = \"sync\" with queue_depth = 1"
        }
        Some(libc::ENOMEM) => "raise the locked-memory limit (ulimit -l)",
        _ => "without sqpoll and iopoll fewer features are needed; engine = \"sync\" needs none",
    };
    Error::unavailable("cannot make an io_uring").source(e).hint(hint)
}

/// Whether the ring can discard on this block device: asks for nothing, at no cost. Errors:
/// `Unavailable` with the way out.
pub fn probe_discard(fd: impl AsFd) -> Result<()> {
    let result = super::sys::empty_discard(fd.as_fd().as_raw_fd())
        .map_err(|e| Error::unavailable("cannot probe discard through io_uring").source(e))?;
    // An empty range is the complaint of a kernel that knows the command.
    if result == -libc::EINVAL || result >= 0 {
        return Ok(());
    }
    Err(Error::unavailable("discard through io_uring needs Linux 6.12")
        .hint("set options.engine = \"sync\" with queue_depth = 1 for trims on devices"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_registered_by_the_right_to_and_not_by_their_size() {
        let root = tempfile::tempdir().unwrap();
        let put = |caps: &str, ids: &str| {
            let dir = root.path().join("proc/self");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("status"), format!("Name:\tx\nCapEff:\t{caps}\n")).unwrap();
            std::fs::write(dir.join("uid_map"), ids).unwrap();
        };
        let (limit, sys) = (Some(8 << 20), Sys::at(root.path()));
        let machine = "         0          0 4294967295\n";
        put("000001ffffffffff", machine);
        assert!(locks_freely(limit, &sys), "root");
        put("000001ffffffffff", "         0       1000          1\n");
        assert!(!locks_freely(limit, &sys), "root of a container without rights on the machine");
        put("0000000000000000", machine);
        assert!(!locks_freely(limit, &sys), "a plain user");
        assert!(locks_freely(None, &sys), "a plain user without a limit");
    }

    /// What a thread of its own is told that may not make the call.
    fn refused(call: libc::c_long) -> Option<Error> {
        let probed = std::thread::spawn(move || {
            crate::file::uring::forbid(call).unwrap();
            RingSetup::probe(&FileOptions::default())
        });
        probed.join().unwrap().err()
    }

    #[test]
    fn a_ring_that_cannot_be_made_or_entered_is_told_before_the_run() {
        if let Err(e) = RingSetup::probe(&FileOptions::default()) {
            eprintln!("skipped: a_ring_that_cannot_be_made_or_entered_is_told_before_the_run: {e}");
            return;
        }
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter] {
            let e = refused(call).expect("a refusal");
            assert!(e.hint_text().is_some_and(|h| h.contains("engine = \"sync\"")), "{e}");
            assert!(e.hint_text().is_some_and(|h| h.contains("seccomp")), "{e}");
        }
        assert!(refused(libc::SYS_uname).is_none(), "the filter forbids nothing else");
    }
}
