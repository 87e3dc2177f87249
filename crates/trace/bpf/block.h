/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The block layer: queued, inserted, issued, requeued, complete. */
#pragma once

#include "match.h"

/* Bios of one request looked at; longer chains are rare (128 x 4 KiB merged). */
#define CHAIN 64
#define REQ_PREFLUSH (1u << 18)

INLINE u32 disk_of(struct gendisk *disk)
{
	return (u32)disk->major << 20 | (u32)disk->first_minor;
}

INLINE bool watched(u32 disk)
{
	u32 first = 0;
	struct found_disks *found = cfg_watch && disk ? map_lookup(&found_disks, &first) : 0;

	for (int i = 0; found && i < FOUND_DISKS; i++)
		if (found->disk[i] == disk)
			return 1;
	return disk && (disk == cfg_disk0 || disk == cfg_disk1 || disk == cfg_disk2 ||
			disk == cfg_disk3);
}

/* A part comes after all earlier ones were done: their stamps are put aside. */
INLINE void next_round(struct slot *s, u64 token, u64 done)
{
	u32 index = token & SLOT_MASK, n;
	struct earlier *all = map_lookup(&earlier, &index);
	bool more = s->seen_more == token;
	struct round *r;

	part_of(s, token);
	n = s->rounds;
	if (all) {
		r = &all->rounds[(n < EARLIER ? n : EARLIER - 1) & (EARLIER - 1)];
		if (n < EARLIER || done - s->bio_first > r->done - r->bio) {
			r->bio = s->bio_first;
			r->alloc = s->alloc;
			r->issue = s->issue > done ? 0 : s->issue;
			r->done = done;
			r->held = more ? s->foreign : 0;
		}
	}
	s->rounds = n + 1;
	s->bio_first = s->alloc = s->done = 0;
	/* A later stamp is the next one's already. */
	if (s->issue <= done)
		s->issue = 0;
	if (more)
		s->bio_last = s->insert = s->foreign = 0;
}

/* Whether all parts were done that are known, and nobody else has said so. */
INLINE bool all_done(struct slot *s, u64 done)
{
	u64 counts = s->counts;
	u32 parts = counts & COUNT_MASK, late = counts >> LATE_SHIFT & COUNT_MASK;

	return done && s->bios + late == parts &&
	       __sync_val_compare_and_swap(&s->done, done, 0) == done;
}

/* Whether the running thread of this program works for the load: its own, or io_uring's for them. */
INLINE bool loads(u32 pid)
{
	u32 index;

	return thread_of(pid, &index) || current_task()->flags & PF_IO_WORKER;
}

/* I/O on a disk under test that was given to no operation: somebody else's, that of another thread of
 * this program, the kernel's own reading ahead, or the run's own where it is not known whose. */
INLINE void neighbour(struct bio *bio, u32 pid, bool ours, bool reads_ahead)
{
	struct other o = { .dev = bio->bi_bdev->bd_dev };
	u64 key = address(bio);
	bool of_load;

	/* Before its disk was found, what a limit held back of a watched file is told all the same. */
	if (!watched(disk_of(bio->bi_bdev->bd_disk)) &&
	    (!cfg_watch || ours || !pages_of_run(bio) || !let_go()))
		return;
	if (cfg_watch && counter(C_LEFT_OUT) & LEFT_OUT_OTHERS)
		return;
	of_load = ours && !reads_ahead && loads(pid);
	if (!of_load)
		count(C_NEIGHBOURS);
	o.queued = ktime_ns();
	o.sector = bio->bi_iter.bi_sector;
	o.what = (u64)bio->bi_opf << 32 | bio->bi_iter.bi_size;
	if (reads_ahead) {
		/* No thread's name, and so without anybody's number. */
		__builtin_memcpy(o.who.comm, "readahead", 10);
	} else {
		who_is(&o.who, current_task());
		if (of_load)
			__builtin_memcpy(o.mark, "unplaced", 9);
		else if (ours)
			__builtin_memcpy(o.mark, "own", 4);
		else if (let_go() && pages_of_run(bio))
			__builtin_memcpy(o.mark, "held", 5);
		else if (let_go())
			__builtin_memcpy(o.mark, "limit", 6);
	}
	map_update(&others, &key, &o, 0);
}

