/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Operations of programs that are watched: where they begin and end, told by the programs and not by the
 * process itself. A system call is seen when its thread leaves the CPU in it, or queues a bio: what the thread
 * had in its registers when it came tells which call it is, and counts of the kernel whether it is still the same
 * one. Its end is the last return to the CPU. io_uring and libaio have trace points for both. */
#pragma once

#include "shared.h"

/* What a system call is, by its number: `syscalls` is filled by the process that loads the programs. */
enum what {
	W_OP = 0x1f,     /* kind of operation, from 1 on */
	W_FD = 0x20,     /* its first argument is a file */
	W_LENGTH = 0x40, /* its third one how many bytes */
	W_AT = 0x80,     /* its fourth one where in the file */
	W_ON = 0x100,    /* it goes on in the file where the last one ended */
	W_LOCK = 0x200,  /* it waits for a lock of the program's, whose holder ends the wait */
	W_FUTEX = 0x400, /* it may: its second and third argument say */
	W_WAIT = 0x800,  /* it waits for another thread, or for something to do */
	W_IDLE = 0x1000, /* it waits for the world outside */
	W_PAUSE = 0x2000, /* it waits for time alone */
	W_FROM = 0x4000, /* it moves from the file that is its second argument, where the third one is 0 from where that stands,
			  * so many bytes as its fourth one says */
	W_PIPED = 0x8000, /* its first or its third argument is a file, the other one a pipe */
	W_BOTH = 0x10000, /* the kernel counts it as a read and as a write */
	W_UNCOUNTED = 0x20000, /* the kernel counts no end of it */
	W_LATE = 0x40000, /* what it does, it may do on its way back */
	W_AHEAD = 0x80000, /* it has pages brought that it does not wait for, unless its third argument says that it does */
	W_MAY_NOT_WAIT = 0x100000, /* its sixth one may say the same */
	W_PATH = 0x200000, /* its first argument is a path */
	W_PATH_AT = 0x400000, /* its second one is */
	W_ASLEEP = W_LOCK | W_FUTEX | W_WAIT | W_IDLE | W_PAUSE, /* no operation on storage */
};
#define SYSCALLS 512
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, SYSCALLS);
	__type(key, u32);
	__type(value, u32);
} syscalls SEC(".maps");

/* In place of a system call's number. */
enum { KIOCB_WRITE = 1 << 18 }; /* IOCB_WRITE */
enum { NR_FAULT = 1000, NR_RING = 2000, NR_AIO = 3000 };

enum marks {
	M_QUEUED = 1,  /* others of the thread may be under way */
	M_UNSURE = 2,  /* begin or end is not sure */
	M_SYNC = 4,    /* the file system said that it syncs */
	M_SAMPLE = 8,  /* told without being slow */
	M_FAILED = 16, /* `result` is an error */
	M_KNOWN = 32,  /* `result` is what the kernel gave */
	M_TIMED = 64,  /* its end was seen, or a return to the CPU in it */
	M_MERGED = 128, /* it may be several calls of the same words */
	M_BESIDE = 256, /* told for those that may have waited for it */
	M_RECORD = 512, /* told for nothing else but to be replayed */
	M_EXACT = 1024, /* a request that began in a window in which all are looked at */
	M_BOTH = 2048, /* counted as a read and as a write */
	M_UNCOUNTED = 4096, /* the kernel counts no end of it */
	M_AHEAD = 8192, /* it waits for no page that it brings */
	M_PATH = 16384, /* the path that it was given is known */
	M_STORED = 32768, /* a request whose file is known to be one of storage's */
};

/* When a thread waited for the world outside, itself or by way of who ended its wait, with short breaks as one; and until
 * when it then had no CPU. Of a sleep for time only that. */
#define RESTS 4
struct rest {
	u64 from;
	u64 to;
	u64 run;
	u64 told;
};

/* Of a thread that is watched: what it sleeps for where that is no operation, and whether it ever ended such a sleep
 * of another one. What it does itself is of interest then: others wait for it. */
struct asleep {
	u32 what; /* W_ASLEEP */
	u32 wakes;
	u64 where; /* the lock, an address in its program */
	u32 next; /* rest that is forgotten next */
	u32 fetches; /* it waits for the world outside while it has requests under way, most often for these */
	u64 busy_to; /* until when it was in an operation, or in a wait that was told */
	u64 plug_from; /* last time without a CPU while it gathered requests; to */
	u64 plug_to;
	struct rest rests[RESTS];
	struct who who; /* of its requests under way: as of one of the last of them */
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, struct asleep);
} sleepers SEC(".maps");

/* How many of its requests have ended: in a line of memory by itself, which other CPUs write. */
struct landing {
	u32 ended;
	u32 pad[15];
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, F_MMAPABLE); /* as `placed` */
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, struct landing);
} landings SEC(".maps");

/* An operation that is watched, beside its slot. */
struct call {
	u64 token;
	u64 begin;
	u64 last; /* it ends now, if nothing more comes */
	u64 ip;
	u64 sp;
	u64 args[4];
	u64 instance; /* calls of the thread that had ended */
	u64 at;
	u64 size;
	u64 mapping;
	u64 inode;
	u32 dev; /* of the file system; of a block device its own */
	u32 nr;
	u32 op;
	u32 marks;
	s64 result;
	u64 blocked; /* of the thread, until it began */
	u64 waited;
	u64 robbed;
	struct who who;
	u64 user; /* CPU time of the thread outside of the kernel */
	u32 generation; /* of the inode: its number may be another file's later */
	u32 pad;
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct call);
} calls SEC(".maps");

/* The path that the operation in each slot was given. */
#define PATH_MOST 256
struct path {
	u32 bytes;
	char text[PATH_MOST];
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct path);
} paths SEC(".maps");

/* One that is compared with these. */
struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct path);
} other_path SEC(".maps");

struct told_path {
	u32 kind;
	u32 bytes;
	u64 token;
	char text[PATH_MOST];
};

/* Address of an io_uring request, or of libaio's, -> token. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 2 * SLOTS);
	__type(key, u64);
	__type(value, u64);
} requested SEC(".maps");

/* The same, each in the one place that its address says. Those that find it taken, C_CROWDED, are in `requested`.
 * Nearly all requests end in time and are no more than counted: one has no slot until somebody wants it, and what is known
 * of it until then is here. Who submits it and the device's interrupt are on different CPUs, most often: a line of memory
 * that both write costs more than all else. The lines go in pairs, as processors fetch them. */
