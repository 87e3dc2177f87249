/* From a bio back to the operation it belongs to. Direct I/O leads back by itself: bio -> direct
 * I/O state -> kiocb -> io_uring request (user_data) or waiting thread. That holds in any context,
 * also when a throttled bio is queued by a kernel worker, and needs no table. Everything else is
 * remembered in `bios` by the thread that queues it. */
#pragma once

#include "shared.h"

enum { DIO_IS_SYNC = 2 };
enum { PF_IO_WORKER = 0x10, PF_KTHREAD = 0x200000 };

/* The operation a thread with one operation at a time is in. */
INLINE u64 of_thread(struct thread *t)
{
	u32 index = t->slot & SLOT_MASK;
	struct slot *s;

	if (!t->single)
		return t->current;
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
	return token_of(READ(struct io_kiocb, work - OFFSET_OF(struct io_kiocb, work), cqe.user_data));
}

INLINE u64 of_task(u64 task)
{
	u32 index;
	struct thread *t;

	if ((u32)READ(struct task_struct, task, tgid) != cfg_tgid)
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
	*kiocb = *task = 0;
	if (p->end_io == cfg_end_iomap) {
		*kiocb = (u64)READ(struct iomap_dio, p->private, iocb);
		if (!READ(struct kiocb, *kiocb, ki_complete)) {
			*kiocb = 0;
			*task = (u64)READ(struct iomap_dio, p->private, submit.waiter);
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
	if (done && (done == cfg_uring_done || done == cfg_uring_polled))
		return token_of(READ(struct io_kiocb, kiocb, cqe.user_data));
	return 0;
}

INLINE u64 remembered(u64 bio)
{
	u64 *token = map_lookup(&bios, &bio);

	return token ? *token : 0;
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

/* A bio that was remembered ends: its address may be somebody else's next. */
INLINE void forget(struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io, key = address(bio);

	if (end_io != cfg_end_iomap && end_io != cfg_end_blkdev && end_io != cfg_end_blkdev_async)
		map_delete(&bios, &key);
}

/* The operation of a bio and, for the file behind a loop device, of the loop device's request. A
 * `fresh` one begins its life: what is remembered of its address was another. */
NOINLINE u64 resolve_any(struct bio *bio, bool fresh)
{
	struct plain p;
	u64 kiocb, task, token, done;

	p.end_io = (u64)bio->bi_end_io;
	p.private = (u64)bio->bi_private;
	p.self = address(bio);
	if (p.end_io == cfg_end_chain && p.end_io)
		plain_of(&p, p.private);
	if (!p.end_io)
		return 0;
	direct(&p, &kiocb, &task);
	if (!kiocb && !task)
		return fresh && p.self == address(bio) ? 0 : remembered(p.self);
	token = of_direct(kiocb, task);
	if (token || !kiocb || !cfg_loop_done)
		return token;
	done = (u64)READ(struct kiocb, kiocb, ki_complete);
	if (done != cfg_loop_done)
		return 0;
	/* The command lies behind its request; the request has the upper bio. */
	kiocb -= OFFSET_OF(struct loop_cmd, iocb) + SIZE_OF(struct request);
	plain_of(&p, (u64)READ(struct request, kiocb, bio));
	if (p.end_io == cfg_end_chain && p.end_io)
		plain_of(&p, p.private);
	direct(&p, &kiocb, &task);
	token = kiocb || task ? of_direct(kiocb, task) : remembered(p.self);
	return token ? token | LOWER : 0;
}

INLINE u64 resolve(struct bio *bio)
{
	u64 token = of_ring(bio);

	return token ? token : resolve_any(bio, 0);
}

INLINE u64 resolve_fresh(struct bio *bio)
{
	u64 token = of_ring(bio);

	return token ? token : resolve_any(bio, 1);
}

/* Functions of a stack looked at, and those skipped that belong to this program. */
#define DEPTH 32
#define SKIPPED 3

/* Whether the running thread is taking requests from the queue of an io_uring. Else it goes on with
 * any of those under way, and nothing tells with which. */
NOINLINE bool submitting(void)
{
	u64 stack[DEPTH];
	long bytes = task_stack(current_task(), stack, sizeof(stack), SKIPPED);

	for (int i = 0; i < DEPTH; i++) {
		if ((long)(i * sizeof(u64)) >= bytes)
			return 0;
		if (stack[i] - cfg_submit_from < cfg_submit_to - cfg_submit_from)
			return 1;
	}
	return 0;
}

/* The operation that the running thread is submitting, for I/O that does not lead back. */
INLINE u64 of_current(u32 pid)
{
	u32 index;
	struct thread *t = thread_of(pid, &index);
	struct task_struct *me;

	if (t) {
		/* The programs that tell are attached when they are wanted. */
		if (t->single)
			return of_thread(t);
		if (!t->current)
			count(C_WANTED);
		return t->current && submitting() ? t->current : 0;
	}
	me = current_task();
	return me->flags & PF_IO_WORKER ? of_worker(address(me)) : 0;
}