/* A bio of nobody's operation is done: from when until when it was in the disk's way. */
INLINE void neighbour_done(struct bio *bio, u64 now)
{
	u64 key = address(bio);
	struct other *o = map_lookup(&others, &key);
	struct event *e;

	if (!o)
		return;
	/* One whose end was not seen, and whose memory is another's now, is told of no disk. */
	e = o->dev == bio->bi_bdev->bd_dev ? event(K_NEIGHBOUR, ~0u) : 0;
	if (e) {
		e->start = o->queued;
		e->end = now;
		e->a = o->sector;
		e->b = o->what;
		e->dev = o->dev;
		e->who = o->who;
		__builtin_memcpy(e->other.comm, o->mark, sizeof(o->mark));
		ring_submit(e, RB_NO_WAKEUP);
	}
	map_delete(&others, &key);
}

/* A bio of ours queued by somebody else: it was held back, and the stack says by whom. */
INLINE void foreign(struct slot *s, struct bio *bio, u64 now, bool lower)
{
	struct event *e;
	long bytes;

	if (lower) {
		s->flags |= F_LOWER_HELD;
	} else {
		s->flags |= F_FOREIGN;
		more_of(s);
		if (!s->foreign)
			s->foreign = now;
	}
	e = event(K_FOREIGN, ~0u);
	if (!e)
		return;
	e->start = s->begin;
	e->end = now;
	e->a = s->token;
	e->dev = bio->bi_bdev->bd_dev;
	who_is(&e->who, current_task());
	bytes = task_stack(current_task(), e->stack, sizeof(e->stack), 0);
	e->stack_bytes = bytes > 0 ? bytes : 0;
	ring_submit(e, RB_NO_WAKEUP);
}

/* The same of a program that is watched: direct I/O of libaio's and io_uring's requests, which needs no call,
 * on a disk that makes requests of bios: only these tell of their end. */
INLINE bool late_request(struct bio *bio, u64 end_io)
{
	u64 done;

	if (!cfg_cast || end_io != cfg_end_iomap || bio->bi_opf & REQ_PREFLUSH ||
	    !bio->bi_bdev->bd_queue->mq_ops)
		return 0;
	done = (u64)AS(struct kiocb, AS(struct iomap_dio, bio->bi_private)->iocb)->ki_complete;
	return done && (done == cfg_aio_done || done == cfg_uring_done || done == cfg_uring_polled);
}

/* Whether the completion takes the stamps of this bio, one that leads back by itself. */
INLINE bool late(struct bio *bio)
{
	u64 end_io = (u64)bio->bi_end_io;

	if (cfg_watch)
		return late_request(bio, end_io);
	return cfg_late && !(bio->bi_opf & REQ_PREFLUSH) &&
	       (end_io == cfg_end_iomap || end_io == cfg_end_blkdev_async);
}

/* Whether a bio goes to another disk than those of the run, as the program's own memory that comes back
 * from swap: no part of an operation. */
INLINE bool elsewhere(struct bio *bio)
{
	return cfg_disk0 && !cfg_disk3 && !watched(disk_of(bio->bi_bdev->bd_disk));
}

/* Where on the disk an operation begins: where its first part with data does. A flush has a disk, but
 * no sector. */
INLINE void stands(struct slot *s, struct bio *bio)
{
	if (!s->bios)
		s->dev = bio->bi_bdev->bd_dev;
	if (s->sector == NOWHERE && bio->bi_iter.bi_size) {
		s->sector = bio->bi_iter.bi_sector;
		s->dev = bio->bi_bdev->bd_dev;
	}
}

/* As many parts are more than can be counted: the operation then counts as seen in part. */
enum { BIOS_MANY = 0xffff };

INLINE void one_more(struct slot *s)
{
	if (s->bios < BIOS_MANY)
		s->bios++;
}

/* A call that names no file is in the one whose pages it reads: a page fault, mapping a file, io_submit. */
INLINE void place_call(struct bio *bio)
{
	u32 pid = current_task()->pid, index;
	struct thread *t = thread_of(pid, &index);
	struct call *c = t ? open_call(t) : 0;
	struct page_place b;
	u64 host;

	if (!c || c->mapping || bio->bi_opf & REQ_OP_MASK || !cached(bio, &b))
		return;
	if (c->nr != NR_FAULT && c->nr != NR_SUBMIT && !(c->marks & M_UNCOUNTED))
		return;
	host = (u64)READ(struct address_space, b.mapping, host);
	c->inode = READ(struct inode, host, i_ino);
	c->generation = READ(struct inode, host, i_generation);
	c->dev = READ(struct super_block, READ(struct inode, host, i_sb), s_dev);
	c->mapping = b.mapping;
	if (c->nr == NR_FAULT)
		c->at = b.index << cfg_page_bits;
	map_update(&mappings, &b.mapping, &index, 0);
}