#define PLACED_BITS 13
struct placed {
	u64 request; /* 0 for none */
	u64 token; /* 0 without a slot */
	u64 begin; /* as a call has them; so are the next ones */
	u64 at;
	u64 size;
	u32 worker;
	u32 tid; /* of that thread, whose place may be another's later */
	u32 nr;
	u32 op;
	u32 marks;
	u32 pad;

	u64 blocked;
	u64 waited;
	u64 robbed;
	u64 pad_line[5];

	u64 done; /* its first part was: see `is_done`; so are the next ones, as a slot has them */
	u64 alloc;
	u64 issue;
	u64 sector;
	u32 dev;
	u32 pad_done;
	u64 pad_pair[11];
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, F_MMAPABLE); /* its values begin with a line of the cache then */
	__uint(max_entries, 1 << PLACED_BITS);
	__type(key, u32);
	__type(value, struct placed);
} placed SEC(".maps");

/* Mappings of files that operations were on: whoever waits for their pages waits for one of the program. */
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, SLOTS);
	__type(key, u64);
	__type(value, u32);
} mappings SEC(".maps");

/* The one that was in use last comes first: it is in the processor's cache. */
struct {
	__uint(type, MAP_STACK);
	__uint(max_entries, SLOTS);
	__type(value, u32);
} free_slots SEC(".maps");

#define WATCHED_THREADS 32768
struct {
	__uint(type, MAP_QUEUE);
	__uint(max_entries, WATCHED_THREADS);
	__type(value, u32);
} free_threads SEC(".maps");

/* Latencies of all operations that ended, by kind: 512 places for each power of two, of ns. The last ones are
 * sums: those of unknown latency, of unknown result, those that failed, bytes, ns; and whether there are any. */
#define PLACES 32768
enum { P_UNTIMED = PLACES - 6, P_UNKNOWN, P_FAILED, P_BYTES, P_NS, P_ANY };
/* Kinds from EXACT on: of what began in windows in which everything is looked at. From twice that on: requests of rings and
 * libaio, outside of these; all of them are seen, and so they are apart from the calls of their kind. */
enum { EXACT = 16, REQUEST_KINDS = 4 };
/* So many are one value, so that one look finds all sums of a kind. */
#define TALLIES_LINE 8
struct tallies_line {
	u64 n[TALLIES_LINE];
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, F_MMAPABLE);
	__uint(max_entries, (2 * EXACT + REQUEST_KINDS) * PLACES / TALLIES_LINE);
	__type(key, u32);
	__type(value, struct tallies_line);
} tallies SEC(".maps");
/* By thread: the call that it is in, which began in such a window. */
struct exact_call {
	u64 begin;
	u64 op;
};
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, WATCHED_THREADS);
	__type(key, u32);
	__type(value, struct exact_call);
} exact_calls SEC(".maps");

/* Disks whose other users are of interest, as `cfg_disk0` and so on: found while the programs run. */
#define FOUND_DISKS 8
struct found_disks {
	u32 disk[FOUND_DISKS];
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct found_disks);
} found_disks SEC(".maps");

/* What the process is told of an operation; `struct told_rounds` where it had earlier rounds. */
struct told {
	u32 kind;
	u32 worker;
	u64 end;
	u64 wake;
	u64 run;
	u64 blocked;
	u64 waited;
	u64 robbed;
	struct call call;
	struct slot slot;
};
struct told_rounds {
	struct told told;
	struct earlier earlier;
};

/* Files whose name was told, and what tells it from another one: see `called`. */
struct file_key {
	u64 inode;
	u32 dev;
	u32 generation;
};
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, SLOTS);
	__type(key, struct file_key);
	__type(value, u64);
} named SEC(".maps");

/* The names that lead from a file up to the root of its file system, each with a 0 behind it. */
#define NAME_BYTES 1024
#define NAME_MOST 256
enum { NAMES = 32 };
struct file_name {
	u32 kind;
	u32 dev;
	u64 inode;
	u32 generation;
	u32 pad;
	u32 bytes;
	u32 whole; /* they reach the root */
	char names[NAME_BYTES + NAME_MOST];
};

/* Whose direct I/O was seen of the programs that are watched. What a ring sends has its own trace points: as long as nobody
 * else does any, the process takes the programs on iomap's away, which each of its requests would run for nothing, and
 * brings them back when a bio comes that is no ring's. Whoever comes while they are there keeps them for good. The process
 * says that they leave before the first of them does, and that they are back once all of them are: a request that begins
 * in between may have lost its begin or its end, and is counted as missed. */
enum { RINGS_SEEN = 1, OTHERS_SEEN = 2, DIRECT_LEFT = 4, DIRECT_BACK = 8 };
INLINE void note_direct(u64 what)
{
	struct counts *all = all_counters();

	/* At once: the process may say something else meanwhile. */
	if (all && !(all->n[C_DIRECT] & what))
		__sync_fetch_and_or(&all->n[C_DIRECT], what);
}

/* Whether some of the programs on iomap's trace points may be away. */
INLINE bool direct_away(void)
{
	return (counter(C_DIRECT) & (DIRECT_LEFT | DIRECT_BACK)) == DIRECT_LEFT;
}

INLINE struct placed *place_for(u64 request)
{
	/* Fibonacci hashing: addresses of one kind of object differ in their middle bits. */
	u32 at = (request * 0x9e3779b97f4a7c15ull) >> (64 - PLACED_BITS);

	return map_lookup(&placed, &at);
}

/* Whether the device was done with the first part of a request; else that stamp is one of an earlier request's. */
INLINE bool is_done(struct placed *p)
{
	return p->done >= p->begin;
}

/* A slot for an operation that begins then. Whose it is its caller says. */
INLINE struct call *take_slot(u32 *at, u32 worker, u64 begin)
{
	struct call *c;
	struct slot *s;
	u64 token;

	if (queue_pop(&free_slots, at)) {
		count(C_NO_ROOM);
		return 0;
	}
	c = map_lookup(&calls, at);
	s = map_lookup(&slots, at);
	if (!c || !s)
		return 0;
	token = ((c->token & ~(u64)SLOT_MASK) + SLOTS) & ~LOWER;
	token |= *at;
	c->token = token;
	c->begin = c->last = begin;
	c->ip = c->sp = c->instance = c->user = c->at = c->size = c->mapping = c->inode = 0;
	c->args[0] = c->args[1] = c->args[2] = c->args[3] = 0;
	c->dev = c->nr = c->op = c->marks = c->generation = c->pad = 0;
	c->result = 0;
	s->worker = worker;
	s->begin = begin;
	s->to = 0;
	s->request = 0;
	s->token = token;
	return c;
}

