//! Which system calls are operations, in one table: the programs are told from it, and lines and records name a call
//! by it. In a second one those in which a thread sleeps for another one of its program, for time, or for the world
//! outside: these are no operations, but others of the program may wait for it meanwhile.

use taillight_core::OpKind;

/// Numbers below this one.
pub const SYSCALLS: u32 = 512;

/// Marks of a call, as `enum what` of the programs has them. Its first argument is a file; its third one a length; its
/// fourth one an offset; or it goes on where the last call on the file ended.
const FILE: u32 = 0x20;
const LENGTH: u32 = 0x40;
const AT: u32 = 0x80;
const ON: u32 = 0x100;
/// It moves data from the file of its second argument; or between a pipe and the file of its first or third one; the
/// kernel counts it as a read and as a write; or counts no end of it; it does its work, if any, on its way back.
const FROM: u32 = 0x4000;
const PIPED: u32 = 0x8000;
const BOTH: u32 = 0x1_0000;
const UNCOUNTED: u32 = 0x2_0000;
const LATE: u32 = 0x4_0000;
/// It does not wait for the pages that it has brought unless its third argument says so; or does wait unless its sixth
/// one says that it does not.
const AHEAD: u32 = 0x8_0000;
const MAY_NOT_WAIT: u32 = 0x10_0000;
/// Its first argument is a path; or its second one is.
const PATH: u32 = 0x20_0000;
const PATH_AT: u32 = 0x40_0000;

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
    (327, "preadv2", OpKind::Read, FILE | AT | MAY_NOT_WAIT),
    (328, "pwritev2", OpKind::Write, FILE | AT),
    (326, "copy_file_range", OpKind::Write, FILE | BOTH),
    (40, "sendfile", OpKind::Read, FILE | FROM | BOTH),
    (275, "splice", OpKind::Read, FILE | PIPED | UNCOUNTED),
    (187, "readahead", OpKind::Stat, FILE | UNCOUNTED | AHEAD),
    (221, "fadvise64", OpKind::Stat, FILE | UNCOUNTED | AHEAD),
    (28, "madvise", OpKind::Stat, UNCOUNTED | AHEAD),
    (9, "mmap", OpKind::Stat, UNCOUNTED),
    (149, "mlock", OpKind::Stat, UNCOUNTED),
    (325, "mlock2", OpKind::Stat, UNCOUNTED),
    (209, "io_submit", OpKind::Stat, 0),
    (74, "fsync", OpKind::Fsync, FILE),
    (75, "fdatasync", OpKind::Fsync, FILE),
    (277, "sync_file_range", OpKind::Fsync, FILE),
    (306, "syncfs", OpKind::Fsync, FILE),
    (26, "msync", OpKind::Fsync, 0),
    (162, "sync", OpKind::Fsync, 0),
    (2, "open", OpKind::Stat, PATH),
    (85, "creat", OpKind::Stat, PATH),
    (257, "openat", OpKind::Stat, PATH_AT),
    (437, "openat2", OpKind::Stat, PATH_AT),
    (78, "getdents", OpKind::List, FILE),
    (217, "getdents64", OpKind::List, FILE),
    (4, "stat", OpKind::Stat, PATH),
    (6, "lstat", OpKind::Stat, PATH),
    (262, "newfstatat", OpKind::Stat, PATH_AT),
    (332, "statx", OpKind::Stat, PATH_AT),
    (76, "truncate", OpKind::Trim, PATH),
    (77, "ftruncate", OpKind::Trim, FILE),
    (285, "fallocate", OpKind::Trim, FILE),
    (82, "rename", OpKind::Delete, PATH),
    (264, "renameat", OpKind::Delete, PATH_AT),
    (316, "renameat2", OpKind::Delete, PATH_AT),
    (87, "unlink", OpKind::Delete, PATH),
    (263, "unlinkat", OpKind::Delete, PATH_AT),
    (84, "rmdir", OpKind::Delete, PATH),
    (83, "mkdir", OpKind::Stat, PATH),
    (258, "mkdirat", OpKind::Stat, PATH_AT),
    (86, "link", OpKind::Stat, PATH),
    (265, "linkat", OpKind::Stat, PATH_AT),
    (88, "symlink", OpKind::Stat, PATH_AT),
    (266, "symlinkat", OpKind::Stat, 0),
    (133, "mknod", OpKind::Stat, PATH),
    (259, "mknodat", OpKind::Stat, PATH_AT),
    (3, "close", OpKind::Stat, LATE),
    (8, "lseek", OpKind::Stat, FILE),
    (16, "ioctl", OpKind::Stat, FILE),
    (59, "execve", OpKind::Stat, 0),
    (322, "execveat", OpKind::Stat, 0),
    (304, "open_by_handle_at", OpKind::Stat, 0),
    (5, "fstat", OpKind::Stat, FILE),
    (21, "access", OpKind::Stat, PATH),
    (269, "faccessat", OpKind::Stat, PATH_AT),
    (439, "faccessat2", OpKind::Stat, PATH_AT),
    (89, "readlink", OpKind::Stat, PATH),
    (267, "readlinkat", OpKind::Stat, PATH_AT),
    (80, "chdir", OpKind::Stat, PATH),
    (81, "fchdir", OpKind::Stat, FILE),
    (137, "statfs", OpKind::Stat, PATH),
    (138, "fstatfs", OpKind::Stat, FILE),
    (90, "chmod", OpKind::Stat, PATH),
    (91, "fchmod", OpKind::Stat, FILE),
    (268, "fchmodat", OpKind::Stat, PATH_AT),
    (92, "chown", OpKind::Stat, PATH),
    (93, "fchown", OpKind::Stat, FILE),
    (94, "lchown", OpKind::Stat, PATH),
    (260, "fchownat", OpKind::Stat, PATH_AT),
    (235, "utimes", OpKind::Stat, PATH),
    (280, "utimensat", OpKind::Stat, PATH_AT),
    (188, "setxattr", OpKind::Stat, PATH),
    (189, "lsetxattr", OpKind::Stat, PATH),
    (190, "fsetxattr", OpKind::Stat, FILE),
    (191, "getxattr", OpKind::Stat, PATH),
    (192, "lgetxattr", OpKind::Stat, PATH),
    (193, "fgetxattr", OpKind::Stat, FILE),
    (194, "listxattr", OpKind::Stat, PATH),
    (195, "llistxattr", OpKind::Stat, PATH),
    (196, "flistxattr", OpKind::Stat, FILE),
    (197, "removexattr", OpKind::Stat, PATH),
    (198, "lremovexattr", OpKind::Stat, PATH),
    (199, "fremovexattr", OpKind::Stat, FILE),
];

