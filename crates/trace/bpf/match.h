/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* From a bio back to the operation it belongs to. Direct I/O leads back by itself: bio -> direct
 * I/O state -> kiocb -> io_uring request (user_data) or waiting thread. That holds in any context,
 * also when a throttled bio is queued by a kernel worker, and needs no table. Everything else is
 * remembered in `bios` by the thread that queues it. */
#pragma once

#include "watch.h"

enum { DIO_IS_SYNC = 2 };
enum { REQ_OP_MASK = 0xff, REQ_OP_FLUSH = 2, S_IFMT = 0170000, S_IFBLK = 0060000 };

/* The operation a thread with one operation at a time is in. */
INLINE u64 of_thread(struct thread *t)
{
	u32 index = t->slot & SLOT_MASK;
	struct slot *s;

	if (cfg_watch) {
		struct call *c = open_call(t);

		return c ? c->token : 0;
	}
	if (t->depth != 1)
		return t->current & STALE ? 0 : t->current;
	s = map_lookup(&slots, &index);
	return s ? s->token : 0;
}

/* The operation that an io_uring worker thread is doing. */
INLINE u64 of_worker(u64 worker)
{
	u64 state = (u64)READ(struct task_struct, worker, worker_private);
	u64 work = state ? (u64)READ(struct io_worker, state, cur_work) : 0;

	if (!work)
		return 0;
	work -= OFFSET_OF(struct io_kiocb, work);
	if (cfg_watch)
		return requested_as(work);
	return token_of(READ(struct io_kiocb, work, cqe.user_data));
}

INLINE u64 of_task(u64 task)
{
	u32 index;
	struct thread *t;

	if (!is_ours(READ(struct task_struct, task, tgid)))
		return 0;
	t = thread_of(READ(struct task_struct, task, pid), &index);
	if (t)
		return of_thread(t);
	return READ(struct task_struct, task, flags) & PF_IO_WORKER ? of_worker(task) : 0;
}

/* A bio as plain numbers. */
struct plain {
	u64 self;
	u64 end_io;
	u64 private;
};

INLINE void plain_of(struct plain *p, u64 bio)
{
	p->self = bio;
	p->end_io = (u64)READ(struct bio, bio, bi_end_io);
	p->private = (u64)READ(struct bio, bio, bi_private);
}

/* Who waits for a completion; 0 when nobody does yet. */
INLINE u64 waiter_of(u64 completion)
{
	u64 head = completion + OFFSET_OF(struct completion, wait) +
		   OFFSET_OF(struct swait_queue_head, task_list);
	u64 entry = (u64)READ(struct list_head, head, next);

	if (!entry || entry == head)
		return 0;
	entry -= OFFSET_OF(struct swait_queue, task_list);
	return (u64)READ(struct swait_queue, entry, task);
}

/* Step 1: the kiocb of a direct I/O, or the task that waits for it. */
INLINE void direct(const struct plain *p, u64 *kiocb, u64 *task)
{
	u64 done;

	*kiocb = *task = 0;
	if (p->end_io == cfg_end_iomap) {
		*kiocb = (u64)READ(struct iomap_dio, p->private, iocb);
		done = (u64)READ(struct kiocb, *kiocb, ki_complete);
		if (!done) {
			*kiocb = 0;
			*task = (u64)READ(struct iomap_dio, p->private, submit.waiter);
		} else if (done == cfg_backing_done || done == cfg_backing_queue) {
			*kiocb = (u64)READ(struct backing_aio, *kiocb, orig_iocb);
		}
	} else if (p->end_io == cfg_end_blkdev_async) {
		u64 dio = p->self - OFFSET_OF(struct blkdev_dio, bio);

		*kiocb = (u64)READ(struct blkdev_dio, dio, iocb);
	} else if (p->end_io == cfg_end_blkdev) {
		if (READ(struct blkdev_dio, p->private, flags) & DIO_IS_SYNC)
			*task = (u64)READ(struct blkdev_dio, p->private, waiter);
		else
			*kiocb = (u64)READ(struct blkdev_dio, p->private, iocb);
	} else if (p->end_io == cfg_end_wait) {
		*task = waiter_of(p->private);
	}
}

