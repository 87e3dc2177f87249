/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Trace points that only watching has: threads that come and go, begin and end of direct I/O and of syncs. */
#pragma once

#include "match.h"

/* A thread has ended: its place is free. */
INLINE void leaves_place(u32 pid, u32 index)
{
	u32 at = pid & (SEATS - 1), *place = map_lookup(&seats, &at);

	map_delete(&tids, &pid);
	if (place && *place == index + 1)
		*place = 0;
	queue_push(&free_threads, &index, 0);
	count(C_EXITS);
}

SEC("tp_btf/sched_process_fork")
int watch_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 tgid = child->tgid, pid = child->pid, one = 1, index;
	struct thread *t = thread_of(pid, &index);
	struct call *c = t ? open_call(t) : 0;

	/* A thread that begins another program gets the number of its process, and nobody sees its own number end: who gets
	 * that one now is another thread. */
	if (c)
		finish(t->pad - 1, index, c->last);
	if (t)
		leaves_place(pid, index);
	if (tgid == (u32)parent->tgid || !is_ours(parent->tgid))
		return 0;
	if (map_update(&subjects, &tgid, &one, 0))
		count(C_NO_ROOM);
	count(C_SUBJECTS);
	return 0;
}

/* The call that a thread was in is over. */
INLINE void exact_over(u32 pid)
{
	if (!map_delete(&exact_calls, &pid))
		count_many(C_EXACT_OPEN, -1);
}

SEC("tp_btf/sched_process_exit")
int watch_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 pid = task->pid, tgid = task->tgid, index;
	/* Not the trace point's own word: kernels before 6.16 give none. */
	bool last = !task->signal->live.counter;
	struct thread *t = thread_of(pid, &index);

	/* Of threads that end together, the last one may have been here before. */
	if (!is_ours(tgid) && !t)
		return 0;
	count_many(C_ENDED_READS, task->ioac.syscr);
	count_many(C_ENDED_WRITES, task->ioac.syscw);
	if (t) {
		if (t->pad)
			finish(t->pad - 1, index, ktime_ns());
		leaves_place(pid, index);
	}
	exact_over(pid);
	if (last && !map_delete(&subjects, &tgid))
		count(C_SUBJECTS);
	return 0;
}

/* Attached in windows only: a system call begins. What it is on is asked here, as the descriptor may be closed meanwhile. */
SEC("tp_btf/sys_enter")
int exact_enter(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct exact_call e = { .op = 0 };
	u64 ids = current_pid_tgid(), inode, file;
	u32 nr = ctx[1], pid = ids, *what;

	if (!EXISTS(struct pt_regs, orig_ax) || !counter(C_EXACT) || !is_ours(ids >> 32))
		return 0;
	what = nr < SYSCALLS ? map_lookup(&syscalls, &nr) : 0;
	if (!what || !(*what & W_OP))
		return 0;
	if (*what & W_FD) {
		file = file_of_call(current_task(), *what, regs->di, regs->si, regs->dx);
		if (!is_stored(kind_of_file(file, &inode)))
			return 0;
	}
	e.op = (*what & W_OP) - 1;
	exact_over(pid);
	e.begin = ktime_ns();
	if (map_update(&exact_calls, &pid, &e, 0))
		count(C_NO_ROOM);
	else
		count_many(C_EXACT_OPEN, 1);
	return 0;
}

/* A signal came first: the kernel makes the call once more, and that one is another. */
enum { AGAIN_FROM = -516, AGAIN_TO = -512 };

/* Attached until all of these have ended. */
SEC("tp_btf/sys_exit")
int exact_exit(u64 *ctx)
{
	u64 ids = current_pid_tgid(), now;
	s64 result = ctx[1];
	u32 pid = ids, base, marks;
	struct exact_call *e;

	if (!is_ours(ids >> 32))
		return 0;
	e = map_lookup(&exact_calls, &pid);
	if (!e)
		return 0;
	now = ktime_ns();
	base = (EXACT + (e->op & 15)) * PLACES;
	marks = M_TIMED | M_KNOWN | (result < 0 ? M_FAILED : 0);
	if (result < AGAIN_FROM || result > AGAIN_TO)
		tally_one(base, now - e->begin, marks, e->op < 2 ? result : 0);
	exact_over(pid);
	return 0;
}

