//! Stacks as kernels have them.

use super::*;
use crate::events::event::OffCpu;

#[test]
fn a_thread_that_waits_for_pages_waits_for_somebody_else() {
    let waits = [
        "io_schedule;folio_wait_writeback;ext4_sync_file",
        "io_schedule;folio_wait_bit_common;filemap_read",
    ];
    assert!(waits.iter().all(|stack| waits_for_pages(&Stack::of(*stack))));
    let others = [
        "io_schedule;folio_wait_bit_common;do_swap_page;handle_mm_fault",
        "io_schedule_timeout;balance_dirty_pages;ext4_buffered_write_iter",
    ];
    assert!(!others.iter().any(|stack| waits_for_pages(&Stack::of(*stack))));
    let inode = "__sync_dirty_buffer;ext4_write_inode;ext4_fsync_nojournal";
    assert!(waits_for_buffers(&Stack::of(inode)));
    assert!(!waits_for_buffers(&Stack::of("jbd2_log_wait_commit;ext4_sync_file")));
}

#[test]
fn a_lock_of_a_part_that_has_waits_of_its_own_is_ended_by_who_has_it() {
    let passed = |stack: &str| passed_on(&Stack::of(stack), Phase::FileSystem);
    let server = "request_wait_answer;__fuse_simple_request;fuse_direct_io";
    let frozen = "percpu_rwsem_wait;__percpu_down_read;vfs_write";
    assert!(!passed(server) && !passed(frozen), "which nobody else's I/O ends");
    assert!(passed("rwsem_down_write_slowpath;down_write;fuse_cache_write_iter;vfs_write"));
    assert!(passed("__mutex_lock;dquot_acquire;dqget;ext4_create"));
}

#[test]
fn a_thread_that_reads_a_block_of_the_file_system_waits_for_its_own_io() {
    let own = Stack::of(
        "io_schedule;bit_wait_io;__wait_on_bit;out_of_line_wait_on_bit;ext4_read_bh;ext4_bread",
    );
    assert!(reads_block(&own) && !waits_for_buffers(&own));
    let lock = Stack::of("rwsem_down_read_slowpath;ext4_bread;ext4_getxattr");
    let data = Stack::of("io_schedule;folio_wait_bit_common;filemap_read");
    assert!(!reads_block(&lock) && !reads_block(&data));
}

#[test]
fn a_debugger_is_no_signal() {
    let words = |state, stack: Option<&str>| {
        let stack = stack.map(Stack::of);
        match (OffCpu { state, stack, ..OffCpu::default() }).reason() {
            Some(SleepReason::For(Phase::Stopped, words)) => words,
            other => panic!("{other:?}"),
        }
    };
    let traced = "schedule;ptrace_stop;ptrace_do_notify;get_signal";
    assert_eq!(words(8, Some(traced)), TRACED_WORDS);
    assert_eq!(words(4, Some("schedule;do_signal_stop;get_signal")), STOPPED_WORDS);
    // Where the kernel has no function of its own for a stop, and where no stack was seen.
    assert_eq!(words(4, Some("schedule;get_signal")), STOPPED_WORDS);
    assert_eq!((words(0x108, None), words(4, None)), (TRACED_WORDS, STOPPED_WORDS));
    // Where no state was.
    assert_eq!(words(1, Some(traced)), TRACED_WORDS);
    assert_eq!(words(1, Some("schedule;get_signal")), "the program was frozen");
}

#[test]
fn locks_have_names_of_file_systems() {
    let locks = [
        "btrfs_inode_lock;btrfs_sync_file",
        "xfs_ilock;xfs_file_read_iter",
        "wait_extent_bit;lock_extent;btrfs_read_folio",
        "btrfs_tree_lock_nested;btrfs_search_slot",
        "rwsem_down_write_slowpath;ext4_write",
    ];
    assert!(locks.iter().all(|stack| waits_for_lock(&Stack::of(*stack))));
    let others = ["ext4_wait_block_bitmap;ext4_map", "btrfs_cow_block;btrfs_search_slot"];
    assert!(!others.iter().any(|stack| waits_for_lock(&Stack::of(*stack))));
}