/* The kernel takes a request from the queue of a ring when it begins. */
INLINE void enters_ring(struct slot *s, u32 nr, u64 begin)
{
	if (nr >= NR_AIO)
		return;
	more_of(s);
	s->enter = begin;
}

/* The slot of a request that had none, its token; 0 where there is no room. */
GLOBAL u64 slot_for(struct placed *p)
{
	u32 worker = p ? p->worker : 0, at = 0;
	struct asleep *a = map_lookup(&sleepers, &worker);
	struct call *c;
	struct slot *s;
	u64 made;

	if (!p || !a)
		return 0;
	c = take_slot(&at, p->worker, p->begin);
	s = c ? touched(c->token) : 0;
	if (!s)
		return 0;
	c->nr = p->nr;
	c->op = p->op;
	c->marks = p->marks;
	c->at = p->at;
	c->size = p->size;
	c->blocked = p->blocked;
	c->waited = p->waited;
	c->robbed = p->robbed;
	__builtin_memset(&c->who, 0, sizeof(c->who));
	c->who.tid = p->tid;
	if (a->who.tid == p->tid)
		c->who = a->who;
	enters_ring(s, p->nr, p->begin);
	if (is_done(p)) {
		/* As `complete` has it, which says why. */
		made = p->alloc > p->begin ? p->alloc : p->begin;
		s->bio_first = made;
		s->alloc = p->alloc;
		s->issue = p->issue > made ? p->issue : made;
		s->done = p->done;
		s->sector = p->sector;
		s->dev = p->dev;
		s->counts = 1 | 1ull << LATE_SHIFT;
	}
	if (__sync_val_compare_and_swap(&p->token, 0, c->token)) {
		/* Another CPU was first. */
		s->token = 0;
		queue_push(&free_slots, &at, 0);
	}
	return p->token;
}

/* The operation of a request, which gets a slot where it has none; 0 for none. */
GLOBAL u64 requested_as(u64 request)
{
	struct placed *p = place_for(request);
	u64 *token;

	if (request && p && p->request == request)
		return p->token ? p->token : slot_for(p);
	token = counter(C_CROWDED) ? map_lookup(&requested, &request) : 0;
	return token ? *token : 0;
}

/* Whether a request was seen to begin and not to end; it gets no slot for that. */
INLINE bool is_begun(u64 request)
{
	struct placed *p = place_for(request);

	return (p && p->request == request) ||
	       (counter(C_CROWDED) && map_lookup(&requested, &request));
}

/* A thread has one request less under way. */
INLINE void landed(u32 worker)
{
	struct landing *l = map_lookup(&landings, &worker);

	if (l)
		__sync_fetch_and_add(&l->ended, 1);
}

INLINE void empties(struct placed *p)
{
	p->token = 0;
	/* Who takes the place finds it empty. */
	asm volatile("" ::: "memory");
	p->request = 0;
}

/* A request is known no more. One in its place that found no room for a slot is uncounted here. */
INLINE void drop_request(u64 request)
{
	struct placed *p = place_for(request);

	if (p && p->request == request) {
		if (!p->token) {
			landed(p->worker);
			if (p->marks & M_EXACT)
				count_many(C_EXACT_OPEN, -1);
		}
		empties(p);
	} else if (counter(C_CROWDED) && !map_delete(&requested, &request)) {
		count_many(C_CROWDED, -1);
	}
}

INLINE struct tallies_line *tallies_of(u32 place)
{
	u32 line = place / TALLIES_LINE;

	return map_lookup(&tallies, &line);
}

INLINE void add(struct tallies_line *line, u32 place, u64 n)
{
	__sync_fetch_and_add(&line->n[place % TALLIES_LINE], n);
}

/* Place of a latency among those of its kind. Without a jump for each half, which the processor would foresee wrong at some
 * latencies, and each of which doubles the ways that the verifier goes. */
INLINE u32 place_of_ns(u64 ns)
{
	u64 power = 0, v = ns, more;

	if (ns < 512)
		return ns;
	for (u32 half = 32; half; half /= 2) {
		more = (((1ull << half) - 1 - v) >> 63) * half;
		v >>= more;
		power += more;
	}
	return (power - 8) * 512 + (ns >> (power - 9) & 511);
}

/* One more operation: with its latency, where that is known, and with what it brought. */
INLINE void tally_one(u32 base, u64 ns, u32 marks, u64 bytes)
{
	struct tallies_line *sums = tallies_of(base + P_ANY), *line;
	u32 place = place_of_ns(ns);

	if (!sums)
		return;
	if (!sums->n[P_ANY % TALLIES_LINE])
		sums->n[P_ANY % TALLIES_LINE] = 1;
	/* What was seen of it is no latency: it ended later, or it is several. */
	if (!(marks & (M_QUEUED | M_TIMED)) || marks & M_MERGED) {
		add(sums, P_UNTIMED, 1);
	} else {
		line = tallies_of(base + place);
		if (line)
			add(line, place, 1);
		add(sums, P_NS, ns);
	}
	if (marks & M_FAILED)
		add(sums, P_FAILED, 1);
	else if (marks & M_KNOWN)
		add(sums, P_BYTES, bytes);
	else
		add(sums, P_UNKNOWN, 1);
}

/* The first operations are all told, of later ones that are not slow one in so many: usual times. */
enum { LEARN = 512, EVERY = 1024 };
/* What takes this part of a slow one is told of a thread that others wait for. */
enum { BESIDE = 4 };

/* Whether it is told: not, for its latency, as one of a sample. */
INLINE u32 tally(struct call *c, u32 worker, u64 ns)
{
	struct asleep *a = map_lookup(&sleepers, &worker);
	struct counts *all = all_counters();
	u32 base = (c->op & 15) * PLACES;
	u64 nth;

	tally_one(base + (c->marks & M_QUEUED ? 2 * EXACT * PLACES : 0), ns, c->marks, c->size);
	if (!(c->marks & (M_QUEUED | M_TIMED)) || c->marks & M_MERGED)
		c->marks |= M_UNSURE;
	if (c->marks & M_EXACT) {
		tally_one(EXACT * PLACES + base, ns, c->marks, c->size);
		count_many(C_EXACT_OPEN, -1);
	}
	if (c->op < 2 && !(c->marks & (M_QUEUED | M_UNCOUNTED)) && c->nr != NR_FAULT) {
		if (!c->op || c->marks & M_BOTH)
			count(C_READS);
		if (c->op || c->marks & M_BOTH)
			count(C_WRITES);
	}
	if (c->op == 3 && c->marks & (M_SYNC | M_QUEUED))
		count(C_SYNCS);
	if (c->nr == NR_FAULT)
		count(C_FAULTS);
	nth = all ? __sync_fetch_and_add(&all->n[C_CALLS], 1) : 1;
	if (a && ns >= counter(C_SLOW_NS) / BESIDE)
		a->busy_to = c->begin + ns;
	if (ns >= counter(C_SLOW_NS))
		return 1;
	if (a && a->wakes && ns >= counter(C_SLOW_NS) / BESIDE) {
		c->marks |= M_BESIDE;
		return 1;
	}
	if (nth < LEARN || nth % EVERY == 0)
		c->marks |= M_SAMPLE;
	else if (counter(C_RECORD))
		c->marks |= M_RECORD;
	return !!(c->marks & (M_SAMPLE | M_RECORD));
}