/* Step 2: the operation of a kiocb of io_uring, or of a waiting task. */
INLINE u64 of_direct(u64 kiocb, u64 task)
{
	u64 done;

	if (task)
		return of_task(task);
	if (!kiocb)
		return 0;
	done = (u64)READ(struct kiocb, kiocb, ki_complete);
	if (cfg_watch)
		return done ? requested_as(kiocb) : 0;
	if (done && (done == cfg_uring_done || done == cfg_uring_polled))
		return token_of(READ(struct io_kiocb, kiocb, cqe.user_data));
	return 0;
}

INLINE u64 remembered(u64 bio)
{
	u64 *token = map_lookup(&bios, &bio);

	return token ? *token : 0;
}

/* The operation of a file's direct I/O of io_uring, by plain loads; 0 for anything else. */
INLINE u64 of_iomap(struct bio *bio)
{
	struct kiocb *kiocb = AS(struct iomap_dio, bio->bi_private)->iocb;
	u64 done = (u64)AS(struct kiocb, kiocb)->ki_complete, data;

	if (!done || (done != cfg_uring_done && done != cfg_uring_polled))
		return 0;
	data = AS(struct io_kiocb, kiocb)->cqe.user_data;
	/* The verifier takes no load that the compiler shares with another kind of pointer. */
	asm volatile("" : "+r"(data));
	return token_of(data);
}

/* Bytes of an io_uring request that hold what is asked of it. */
#define HEAD 96

/* The operation of a direct I/O of io_uring, by the shortest way; 0 for anything else. Reading the
 * head of the request once is cheaper than reading two of its fields. */
INLINE u64 of_ring(struct bio *bio)
{
	u32 complete = OFFSET_OF(struct kiocb, ki_complete);
	u32 data = OFFSET_OF(struct io_kiocb, cqe.user_data);
	u64 end_io = (u64)bio->bi_end_io, kiocb, done;
	u8 head[HEAD] __attribute__((aligned(8)));

	if (cfg_watch) {
		if (!cfg_cast || end_io != cfg_end_iomap)
			return 0;
		kiocb = (u64)READ(struct iomap_dio, bio->bi_private, iocb);
		return AS(struct kiocb, (void *)kiocb)->ki_complete ? requested_as(kiocb) : 0;
	}
	if (cfg_cast && end_io == cfg_end_iomap)
		return of_iomap(bio);
	if (end_io == cfg_end_iomap)
		kiocb = (u64)READ(struct iomap_dio, bio->bi_private, iocb);
	else if (end_io == cfg_end_blkdev_async)
		kiocb = (u64)READ(struct blkdev_dio,
				  address(bio) - OFFSET_OF(struct blkdev_dio, bio), iocb);
	else
		return 0;
	if (complete > HEAD - 8 || data > HEAD - 8 || read_kernel(head, HEAD, (void *)kiocb))
		return 0;
	done = *(u64 *)(head + complete);
	if (!done || (done != cfg_uring_done && done != cfg_uring_polled))
		return 0;
	return token_of(*(u64 *)(head + data));
}

/* A bio that was remembered ends: its address may be somebody else's next. One that was split ends with
 * the last of its parts, in whatever order they end: those cut off lead back through it. */
INLINE void forget(struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io, key = address(bio);

	if (end_io == cfg_end_iomap || end_io == cfg_end_blkdev || end_io == cfg_end_blkdev_async)
		return;
	if (end_io == cfg_end_chain && end_io)
		key = (u64)bio->bi_private;
	if (READ(struct bio, key, __bi_remaining.counter) <= 1)
		map_delete(&bios, &key);
}

/* The operation of a bio and, for the file behind a loop device, of the loop device's request, and so
 * on through loop devices over loop devices. A `fresh` one begins its life: what is remembered of its address was another. */