/* A request of libaio may come that nobody saw begin: the programs that do are away, or were, and come back for later
 * ones. One of several parts is counted with each of them. */
NOINLINE int missed(u64 kiocb)
{
	if (!(counter(C_DIRECT) & DIRECT_LEFT) || !kiocb ||
	    (u64)READ(struct kiocb, kiocb, ki_complete) != cfg_aio_done || is_begun(kiocb))
		return 0;
	note_direct(OTHERS_SEEN);
	count(C_NO_ROOM);
	return 0;
}

/* A request of a ring or of libaio whose bio comes is on a file of storage: that need not be asked at its end. */
INLINE void is_on_storage(struct bio *bio)
{
	u64 kiocb = address(AS(struct iomap_dio, bio->bi_private)->iocb);
	struct placed *p = place_for(kiocb);

	if (kiocb && p && p->request == kiocb)
		p->marks |= M_STORED;
	else
		missed(kiocb);
}

/* A bio that the running thread queues, and that its completion does not lead back by itself, may be of direct I/O that is
 * no ring's. Other file systems than iomap's have functions of their own for its end. */
NOINLINE int notes_others(struct bio *bio)
{
	u64 kiocb, done, seen = counter(C_DIRECT);

	if (!(seen & RINGS_SEEN) || (seen & (OTHERS_SEEN | DIRECT_LEFT)) == OTHERS_SEEN)
		return 0;
	if ((u64)bio->bi_end_io != cfg_end_iomap) {
		if (!bio->bi_iter.bi_size || of_cache(bio))
			return 0;
	} else {
		kiocb = (u64)READ(struct iomap_dio, bio->bi_private, iocb);
		done = (u64)READ(struct kiocb, kiocb, ki_complete);
		/* Its completion does not lead back where the disk makes no requests (device mapper, md, zram). */
		if (done == cfg_aio_done)
			return missed(kiocb);
		if (done)
			return 0;
	}
	note_direct(OTHERS_SEEN);
	return 0;
}

/* A bio is queued whose completion does not take all stamps. By itself it takes much of the stack, which the others need not
 * have. */
NOINLINE int queues(struct bio *bio, u32 tid, bool ours)
{
	u64 now, token, done, key = (u64)bio;
	bool reads_ahead = 0;
	struct slot *s;

	if (cfg_watch && ours) {
		/* Pages of a file that are read: no interrupt does that. */
		if (call_here(ktime_ns(), 0) && !(bio->bi_opf & REQ_OP_MASK) && of_cache(bio))
			call_here(ktime_ns(), 1);
		place_call(bio);
		notes_others(bio);
	}
	token = resolve_fresh(bio);
	s = touched(token & ~LOWER);
	/* What was held back is queued by threads of the kernel; another process queues its own. */
	if (s && !ours && !(current_task()->flags & PF_KTHREAD))
		s = 0;
	if (!s && ours) {
		token = elsewhere(bio) ? 0 : of_current(bio);
		s = slot_of(token);
		if (s && (ahead(s, bio) || brings_ahead(s, bio))) {
			reads_ahead = 1;
			s = 0;
		}
		if (s)
			s = touched(token);
		if (s)
			map_update(&bios, &key, &token, 0);
	}
	if (!s) {
		/* Remembered from an earlier life of this address. */
		map_delete(&bios, &key);
		neighbour(bio, tid, ours, reads_ahead);
		return 0;
	}
	now = ktime_ns();
	if (token & LOWER) {
		if (lowest(s, token) && !s->low_bio) {
			s->low_bio = now;
			s->low_dev = bio->bi_bdev->bd_dev;
		}
		s->flags |= F_LOWER;
		/* A look at the stack costs more than the rest; shorter waits are not told anyway. */
		if (now - s->begin >= cfg_off_ns && throttled())
			foreign(s, bio, now, 1);
		return 0;
	}
	done = s->done;
	if (all_done(s, done)) {
		next_round(s, token, done);
		if (s->seen_low == token)
			s->low_bio = s->low_alloc = s->low_issue = s->low_done = 0;
	}
	if (!s->bio_first) {
		s->bio_first = now;
	} else {
		more_of(s);
		s->bio_last = now;
	}
	stands(s, bio);
	one_more(s);
	if (bio->bi_opf & REQ_PREFLUSH)
		s->flags |= F_FLUSH;
	if (!ours)
		foreign(s, bio, now, 0);
	return 0;
}