/// What a call sleeps for: a lock; what its arguments say; another thread, or something to do; the world outside; time
/// alone.
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

/// What the programs are told of each call; where one is named, of no other call of its kind.
pub fn for_programs(only: Option<&str>) -> impl Iterator<Item = (u32, u32)> {
    let kind = only.and_then(call_named).map(|(kind, _)| kind);
    let calls = CALLS.iter().filter(move |c| Some(c.2) != kind || Some(c.1) == only);
    let calls = calls.map(|(number, _, op, arguments)| (*number, (*op as u32 + 1) | arguments));
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

/// A system call by its name, with its kind of operation; calls of a kind are counted together.
pub fn call_named(word: &str) -> Option<(OpKind, &'static str)> {
    CALLS.iter().find(|c| c.1 == word).map(|c| (c.2, c.1))
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
        assert_eq!(call_named("fdatasync"), Some((OpKind::Fsync, "fdatasync")));
        assert_eq!(call_named("futex"), None);
    }

    #[test]
    fn where_one_call_is_named_no_other_of_its_kind_is_told() {
        let told = |only| for_programs(only).map(|(number, _)| number).collect::<Vec<_>>();
        let (all, one) = (told(None), told(Some("fdatasync")));
        let has = |list: &[u32]| [74, 75, 277, 0, 202].map(|number| list.contains(&number));
        assert_eq!((has(&all), has(&one)), ([true; 5], [false, true, false, true, true]));
    }
}
