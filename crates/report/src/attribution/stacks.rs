//! What a sleeping thread waits for, read from the kernel functions it sleeps in.

use super::phase::Phase;

/// What a stack says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepReason {
    /// A wait of a phase, with the reason in words.
    For(Phase, &'static str),
    /// A wait for a lock in the kernel, which whoever holds it explains.
    Lock(Phase, &'static str),
    /// The thread waits for its own I/O; its stamps say more.
    OwnIo,
    Unknown,
}

/// Names of functions, more telling ones first: the first that occurs in a stack decides.
const KNOWN: &[(&[&str], Phase, &str)] = &[
    (
        &["do_signal_stop", "ptrace_stop", "do_jobctl_trap"],
        Phase::Stopped,
        "the program was stopped by a signal",
    ),
    (
        &["__refrigerator", "do_freezer_trap", "get_signal"],
        Phase::Stopped,
        "the program was frozen",
    ),
    (
        &["rq_qos_wait", "wbt_wait", "ioc_rqos_throttle"],
        Phase::Throttle,
        "held back by writeback throttling or an I/O cost limit",
    ),
    (
        &["blkcg_maybe_throttle", "blk_throtl"],
        Phase::Throttle,
        "held back by a control group's I/O limit",
    ),
    (
        &["blk_mq_get_tag", "blk_mq_get_request"],
        Phase::Tags,
        "no free request in the device's queue",
    ),
    (&["request_wait_answer", "fuse_"], Phase::FileSystem, "waiting for the FUSE server"),
    (
        &["percpu_rwsem_wait", "sb_start_write", "__percpu_down_read"],
        Phase::FileSystem,
        "the file system was frozen",
    ),
    (
        &["balance_dirty_pages"],
        Phase::PageCache,
        "too many dirty pages: the kernel slows writers down",
    ),
    (
        &["reclaim_throttle", "try_to_free", "shrink_lruvec", "try_charge_memcg", "mem_cgroup_"],
        Phase::PageCache,
        "making room in memory",
    ),
    (
        &["jbd2_", "wait_transaction", "add_transaction_credits", "ext4_journal"],
        Phase::FileSystem,
        "waiting for the journal",
    ),
    (&["xlog_", "xfs_log", "xfs_trans"], Phase::FileSystem, "waiting for the XFS log"),
    (
        &["folio_wait_writeback", "filemap_fdatawait", "writeback_wait"],
        Phase::PageCache,
        "waiting for writeback",
    ),
    (
        &["folio_wait_bit", "filemap_update_page", "wait_on_page"],
        Phase::PageCache,
        "waiting for a page that another I/O reads",
    ),
    (
        &[
            "tcp_recvmsg",
            "tcp_sendmsg",
            "sk_wait_data",
            "unix_stream",
            "inet_stream_connect",
            "ep_poll",
            "do_sys_poll",
            "do_poll",
        ],
        Phase::Server,
        "waiting for the server or the network",
    ),
    (
        &["futex_wait", "hrtimer_nanosleep", "do_nanosleep", "pipe_read"],
        Phase::Application,
        "asleep in the program itself",
    ),
];

/// Locks of the kernel, in whatever part of it.
const LOCKS: &[&str] = &["rwsem_down", "__mutex_lock", "mutex_lock", "down_read", "down_write"];

/// File systems: one that sleeps in its own function waits for a lock of its own.
const FILE_SYSTEMS: &[&str] = &["ext4_", "xfs_", "btrfs_", "f2fs_", "nfs_", "generic_file_"];

/// Waits for the thread's own I/O.
const OWN: &[&str] = &[
    "io_cqring_wait",
    "iomap_dio",
    "blkdev_direct_IO",
    "__blkdev_",
    "submit_bio_wait",
    "bio_await",
    "io_schedule",
    "blk_io_schedule",
];

/// Reads a stack (functions separated by `;`, innermost first).
pub fn sleep_reason(stack: &str) -> SleepReason {
    let has = |names: &[&str]| stack.split(';').any(|f| names.iter().any(|n| f.starts_with(n)));
    if let Some((_, phase, words)) = KNOWN.iter().find(|(names, _, _)| has(names)) {
        return SleepReason::For(*phase, words);
    }
    let innermost = stack.split(';').next().unwrap_or_default();
    if has(LOCKS) || FILE_SYSTEMS.iter().any(|n| innermost.starts_with(n)) {
        return SleepReason::Lock(Phase::FileSystem, "waiting for a lock in the kernel");
    }
    if has(OWN) { SleepReason::OwnIo } else { SleepReason::Unknown }
}

/// Whether a thread sleeps for a time that it has set itself.
pub fn sleeps_for_set_time(stack: &str) -> bool {
    stack.split(';').any(|f| f.contains("nanosleep"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_the_kernel_are_understood() {
        let cases = [
            ("io_schedule;blk_mq_get_tag;__blk_mq_alloc_requests", Phase::Tags),
            ("percpu_rwsem_wait;__percpu_down_read;vfs_write", Phase::FileSystem),
            ("request_wait_answer;__fuse_simple_request;fuse_direct_io", Phase::FileSystem),
            ("jbd2_log_wait_commit;ext4_sync_file;do_fsync", Phase::FileSystem),
            ("io_schedule_timeout;balance_dirty_pages;ext4_buffered_write_iter", Phase::PageCache),
            ("do_signal_stop;get_signal;arch_do_signal_or_restart", Phase::Stopped),
            ("__refrigerator;get_signal", Phase::Stopped),
            ("io_schedule;rq_qos_wait;wbt_wait", Phase::Throttle),
            ("futex_wait_queue;futex_wait", Phase::Application),
            ("schedule_timeout;wait_woken;sk_wait_data;tcp_recvmsg", Phase::Server),
        ];
        for (stack, phase) in cases {
            assert!(matches!(sleep_reason(stack), SleepReason::For(p, _) if p == phase), "{stack}");
        }
        assert_eq!(sleep_reason("io_cqring_wait;__do_sys_io_uring_enter"), SleepReason::OwnIo);
        assert_eq!(sleep_reason("io_schedule;__iomap_dio_rw"), SleepReason::OwnIo);
        assert_eq!(sleep_reason("something_new"), SleepReason::Unknown);
        for lock in ["ext4_buffered_write_iter;vfs_write", "rwsem_down_write_slowpath;x"] {
            assert!(
                matches!(sleep_reason(lock), SleepReason::Lock(Phase::FileSystem, _)),
                "{lock}"
            );
        }
    }
}