/* Whether a bio is of direct I/O of a request that the running thread began, and its completion takes all stamps, as nearly
 * all of a ring's and libaio's are: what has that place is one of these. Asked before anything else, as it needs no look for
 * the thread. That it is on a file of storage need not be asked at its end. */
INLINE bool is_placed(struct bio *bio, u32 tid)
{
	struct placed *p;
	u64 kiocb;

	if (!cfg_cast || (u64)bio->bi_end_io != cfg_end_iomap || bio->bi_opf & REQ_PREFLUSH ||
	    !bio->bi_bdev->bd_queue->mq_ops)
		return 0;
	kiocb = address(AS(struct iomap_dio, bio->bi_private)->iocb);
	p = place_for(kiocb);
	if (!kiocb || !p || p->request != kiocb || p->tid != tid)
		return 0;
	if (!(p->marks & M_STORED))
		p->marks |= M_STORED;
	return 1;
}

SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *ctx)
{
	struct bio *bio = (void *)ctx[0];
	u64 ids = current_pid_tgid();
	bool ours;

	if (cfg_watch && LIKELY(is_placed(bio, ids)))
		return 0;
	ours = is_ours_here(ids);
	if (!ours || !late(bio))
		return queues(bio, ids, ours);
	if (cfg_watch)
		is_on_storage(bio);
	return 0;
}

SEC("tp_btf/block_split")
int bio_split(u64 *ctx)
{
	u64 token = resolve((void *)ctx[0]);
	struct slot *s = touched(token & ~LOWER);

	if (s && !(token & LOWER)) {
		s->flags |= F_SPLIT;
		one_more(s);
	}
	return 0;
}

INLINE struct stamps *stamps_of(struct request *rq)
{
	u32 tag = rq->internal_tag >= 0 ? rq->internal_tag : rq->tag;
	u32 index = (tag + rq->mq_hctx->queue_num * 256 + rq->q->id * 1024) & (REQUESTS - 1);

	return map_lookup(&requests, &index);
}

/* The place for a request's stamps: to find its operation costs more than to keep them until it ends,
 * when that is looked for anyway. 0 when another request has the place. */
INLINE struct stamps *claim(struct request *rq)
{
	struct stamps *own = stamps_of(rq);

	if (!own || own->rq == (u64)rq)
		return own;
	if (__sync_val_compare_and_swap(&own->rq, 0, (u64)rq))
		return 0;
	own->insert = own->issue = 0;
	return own;
}

/* What was kept of a request that ends, or what is kept of nobody. */
INLINE struct stamps *kept(struct request *rq)
{
	struct stamps *own = stamps_of(rq);
	u32 nobody = REQUESTS;

	return own && own->rq == (u64)rq ? own : map_lookup(&requests, &nobody);
}

SEC("tp_btf/block_rq_insert")
int rq_insert(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	struct bio *bio = rq->bio;
	struct stamps *own = bio ? claim(rq) : 0;
	u64 now = 0;

	if (own) {
		own->issue = 0;
		own->insert = ktime_ns();
		return 0;
	}
	for (int i = 0; i < CHAIN && bio; i++) {
		u64 token = resolve(bio);
		struct slot *s = token & LOWER ? 0 : slot_of(token);

		if (s) {
			now = now ? now : ktime_ns();
			more_of(s);
			s->insert = now;
		}
		bio = bio->bi_next;
	}
	return 0;
}

/* Whether requests themselves know when they were issued: the kernel stamps them for its own
 * purposes, as on disks with writeback throttling. Then the process takes the program on the issue
 * away. One with data and without a stamp settles it for the run: the program takes the stamps. */
enum { UNTRIED = 0, STAMPED = 1, BARE = 2 };