INLINE void tell_all(struct told *told, struct call *c, struct slot *s, struct thread *t,
		     u32 worker, u64 end)
{
	told->kind = K_CALL;
	told->worker = worker;
	told->end = end;
	told->wake = t->last_wake;
	told->run = t->last_in;
	told->blocked = t->blocked_ns - c->blocked;
	told->waited = t->waited_ns - c->waited;
	told->robbed = t->robbed_ns - c->robbed;
	read_kernel(&told->call, sizeof(told->call), c);
	read_kernel(&told->slot, sizeof(told->slot), s);
}

/* Whether it has any. One that has a place since a little while may have ends of requests of the one before. */
INLINE bool flies(struct thread *t, u32 worker)
{
	struct landing *l = map_lookup(&landings, &worker);

	return l && (s32)(t->begun - l->ended) > 0;
}

/* Changes when a file is renamed, or moved into another directory; not when a directory above that one is. */
INLINE u64 called(u64 dentry)
{
	return READ(struct dentry, dentry, d_name.hash_len) ^
	       (u64)READ(struct dentry, dentry, d_parent);
}

/* Tells what a file is called, once for each name: its program may have ended before anybody asks which files it has
 * open. The mapping may be another file's by now, which its inode then says. */
NOINLINE int tell_name(u64 mapping, u64 number, u32 dev, u32 generation)
{
	struct file_key key = { .inode = number, .dev = dev, .generation = generation };
	u64 inode, at, parent, is, *was;
	struct file_name *f;
	u32 bytes = 0;
	long more;

	if (!EXISTS(struct dentry, d_name.name) || !EXISTS(struct inode, i_dentry) || !mapping ||
	    !number)
		return 0;
	inode = (u64)READ(struct address_space, mapping, host);
	if (!inode || READ(struct inode, inode, i_ino) != number ||
	    READ(struct inode, inode, i_generation) != generation ||
	    READ(struct super_block, READ(struct inode, inode, i_sb), s_dev) != dev)
		return 0;
	at = (u64)READ(struct inode, inode, i_dentry.first);
	if (!at)
		return 0;
	at -= OFFSET_OF(struct dentry, d_u);
	is = called(at);
	was = map_lookup(&named, &key);
	if (was && *was == is)
		return 0;
	f = ring_reserve(&ring, sizeof(*f), 0);
	if (!f) {
		count(C_LOST);
		return 0;
	}
	f->kind = K_NAME;
	f->dev = dev;
	f->inode = number;
	f->generation = generation;
	f->pad = f->whole = 0;
	for (int i = 0; i < NAMES && bytes < NAME_BYTES; i++) {
		parent = (u64)READ(struct dentry, at, d_parent);
		if (parent == at)
			f->whole = 1;
		if (!parent || parent == at)
			break;
		more = read_kernel_text(f->names + (bytes & (NAME_BYTES - 1)), NAME_MOST,
					READ(struct dentry, at, d_name.name));
		if (more <= 1 || more > NAME_MOST)
			break;
		bytes += more;
		at = parent;
	}
	f->bytes = bytes;
	ring_submit(f, RB_NO_WAKEUP);
	map_update(&named, &key, &is, 0);
	return 0;
}

/* Tells the path that an operation was given, before the operation itself. */
NOINLINE int tell_path(u32 at, u64 token)
{
	struct path *p = map_lookup(&paths, &at);
	struct told_path *t = p ? ring_reserve(&ring, sizeof(*t), 0) : 0;

	if (!t)
		return 0;
	t->kind = K_PATH;
	t->bytes = p->bytes;
	t->token = token;
	read_kernel(t->text, sizeof(t->text), p->text);
	ring_submit(t, RB_NO_WAKEUP);
	return 0;
}

/* Requests that a thread gathers have the time that its plug keeps, for their issue as well. Before the kernel's change
 * fad156c2af22 (2026) the plug keeps it also over a time in which another thread has the CPU, which then looks like the
 * disk's. Where that may be a quarter of the disk's time or more, it is not known when the request was issued. */
INLINE void distrust_issue(struct slot *s, u32 worker)
{
	struct asleep *a = map_lookup(&sleepers, &worker);

	if (a && s->seen == s->token && s->issue && s->issue <= a->plug_from &&
	    s->done >= a->plug_to && a->plug_to - s->issue >= (s->done - s->issue) / 4)
		s->issue = 0;
}

/* An operation has ended: it is counted, told if it was slow, and its slot is free. */
NOINLINE int finish(u32 at, u32 worker, u64 end)
{
	struct call *c = map_lookup(&calls, &at);
	struct slot *s = map_lookup(&slots, &at);
	struct thread *t = map_lookup(&threads, &worker);
	struct earlier *rounds = map_lookup(&earlier, &at);
	struct told_rounds *more;
	struct told *told;
	u64 ns;

	if (!c || !s || !t || !rounds || !s->token)
		return 0;
	if (t->pad == at + 1)
		t->pad = 0;
	if (c->marks & M_QUEUED)
		landed(worker);
	ns = end > c->begin ? end - c->begin : 0;
	end = c->begin + ns;
	if (tally(c, worker, ns)) {
		distrust_issue(s, worker);
		tell_name(c->mapping, c->inode, c->dev, c->generation);
		if (c->marks & M_PATH)
			tell_path(at, c->token);
		if (s->seen_part == s->token && s->rounds) {
			more = ring_reserve(&ring, sizeof(*more), 0);
			if (more) {
				tell_all(&more->told, c, s, t, worker, end);
				read_kernel(&more->earlier, sizeof(more->earlier), rounds);
				ring_submit(more, RB_NO_WAKEUP);
			} else {
				count(C_LOST);
			}
		} else {
			told = ring_reserve(&ring, sizeof(*told), 0);
			if (told) {
				tell_all(told, c, s, t, worker, end);
				ring_submit(told, RB_NO_WAKEUP);
			} else {
				count(C_LOST);
			}
		}
	}
	s->token = 0;
	queue_push(&free_slots, &at, 0);
	return 0;
}

