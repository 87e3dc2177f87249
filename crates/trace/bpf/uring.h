/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* io_uring requests: picked up, handed to a worker thread, complete. user_data is the token. */
#pragma once

#include "match.h"

/* The thread of the load that a request is of. What is no operation goes on with none of that thread's. */
INLINE struct thread *owner(struct slot *s)
{
	u32 index = s ? (u32)s->worker : 0;
	struct thread *t = s ? map_lookup(&threads, &index) : 0;

	return t ? t : submits_for(current_task());
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx)
{
	struct io_kiocb *request = (void *)ctx[0];
	u64 data, token;
	struct thread *t;
	struct slot *s;

	if ((u32)(current_pid_tgid() >> 32) != cfg_tgid)
		return 0;
	data = request->cqe.user_data;
	token = token_of(data);
	s = slot_of(token);
	t = owner(s);
	if (t)
		t->current = token;
	/* A write is picked up once, whatever its sync does later. */
	if (s && !(data & LOWER)) {
		touched(token);
		more_of(s);
		s->enter = ktime_ns();
		s->request = (u64)request;
	}
	return 0;
}

SEC("tp_btf/io_uring_queue_async_work")
int uring_punt(u64 *ctx)
{
	struct io_kiocb *request = (void *)ctx[0];
	u64 data = request->cqe.user_data, enter;
	struct slot *s = slot_of(token_of(data));

	if (!s)
		return 0;
	count(C_PUNTED);
	if (data & LOWER) {
		part_of(s, token_of(data));
		s->sync_punt = ktime_ns();
		return 0;
	}
	more_of(s);
	enter = s->enter;
	/* What the first attempt queued came back undone (EAGAIN): the worker begins anew. */
	s->seen = s->seen_more = s->seen_low = s->seen_part = 0;
	s->seen_served = 0;
	touched(s->token);
	more_of(s);
	s->enter = enter;
	s->flags = F_PUNTED;
	s->punt = ktime_ns();
	return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *ctx)
{
	struct io_uring_cqe *cqe = (void *)ctx[2];
	struct slot *s = touched(token_of(cqe->user_data));

	if (s) {
		more_of(s);
		s->cqe = ktime_ns();
	}
	return 0;
}
