/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* File systems and memory: journal commits, direct reclaim. */
#pragma once

#include "match.h"

SEC("tp_btf/jbd2_start_commit")
int jbd2_start(u64 *ctx)
{
	struct journal_s *journal = (void *)ctx[0];
	u64 key = address(journal);
	struct commit c = { .start = ktime_ns() };

	map_update(&commits, &key, &c, 0);
	return 0;
}

SEC("tp_btf/jbd2_commit_logging")
int jbd2_logging(u64 *ctx)
{
	struct journal_s *journal = (void *)ctx[0];
	u64 key = address(journal);
	struct commit *c = map_lookup(&commits, &key);

	if (c)
		c->logging = ktime_ns();
	return 0;
}

SEC("tp_btf/jbd2_end_commit")
int jbd2_end(u64 *ctx)
{
	struct journal_s *journal = (void *)ctx[0];
	u64 key = address(journal);
	struct commit *c = map_lookup(&commits, &key);
	struct event *e;

	if (!c || !watched(disk_of(journal->j_fs_dev->bd_disk)))
		return 0;
	e = event(K_COMMIT, ~0u);
	if (!e)
		return 0;
	e->start = c->start;
	e->middle = c->logging;
	e->end = ktime_ns();
	e->dev = journal->j_fs_dev->bd_dev;
	ring_submit(e, RB_NO_WAKEUP);
	return 0;
}

/* A request to a FUSE server by a thread of ours, and its answer. */
SEC("tp_btf/fuse_request_send")
int fuse_send(u64 *ctx)
{
	u64 ids = current_pid_tgid(), key = address((void *)ctx[0]), token;
	struct slot *s;

	if (!is_ours(ids >> 32))
		return 0;
	token = of_current(0);
	s = slot_of(token);
	if (!s)
		return 0;
	if (s->seen_served != token) {
		s->served = ktime_ns();
		s->answered = 0;
		s->seen_served = token;
	}
	map_update(&serves, &key, &token, 0);
	return 0;
}

SEC("tp_btf/fuse_request_end")
int fuse_end(u64 *ctx)
{
	u64 key = address((void *)ctx[0]);
	u64 *token = map_lookup(&serves, &key);
	struct slot *s;

	if (!token)
		return 0;
	s = slot_of(*token);
	if (s && s->seen_served == *token)
		s->answered = ktime_ns();
	map_delete(&serves, &key);
	return 0;
}

INLINE int reclaim_begins(void)
{
	struct task_struct *me = current_task();
	u32 pid = me->pid, index;
	struct thread *t;
	struct idle *i;

	if (!is_ours(me->tgid))
		return 0;
	t = thread_of(pid, &index);
	if (t) {
		t->reclaim = ktime_ns();
	} else if (me->flags & PF_IO_WORKER) {
		/* One that never left the CPU so far is not known. */
		i = map_lookup(&idles, &pid);
		if (i)
			i->reclaim = ktime_ns();
	}
	return 0;
}

INLINE int reclaim_ends(void)
{
	struct task_struct *me = current_task();
	u32 pid = me->pid, index;
	u64 *since = 0, token = 0;
	struct thread *t;
	struct idle *i;
	struct slot *s;
	struct event *e;

	if (!is_ours(me->tgid))
		return 0;
	t = thread_of(pid, &index);
	if (t) {
		since = &t->reclaim;
	} else if (me->flags & PF_IO_WORKER) {
		i = map_lookup(&idles, &pid);
		if (!i)
			return 0;
		since = &i->reclaim;
		token = of_worker(address(me));
		s = slot_of(token);
		index = s ? (u32)s->worker : ~0u;
	}
	if (!since || !*since)
		return 0;
	e = event(K_RECLAIM, index);
	if (!e)
		return 0;
	e->start = *since;
	e->end = ktime_ns();
	e->b = token;
	*since = 0;
	ring_submit(e, RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int reclaim_begin(u64 *ctx)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int reclaim_end(u64 *ctx)
{
	return reclaim_ends();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int memcg_begin(u64 *ctx)
{
	return reclaim_begins();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int memcg_end(u64 *ctx)
{
	return reclaim_ends();
}