/* A slot of a request, which is nobody's any more, uncounted. */
INLINE void give_up(u64 token)
{
	u32 at = token & SLOT_MASK;
	struct slot *s = map_lookup(&slots, &at);

	struct call *c = map_lookup(&calls, &at);

	if (!s || !c || !token || s->token != token)
		return;
	landed(s->worker);
	if (c->marks & M_EXACT)
		count_many(C_EXACT_OPEN, -1);
	s->token = 0;
	queue_push(&free_slots, &at, 0);
}

/* The place of a watched thread, which it gets here. */
NOINLINE struct thread *seat(struct task_struct *task, u32 *index)
{
	u32 pid = task->pid, at = pid & (SEATS - 1), *place;
	struct thread *t = thread_of(pid, index);
	struct landing *l;
	struct asleep *a;

	if (t)
		return t;
	if (queue_pop(&free_threads, index)) {
		count(C_NO_ROOM);
		return 0;
	}
	t = map_lookup(&threads, index);
	if (!t)
		return 0;
	__builtin_memset(t, 0, sizeof(*t));
	t->pid = pid;
	place = map_lookup(&seats, &at);
	if (place)
		*place = *index + 1;
	a = map_lookup(&sleepers, index);
	if (a)
		__builtin_memset(a, 0, sizeof(*a));
	l = map_lookup(&landings, index);
	if (l)
		l->ended = 0;
	map_update(&tids, &pid, index, 0);
	return t;
}

/* A slot for an operation that begins now, and what is known of every operation. */
INLINE struct call *begin(struct task_struct *task, struct thread *t, u32 worker, u32 *at, u64 now)
{
	struct call *c = take_slot(at, worker, now);

	if (!c)
		return 0;
	c->blocked = t->blocked_ns;
	c->waited = t->waited_ns;
	c->robbed = t->robbed_ns;
	who_is(&c->who, task);
	return c;
}

/* Which file; false where it is none that storage has. */
enum { MODE_KIND = 0170000, MODE_FILE = 0100000, MODE_DIR = 0040000, MODE_BLOCK = 0060000,
       MODE_PIPE = 0010000, MODE_CHAR = 0020000 };
/* File systems that nothing stores (include/uapi/linux/magic.h): since 6.16 an eventfd is a file in one. */
enum { ANONYMOUS = 0x09041934, PROC = 0x9fa0, SYSFS = 0x62656572, TRACEFS = 0x74726163,
       DEBUGFS = 0x64626720 };
NOINLINE u32 kind_of_inode(u64 inode)
{
	u32 kind = FIELD(struct inode, inode, i_mode) & MODE_KIND;

	if (kind != MODE_FILE)
		return kind;
	switch (FIELD(struct super_block, FIELD(struct inode, inode, i_sb), s_magic)) {
	case ANONYMOUS:
		return 0;
	case PROC: case SYSFS: case TRACEFS: case DEBUGFS:
		return MODE_CHAR;
	}
	return kind;
}

INLINE u32 kind_of_file(u64 file, u64 *inode)
{
	*inode = file ? (u64)FIELD(struct file, file, f_inode) : 0;
	return *inode ? kind_of_inode(*inode) : 0;
}

INLINE bool is_stored(u32 kind)
{
	return kind == MODE_FILE || kind == MODE_BLOCK || kind == MODE_DIR;
}

INLINE bool file_is(struct call *c, u64 file)
{
	u64 inode;
	u32 kind = kind_of_file(file, &inode);

	if (!is_stored(kind))
		return 0;
	c->mapping = (u64)FIELD(struct file, file, f_mapping);
	c->inode = kind == MODE_BLOCK ? 0 : FIELD(struct inode, inode, i_ino);
	c->generation = FIELD(struct inode, inode, i_generation);
	c->dev = kind == MODE_BLOCK ? FIELD(struct inode, inode, i_rdev) :
		 FIELD(struct super_block, FIELD(struct inode, inode, i_sb), s_dev);
	return 1;
}

INLINE u64 file_of_fd(struct task_struct *task, u32 fd)
{
	u64 files = (u64)FIELD(struct task_struct, task, files);
	u64 table = files ? (u64)FIELD(struct files_struct, files, fdt) : 0;
	u64 list;

	if (!table || fd >= FIELD(struct fdtable, table, max_fds))
		return 0;
	list = address(FIELD(struct fdtable, table, fd));
	return (u64)POINTER_AT(list + (u64)fd * sizeof(u64));
}

/* The file that a call is on, by its first three arguments. */
NOINLINE u64 file_of_call(struct task_struct *task, u32 what, u64 first, u64 second, u64 third)
{
	u64 file = file_of_fd(task, what & W_FROM ? second : first), inode;

	if (what & W_PIPED && !is_stored(kind_of_file(file, &inode)))
		file = file_of_fd(task, third);
	return file;
}

/* Where a thread is: what it had in its registers when it came into the kernel. */
struct whereabouts {
	u32 nr;
	u32 what; /* 0 for what is no operation */
	bool leaves; /* the call has its answer, and the thread is still on its way back */
	u64 ip;
	u64 sp;
	u64 args[4];
	u64 sixth;
	u64 instance;
	u64 user;
};

enum { NR_SUBMIT = 209 };
/* Of madvise, and of preadv2 (RWF_NOWAIT). */
enum { POPULATE_READ = 22, POPULATE_WRITE = 23, NO_WAIT = 8 };
enum { NOT_YET = -38, NO_CALL = -1, OP_READ = 1 };

INLINE void whereabouts_of(struct whereabouts *w, struct task_struct *task)
{
	struct pt_regs *regs = task_regs(task);
	u64 ax, cx, orig;
	u32 *what;

	w->nr = w->what = 0;
	w->leaves = 0;
	if (!EXISTS(struct pt_regs, orig_ax) || !regs)
		return;
	ax = regs->ax;
	cx = regs->cx;
	orig = regs->orig_ax;
	w->ip = regs->ip;
	w->sp = regs->sp;
	w->args[0] = regs->di;
	w->args[1] = regs->si;
	w->args[2] = regs->dx;
	w->args[3] = regs->r10;
	w->sixth = regs->r9;
	w->instance = task->ioac.syscr + task->ioac.syscw;
	w->user = task->utime;
	/* The instruction leaves the way back in a register, and the kernel's entry an answer that no call
	 * has given yet. */
	if ((s64)ax == NOT_YET && cx == w->ip && orig < SYSCALLS) {
		w->nr = orig;
		what = map_lookup(&syscalls, &w->nr);
		w->what = what ? *what : 0;
	} else if (cx == w->ip && orig < SYSCALLS) {
		w->nr = orig;
		w->leaves = 1;
		what = map_lookup(&syscalls, &w->nr);
		w->what = what && *what & W_LATE ? *what : 0;
	} else if ((s64)orig == NO_CALL) {
		/* An exception or an interrupt: who knows more says which. */
		w->nr = NR_FAULT;
		w->what = OP_READ;
		w->instance = task->min_flt + task->maj_flt;
	}
}