GLOBAL u64 resolve_any(u64 self, u64 end_io, u64 private, bool fresh)
{
	struct plain p = { .self = self, .end_io = end_io, .private = private };
	u64 kiocb, task, token;

	if (p.end_io == cfg_end_chain && p.end_io)
		plain_of(&p, p.private);
	if (!p.end_io)
		return 0;
	/* The command is the head of its request. */
	if (p.end_io == cfg_end_command)
		return cfg_watch ? requested_as(p.private) :
		       token_of(READ(struct io_kiocb, p.private, cqe.user_data));
	direct(&p, &kiocb, &task);
	if (!kiocb && !task)
		return fresh && p.self == self ? 0 : remembered(p.self);
	token = of_direct(kiocb, task);
	for (u64 depth = 1; depth <= LEVELS; depth++) {
		if (token || !kiocb || !cfg_loop_done ||
		    (u64)READ(struct kiocb, kiocb, ki_complete) != cfg_loop_done)
			return token;
		/* The command lies behind its request; the request has the upper bio. */
		kiocb -= OFFSET_OF(struct loop_cmd, iocb) + SIZE_OF(struct request);
		plain_of(&p, (u64)READ(struct request, kiocb, bio));
		if (p.end_io == cfg_end_chain && p.end_io)
			plain_of(&p, p.private);
		direct(&p, &kiocb, &task);
		token = kiocb || task ? of_direct(kiocb, task) : remembered(p.self);
		token = token ? token | depth << LOWER_SHIFT : 0;
	}
	return token;
}

INLINE u64 resolve_as(struct bio *bio, bool fresh)
{
	u64 token = of_ring(bio);

	return token ? token :
		       resolve_any(address(bio), address(bio->bi_end_io), address(bio->bi_private),
				   fresh);
}

INLINE u64 resolve(struct bio *bio)
{
	return resolve_as(bio, 0);
}

INLINE u64 resolve_fresh(struct bio *bio)
{
	return resolve_as(bio, 1);
}

/* Functions of a stack looked at, and those skipped that belong to this program. */
#define DEPTH 32
#define SKIPPED 3

/* Whether the running thread is in one of the functions between two addresses. */
NOINLINE bool inside(u64 from, u64 to)
{
	u64 stack[DEPTH];
	long bytes = task_stack(current_task(), stack, sizeof(stack), SKIPPED);

	for (int i = 0; i < DEPTH; i++) {
		if ((long)(i * sizeof(u64)) >= bytes)
			return 0;
		if (stack[i] - from < to - from)
			return 1;
	}
	return 0;
}

/* Whether something else than the running thread may be at work: an interrupt. */
INLINE bool interrupted(void)
{
	return !cfg_irq_to || inside(cfg_irq_from, cfg_irq_to);
}

/* Whether the running thread is taking requests from the queue of an io_uring. Else it goes on with
 * any of those under way. */
INLINE bool submitting(void)
{
	return inside(cfg_submit_from, cfg_submit_to);
}

/* Whether the running thread queues what a control group's limit had held back. */
INLINE bool throttled(void)
{
	return cfg_throttle_to && inside(cfg_throttle_from, cfg_throttle_to);
}

/* Where a bio begins in the page cache. */
struct page_place {
	u64 mapping;
	u64 index; /* of the page with its first byte */
	u64 first; /* of the first page that comes together with that one (folio) */
};

/* Bits of a mapping that say: no file's (anonymous memory, or memory of a driver). */
enum { NO_FILE = 3 };

/* False for any other memory than a file's pages, and where a folio's further pages do not say which
 * is its first. */
