/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the programs share with the process that loaded them: configuration, memory both see,
 * events. The Rust side repeats these layouts in src/bpf/layout.rs; a test compares the sizes that
 * this object states with them. */
#pragma once

#include "helpers.h"

#define SLOTS 4096
#define SLOT_MASK (SLOTS - 1)
#define THREADS 4096
#define FRAMES 20
/* What `resolve` returns for I/O of a lower device (the file behind a loop device) has in its top bits
 * how many devices lie above that one. */
#define LOWER_SHIFT 62
#define LOWER (3ull << LOWER_SHIFT)
#define LEVELS 3

/* Set by the loader before the programs are loaded. Addresses are 0 when they are not known. */
const volatile u32 cfg_tgid = 0;
/* The server of the store, whose threads, and those of its children, are looked at as threads of the kernel are; 0 for
 * none. */
const volatile u32 cfg_server = 0;
/* Other programs are watched, those in `subjects`, and not the one that loaded this. What each request asks for follows, so
 * that it is in one line of memory. */
const volatile u32 cfg_watch = 0;
/* The kernel has the function `cast`. */
const volatile u32 cfg_cast = 0;
/* Only what is slow is kept, and I/O is direct: of I/O that leads back to its operation by itself,
 * the completion takes all stamps at once. */
const volatile u32 cfg_late = 0;
/* Bits of an offset inside a page. */
const volatile u32 cfg_page_bits = 12;
const volatile u64 cfg_end_iomap = 0;
/* Of an I/O of libaio, and of io_uring. */
const volatile u64 cfg_aio_done = ~0ull;
const volatile u64 cfg_uring_done = 0;
const volatile u64 cfg_uring_polled = 0;
const volatile u64 cfg_off_ns = 0;
const volatile u64 cfg_end_blkdev = 0;
const volatile u64 cfg_end_blkdev_async = 0;
const volatile u64 cfg_end_chain = 0;
/* Of an io_uring command, as for blocks given back. */
const volatile u64 cfg_end_command = ~0ull;
const volatile u64 cfg_end_wait = ~0ull;
const volatile u64 cfg_loop_done = 0;
/* Of a file that lies in another one, as overlayfs has them: of its own requests to that one. */
const volatile u64 cfg_backing_done = ~0ull;
const volatile u64 cfg_backing_queue = ~0ull;
/* The kernel function that takes io_uring requests from the queue: from, to. */
const volatile u64 cfg_submit_from = 0;
const volatile u64 cfg_submit_to = 0;
/* Where the kernel's code begins that interrupts run in: from, to. */
const volatile u64 cfg_irq_from = 0;
const volatile u64 cfg_irq_to = 0;
/* The kernel function that lets go of what a control group's limit held back: from, to. */
const volatile u64 cfg_throttle_from = 0;
const volatile u64 cfg_throttle_to = 0;
/* The kind of file the target is (S_IFMT). */
const volatile u32 cfg_kind = 0;
/* Disks whose other users are of interest: major << 20 | minor. */
const volatile u32 cfg_disk0 = 0;
const volatile u32 cfg_disk1 = 0;
const volatile u32 cfg_disk2 = 0;
const volatile u32 cfg_disk3 = 0;

enum {
	PF_IO_WORKER = 0x10,
	PF_WQ_WORKER = 0x20,
	PF_KTHREAD = 0x200000,
	PF_BLOCK_TS = 0x20000000, /* its plug keeps the time for requests (6.9) */
};

enum flags {
	F_FOREIGN = 1, /* a bio was queued by another process: it had been held back before */
	F_REQUEUED = 2,
	F_PUNTED = 4,   /* handed to an io_uring worker thread */
	F_SPLIT = 8,
	F_MERGED = 16,
	F_FLUSH = 32,
	F_LOWER = 64,   /* the lower stamps are filled */
	F_INDIRECT = 128, /* matched by the thread that queued it, not by the I/O itself */
	F_UNCLEAR = 256, /* a part may be of this operation or of another */
	F_LOWER_HELD = 512, /* a bio of the lower device had been held back by a limit */
};

/* In `sector`: no part with data was seen. */
#define NOWHERE (~0ull)

/* One operation in flight, a cache line for each who writes. The first is the process's, but for
 * the FUSE stamps; the others are the programs'. What a line says belongs to the operation whose
 * token the line begins with: the first writer of an operation wipes the line, and only that. */