INLINE void note_issues(bool stamped)
{
	struct counts *all = all_counters();
	u64 now = stamped ? STAMPED : BARE;

	if (all && all->n[C_ISSUES] != now && all->n[C_ISSUES] != BARE)
		all->n[C_ISSUES] = now;
}

/* The block layer gathers flushes of a disk's cache and sends one of its own for them, which belongs
 * to no operation: a kernel thread issues it, and that may wait. */
INLINE bool own_flush(struct request *rq)
{
	return (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH && watched(disk_of(rq->q->disk));
}

INLINE void flush_issued(struct request *rq)
{
	u64 key = address(rq), now = ktime_ns();

	if (own_flush(rq))
		map_update(&flushes, &key, &now, 0);
}

NOINLINE int flush_done(struct request *rq)
{
	u64 key = address(rq), *since, start = rq->io_start_time_ns;
	struct event *e;

	if (!own_flush(rq))
		return 0;
	since = map_lookup(&flushes, &key);
	if (since) {
		start = *since;
		map_delete(&flushes, &key);
	}
	e = start ? event(K_FLUSH, ~0u) : 0;
	if (!e)
		return 0;
	e->start = start;
	e->end = ktime_ns();
	e->dev = disk_of(rq->q->disk);
	ring_submit(e, RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	struct bio *bio = rq->bio;
	struct stamps *own;
	u64 now = 0;

	if (!bio) {
		flush_issued(rq);
		return 0;
	}
	own = claim(rq);
	if (own) {
		own->issue = ktime_ns();
		return 0;
	}
	for (int i = 0; i < CHAIN && bio; i++) {
		u64 token = resolve(bio);
		struct slot *s = touched(token & ~LOWER);

		if (s) {
			now = now ? now : ktime_ns();
			if (!(token & LOWER))
				s->issue = now;
			else if (lowest(s, token))
				s->low_issue = now;
			if (i)
				s->flags |= F_MERGED;
		}
		bio = bio->bi_next;
	}
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int rq_requeue(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	struct bio *bio = rq->bio;
	u64 token;
	struct slot *s;

	if (!bio)
		return 0;
	token = resolve(bio);
	s = touched(token & ~LOWER);
	if (s) {
		s->flags |= F_REQUEUED;
		more_of(s);
		s->requeue = ktime_ns();
	}
	return 0;
}

/* The kernel's own stamp is not from before `first`, whatever it says. */
INLINE u64 issued(struct request *rq, const struct stamps *own, u64 first)
{
	u64 at = rq->io_start_time_ns;

	/* The verifier takes no load that the compiler shares with another kind of pointer. */
	asm volatile("" : "+r"(at));
	if (!cfg_late || !at)
		return own->issue;
	return at > first ? at : first;
}

/* The stamp that an operation has, or a later one. Not one from before it began: of an earlier life of
 * the request, or of the kernel's own, which are those of a whole batch, and who issues that may have
 * begun it earlier. */
INLINE u64 latest(u64 before, u64 stamp, const struct slot *s)
{
	return stamp > before && stamp >= s->begin ? stamp : before;
}

/* When the request was made that an operation is in, as far as that is known. Requests that are submitted together
 * have the stamps of the first one (`blk_time_get_ns`): that may be from before another one of them began, which is
 * when the kernel takes it up. Where the kernel keeps no statistics of a disk there is no such stamp. */
INLINE u64 made(const struct slot *s)
{
	return s->alloc > s->begin ? s->alloc : s->begin;
}

/* Whether a part whose completion takes all stamps was counted when it was queued all the same: what a limit had held
 * back; and what came to a disk that makes no requests, and was handed on to one that does, as NVMe's over several
 * paths. While several parts are under way it may be another one of them; their number is right in the end. */
INLINE bool was_counted(struct slot *s, struct bio *bio)
{
	u64 counts = s->counts;
	u32 parts = counts & COUNT_MASK, late = counts >> LATE_SHIFT & COUNT_MASK;

	return s->bios + late > parts &&
	       (s->flags & F_FOREIGN || (cfg_watch && s->dev && s->dev != bio->bi_bdev->bd_dev));
}

/* A request's own stamps and what was kept for it, in the lines of an operation. */
INLINE void complete(struct slot *s, u64 token, struct request *rq, struct bio *bio,
		     const struct stamps *own, u64 now)
{
	u64 done = s->done, one = 1;
	bool leads = late(bio), by_itself = leads && !was_counted(s, bio);

	/* What was seen queued before it, such as the file's own map, was done: this one, which was not
	 * looked at when it was queued, is of a later round. */
	if (by_itself && s->bios && rq->start_time_ns >= done && all_done(s, done))
		next_round(s, token, done);
	s->alloc = rq->start_time_ns;
	s->done = now;
	s->issue = latest(s->issue, issued(rq, own, cfg_watch ? made(s) : 0), s);
	if (!cfg_late || (cfg_watch && !by_itself)) {
		/* What was merged into a request that had been inserted was not inserted itself. */
		if (own->insert >= s->bio_first) {
			more_of(s);
			s->insert = latest(s->insert, own->insert, s);
		}
		__sync_fetch_and_add(&s->counts, one);
		/* One that was cut from a part which was not looked at when it was queued has no stamp yet. */
		if (!cfg_watch || s->bio_first)
			return;
	} else {
		/* What the page cache had to write before is not the operation's own data. */
		if (leads || !of_cache(bio))
			one |= (u64)(bio->bi_iter.bi_size >> 9) << SECTORS_SHIFT;
		one |= by_itself ? 1ull << LATE_SHIFT : 0;
		__sync_fetch_and_add(&s->counts, one);
	}
	if (!s->bio_first)
		s->bio_first = cfg_watch ? made(s) : s->alloc;
	stands(s, bio);
}

INLINE void complete_low(struct slot *s, struct request *rq, const struct stamps *own, u64 now)
{
	s->low_alloc = rq->start_time_ns;
	s->low_done = now;
	s->low_issue = latest(s->low_issue, issued(rq, own, 0), s);
}

/* The first part of a watched request that has no slot, most often the only one: what its completion says is kept
 * beside the request. Not while a program stamps the issue of requests, which then are led to their operations. Where a
 * second part is done on another CPU at this moment, one of the two may be missing: both have the same end. */
INLINE bool light_done(struct request *rq, struct bio *bio)
{
	u64 issue = rq->io_start_time_ns, kiocb;
	struct placed *p;

	/* The verifier takes no load that the compiler shares with another kind of pointer. */
	asm volatile("" : "+r"(issue));
	if (!cfg_cast || (u64)bio->bi_end_io != cfg_end_iomap || !issue || bio->bi_next ||
	    !bio->bi_iter.bi_size || bio->bi_opf & REQ_PREFLUSH)
		return 0;
	/* What has that place is a ring's or libaio's, so that it is as `late` has it, or else its bio gave it a slot. */
	kiocb = address(AS(struct iomap_dio, bio->bi_private)->iocb);
	p = place_for(kiocb);
	if (!kiocb || !p || p->request != kiocb || p->token || is_done(p) ||
	    counter(C_ISSUES) != STAMPED)
		return 0;
	p->alloc = rq->start_time_ns;
	p->issue = issue;
	p->sector = bio->bi_iter.bi_sector;
	p->dev = bio->bi_bdev->bd_dev;
	p->done = ktime_ns();
	return 1;
}

SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	struct bio *bio = rq->bio;
	bool data = bio && bio->bi_iter.bi_size;
	struct stamps *own;
	u64 now = 0;

	if (!bio) {
		flush_done(rq);
		return 0;
	}
	/* A part of it only: the rest follows. A bio that ends here is not seen to end. */
	if ((u32)ctx[2] < rq->__data_len)
		return 0;
	if (cfg_watch && light_done(rq, bio))
		return 0;
	own = kept(rq);
	if (!own)
		return 0;
	for (int i = 0; i < CHAIN && bio; i++) {
		u64 token = resolve(bio);
		struct slot *s = touched(token & ~LOWER);

		if (s) {
			now = now ? now : ktime_ns();
			if (!(token & LOWER)) {
				complete(s, token, rq, bio, own, now);
				forget(bio);
			} else if (lowest(s, token)) {
				complete_low(s, rq, own, now);
			}
			if (i)
				s->flags |= F_MERGED;
		} else {
			neighbour_done(bio, now ? now : ktime_ns());
		}
		bio = bio->bi_next;
	}
	if (own->rq)
		own->rq = 0;
	if (cfg_late && now && data)
		note_issues(rq->io_start_time_ns);
	return 0;
}
