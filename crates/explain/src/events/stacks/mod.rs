//! What a sleeping thread waits for, read from the kernel functions it sleeps in.

use std::ops::Deref;
use std::sync::Arc;

use crate::phase::Phase;

/// What a stack says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepReason {
    /// A wait of a phase, with the reason in words.
    For(Phase, &'static str),
    /// A wait for a lock in the kernel, explained by what the lock's holder does; or a wait of which no more is
    /// known than the part of the kernel that the thread sleeps in.
    Lock(Phase, &'static str),
    /// The thread waits for its own I/O; its stamps say more.
    OwnIo,
    Unknown,
}

impl SleepReason {
    /// Stopped by a signal.
    pub const STOPPED: SleepReason = SleepReason::For(Phase::Stopped, STOPPED_WORDS);
    /// Held by its tracer.
    pub const TRACED: SleepReason = SleepReason::For(Phase::Stopped, TRACED_WORDS);
}

const STOPPED_WORDS: &str = "the program was stopped by a signal";
const TRACED_WORDS: &str = "the program was held by a debugger or tracer (ptrace: gdb, strace)";

/// Kernel functions, innermost first, separated by `;`, with what a thread that sleeps in them waits for.
#[derive(Debug, PartialEq)]
pub struct Stack {
    functions: Arc<str>,
    /// The place in [`KNOWN`] of what it waits for, where it is there.
    known: Option<usize>,
    reason: SleepReason,
}

impl Stack {
    pub fn of(functions: impl Into<Arc<str>>) -> Arc<Stack> {
        let functions = functions.into();
        let known = KNOWN.iter().position(|(names, ..)| has(&functions, names));
        let reason = match known.map(|at| &KNOWN[at]) {
            // Below the block layer the network is a way to the disk.
            Some((_, Phase::Server, _)) if has(&functions, BLOCK_LAYER) => {
                SleepReason::For(Phase::Device, "waiting for the network of a disk")
            }
            Some((_, phase, words)) => SleepReason::For(*phase, words),
            None => unnamed_reason(&functions),
        };
        Arc::new(Stack { functions, known, reason })
    }

    pub fn reason(&self) -> SleepReason {
        self.reason
    }
}

impl Deref for Stack {
    type Target = str;
    fn deref(&self) -> &str {
        &self.functions
    }
}

/// Waits for ext4's journal. The next three: for room in any journal, for XFS's log, for a transaction of btrfs.
const JOURNAL: &[&str] = &[
    "jbd2_",
    "wait_transaction",
    "add_transaction_credits",
    "start_this_handle",
    "__jbd2_",
    "do_get_write_access",
    "ext4_journal",
];
const ROOM: [&str; 7] = [
    "__jbd2_log_wait_for_space",
    "wait_transaction",
    "add_transaction_credits",
    "start_this_handle",
    "do_get_write_access",
    "xlog_grant_head",
    "wait_current_trans",
];
const XFS_LOG: &[&str] = &["xlog_", "xfs_log", "xfs_trans", "xfs_buf_"];
const BTRFS_COMMIT: &[&str] =
    &["btrfs_commit_", "wait_current_trans", "wait_for_commit", "btrfs_sync_log"];
/// Waits for pages that are on their way to the disk, and from it.
const WRITEBACK: &[&str] = &[
    "folio_wait_writeback",
    "__filemap_fdatawait",
    "filemap_fdatawait",
    "writeback_wait",
    "wb_wait_for",
];
const PAGES: &[&str] =
    &["folio_wait_bit", "filemap_update_page", "wait_on_page", "__folio_lock", "folio_lock"];

/// Waits for a block that the file system keeps for itself: an inode, a bitmap, a directory.
const BUFFERS: &[&str] = &[
    "__sync_dirty_buffer",
    "fsync_buffers_list",
    "__lock_buffer",
    "__wait_on_buffer",
    "__bh_read",
    "bh_uptodate_or_lock",
];
/// Waits for a queue that somebody has closed to set something.
const FROZEN_QUEUE: &[&str] = &["__bio_queue_enter", "blk_queue_enter", "bio_queue_enter"];

/// Beginnings of function names, more telling ones first: the first line that occurs anywhere in a stack decides.
/// First what can stand below anything else (a stop, a limit, memory), then parts of the kernel, and at
/// the end the system calls that mean a wait by themselves.
const KNOWN: &[(&[&str], Phase, &str)] = &[
    (
        &["ptrace_stop", "ptrace_do_notify", "ptrace_notify", "do_jobctl_trap"],
        Phase::Stopped,
        TRACED_WORDS,
    ),
    (&["do_signal_stop"], Phase::Stopped, STOPPED_WORDS),
    (
        &["seccomp_do_user_notification", "__seccomp_filter"],
        Phase::Stopped,
        "the system call was held for a program that supervises it (seccomp)",
    ),
    (
        &["audit_log_start"],
        Phase::Stopped,
        "the system call was held until the audit daemon has taken earlier records (auditd)",
    ),
    (
        &["__refrigerator", "do_freezer_trap", "get_signal"],
        Phase::Stopped,
        "the program was frozen",
    ),
    (
        &["rq_qos_wait", "wbt_wait", "ioc_rqos_throttle", "iolatency_", "blk_iolatency"],
        Phase::Throttle,
        "held back by writeback throttling or an I/O cost limit",
    ),
    (
        &["blkcg_maybe_throttle", "blk_throtl", "throtl_"],
        Phase::Throttle,
        "held back by a control group's I/O limit",
    ),
    (
        &["blk_mq_get_tag", "blk_mq_get_request"],
        Phase::Tags,
        "no free request in the device's queue",
    ),
    (
        FROZEN_QUEUE,
        Phase::Tags,
        "the device's queue was closed, as while its scheduler or a limit is being set",
    ),
    (
        &["migration_entry_wait", "__migration_entry_wait", "softleaf_entry_wait"],
        Phase::PageCache,
        "waiting for a page of its own memory that the kernel was moving",
    ),
    (
        &["do_swap_page", "swap_read", "swapin_", "read_swap_cache"],
        Phase::PageCache,
        "waiting for a page of its own memory that had been swapped out",
    ),
    (
        &[
            "reclaim_throttle",
            "try_to_free",
            "shrink_node",
            "shrink_zones",
            "shrink_lruvec",
            "shrink_slab",
            "do_shrink_slab",
            "shrink_folio_list",
            "shrink_page_list",
            "shrink_inactive_list",
            "try_charge",
            "mem_cgroup_",
            "__mem_cgroup_",
            "__alloc_pages_direct",
            "__alloc_pages_slowpath",
            "mempool_alloc",
            "try_to_compact",
            "compact_zone",
            "out_of_memory",
            "drain_all_pages",
        ],
        Phase::PageCache,
        "making room in memory",
    ),
    (&["request_wait_answer", "fuse_"], Phase::FileSystem, "waiting for the FUSE server"),
    (
        &["nfs_", "nfs4_", "rpc_", "cifs_", "smb2_", "ceph_", "p9_"],
        Phase::FileSystem,
        "waiting for the file server",
    ),
    // Locks of the same kind as that of a file system that is frozen.
    (
        &["copy_process", "exit_signals", "cpus_read_lock"],
        Phase::Application,
        "waiting to begin or end a thread, or until CPUs have changed",
    ),
    (
        &["percpu_rwsem_wait", "sb_start_write", "__percpu_down_read", "freeze_super"],
        Phase::FileSystem,
        "the file system was frozen",
    ),
    (
        &["balance_dirty_pages"],
        Phase::PageCache,
        "too many dirty pages: the kernel slows writers down",
    ),
    (
        &["fanotify_"],
        Phase::FileSystem,
        "waiting for a program that is asked before each access, as a virus scanner is",
    ),
    (JOURNAL, Phase::FileSystem, "waiting for the journal"),
    (XFS_LOG, Phase::FileSystem, "waiting for the XFS log"),
    (BTRFS_COMMIT, Phase::FileSystem, "waiting for a transaction of btrfs"),
    (&["dquot_"], Phase::FileSystem, "waiting for the quota file"),
    (BUFFERS, Phase::FileSystem, "waiting for a block of the file system's own"),
    (WRITEBACK, Phase::PageCache, "waiting for writeback"),
    (PAGES, Phase::PageCache, "waiting for a page that another I/O reads"),
    (
        &[
            "tcp_",
            "udp_",
            "inet_",
            "unix_",
            "sk_",
            "sock_",
            "__sys_recv",
            "__sys_send",
            "__sys_connect",
            "ep_poll",
            "do_epoll_",
            "do_sys_poll",
            "do_poll",
            "do_select",
            "core_sys_select",
        ],
        Phase::Server,
        "waiting for the server or the network",
    ),
    (
        &[
            "futex_",
            "__futex",
            "hrtimer_nanosleep",
            "do_nanosleep",
            "pipe_",
            "anon_pipe_",
            "eventfd_",
            "wait_for_partner",
            "fifo_open",
            "sigsuspend",
            "locks_lock_",
            "flock_lock",
            "do_lock_file_wait",
            "do_semtimedop",
            "__do_semtimedop",
            "do_msgrcv",
            "do_msgsnd",
            "do_mq_",
            "wq_sleep",
            "kernel_clone",
            "do_wait",
            "__do_wait",
            "kernel_wait",
            "do_sigtimedwait",
            "__do_sys_pause",
            "__x64_sys_pause",
            "signalfd_",
            "timerfd_",
            "inotify_read",
            "n_tty_",
            "tty_",
            "membarrier_",
        ],
        Phase::Application,
        "asleep in the program itself",
    ),
];

/// Locks of the kernel, in whatever part of it.
const LOCKS: &[&str] = &[
    "rwsem_down",
    "__mutex_lock",
    "mutex_lock",
    "down_read",
    "down_write",
    "__down",
    "inode_lock",
    "lock_two_",
    "inode_dio_wait",
    "__wait_on_freeing_inode",
];

/// The block layer.
const BLOCK_LAYER: &[&str] =
    &["blk_", "__blk_", "bio_", "__bio_", "submit_bio", "__submit_bio", "elv_", "elevator_"];

/// Parts of the kernel, known by the innermost function listed: a thread that sleeps in such a part, or for a lock of
/// it, waits for what the part does.
const PARTS: &[(&[&str], Phase, &str)] = &[
    (BLOCK_LAYER, Phase::Queue, "waiting in the block layer"),
    (
        &["do_user_addr_fault", "handle_mm_fault", "lock_mm_", "lock_vma", "gup_", "__gup_"],
        Phase::Application,
        "waiting for the map of its own memory",
    ),
    (
        &["io_uring_", "__do_sys_io_uring", "io_submit_", "io_wq_"],
        Phase::IoWorker,
        "waiting for another thread of io_uring",
    ),
    (
        &[
            "ext4_",
            "xfs_",
            "btrfs_",
            "f2fs_",
            "generic_",
            "iomap_",
            "filemap_",
            "blkdev_",
            "vfs_",
            "__fsnotify",
            "fsnotify",
            "security_",
            "ksys_",
            "do_fsync",
            "io_read",
            "io_write",
            "io_fsync",
        ],
        Phase::FileSystem,
        "asleep in the file system",
    ),
];

/// File systems: a thread that sleeps in a function of theirs waits for a lock of theirs.
const FILE_SYSTEMS: &[&str] = &["ext4_", "xfs_", "btrfs_", "f2fs_", "generic_file_"];

/// Waits for the thread's own I/O.
const OWN: &[&str] = &[
    "io_cqring_wait",
    "read_events",
    "do_io_getevents",
    "iomap_dio",
    "__iomap_dio",
    "blkdev_direct_IO",
    "__blkdev_",
    "submit_bio_wait",
    "bio_await",
    "io_schedule",
    "blk_io_schedule",
];

/// A block of the file system's own that the thread itself has read: of ext4, and of file systems that read by the kernel's
/// buffers.
const READS_BLOCK: &[&str] = &["ext4_read_bh", "ext4_bread", "__bread", "bread_gfp"];

/// What a thread of the kernel that serves a loop device is in.
const LOOP: &[&str] = &["loop_", "lo_"];

/// A stack for people: what is below the scheduler, shortened.
pub fn shown(stack: &Stack) -> String {
    let waits = |f: &&str| !f.starts_with("schedule") && *f != "io_schedule";
    let names: Vec<&str> = stack.split(';').filter(waits).take(4).collect();
    format!("`{}`", names.join(" < "))
}

/// Whether a function in a stack begins with one of these.
fn has(stack: &str, names: &[&str]) -> bool {
    stack.split(';').any(|f| names.iter().any(|n| f.starts_with(n)))
}

/// What a stack says in which nothing of [`KNOWN`] is.
fn unnamed_reason(stack: &str) -> SleepReason {
    let innermost = innermost(stack);
    let part = part(stack);
    if has(stack, LOCKS) || FILE_SYSTEMS.iter().any(|n| innermost.starts_with(n)) {
        let phase = part.map_or(Phase::FileSystem, |(_, phase, _)| *phase);
        return SleepReason::Lock(phase, "waiting for a lock in the kernel");
    }
    if own_io_first(stack) {
        return SleepReason::OwnIo;
    }
    part.map_or(SleepReason::Unknown, |(_, phase, words)| SleepReason::Lock(*phase, words))
}

/// Whether a wait for its own I/O is further in than any part of the kernel: a direct read that waits for the map of its
/// memory is in the function of direct reads as well, and has no I/O yet.
fn own_io_first(stack: &str) -> bool {
    let begins = |f: &str, names: &[&str]| names.iter().any(|n| f.starts_with(n));
    let mut functions = stack.split(';').filter(|f| !f.starts_with("schedule"));
    let telling = |f: &&str| begins(f, OWN) || PARTS.iter().any(|(names, ..)| begins(f, names));
    functions.find(telling).is_some_and(|f| begins(f, OWN))
}

/// The innermost function of a sleep that tells something: before it there are often the scheduler's.
fn innermost(stack: &str) -> &str {
    let waits = |f: &&str| !f.starts_with("schedule") && !f.starts_with("wait_");
    stack.split(';').find(waits).unwrap_or_default()
}

/// The part of the kernel that a stack is in.
fn part(stack: &str) -> Option<&'static (&'static [&'static str], Phase, &'static str)> {
    let of = |f: &str| PARTS.iter().find(|(names, ..)| names.iter().any(|n| f.starts_with(n)));
    stack.split(';').find_map(of)
}

/// Whether a thread waits until what is dirty in the page cache is written back, before its own direct I/O. Of an
/// operation that `reads` any wait for writeback counts: what is written is not its own.
pub fn waits_for_writeback(stack: &Stack, reads: bool) -> bool {
    let direct = ["kiocb_", "iomap_dio", "__iomap_dio", "blkdev_direct", "generic_file_direct"];
    has(stack, WRITEBACK) && (reads || has(stack, &direct))
}

/// Whether a thread waits for a lock: the kernel's own kinds, or a lock that its file system has a function for.
pub fn waits_for_lock(stack: &Stack) -> bool {
    let f = innermost(stack);
    let named = f.starts_with("lock_") || f.ends_with("lock") && !f.ends_with("block");
    let named = named || f.contains("_lock_");
    matches!(stack.reason, SleepReason::Lock(..)) && (has(stack, LOCKS) || named)
}

/// Whether a thread waits for pages, whose own way to or from the disk says why they are late.
pub fn waits_for_pages(stack: &Stack) -> bool {
    waits_first_for(stack, &[WRITEBACK, PAGES])
}

/// The same of a block that the file system keeps for itself, which another thread reads or writes.
pub fn waits_for_buffers(stack: &Stack) -> bool {
    waits_first_for(stack, &[BUFFERS])
}

/// Whether another thread or I/O ends a wait of a phase: a commit, the I/O of pages and blocks, or who has a lock, also in
/// a part of the kernel that has waits of its own, as FUSE's.
pub fn passed_on(stack: &Stack, phase: Phase) -> bool {
    match phase {
        Phase::FileSystem => {
            has(stack, LOCKS) || waits_for_commit(stack) || waits_for_buffers(stack)
        }
        Phase::PageCache => waits_for_pages(stack) && !waits_for_writeback(stack, false),
        _ => false,
    }
}

/// Whether a thread waits for a block of the file system's own that it reads itself.
pub fn reads_block(stack: &Stack) -> bool {
    has(stack, READS_BLOCK) && stack.reason == SleepReason::OwnIo
}

/// Whether a thread waits until pages or blocks are written, whatever they are written for.
pub fn waits_until_written(stack: &Stack) -> bool {
    has(stack, WRITEBACK) || has(stack, BUFFERS)
}

/// Whether a thread waits until the kernel's own threads have written back what is dirty in a whole file system.
pub fn waits_for_flusher(stack: &Stack) -> bool {
    has(stack, &["wb_wait_for_completion", "sync_inodes_sb", "writeback_inodes_sb"])
}

/// Whether the most telling of the known functions is one of these.
fn waits_first_for(stack: &Stack, any: &[&[&str]]) -> bool {
    stack.known.is_some_and(|at| any.contains(&KNOWN[at].0))
}

/// Whether a thread asks the disk again and again whether its I/O is done, of which no interrupt tells.
pub fn polls_for_io(stack: &Stack) -> bool {
    has(
        stack,
        &["io_do_iopoll", "io_iopoll_", "blk_mq_poll", "blk_poll", "bio_poll", "iocb_bio_iopoll"],
    )
}

/// Whether a thread waits for a queue that is closed; what for is not in its stack.
pub fn waits_for_closed_queue(stack: &Stack) -> bool {
    has(stack, FROZEN_QUEUE)
}

/// Whether a thread waits for a journal, a log or a transaction that another thread commits for the whole file system,
/// or for room in it.
pub fn waits_for_commit(stack: &Stack) -> bool {
    [JOURNAL, XFS_LOG, BTRFS_COMMIT].iter().any(|names| has(stack, names))
}

/// Whether a thread waits for a write of XFS's log, which the first thread that needed it has sent.
pub fn waits_for_log_write(stack: &Stack) -> bool {
    has(stack, &["xlog_wait_on_iclog", "xlog_force_lsn"])
}

/// Whether a thread is taking requests from io_uring's queue.
pub fn in_submission(stack: &Stack) -> bool {
    has(stack, &["io_submit_sqes"])
}

/// Whether a thread sleeps over an I/O that it does itself while it gives a batch to io_uring.
pub fn sleeps_in_submission(stack: &Stack) -> bool {
    in_submission(stack) && stack.reason == SleepReason::OwnIo
}

/// Whether a thread waits for a commit of ext4, or for a block that a commit is writing; not for room in the journal.
pub fn waits_for_journal(stack: &Stack) -> bool {
    has(stack, JOURNAL)
        && (!waits_for_room_in_journal(stack) || has(stack, &["do_get_write_access"]))
}

/// Whether a thread waits until a journal takes up what it is about to change: the journal is full, or closed
/// for a commit.
pub fn waits_for_room_in_journal(stack: &Stack) -> bool {
    has(stack, &ROOM)
}

/// Whether a thread waits in a sync for pages that are being written, which are its own.
pub fn syncs(stack: &Stack) -> bool {
    has(stack, WRITEBACK) && has(stack, &["file_write_and_wait", "do_fsync", "__x64_sys_fdatasync"])
}

/// Whether a thread of the kernel runs the queue of a block device.
pub fn runs_queues(stack: &Stack) -> bool {
    has(stack, &["blk_mq_run_work", "blk_mq_requeue_work", "blk_flush_"])
}

/// Whether this thread of the kernel serves a loop device.
pub fn serves_loop(stack: &Stack) -> bool {
    has(stack, LOOP)
}

/// Whether a thread sleeps for a time that it has set itself.
pub fn sleeps_for_set_time(stack: &Stack) -> bool {
    stack.split(';').any(|f| f.contains("nanosleep"))
}

#[cfg(test)]
mod tests;