/* Direct I/O of a file begins. */
SEC("tp_btf/iomap_dio_rw_begin")
int watch_direct(u64 *ctx)
{
	struct kiocb *kiocb = (void *)ctx[0];
	u64 done = (u64)kiocb->ki_complete, ids;
	u32 op, index = 0;
	struct thread *t;

	/* What io_uring sends has its own trace points. */
	if (done && done != cfg_aio_done) {
		if ((done == cfg_uring_done || done == cfg_uring_polled) && !counter(C_DIRECT) &&
		    is_ours_here(current_pid_tgid()))
			note_direct(RINGS_SEEN);
		return 0;
	}
	ids = current_pid_tgid();
	if (!is_ours(ids >> 32))
		return 0;
	note_direct(OTHERS_SEEN);
	if (!done) {
		call_here(ktime_ns(), 0);
		return 0;
	}
	/* Nobody may see its end: its place would be taken for good, and its thread have a request under way. */
	if (direct_away()) {
		count(C_NO_ROOM);
		return 0;
	}
	op = kiocb->ki_flags & KIOCB_WRITE ? 2 : 1;
	t = seated(ids, &index);
	request_begins(t, index, address(kiocb), NR_AIO | op << KIND_SHIFT | IS_STORED,
		       kiocb->ki_pos, 0);
	return 0;
}

/* What a part of a call's direct I/O brought, or its error. */
INLINE void direct_brought(struct call *c, s64 result)
{
	if (result < 0) {
		c->result = result;
		c->marks |= M_FAILED;
	} else {
		c->size = (c->marks & M_KNOWN ? c->size : 0) + result;
	}
	c->marks |= M_KNOWN;
}

/* It ends. */
SEC("tp_btf/iomap_dio_complete")
int watch_direct_end(u64 *ctx)
{
	struct kiocb *kiocb = (void *)ctx[0];
	u64 done = (u64)kiocb->ki_complete;
	struct thread *t;
	struct call *c;
	u32 index;

	if (done) {
		if (done == cfg_aio_done)
			request_ends(address(kiocb), (s64)ctx[2] ? (s64)ctx[2] : (s64)(s32)ctx[1]);
		return 0;
	}
	if (!is_ours(current_pid_tgid() >> 32))
		return 0;
	t = thread_of((u32)current_pid_tgid(), &index);
	c = t ? open_call(t) : 0;
	if (!c)
		return 0;
	c->last = ktime_ns();
	if (c->op < 2 && c->nr != NR_FAULT)
		direct_brought(c, (s64)ctx[2] ? (s64)ctx[2] : (s64)(s32)ctx[1]);
	c->marks |= M_TIMED;
	return 0;
}

/* A call that names no file (msync) is on the first one that it syncs; whoever waits for pages of these waits for the
 * program's. */
INLINE void syncs_on(struct call *c, u32 worker, u64 inode)
{
	u64 mapping = inode ? (u64)READ(struct inode, inode, i_mapping) : 0;

	if (!mapping)
		return;
	if (!c->mapping) {
		c->mapping = mapping;
		c->inode = READ(struct inode, inode, i_ino);
		c->generation = READ(struct inode, inode, i_generation);
		c->dev = READ(struct super_block, READ(struct inode, inode, i_sb), s_dev);
	}
	map_update(&mappings, &mapping, &worker, 0);
}

/* A file system begins to sync a file. */
INLINE int sync_begins(u64 inode)
{
	u64 now;
	struct thread *t;
	struct call *c;
	u32 index;

	if (!is_ours(current_pid_tgid() >> 32))
		return 0;
	now = ktime_ns();
	t = thread_of((u32)current_pid_tgid(), &index);
	c = t ? open_call(t) : 0;
	/* The same call from the same place as before it, but a second one. */
	if (c && c->marks & M_SYNC)
		finish(t->pad - 1, index, c->last);
	call_here(now, 0);
	t = thread_of((u32)current_pid_tgid(), &index);
	c = t ? open_call(t) : 0;
	if (!c)
		return 0;
	c->marks |= M_SYNC;
	syncs_on(c, index, inode);
	return 0;
}

SEC("tp_btf/ext4_sync_file_enter")
int watch_sync_ext4(u64 *ctx)
{
	return sync_begins((u64)READ(struct file, address((void *)ctx[0]), f_inode));
}

SEC("tp_btf/xfs_file_fsync")
int watch_sync_xfs(u64 *ctx)
{
	return sync_begins(address((void *)ctx[0]) + OFFSET_OF(struct xfs_inode, i_vnode));
}

SEC("tp_btf/btrfs_sync_file")
int watch_sync_btrfs(u64 *ctx)
{
	return sync_begins((u64)READ(struct file, address((void *)ctx[0]), f_inode));
}

SEC("tp_btf/ext4_sync_file_exit")
int watch_sync_end(u64 *ctx)
{
	struct thread *t;
	struct call *c;
	u32 index;

	if (!is_ours(current_pid_tgid() >> 32))
		return 0;
	t = thread_of((u32)current_pid_tgid(), &index);
	c = t ? open_call(t) : 0;
	if (c) {
		c->last = ktime_ns();
		c->result = (s32)ctx[1];
		c->marks |= M_TIMED;
		/* Of a write that syncs, this is the end of the sync. */
		if (c->op == 3)
			c->marks |= M_KNOWN;
		if (c->result < 0)
			c->marks |= M_FAILED;
	}
	return 0;
}
