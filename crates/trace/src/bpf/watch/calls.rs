//! Which system calls are operations, in one table: the programs are told from it, and lines and records name a call
//! by it. In a second one those in which a thread sleeps for another one of its program, for time, or for the world
//! outside: these are no operations, but others of the program may wait for it meanwhile.

use taillight_core::OpKind;

/// Numbers below this one.
pub const SYSCALLS: u32 = 512;

/// Its first argument is a file, its third one a length, its fourth one an offset; it goes on where the last
/// one ended: see `enum what` of the programs.
const FILE: u32 = 0x20;
const LENGTH: u32 = 0x40;
const AT: u32 = 0x80;
const ON: u32 = 0x100;

/// Number (x86-64), name, kind of operation, arguments.
const CALLS: &[(u32, &str, OpKind, u32)] = &[
    (0, "read", OpKind::Read, FILE | LENGTH | ON),
    (1, "write", OpKind::Write, FILE | LENGTH | ON),
    (17, "pread64", OpKind::Read, FILE | LENGTH | AT),
    (18, "pwrite64", OpKind::Write, FILE | LENGTH | AT),
    (19, "readv", OpKind::Read, FILE | ON),
    (20, "writev", OpKind::Write, FILE | ON),
    (295, "preadv", OpKind::Read, FILE | AT),
    (296, "pwritev", OpKind::Write, FILE | AT),
    (327, "preadv2", OpKind::Read, FILE | AT),
    (328, "pwritev2", OpKind::Write, FILE | AT),
    (326, "copy_file_range", OpKind::Write, FILE),
    (74, "fsync", OpKind::Fsync, FILE),
    (75, "fdatasync", OpKind::Fsync, FILE),
    (277, "sync_file_range", OpKind::Fsync, FILE),
    (306, "syncfs", OpKind::Fsync, FILE),
    (26, "msync", OpKind::Fsync, 0),
    (162, "sync", OpKind::Fsync, 0),
    (2, "open", OpKind::Stat, 0),
    (85, "creat", OpKind::Stat, 0),
    (257, "openat", OpKind::Stat, 0),
    (437, "openat2", OpKind::Stat, 0),
    (78, "getdents", OpKind::List, FILE),
    (217, "getdents64", OpKind::List, FILE),
    (4, "stat", OpKind::Stat, 0),
    (6, "lstat", OpKind::Stat, 0),
    (262, "newfstatat", OpKind::Stat, 0),
    (332, "statx", OpKind::Stat, 0),
    (76, "truncate", OpKind::Trim, 0),
    (77, "ftruncate", OpKind::Trim, FILE),
    (285, "fallocate", OpKind::Trim, FILE),
    (82, "rename", OpKind::Delete, 0),
    (264, "renameat", OpKind::Delete, 0),
    (316, "renameat2", OpKind::Delete, 0),
    (87, "unlink", OpKind::Delete, 0),
    (263, "unlinkat", OpKind::Delete, 0),
    (84, "rmdir", OpKind::Delete, 0),
    (83, "mkdir", OpKind::Stat, 0),
    (258, "mkdirat", OpKind::Stat, 0),
    (86, "link", OpKind::Stat, 0),
    (265, "linkat", OpKind::Stat, 0),
];

/// It sleeps for a lock; for what its arguments say; for another thread, or for something to do; for the world outside;
/// for time alone.
pub const LOCK: u32 = 0x200;
const FUTEX: u32 = 0x400;
pub const WAIT: u32 = 0x800;
pub const IDLE: u32 = 0x1000;
const PAUSE: u32 = 0x2000;

/// Number (x86-64), what it sleeps for.
const SLEEPS: &[(u32, u32)] = &[
    // futex, futex_wait, futex_waitv
    (202, FUTEX),
    (455, WAIT),
    (449, WAIT),
    // flock and fcntl, which sleeps only for a lock; semop, semtimedop.
    (73, LOCK),
    (65, WAIT),
    (220, WAIT),
    (72, LOCK),
    // nanosleep, clock_nanosleep
    (35, PAUSE),
    (230, PAUSE),
    // pause, rt_sigtimedwait, rt_sigsuspend, wait4, waitid
    (34, IDLE),
    (128, IDLE),
    (130, IDLE),
    (61, IDLE),
    (247, IDLE),
    // poll, ppoll, select, pselect6, epoll_wait, epoll_pwait, epoll_pwait2
    (7, IDLE),
    (271, IDLE),
    (23, IDLE),
    (270, IDLE),
    (232, IDLE),
    (281, IDLE),
    (441, IDLE),
    // accept, accept4, connect, recvfrom, recvmsg, recvmmsg, sendto, sendmsg
    (43, IDLE),
    (288, IDLE),
    (42, IDLE),
    (45, IDLE),
    (47, IDLE),
    (299, IDLE),
    (44, IDLE),
    (46, IDLE),
    // io_getevents, io_pgetevents, io_uring_enter: what is waited for is told by itself.
    (208, IDLE),
    (333, IDLE),
    (426, IDLE),
];

/// In place of a number: a wait for a lock, and for another thread.
pub const WAITS: u32 = 4000;

/// Numbers that stand for no system call, see `NR_*` of the programs.
const FAULT: u32 = 1000;
const RING: u32 = 2000;
const AIO: u32 = 3000;

/// What the programs are told of each call.
pub fn for_programs() -> impl Iterator<Item = (u32, u32)> {
    let calls =
        CALLS.iter().map(|(number, _, op, arguments)| (*number, (*op as u32 + 1) | arguments));
    calls.chain(SLEEPS.iter().copied())
}

/// What to call an operation.
pub fn name(number: u32) -> &'static str {
    match number {
        FAULT => "page fault",
        AIO => "libaio",
        _ if number == WAITS + LOCK => "lock",
        _ if number >= WAITS => "wait",
        _ if number >= RING => match number - RING {
            1 | 4 | 22 => "io_uring read",
            2 | 5 | 23 => "io_uring write",
            3 => "io_uring fsync",
            8 => "io_uring sync_file_range",
            _ => "io_uring",
        },
        _ => CALLS.iter().find(|c| c.0 == number).map_or("system call", |c| c.1),
    }
}

/// Kinds of operation that can be counted whole, and be judged by a ceiling.
pub const JUDGED: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Fsync];

/// The kind of operation of a system call by its name; calls of a kind are counted together.
pub fn kind_of_call(word: &str) -> Option<OpKind> {
    CALLS.iter().find(|c| c.1 == word).map(|c| c.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_there_once_and_fits_the_programs() {
        for (i, call) in CALLS.iter().enumerate() {
            assert!(call.0 < SYSCALLS && (call.2 as u32) < 0x1f, "{}", call.1);
            assert!(CALLS[..i].iter().all(|c| c.0 != call.0 && c.1 != call.1), "{}", call.1);
        }
        for (i, sleep) in SLEEPS.iter().enumerate() {
            assert!(sleep.0 < SYSCALLS && CALLS.iter().all(|c| c.0 != sleep.0), "{}", sleep.0);
            assert!(SLEEPS[..i].iter().all(|s| s.0 != sleep.0), "{}", sleep.0);
        }
        assert_eq!(name(75), "fdatasync");
        assert_eq!(name(RING + 22), "io_uring read");
        assert_eq!(name(202), "system call", "futex");
        assert_eq!(kind_of_call("fdatasync"), Some(OpKind::Fsync));
        assert_eq!(kind_of_call("futex"), None);
    }
}
