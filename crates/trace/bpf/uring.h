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

enum { REQ_F_FIXED_FILE = 1 };

/* Whether the file of a request is known only when it ends: it is a registered one. */
INLINE bool registered(struct io_kiocb *request)
{
	return !EXISTS(struct io_cqe, fd) || request->flags & REQ_F_FIXED_FILE;
}

/* Whether a file of the running thread is one of storage: a request on a socket, a pipe or an eventfd may be under way for
 * ever. */
NOINLINE bool on_storage(u32 fd)
{
	u64 inode;

	return is_stored(kind_of_file(file_of_fd(current_task(), fd), &inode));
}

/* A request of a thread that is watched is taken from the queue. */
INLINE void ring_begins(struct thread *t, u32 index, struct io_kiocb *request)
{
	u64 plain = address(request), at = 0, size = 0;
	u64 own = plain + OFFSET_OF(struct io_kiocb, file);
	u32 code = request->opcode, op = op_of_request(code), stored = 0;

	if (!registered(request)) {
		stored = IS_STORED;
		if (op && !on_storage(request->cqe.fd))
			op = 0;
	}
	/* A sync has no place. */
	if (op == 1 || op == 2) {
		at = FIELD(struct kiocb, own, ki_pos);
		size = FIELD(struct io_rw, own, len);
	}
	request_begins(t, index, plain, (NR_RING + code) | op << KIND_SHIFT | stored, at, size);
}

/* The same where its thread may not have its place yet. */
NOINLINE int ring_begins_any(struct io_kiocb *request)
{
	ring_begins(0, 0, request);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx)
{
	struct io_kiocb *request = (void *)ctx[0];
	u64 ids = current_pid_tgid(), data, token;
	u32 index = 0;
	struct thread *t = seated(ids, &index);
	struct slot *s;

	if (LIKELY(t)) {
		ring_begins(t, index, request);
		return 0;
	}
	if (!is_ours(ids >> 32))
		return 0;
	if (cfg_watch)
		return ring_begins_any(request);
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
	u64 data = cfg_watch ? requested_as(address(request)) : request->cqe.user_data, enter;
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
	u64 request = ctx[1];
	struct slot *s;

	if (cfg_watch) {
		request_ends(request, cqe->res);
		return 0;
	}
	s = touched(token_of(cqe->user_data));

	if (s) {
		more_of(s);
		s->cqe = ktime_ns();
	}
	return 0;
}