INLINE bool cached(struct bio *bio, struct page_place *p)
{
	u64 vec, page, offset, head, folio;

	/* What is without data may have vectors of an earlier use. */
	if (!bio->bi_iter.bi_size || !EXISTS(struct page, compound_head))
		return 0;
	vec = (u64)bio->bi_io_vec + (u64)bio->bi_iter.bi_idx * SIZE_OF(struct bio_vec);
	page = (u64)READ(struct bio_vec, vec, bv_page);
	offset = (u64)READ(struct bio_vec, vec, bv_offset) + bio->bi_iter.bi_bvec_done;
	head = READ(struct page, page, compound_head);
	folio = head & 1 ? head - 1 : page;
	p->mapping = (u64)READ(struct folio, folio, mapping);
	if (!p->mapping || p->mapping & NO_FILE)
		return 0;
	p->first = READ(struct folio, folio, index);
	p->index = p->first + (page - folio) / SIZE_OF(struct page) + (offset >> cfg_page_bits);
	return 1;
}

NOINLINE bool of_cache(struct bio *bio)
{
	struct page_place p;

	return cached(bio, &p);
}

/* What kind of file a mapping is of, and which: the number of its inode, of a block device its own.
 * 0 for other kinds than the target's. */
INLINE u64 file_of(u64 mapping)
{
	u64 host = (u64)READ(struct address_space, mapping, host);

	if (!host || (READ(struct inode, host, i_mode) & S_IFMT) != cfg_kind)
		return 0;
	return cfg_kind == S_IFBLK ? READ(struct inode, host, i_rdev) :
				     READ(struct inode, host, i_ino);
}

/* Slots of a thread looked at: of one with more, what is found may not be all there is. */
#define SEARCHED 256

/* Requests of io_uring that read or write, by their fixed numbers: READV, WRITEV, READ_FIXED,
 * WRITE_FIXED, READ, WRITE. Others (a sync) have no place where these have it. */
#define MOVES (1ull << 1 | 1ull << 2 | 1ull << 4 | 1ull << 5 | 1ull << 22 | 1ull << 23)

/* Where a request stands in its file. */
struct place {
	u64 mapping;
	u64 at;
	u64 to;
};

/* False when the slot's request is that of another operation, moves no data, or has its answer. */
INLINE bool place_of(struct slot *s, struct place *p)
{
	u64 token = s->token, request = s->request, kiocb;
	u32 opcode;

	if (!token || !request ||
	    token_of(READ(struct io_kiocb, request, cqe.user_data)) != token)
		return 0;
	opcode = READ(struct io_kiocb, request, opcode);
	if (opcode > 63 || !(MOVES >> opcode & 1) || (s->seen_more == token && s->cqe))
		return 0;
	kiocb = request + OFFSET_OF(struct io_kiocb, file);
	p->at = READ(struct kiocb, kiocb, ki_pos);
	p->to = p->at + (u32)READ(struct io_kiocb, request, cqe.res);
	p->mapping = (u64)READ(struct file, READ(struct kiocb, kiocb, ki_filp), f_mapping);
	return 1;
}

/* A part may be of this operation: what is seen of it may not be all. */
INLINE void unclear(u64 token)
{
	struct slot *s = touched(token);

	if (s)
		s->flags |= F_UNCLEAR;
}

/* Parts of a thread with so many operations that not all are looked at. */
INLINE void unplaced(struct thread *t)
{
	u32 index = t->slot & SLOT_MASK;
	struct slot *s = map_lookup(&slots, &index);

	if (s)
		s->unplaced = ktime_ns();
}

/* An io_uring read goes on where a page has come that it waited for, and wants the next one, or
 * several. It stands at the first of these, and no other read of the thread does: that one would
 * have found the page wanted already. */