/* Whether the kernel counts the end of such a call. */
INLINE bool end_counts(struct call *c)
{
	return c->op < 2 && !(c->marks & M_UNCOUNTED);
}

INLINE bool still(struct call *c, struct whereabouts *w)
{
	/* The thread has been in its program since, as far as the kernel's clock saw. */
	if (!end_counts(c) && c->user != w->user)
		return 0;
	/* Until its thread has gone on, the program has not got the answer. */
	if (w->leaves)
		return c->nr == w->nr && c->ip == w->ip && c->sp == w->sp &&
		       w->instance - c->instance <= (c->marks & M_BOTH ? 2 : 1);
	return c->nr == w->nr && c->ip == w->ip && c->sp == w->sp && c->instance == w->instance &&
	       c->args[0] == w->args[0] && c->args[1] == w->args[1] &&
	       c->args[2] == w->args[2] && c->args[3] == w->args[3];
}

/* The open call of a thread, from 1 on, is its `pad`. */
INLINE struct call *open_call(struct thread *t)
{
	u32 at = t->pad - 1;

	return t->pad ? map_lookup(&calls, &at) : 0;
}

/* Where the path is that a call was given, 0 for one without. */
INLINE u64 path_at(struct whereabouts *w)
{
	if (w->what & W_PATH)
		return w->args[0];
	return w->what & W_PATH_AT ? w->args[1] : 0;
}

/* The path that the running thread's call was given, as long as it is in the call. */
INLINE void note_path(struct call *c, u32 at, struct whereabouts *w)
{
	u64 from = path_at(w);
	struct path *p = from ? map_lookup(&paths, &at) : 0;
	long bytes;

	if (!p)
		return;
	bytes = read_user_text(p->text, sizeof(p->text), (void *)from);
	/* One that is cut is no path; nor is none, as that of a file that is open. */
	if (bytes <= 1 || bytes >= PATH_MOST)
		return;
	p->bytes = bytes - 1;
	c->marks |= M_PATH;
}

/* Whether the path at this place of the running thread's memory is the one that was noted. One that cannot be read now
 * is no other. */
NOINLINE bool same_path(u32 at, u64 from)
{
	u32 first = 0;
	struct path *was = map_lookup(&paths, &at), *is = map_lookup(&other_path, &first);
	long bytes;

	if (!was || !is)
		return 1;
	bytes = read_user_text(is->text, sizeof(is->text), (void *)from);
	for (int i = 0; i < PATH_MOST; i++) {
		if (i >= bytes)
			break;
		if (was->text[i] != is->text[i])
			return 0;
	}
	return 1;
}

/* Whether it is another call all the same: of another path, which lies where that one did. */
INLINE bool other_path_of(struct call *c, u32 at, struct whereabouts *w)
{
	u64 from = path_at(w);

	return c->marks & M_PATH && from && !w->leaves && !same_path(at, from);
}

/* A call that the thread is in, and was not seen before. */
NOINLINE int open(struct task_struct *task, struct whereabouts *w, u64 now)
{
	u32 index = 0, at = 0;
	struct thread *t;
	struct call *c, seen;
	struct slot *s;
	u64 mapping;
	u64 file = w->what & W_FD ?
			   file_of_call(task, w->what, w->args[0], w->args[1], w->args[2]) : 0;

	seen.mapping = seen.inode = seen.dev = seen.generation = 0;
	if (w->what & W_FD && !file_is(&seen, file))
		return 0;
	t = seat(task, &index);
	if (!t)
		return 0;
	c = begin(task, t, index, &at, now);
	if (!c)
		return 0;
	t->pad = at + 1;
	c->nr = w->nr;
	c->op = (w->what & W_OP) - 1;
	c->ip = w->ip;
	c->sp = w->sp;
	c->args[0] = w->args[0];
	c->args[1] = w->args[1];
	c->args[2] = w->args[2];
	c->args[3] = w->args[3];
	c->instance = w->instance;
	c->user = w->user;
	c->mapping = seen.mapping;
	c->inode = seen.inode;
	c->dev = seen.dev;
	c->generation = seen.generation;
	if (w->what & W_AHEAD && w->args[2] != POPULATE_READ && w->args[2] != POPULATE_WRITE)
		c->marks |= M_AHEAD;
	if (w->what & W_MAY_NOT_WAIT && w->sixth & NO_WAIT)
		c->marks |= M_AHEAD;
	/* A variable of its own, as else all of `seen` is on the stack. */
	mapping = seen.mapping;
	if (mapping)
		map_update(&mappings, &mapping, &index, 0);
	note_path(c, at, w);
	if (w->what & W_LENGTH)
		c->size = w->args[2];
	if (w->what & W_BOTH)
		c->marks |= M_BOTH;
	if (w->what & W_UNCOUNTED)
		c->marks |= M_UNCOUNTED;
	if (w->what & W_FROM && !w->args[2]) {
		c->at = READ(struct file, file, f_pos);
		c->size = w->args[3];
	}
	if (w->what & W_AT)
		c->at = w->args[3];
	else if (w->what & W_ON)
		c->at = READ(struct file, file, f_pos);
	if (w->nr == NR_FAULT)
		c->size = 1ull << cfg_page_bits;
	s = map_lookup(&slots, &at);
	if (s && c->size && c->op == 0 && w->nr != NR_FAULT)
		s->to = c->at + c->size;
	/* It may have been in the call before anybody watched. */
	if (c->who.start < counter(C_BEGAN) && !t->last_in)
		c->marks |= M_UNSURE;
	return 0;
}

/* Ends the call that a thread was seen in, if it is in it no more. True while it is. */
INLINE bool goes_on(struct thread *t, u32 index, struct whereabouts *w)
{
	struct call *c = open_call(t);

	if (!c)
		return 0;
	if (still(c, w) && !other_path_of(c, t->pad - 1, w)) {
		/* Off the CPU once more: in the same call, or in the next one of the same words. */
		if (!end_counts(c) && c->marks & M_TIMED && !(c->marks & M_SYNC))
			c->marks |= M_MERGED;
		return 1;
	}
	finish(t->pad - 1, index, c->last);
	return 0;
}