struct slot {
	u64 token;
	u64 begin;
	u64 worker; /* index of its thread */
	u64 seen_served;
	u64 served;   /* first request to a FUSE server, ns */
	u64 answered; /* last answer of a FUSE server, ns */
	u64 ended;    /* operations of the thread, in the first slot of each */
	u64 to;       /* where it ends in the file, bytes; 0 when that is not known */

	u64 seen;
	u64 bio_first; /* of the parts that were in flight together last; so are the next three */
	u64 alloc;
	u64 issue;
	u64 done;
	u64 sector; /* of the first part with data that was seen; NOWHERE */
	u32 dev;
	u16 flags;
	u16 bios;
	u64 counts; /* of parts that are complete, in one step: see below */

	u64 seen_more;
	u64 enter;
	u64 bio_last;
	u64 insert;
	u64 cqe;
	u64 foreign; /* first bio queued by another process, ns; of the parts in flight together last */
	u64 requeue; /* last requeue, ns */
	u64 punt;    /* handed to an io_uring worker thread */

	u64 seen_low;
	u64 low_bio;
	u64 low_alloc;
	u64 low_issue;
	u64 low_done;
	u32 low_dev;
	u32 low_depth; /* devices above the lowest one seen, which the other stamps are of */
	u64 low_pad;
	u64 request; /* address of its io_uring request, of this operation or an earlier one */

	u64 seen_part;
	u64 sync_punt; /* the sync of a write was handed to an io_uring worker thread */
	u32 rounds;    /* how often all parts so far were done when another one came */
	u32 part_pad;
	u64 unplaced; /* last part that could be of any operation of the thread, ns; in its first slot */
	u64 part_own[4];
};

/* In `counts`: parts; those among them that were not counted where they were queued; sectors of the
 * operation's own data. The kernel moves 2 GiB at a time at most: 2^19 pages, 2^22 sectors. */
#define LATE_SHIFT 20
#define SECTORS_SHIFT 40
#define COUNT_MASK ((1u << LATE_SHIFT) - 1)

/* In `by`: a thread of this program woke it up. */
#define BY_OWN (1u << 31)
/* That one was in an operation meanwhile, or waited for one that was; and which one it is. */
#define BY_BUSY (1u << 30)
#define BY_WHO (BY_BUSY - 1)
/* In `current`: with which request the thread went on since is not known. */
#define STALE LOWER

/* Parts that were in flight together, before the last ones. */
struct round {
	u64 bio; /* the first was queued */
	u64 alloc; /* of the request that was done last */
	u64 issue; /* the latest of its parts */
	u64 done;
	u64 held; /* first part queued by another process */
};

/* All such rounds of an operation, by time: as many as `rounds` in its slot says. The last place is
 * the one's that took longest of those that found no other. */
#define EARLIER 32
struct earlier {
	struct round rounds[EARLIER];
};

/* Who it was, all of it seen at one moment; zeros where that is not known. A number alone is not enough:
 * it may be another thread's, and the thread another program, by the time that somebody looks it up. */
struct who {
	u32 tid;
	u32 pid;   /* its process */
	u64 start; /* when that thread began, ns since boot */
	char comm[16];
};

/* One thread of the load. */
struct thread {
	u32 pid;
	union {
		u32 slot;  /* its first slot */
		u32 begun; /* of a watched one: its requests of a ring or of libaio, see `flies` */
	};
	union {
		u32 depth; /* how many slots it has: operations at a time */
		u32 named; /* of a watched one: `asleep` says who it is */
	};
	u32 by; /* thread of the load that woke it up, from 1 on; BY_OWN, BY_BUSY */
	/* What the thread itself reads at each operation, in one cache line. */
	u64 off; /* stamp of the last switch out, 0 while running */
	u64 blocked_ns;
	u64 waited_ns; /* runnable but not running, after a wake-up */
	u64 robbed_ns; /* runnable but not running, after a preemption */
	u64 last_in;

	u64 current; /* token of the io_uring request submitted, or gone on with, last; STALE */
	u64 wake;    /* stamp of the wake-up after the last switch out */
	u32 state;   /* task state at the switch out, 0 = still runnable */
	u32 pad;
	u64 last_wake; /* of the last stretch off the CPU */
	u64 reclaim;
	struct who by_whom; /* the CPU was taken; else who woke it up */
};