NOINLINE u64 of_page(struct thread *t, struct bio *bio)
{
	struct page_place b;
	struct place p;
	struct slot *s;
	u64 found = 0;
	bool several = 0;

	if (!cached(bio, &b))
		return 0;
	if (t->depth > SEARCHED) {
		unplaced(t);
		return 0;
	}
	for (u32 i = 0; i < SEARCHED; i++) {
		u32 at = (t->slot + i) & SLOT_MASK;

		if (i >= t->depth)
			break;
		s = map_lookup(&slots, &at);
		if (!s)
			break;
		if (!place_of(s, &p) || p.at >> cfg_page_bits != b.index ||
		    p.mapping != b.mapping)
			continue;
		if (found) {
			several = 1;
			unclear(s->token);
		} else {
			found = s->token;
		}
	}
	if (several) {
		unclear(found);
		/* Nor is it known whose the other parts of this step are. */
		t->current |= STALE;
		return 0;
	}
	if (found) {
		t->current = found;
		return found;
	}
	/* Pages that lie apart on the disk are further parts of the same step; those that come
	 * together with one that is wanted are waited for with it. */
	s = slot_of(t->current);
	if (!s || !place_of(s, &p) || p.mapping != b.mapping)
		return 0;
	return b.index << cfg_page_bits > p.at && b.first << cfg_page_bits < p.to ? t->current : 0;
}

/* Whether a mapping is of the run's file; with several, of one of its kind. */
INLINE bool of_run(u64 mapping)
{
	u64 own = counter(C_FILE), file = file_of(mapping);

	return file && (!own || own == file);
}

/* Whether a mapping is that of an operation that is watched. */
INLINE bool of_call(struct slot *s, u64 mapping)
{
	u32 at = s->token & SLOT_MASK;
	struct call *c = map_lookup(&calls, &at);

	return c && c->mapping == mapping;
}

/* The kernel reads on in the operation's file beyond what was asked for: nobody waits for that. What
 * comes together with a page that was asked for is waited for, however far it reaches. */
INLINE bool ahead(struct slot *s, struct bio *bio)
{
	struct page_place b;

	if (!s->to || bio->bi_opf & REQ_OP_MASK || !cached(bio, &b))
		return 0;
	if (cfg_watch ? !of_call(s, b.mapping) : !of_run(b.mapping))
		return 0;
	return b.first << cfg_page_bits >= s->to;
}

/* Whether a call that is watched brings pages for later ones. */
INLINE bool brings_ahead(struct slot *s, struct bio *bio)
{
	u32 at = s->token & SLOT_MASK;
	struct call *c = cfg_watch ? map_lookup(&calls, &at) : 0;

	return c && c->marks & M_AHEAD && !(bio->bi_opf & REQ_OP_MASK) && of_cache(bio);
}

/* Whether the running thread of the kernel queues what a limit had held back. */
INLINE bool let_go(void)
{
	return current_task()->flags & PF_WQ_WORKER && throttled();
}

/* Pages of the run's file: whoever waits for them waits for this bio. */
NOINLINE bool pages_of_run(struct bio *bio)
{
	struct page_place b;

	if (!cached(bio, &b))
		return 0;
	return cfg_watch ? !!map_lookup(&mappings, &b.mapping) : of_run(b.mapping);
}

/* The thread of the load whose operations the running thread submits: itself, or the one that it polls
 * for. 0 for any other. */
INLINE struct thread *submits_for(struct task_struct *me)
{
	u32 pid = me->pid, index, *polled;
	struct thread *t = thread_of(pid, &index);

	if (t || !(me->flags & PF_IO_WORKER))
		return t;
	polled = map_lookup(&pollers, &pid);
	return polled ? map_lookup(&threads, polled) : 0;
}

/* The operation that the running thread is submitting, for I/O that does not lead back. */
INLINE u64 of_current(struct bio *bio)
{
	struct task_struct *me = current_task();
	struct thread *t = submits_for(me);
	u64 found;

	if (t && cfg_watch) {
		found = of_thread(t);
		return found || !t->current || !submitting() ? found : requested_as(t->current);
	}
	if (t) {
		/* The programs that tell are attached when they are wanted. */
		if (t->depth == 1)
			return of_thread(t);
		if (!t->current)
			count(C_WANTED);
		if (t->current && submitting())
			return t->current;
		found = t->current && bio ? of_page(t, bio) : 0;
		/* Where the kernel hides its addresses nobody can tell whether it was being submitted. */
		if (!found && !cfg_submit_from)
			unplaced(t);
		return found;
	}
	return me->flags & PF_IO_WORKER ? of_worker(address(me)) : 0;
}