/* The running thread does something for a call: it is opened, where it was not seen yet; a page fault's only where
 * it is said to be one, else NR_FAULT. */
NOINLINE int call_here(u64 now, bool fault)
{
	struct task_struct *me = current_task();
	u32 pid = me->pid, index;
	struct whereabouts w;
	struct thread *t;
	struct call *c;

	if (me->flags & PF_IO_WORKER)
		return 0;
	whereabouts_of(&w, me);
	t = thread_of(pid, &index);
	if (t && goes_on(t, index, &w)) {
		c = open_call(t);
		if (c)
			c->last = now;
		return 0;
	}
	/* Or an interrupt's, which has nothing to do with the thread. */
	if (w.nr == NR_FAULT && !fault)
		return NR_FAULT;
	if (w.what & W_OP)
		open(me, &w, now);
	return 0;
}

/* What a sleep is that is no operation. A futex's second argument says what is done with it, and its third one the
 * value that it has: 2 is by convention (glibc, Rust, Go) a lock that somebody waits for. musl's condition variables have
 * it as well, in the frame of who waits. */
enum { FUTEX_WAIT = 0, FUTEX_LOCK_PI = 6, FUTEX_WAIT_BITSET = 9, FUTEX_LOCK_PI2 = 13, FUTEX_WORD = 127 };
enum { CONTENDED = 2, FRAME = 512 };
INLINE u32 sleep_of(struct task_struct *task, struct whereabouts *w)
{
	u32 word = w->args[1] & FUTEX_WORD;
	u64 inode;

	if (w->what & W_OP) {
		/* Of what is no file of storage: of a pipe, and of what has no kind of its own, an eventfd. */
		if (!(w->what & W_FD))
			return 0;
		switch (kind_of_file(file_of_call(task, w->what, w->args[0], w->args[1], w->args[2]),
				     &inode)) {
		case 0: case MODE_PIPE:
			return W_WAIT;
		case MODE_FILE: case MODE_BLOCK: case MODE_DIR:
			return 0;
		}
		return W_IDLE;
	}
	if (!(w->what & W_FUTEX))
		return w->what & W_ASLEEP;
	if (word == FUTEX_LOCK_PI || word == FUTEX_LOCK_PI2)
		return W_LOCK;
	if ((word == FUTEX_WAIT || word == FUTEX_WAIT_BITSET) && (u32)w->args[2] == CONTENDED &&
	    w->args[0] - w->sp >= FRAME)
		return W_LOCK;
	return W_WAIT;
}

/* A thread that is in no call on storage sleeps. Whether it is followed until it comes back: always while it has requests
 * under way, whose answers it may be to take up; these are told by themselves, and nobody rests meanwhile. */
NOINLINE bool falls_asleep(struct task_struct *prev, struct whereabouts *w, u64 state)
{
	bool waits = !(counter(C_LEFT_OUT) & LEFT_OUT_WAITS);
	u32 what = state && waits ? sleep_of(prev, w) : 0, index;
	struct landing *l;
	struct asleep *a;
	struct thread *t;
	s32 flying;

	t = what ? seat(prev, &index) : thread_of(prev->pid, &index);
	a = t ? map_lookup(&sleepers, &index) : 0;
	l = a ? map_lookup(&landings, &index) : 0;
	if (!l)
		return 0;
	flying = t->begun - l->ended;
	if (flying < 0)
		t->begun = l->ended;
	if (flying > 0)
		who_is(&a->who, prev);
	a->fetches = flying > 0 && (what | w->what) & W_IDLE;
	a->what = a->fetches ? 0 : what;
	a->where = w->args[0];
	return a->what || flying > 0 || (waits && a->wakes);
}

/* A watched thread leaves the CPU. Whether it is followed until it comes back. */
enum { SLEEPS_SURELY = 2 }; /* TASK_UNINTERRUPTIBLE: it waits for what is sure to come */
NOINLINE bool call_leaves(struct task_struct *prev, u64 state, u64 now)
{
	u32 pid = prev->pid, index;
	struct whereabouts w;
	struct thread *t;

	whereabouts_of(&w, prev);
	/* Nobody but a page fault sleeps so. */
	if (w.nr == NR_FAULT && !(state & SLEEPS_SURELY))
		w.what = 0;
	/* Nothing of storage's takes the CPU from who maps memory, or is on its way back. */
	if (!state && w.what & (W_UNCOUNTED | W_LATE))
		w.what = 0;
	t = thread_of(pid, &index);
	if ((!t || !goes_on(t, index, &w)) && w.what & W_OP) {
		open(prev, &w, now);
		t = thread_of(pid, &index);
	}
	return (t && t->pad) || falls_asleep(prev, &w, state);
}

INLINE void call_enters(struct thread *t, u32 index, u64 now)
{
	struct asleep *a = map_lookup(&sleepers, &index);
	struct call *c = open_call(t);

	if (a)
		a->what = a->fetches = 0;
	if (c) {
		c->last = now;
		c->marks |= M_TIMED;
	}
}

/* io_uring requests that are operations, by their fixed numbers: READV, READ_FIXED, READ; WRITEV, WRITE_FIXED, WRITE;
 * FSYNC, SYNC_FILE_RANGE. */
#define RING_READS (1u << 1 | 1u << 4 | 1u << 22)
#define RING_WRITES (1u << 2 | 1u << 5 | 1u << 23)
#define RING_SYNCS (1u << 3 | 1u << 8)

/* The kind, from 1 on: 1, 2 or 4; 0 for other requests. */
INLINE u32 op_of_request(u32 opcode)
{
	if (opcode > 31)
		return 0;
	return (RING_READS >> opcode & 1) | (RING_WRITES >> opcode & 1) << 1 |
	       (RING_SYNCS >> opcode & 1) << 2;
}

/* Of what begins: its number, its kind from 1 on, and whether its file is known to be one of storage's. */
enum { NR_MASK = 0xffff, KIND_SHIFT = 16, KIND_MASK = 0xff, IS_STORED = 1 << 24 };
enum { WHO_EVERY = 64 };

/* Whether it is known who a thread is. That is asked anew at some of its requests, and when it sleeps: names may change. */
INLINE bool is_named(struct thread *t)
{
	return t->named && t->begun % WHO_EVERY;
}

/* Puts a request in the place that its address says; false where that is taken. It begins once it has the place: with an
 * earlier stamp the end of the request before it could count as its own, see `is_done`. */