enum kinds {
	K_OFF = 1,
	K_FOREIGN = 2,
	K_NEIGHBOUR = 3,
	K_COMMIT = 4,
	K_RECLAIM = 5,
	K_WORKER = 6,
	K_GAP = 7,
	K_FLUSH = 8,
	K_KTHREAD = 9,
	K_STOLEN = 10,
	K_CALL = 11, /* an operation of a program that is watched: see `struct told` */
	K_WAIT = 12, /* a thread of such a program waited for another one */
	K_NAME = 13, /* what the file of such an operation is called: see `struct file_name` */
	K_PATH = 14, /* the path that such an operation was given: see `struct told_path` */
};

struct event {
	u32 kind;
	u32 worker; /* index of the thread; ~0 when it belongs to none */
	u64 start;
	u64 middle;
	u64 end;
	u64 a;
	u64 b;
	struct who who;
	struct who other;
	u32 dev;
	u16 stack_bytes;
	u16 cpu; /* where it was written */
	u32 waker; /* thread of the load that woke it up, from 1 on */
	u32 pad;
	u64 stack[FRAMES];
};

enum counters {
	C_LOST = 0,      /* events that found the ring full */
	C_WANTED = 1,    /* bios of a thread with many operations, and nobody says of which */
	C_PUNTED = 2,    /* handed to io_uring worker threads */
	C_NEIGHBOURS = 3,
	C_FILE = 5,      /* no count: the one file of the run, as `file_of` tells it; 0 for unknown */
	C_CALLS = 7,     /* operations that were watched to their end */
	C_NO_ROOM = 8,   /* those that found no slot or no program that sees them, and threads that found no place */
	C_BEGAN = 9,     /* no count: when watching began, ns since boot */
	C_EXITS = 10,    /* threads that ended while they were watched */
	C_READS = 12,    /* calls that read and ended, and so on: those that the kernel counts, too */
	C_WRITES = 13,
	C_SYNCS = 14,    /* syncs whose begin no way of the program passes by */
	C_ENDED_READS = 15, /* calls that threads had made, as the kernel counts them, that ended */
	C_ENDED_WRITES = 16,
	C_FAULTS = 17, /* page faults among the operations */
	C_WAITS = 20, /* waits of threads for each other that are no more than counted */
	C_LONGEST_WAIT = 21, /* no count: the longest of these that was told, ns */
	C_EXACT_OPEN = 23, /* no count: calls and requests that are looked at so and have not ended */
	/* In a line of memory by themselves, which hardly anybody writes: each request reads several of them. */
	C_SUBJECTS = 24, /* no count: how often `subjects` has changed */
	C_CROWDED = 25, /* no count: requests in `requested` and not in `placed` */
	C_EXACT = 26, /* no count: what begins now is looked at to its end, whether it blocks or not */
	C_SLOW_NS = 27, /* no count: from which latency on operations that are watched are told, ns */
	C_RECORD = 28, /* no count: operations are told that are not slow, too */
	C_LEFT_OUT = 29, /* no count: LEFT_OUT_* that are too dear */
	C_ISSUES = 30, /* no count: whether requests know when they were issued */
	C_DIRECT = 31, /* no count: whose direct I/O was seen, see `note_direct` */
	C_COUNTERS = 32,
};

/* In `C_LEFT_OUT`: waits of threads for each other; I/O of others on the same disks. */
enum { LEFT_OUT_WAITS = 1, LEFT_OUT_OTHERS = 2 };

struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct earlier);
} earlier SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, F_MMAPABLE);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* All of them are one value: who asks for several finds them in one look. */
struct counts {
	u64 n[C_COUNTERS];
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(map_flags, F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counters SEC(".maps");

/* 0 where there are none, which the verifier cannot rule out. */
INLINE struct counts *all_counters(void)
{
	u32 first = 0;

	return map_lookup(&counters, &first);
}

INLINE u64 counter(u32 which)
{
	struct counts *all = all_counters();

	return all ? all->n[which] : 0;
}

INLINE void count_many(u32 which, u64 more)
{
	struct counts *all = all_counters();

	if (all)
		__sync_fetch_and_add(&all->n[which], more);
}

INLINE void count(u32 which)
{
	count_many(which, 1);
}

/* Thread id -> index into `threads`. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, u32);
} tids SEC(".maps");

/* Threads of the kernel that poll an io_uring's submission queue: whose, an index of `threads`. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, u32);
} pollers SEC(".maps");

/* When a request was inserted and issued, until it ends (of one that was merged into another, until
 * its tag is used again). Requests are told apart by their tags, and what two share is the first's:
 * the programs then look for the second's operation by its bios. */
#define REQUESTS 4096 /* and one more, of nobody and always empty */
struct stamps {
	u64 rq; /* whose they are, 0 for nobody's */
	u64 insert;
	u64 issue;
	u64 pad;
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, REQUESTS + 1);
	__type(key, u32);
	__type(value, struct stamps);
} requests SEC(".maps");

/* Address of a bio -> token, for bios that do not lead back to their operation by themselves. */
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u64);
} bios SEC(".maps");

/* An io_uring worker thread off the CPU, by thread id. */
struct idle {
	u64 off;
	u64 wake;
	u64 state;
	u64 token; /* what it was doing, 0 when nothing */
	u64 reclaim; /* since when it makes room in memory, 0 when it does not */
	u32 waker;
	u32 worker; /* index of the thread whose operation that was; ~0 for none */
	struct who by_whom; /* as of a thread of the load */
};
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, struct idle);
} idles SEC(".maps");

/* Threads of the kernel, and of the store's server, off the CPU, by the lower bits of their numbers: two that share
 * them forget each other. */
#define KTHREADS 8192
struct kthread {
	u32 pid;
	u32 state;
	u64 off;
	u64 wake;
	u32 own; /* a thread of this program woke it up */
	u32 pad;
	struct who taker; /* who took its CPU */
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, KTHREADS);
	__type(key, u32);
	__type(value, struct kthread);
} kthreads SEC(".maps");

/* Of each CPU, by the lower bits of its number. */
#define CPUS 4096
struct cpu {
	u64 stolen;  /* what a hypervisor had taken of it at its last timer, ns */
	u64 timer;   /* its last timer */
	u64 entered; /* a thread of the load came back to it after a while */
	u64 pad;
};
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* Bios of others on a disk under test, by address, until they are done. */
struct other {
	u64 queued;
	u64 sector;
	u64 what; /* operation and flags << 32 | bytes */
	u32 dev;
	u32 pad;
	struct who who;
	char mark[16];
};
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct other);
} others SEC(".maps");

/* Address of a device's own flush -> when it was issued. */
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, u64);
	__type(value, u64);
} flushes SEC(".maps");

/* Address of a FUSE request under way -> token. */
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u64);
} serves SEC(".maps");

/* Commit of a journal under way. */
struct commit {
	u64 start;
	u64 logging;
};
struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, struct commit);
} commits SEC(".maps");

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, 1 << 23);
} ring SEC(".maps");

/* Processes that are watched, by number. Their children are added here. */
#define SUBJECTS 16384
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, SUBJECTS);
	__type(key, u32);
	__type(value, u32);
} subjects SEC(".maps");

/* What `subjects` said of a process, by the lower bits of its number: that number << 32 | C_SUBJECTS then, its lower
 * bits, << 1 | whether it is watched. A look into an array costs far less than one into a hash. */
#define ASKED 4096
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, ASKED);
	__type(key, u32);
	__type(value, u64);
} asked SEC(".maps");

/* Threads that have a place, by the lower bits of their numbers: index + 1. `tids` has all of them. */
#define SEATS 4096
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, SEATS);
	__type(key, u32);
	__type(value, u32);
} seats SEC(".maps");

/* Whether a process is the one that the programs look at, or one of those. */
INLINE bool is_ours(u32 tgid)
{
	u32 at = tgid & (ASKED - 1);
	u64 *place, now, answer;

	if (!cfg_watch)
		return tgid == cfg_tgid;
	place = map_lookup(&asked, &at);
	if (!place)
		return 0;
	now = (u64)tgid << 32 | (u32)counter(C_SUBJECTS) << 1;
	answer = *place;
	if ((answer ^ now) > 1) {
		answer = now | !!map_lookup(&subjects, &tgid);
		*place = answer;
	}
	return answer & 1;
}

