/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Trace points that only watching has: threads that come and go, begin and end of direct I/O and of syncs. */
#pragma once

#include "match.h"

SEC("tp_btf/sched_process_fork")
int watch_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 tgid = child->tgid, one = 1;

	if (tgid == (u32)parent->tgid || !is_ours(parent->tgid))
		return 0;
	if (map_update(&subjects, &tgid, &one, 0))
		count(C_NO_ROOM);
	return 0;
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
		map_delete(&tids, &pid);
		queue_push(&free_threads, &index, 0);
		count(C_EXITS);
	}
	if (last)
		map_delete(&subjects, &tgid);
	return 0;
}

/* Direct I/O of a file begins. */
SEC("tp_btf/iomap_dio_rw_begin")
int watch_direct(u64 *ctx)
{
	struct kiocb *kiocb = (void *)ctx[0];
	u64 done, now, token, request;
	u32 at;
	struct call *c;

	if (!is_ours(current_pid_tgid() >> 32))
		return 0;
	now = ktime_ns();
	done = (u64)kiocb->ki_complete;
	if (!done) {
		call_here(now, 0);
		return 0;
	}
	if (done != cfg_aio_done)
		return 0;
	request = address(kiocb);
	token = request_begins(request, NR_AIO, kiocb->ki_flags & KIOCB_WRITE ? 2 : 1, now);
	at = token & SLOT_MASK;
	c = token ? map_lookup(&calls, &at) : 0;
	if (c)
		c->at = kiocb->ki_pos;
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
			request_ends(address(kiocb), (u64)READ(struct kiocb, kiocb, ki_filp),
				     (s64)ctx[2] ? (s64)ctx[2] : (s64)(s32)ctx[1], ktime_ns());
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

/* A file system begins to sync a file. */
INLINE int sync_begins(void)
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
	if (c)
		c->marks |= M_SYNC;
	return 0;
}

SEC("tp_btf/ext4_sync_file_enter")
int watch_sync_ext4(u64 *ctx)
{
	return sync_begins();
}

SEC("tp_btf/xfs_file_fsync")
int watch_sync_xfs(u64 *ctx)
{
	return sync_begins();
}

SEC("tp_btf/btrfs_sync_file")
int watch_sync_btrfs(u64 *ctx)
{
	return sync_begins();
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