INLINE bool takes_place(struct placed *p, struct thread *t, u32 index, u64 request, u32 what,
			u32 marks, u64 where, u64 size)
{
	if (__sync_val_compare_and_swap(&p->request, 0, request))
		return 0;
	p->begin = ktime_ns();
	p->at = where;
	p->size = size;
	p->worker = index;
	p->tid = t->pid;
	p->nr = what & NR_MASK;
	p->op = (what >> KIND_SHIFT & KIND_MASK) - 1;
	p->marks = marks;
	p->blocked = t->blocked_ns;
	p->waited = t->waited_ns;
	p->robbed = t->robbed_ns;
	return 1;
}

INLINE u32 marks_of(u32 what)
{
	return M_QUEUED | (what & IS_STORED ? M_STORED : 0);
}

/* A request of the running thread, of a ring or of libaio, begins. */
NOINLINE int request_begins_any(u64 request, u32 what, u64 where, u64 size)
{
	struct task_struct *me = current_task();
	struct placed *p = place_for(request);
	u32 nr = what & NR_MASK, op = what >> KIND_SHIFT & KIND_MASK, index, at = 0;
	u32 marks = marks_of(what);
	u64 token = requested_as(request), now;
	struct thread *t;
	struct asleep *a;
	struct slot *s;
	struct call *c;

	/* One whose end was not seen, and whose memory is another's now. */
	if (token)
		give_up(token);
	if (token || (p && p->request == request))
		drop_request(request);
	t = op ? seat(me, &index) : thread_of(me->pid, &index);
	if (!t)
		return 0;
	/* What is no operation, or finds no room, goes on with none of the thread's. */
	t->current = 0;
	a = op ? map_lookup(&sleepers, &index) : 0;
	if (!a)
		return 0;
	if (!is_named(t)) {
		who_is(&a->who, me);
		t->named = 1;
	}
	if (counter(C_EXACT))
		marks |= M_EXACT;
	if (!p || !takes_place(p, t, index, request, what, marks, where, size)) {
		now = ktime_ns();
		c = begin(me, t, index, &at, now);
		s = c ? touched(c->token) : 0;
		if (!s)
			return 0;
		c->nr = nr;
		c->op = op - 1;
		c->marks = marks;
		c->at = where;
		c->size = size;
		enters_ring(s, nr, now);
		token = c->token;
		if (map_update(&requested, &request, &token, 0)) {
			s->token = 0;
			queue_push(&free_slots, &at, 0);
			count(C_NO_ROOM);
			return 0;
		}
		count_many(C_CROWDED, 1);
	}
	if (marks & M_EXACT)
		count_many(C_EXACT_OPEN, 1);
	/* Nobody else writes it. */
	t->begun++;
	t->current = request;
	return 0;
}

/* The same, without a call of a function for nearly all of them: those of a thread that has its place, `t`, and a name,
 * while nobody asks for more of each. */
INLINE void request_begins(struct thread *t, u32 index, u64 request, u32 what, u64 where, u64 size)
{
	struct counts *all = all_counters();
	struct placed *p = place_for(request);

	if (LIKELY(t && is_named(t) && what >> KIND_SHIFT & KIND_MASK && all &&
		   !all->n[C_CROWDED] && !all->n[C_EXACT] && p && !p->request &&
		   takes_place(p, t, index, request, what, marks_of(what), where, size))) {
		t->begun++;
		t->current = request;
		return;
	}
	request_begins_any(request, what, where, size);
}

/* Where a request was; its own begins with its file. */
INLINE u64 file_of_request(u64 request, u32 nr)
{
	if (nr == NR_AIO)
		return (u64)FIELD(struct kiocb, request, ki_filp);
	return (u64)FIELD(struct io_kiocb, request, file);
}

/* Whether a request that ends was on a file of storage. */
NOINLINE bool ends_on_storage(u64 request, u32 nr)
{
	u64 inode;

	return is_stored(kind_of_file(file_of_request(request, nr), &inode));
}

/* A request that has no slot ends, with what it brought. Whether it is no more than counted: as `tally` has it. */
INLINE bool ends_in_time(struct placed *p, struct counts *all, u64 request, s64 result, u64 now)
{
	u64 ns = now > p->begin ? now - p->begin : 0, nth = all->n[C_CALLS];
	u64 slow = all->n[C_SLOW_NS];
	u32 marks = M_QUEUED | M_KNOWN | (result < 0 ? M_FAILED : 0), worker = p->worker;
	struct asleep *a;

	if (!LIKELY(ns < slow && nth >= LEARN && nth % EVERY && p->op < 2 &&
		    !(p->marks & M_EXACT) && !all->n[C_RECORD]))
		return 0;
	if (ns >= slow / BESIDE) {
		a = map_lookup(&sleepers, &worker);
		if (!a || a->wakes)
			return 0;
		a->busy_to = p->begin + ns;
	}
	/* Else a socket, a pipe. */
	if (LIKELY(p->marks & M_STORED) || ends_on_storage(request, p->nr)) {
		tally_one((2 * EXACT + p->op) * PLACES, ns, marks, result);
		__sync_fetch_and_add(&all->n[C_CALLS], 1);
	}
	landed(worker);
	empties(p);
	return 1;
}

/* It ends, and may be told: `result` is what it brought. */
NOINLINE int request_ends_any(u64 request, s64 result, u64 now)
{
	u64 token = requested_as(request);
	u32 at = token & SLOT_MASK;
	struct call *c = map_lookup(&calls, &at);
	struct slot *s = slot_of(token);

	drop_request(request);
	if (!token || !s || !c)
		return 0;
	/* A socket, a pipe, or what an operation was taken for that is none. */
	if (!file_is(c, file_of_request(request, c->nr))) {
		give_up(token);
		return 0;
	}
	if (c->nr < NR_AIO) {
		more_of(s);
		s->cqe = now;
	}
	c->result = result;
	c->marks |= M_KNOWN;
	if (result < 0)
		c->marks |= M_FAILED;
	else if (c->op < 2)
		c->size = result;
	finish(at, s->worker, now);
	return 0;
}

/* A request ends. */
INLINE void request_ends(u64 request, s64 result)
{
	struct counts *all = all_counters();
	struct placed *p = place_for(request);
	u64 now;

	if (!request || !p || !all || (p->request != request && !all->n[C_CROWDED]))
		return;
	now = ktime_ns();
	if (!LIKELY(p->request == request && !p->token &&
		    ends_in_time(p, all, request, result, now)))
		request_ends_any(request, result, now);
}