/* Whether a thread is of such a process: none of the kernel's is, which most switches and wake-ups are of. */
INLINE bool is_own(struct task_struct *task)
{
	return !(task->flags & PF_KTHREAD) && is_ours(task->tgid);
}

/* user_data is the token; its top bit tells the sync of a write from the write. */
INLINE u64 token_of(u64 user_data)
{
	return user_data & ~LOWER;
}

INLINE struct event *event(u32 kind, u32 worker)
{
	struct event *e = ring_reserve(&ring, sizeof(struct event), 0);

	if (!e) {
		count(C_LOST);
		return 0;
	}
	e->kind = kind;
	e->worker = worker;
	e->start = e->middle = e->end = e->a = e->b = 0;
	e->dev = e->stack_bytes = e->waker = e->pad = 0;
	e->cpu = this_cpu();
	__builtin_memset(&e->who, 0, sizeof(e->who));
	__builtin_memset(&e->other, 0, sizeof(e->other));
	return e;
}

INLINE void who_is(struct who *w, struct task_struct *task)
{
	const u64 *name = (const u64 *)&task->comm;

	w->tid = task->pid;
	w->pid = task->tgid;
	w->start = task->start_boottime;
	/* By two loads: a helper takes more than all else here. */
	((u64 *)w->comm)[0] = name[0];
	((u64 *)w->comm)[1] = name[1];
}

/* A watched thread whose place the lower bits of its number lead to, as nearly all do. */
INLINE struct thread *seated(u32 pid, u32 *index)
{
	u32 at = pid & (SEATS - 1), *i = cfg_watch ? map_lookup(&seats, &at) : 0;
	struct thread *t;

	if (!LIKELY(i && *i))
		return 0;
	*index = *i - 1;
	t = map_lookup(&threads, index);
	return LIKELY(t && t->pid == pid) ? t : 0;
}

/* Whether the running thread is of a process that the programs look at: one that has a place is. */
INLINE bool is_ours_here(u64 ids)
{
	u32 index;

	return LIKELY(seated(ids, &index)) || is_ours(ids >> 32);
}

INLINE struct thread *thread_of(u32 pid, u32 *index)
{
	struct thread *t = seated(pid, index);
	u32 *i;

	if (t)
		return t;
	i = map_lookup(&tids, &pid);
	if (!i)
		return 0;
	*index = *i;
	return map_lookup(&threads, index);
}

/* The slot of an operation that is in flight. */
INLINE struct slot *slot_of(u64 token)
{
	u32 index = token & SLOT_MASK;
	struct slot *s = map_lookup(&slots, &index);

	if (!s || !token || s->token != token)
		return 0;
	return s;
}

/* As `slot_of`, for the block layer's stamps. */
INLINE struct slot *touched(u64 token)
{
	struct slot *s = slot_of(token);

	if (s && s->seen != token) {
		s->bio_first = s->alloc = s->issue = s->done = 0;
		s->sector = NOWHERE;
		s->dev = s->flags = s->bios = s->counts = 0;
		s->seen = token;
	}
	return s;
}

/* The line of rarer stamps, for this operation. */
INLINE void more_of(struct slot *s)
{
	u64 token = s->token;

	if (s->seen_more != token) {
		s->enter = s->bio_last = s->insert = s->cqe = 0;
		s->foreign = s->requeue = s->punt = 0;
		s->seen_more = token;
	}
}

/* The line of the lower device, for this operation. */
INLINE void low_of(struct slot *s)
{
	u64 token = s->token;

	if (s->seen_low != token) {
		s->low_bio = s->low_alloc = s->low_issue = s->low_done = 0;
		s->low_dev = s->low_depth = 0;
		s->seen_low = token;
	}
}

/* Whether I/O of a lower device is that of the lowest seen so far, whose stamps are kept: what a
 * device between that one and the upper one does lies around them. */
INLINE bool lowest(struct slot *s, u64 token)
{
	u32 depth = token >> LOWER_SHIFT;

	low_of(s);
	if (depth > s->low_depth) {
		s->low_bio = s->low_alloc = s->low_issue = s->low_done = 0;
		s->low_depth = depth;
	}
	return depth == s->low_depth;
}

/* The line of parts that came one after another, for this operation. */
INLINE void part_of(struct slot *s, u64 token)
{
	if (s->seen_part != token) {
		s->sync_punt = s->rounds = 0;
		s->seen_part = token;
	}
}