#[test]
fn stacks_of_the_kernel_are_understood() {
    let sleep_reason = |stack: &str| Stack::of(stack).reason();
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
        ("wait_for_partner;fifo_open;do_dentry_open;vfs_open", Phase::Application),
        // Linux 6.18: a program that waits for a child it has started, or for its end.
        ("kernel_clone;__x64_sys_vfork;do_syscall_64", Phase::Application),
        ("do_wait;kernel_wait4;do_syscall_64", Phase::Application),
        ("do_msgrcv;do_syscall_64", Phase::Application),
        ("schedule_timeout;wait_woken;sk_wait_data;tcp_recvmsg", Phase::Server),
        ("schedule_hrtimeout_range;do_epoll_wait;__x64_sys_epoll_wait", Phase::Server),
        ("start_this_handle;jbd2__journal_start;__ext4_journal_start_sb", Phase::FileSystem),
        ("io_schedule;folio_wait_bit_common;do_swap_page;handle_mm_fault", Phase::PageCache),
        ("wait_current_trans;start_transaction;btrfs_file_write_iter", Phase::FileSystem),
        ("io_schedule;folio_wait_writeback;kiocb_write_and_wait", Phase::PageCache),
        ("__sync_dirty_buffer;ext4_write_inode;ext4_sync_file", Phase::FileSystem),
        ("bit_wait_io;__lock_buffer;jbd2_journal_get_write_access", Phase::FileSystem),
        ("fanotify_handle_event;fsnotify;__fsnotify_parent;vfs_read", Phase::FileSystem),
        // As Linux 6.18 has it for a read that a supervisor has not answered yet.
        (
            "seccomp_do_user_notification.isra.0;__seccomp_filter;syscall_trace_enter;do_syscall_64",
            Phase::Stopped,
        ),
    ];
    for (stack, phase) in cases {
        assert!(matches!(sleep_reason(stack), SleepReason::For(p, _) if p == phase), "{stack}");
    }
    assert_eq!(sleep_reason("io_cqring_wait;__do_sys_io_uring_enter"), SleepReason::OwnIo);
    assert_eq!(sleep_reason("read_events;do_io_getevents"), SleepReason::OwnIo);
    assert_eq!(sleep_reason("io_schedule;__iomap_dio_rw"), SleepReason::OwnIo);
    assert_eq!(sleep_reason("something_new"), SleepReason::Unknown);
    let locks = [
        ("ext4_buffered_write_iter;vfs_write", Phase::FileSystem),
        ("rwsem_down_write_slowpath;x", Phase::FileSystem),
        ("blkdev_common_ioctl;blkdev_ioctl;__x64_sys_ioctl", Phase::FileSystem),
        ("new_hook;security_file_permission;vfs_read", Phase::FileSystem),
        ("down_read;lock_mm_and_find_vma;do_user_addr_fault", Phase::Application),
        // As Linux 6.18 has it while another thread of the program forks.
        (
            "__gup_longterm_locked;gup_fast_fallback;iov_iter_extract_pages;bio_iov_iter_get_pages;\
             iomap_dio_bio_iter;__iomap_dio_rw;iomap_dio_rw;ext4_file_read_iter;vfs_read",
            Phase::Application,
        ),
        ("__mutex_lock;blk_mq_something;submit_bio;ext4_file_read_iter", Phase::Queue),
    ];
    for (lock, phase) in locks {
        assert!(matches!(sleep_reason(lock), SleepReason::Lock(p, _) if p == phase), "{lock}");
    }
}

/// Functions that stand in the stacks of several kinds of waits.
#[test]
fn the_same_function_means_other_things_in_other_places() {
    let phase = |stack: &str| match Stack::of(stack).reason() {
        SleepReason::For(phase, _) => phase,
        other => panic!("{stack}: {other:?}"),
    };
    let network =
        "schedule_timeout;wait_woken;sk_stream_wait_memory;tcp_sendmsg_locked;sock_sendmsg";
    assert_eq!(phase(network), Phase::Server);
    let disk =
        "nbd_send_cmd;nbd_queue_rq;blk_mq_request_issue_directly;submit_bio_noacct;iomap_dio_rw";
    assert_eq!(phase(&format!("{network};sock_xmit;{disk}")), Phase::Device);
    let lock = "percpu_rwsem_wait;__percpu_down_read";
    assert_eq!(phase(&format!("{lock};vfs_write")), Phase::FileSystem);
    let thread = "cgroup_css_set_fork;cgroup_can_fork;copy_process;create_io_thread;io_wq_enqueue";
    assert_eq!(phase(&format!("{lock};{thread}")), Phase::Application);
    let names = "ext4_evict_inode;__dentry_kill;shrink_dentry_list;shrink_dcache_parent;vfs_rmdir";
    assert_eq!(phase(&format!("wait_transaction_locked;{names}")), Phase::FileSystem);
    let page = "migration_entry_wait_on_locked;do_swap_page;handle_mm_fault";
    assert_eq!(
        Stack::of(page).reason(),
        Stack::of("migration_entry_wait;do_user_addr_fault").reason()
    );
    let audit = "schedule_timeout;audit_log_start;audit_log_exit;__audit_syscall_exit";
    assert_eq!(phase(audit), Phase::Stopped);
    let memory = "io_schedule_timeout;mempool_alloc_noprof;bio_alloc_bioset;iomap_dio_bio_iter";
    assert_eq!(phase(memory), Phase::PageCache);
    // As of Linux 6.17, on the way back from the call that charged the memory.
    let high = "schedule_timeout_killable;__mem_cgroup_handle_over_high;exit_to_user_mode_loop";
    assert_eq!(phase(high), Phase::PageCache);
}
