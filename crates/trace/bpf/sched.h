/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Threads of the load leaving and entering the CPU. Sums go to shared memory; a stretch off the
 * CPU longer than the limit also becomes an event with the kernel stack it slept in. */
#pragma once

#include "match.h"

/* Nothing is known of a thread in this time, of one operation only, or of all that it has, but that it could
 * have run, if it `could`. */
INLINE void gap(u32 worker, u64 token, u64 from, u64 to, bool could)
{
	struct event *e;

	if (to - from < cfg_off_ns)
		return;
	e = event(K_GAP, worker);
	if (!e)
		return;
	e->start = from;
	e->end = to;
	e->a = could;
	e->b = token;
	ring_submit(e, RB_NO_WAKEUP);
}

/* A thread came back unseen: it is known how long it slept, if its wake-up was seen, and no more. */
INLINE void unseen_return(struct thread *t, u32 index, u64 now)
{
	bool slept = t->state && t->wake > t->off;
	struct event *e = slept && t->wake - t->off >= cfg_off_ns ? event(K_OFF, index) : 0;

	gap(index, 0, slept ? t->wake : t->off, now, slept || !t->state);
	if (!e)
		return;
	e->start = t->off;
	e->middle = e->end = t->wake;
	e->a = t->state;
	e->other = t->by_whom;
	ring_submit(e, RB_NO_WAKEUP);
}

INLINE void leaves(struct thread *t, u32 index, struct task_struct *next, u64 state, u64 now)
{
	/* It left before, and was not seen to come back. */
	if (t->off)
		unseen_return(t, index, now);
	t->off = now;
	t->state = state;
	t->wake = state ? 0 : now;
	t->by = 0;
	__builtin_memset(&t->by_whom, 0, sizeof(t->by_whom));
	if (!state)
		who_is(&t->by_whom, next);
}

INLINE struct cpu *cpu_here(void)
{
	u32 cpu = this_cpu() & (CPUS - 1);

	return map_lookup(&cpus, &cpu);
}

/* It is kept, and told where another one turns out to have waited for the thread. */
INLINE void rests(struct asleep *a, u64 from, u64 to, u64 run)
{
	struct rest *last = &a->rests[(a->next - 1) & (RESTS - 1)];
	struct rest *now = &a->rests[a->next & (RESTS - 1)];

	if (last->to && from - last->to < (to - from) / 8) {
		last->to = to;
		last->run = run;
		last->told = 0;
		return;
	}
	now->from = from;
	now->to = to;
	now->run = run;
	now->told = 0;
	a->next++;
}

INLINE bool tell_wait(struct thread *t, struct asleep *a, u32 index, struct task_struct *next,
		      u64 off, u64 now)
{
	struct event *e = event(K_WAIT, index);

	if (!e)
		return 0;
	e->start = off;
	e->middle = t->wake;
	e->end = now;
	e->a = a->what;
	e->b = a->where;
	who_is(&e->who, next);
	e->other = t->by_whom;
	e->waker = t->by & BY_WHO;
	ring_submit(e, RB_NO_WAKEUP);
	return 1;
}

/* A thread comes back from a sleep that was no operation. Whether it is told: a wait for a lock, and one for another
 * thread that was busy. Who has nothing to do waits for others as well: that is counted, and the longest is named. */
INLINE bool waited(struct thread *t, struct asleep *a, u32 index, struct task_struct *next,
		   u64 off, u64 now)
{
	u64 slow = counter(C_SLOW_NS), wake = t->wake > off ? t->wake : now;
	bool lock = a->what & W_LOCK;
	struct counts *all;

	/* A sleep for time says something only where there was no CPU after it, and no row tells of it by itself. */
	if (a->what & W_IDLE || (a->what & W_PAUSE && !flies(t, index) && now - wake >= cfg_off_ns))
		rests(a, a->what & W_IDLE ? off : wake, wake, now);
	if (!(a->what & (W_LOCK | W_WAIT)) || !(t->by & BY_OWN) || (!(t->by & BY_WHO) && !lock) ||
	    now - off < slow / BESIDE)
		return 0;
	if (lock || t->by & BY_BUSY) {
		if (t->by & BY_BUSY)
			a->busy_to = now;
		tell_wait(t, a, index, next, off, now);
		return 1;
	}
	all = all_counters();
	if (now - off >= slow && all) {
		if (now - off > all->n[C_LONGEST_WAIT] && tell_wait(t, a, index, next, off, now))
			all->n[C_LONGEST_WAIT] = now - off;
		else
			count(C_WAITS);
	}
	return 0;
}

/* Sleep of a thread of the kernel that waits for work. One of a work queue that sleeps in another way has
 * some. */
enum { TASK_INTERRUPTIBLE = 1, TASK_IDLE = 0x402 };
/* Says only that the sleep may be frozen (TASK_FREEZABLE, 6.1). */
enum { TASK_FREEZABLE = 0x2000 };

/* A thread slept until one of its requests had its answer, and ran as soon as that came; it was not stopped there, nor held
 * by a tracer. What the others waited for, their own stamps say; of the sleep nobody asks where it is short beside what is
 * told. By itself: `enters` has no stack to spare. */
NOINLINE bool fetched(struct asleep *a, u32 state, u64 off, u64 wake, u64 now)
{
	return a->fetches && (state & ~TASK_FREEZABLE) == TASK_INTERRUPTIBLE && wake >= off &&
	       now - wake < cfg_off_ns && now - off < counter(C_SLOW_NS) / BESIDE;
}

INLINE void enters(struct thread *t, u32 index, struct task_struct *prev,
		   struct task_struct *next, u64 now)
{
	struct asleep *a = cfg_watch ? map_lookup(&sleepers, &index) : 0;
	u64 off = t->off, wake = t->wake;
	struct cpu *here;
	struct event *e;
	long bytes;

	if (!off)
		return;
	t->off = 0;
	if (!t->state) {
		t->robbed_ns += now - off;
	} else if (wake >= off) {
		t->blocked_ns += wake - off;
		t->waited_ns += now - wake;
	} else {
		t->blocked_ns += now - off;
	}
	t->last_wake = t->state ? wake : 0;
	t->last_in = now;
	if (now - off < cfg_off_ns)
		return;
	if (a && !t->state && next->flags & PF_BLOCK_TS) {
		a->plug_from = off;
		a->plug_to = now;
	}
	if (a && a->what && !waited(t, a, index, next, off, now) && !flies(t, index))
		return;
	here = cpu_here();
	if (here)
		here->entered = now;
	if (a && fetched(a, t->state, off, wake, now))
		return;
	e = event(K_OFF, index);
	if (!e)
		return;
	e->start = off;
	e->middle = wake;
	e->end = now;
	e->a = t->state;
	/* Name and numbers come from one switch: who took the CPU is seen when the thread leaves it, who had
	 * it last when it comes back. */
	if (t->state) {
		who_is(&e->who, prev);
		e->other = t->by_whom;
		e->waker = t->by & BY_WHO;
		e->b = t->by & BY_OWN;
	} else {
		e->who = t->by_whom;
	}
	bytes = task_stack(next, e->stack, sizeof(e->stack), 0);
	e->stack_bytes = bytes > 0 ? bytes : 0;
	ring_submit(e, RB_NO_WAKEUP);
}

/* An io_uring worker thread leaves the CPU again and was not seen to come back to it: nothing is
 * known of what it did in between. */
INLINE void unseen(struct idle *before, u64 now)
{
	/* One without an operation misses nothing that anybody asks for. */
	if (before->off && before->token)
		gap(before->worker, before->token, before->wake ? before->wake : before->off, now,
		    before->wake || !before->state);
}

#define POLLS 0x2d7071732d756f69ull /* "iou-sqp-" */

/* The thread of the load whose submission queue this one polls, from 1 on, 0 for another one: its name
 * is made of that one's number (io_sq_thread, io_uring/sqpoll.c). */
INLINE u32 polls_for(struct task_struct *task)
{
	char name[16] __attribute__((aligned(8))) = {};
	u32 own = task->pid, *polled = map_lookup(&pollers, &own), pid = 0, index;

	read_kernel(name, sizeof(name), task->comm);
	if (*(u64 *)name != POLLS) {
		/* The number of one that has ended may be another thread's. */
		if (polled)
			map_delete(&pollers, &own);
		return 0;
	}
	if (polled)
		return *polled + 1;
	for (int i = 8; i < 15 && name[i] >= '0' && name[i] <= '9'; i++)
		pid = pid * 10 + name[i] - '0';
	if (!thread_of(pid, &index))
		return 0;
	map_update(&pollers, &own, &index, 0);
	return index + 1;
}

/* An io_uring worker thread leaves the CPU: what it was doing says whose time it is. */
INLINE void worker_leaves(struct task_struct *prev, struct task_struct *next, u64 state, u64 now)
{
	struct idle i = { .off = now, .state = state, .worker = ~0u }, *before;
	u32 pid = prev->pid;
	struct slot *s;

	before = map_lookup(&idles, &pid);
	if (before) {
		unseen(before, now);
		i.reclaim = before->reclaim;
	}
	i.token = of_worker(address(prev));
	/* Before it submits anything that does not lead back. */
	if (!i.token)
		polls_for(prev);
	s = slot_of(i.token);
	if (s)
		i.worker = s->worker;
	if (!state) {
		i.wake = now;
		who_is(&i.by_whom, next);
	}
	map_update(&idles, &pid, &i, 0);
}

INLINE void worker_enters(struct task_struct *prev, struct task_struct *next, u64 now)
{
	u32 pid = next->pid;
	struct idle *i = map_lookup(&idles, &pid);
	u64 off, since;
	struct slot *s;
	struct event *e;
	u32 polled;
	bool busy;
	long bytes;

	if (!i || !i->off)
		return;
	off = i->off;
	i->off = 0;
	if (now - off < cfg_off_ns)
		return;
	polled = i->token ? 0 : polls_for(next);
	/* One that had nothing to do has lost time only from its wake-up on. */
	busy = i->token || !i->state ||
	       (polled && (i->state & ~TASK_FREEZABLE) != TASK_INTERRUPTIBLE);
	since = busy ? off : i->wake;
	if (!since || now - since < cfg_off_ns)
		return;
	s = slot_of(i->token);
	e = event(K_WORKER, s ? (u32)s->worker : polled - 1);
	if (!e)
		return;
	e->start = off;
	e->middle = i->state ? i->wake : 0;
	e->end = now;
	e->a = i->state;
	e->b = i->token;
	if (i->state) {
		who_is(&e->who, prev);
		e->other = i->by_whom;
		e->waker = i->waker;
	} else {
		e->who = i->by_whom;
	}
	bytes = task_stack(next, e->stack, sizeof(e->stack), 0);
	e->stack_bytes = bytes > 0 ? bytes : 0;
	ring_submit(e, RB_NO_WAKEUP);
}

/* Whether a thread is one of the store's server. */
INLINE bool of_server(struct task_struct *task)
{
	return cfg_server &&
	       ((u32)task->tgid == cfg_server || (u32)task->real_parent->tgid == cfg_server);
}

INLINE struct kthread *kthread_of(struct task_struct *task)
{
	u32 index = task->pid & (KTHREADS - 1);

	return (task->flags & PF_KTHREAD || of_server(task)) && task->pid ?
		       map_lookup(&kthreads, &index) :
		       0;
}

INLINE void kthread_leaves(struct kthread *k, struct task_struct *prev,
			   struct task_struct *next, u64 state, u64 now)
{
	k->pid = prev->pid;
	if (!state)
		who_is(&k->taker, next);
	k->state = state & ~TASK_FREEZABLE;
	k->off = now;
	k->wake = state ? 0 : now;
	k->own = 0;
}

INLINE void kthread_enters(struct kthread *k, struct task_struct *prev, struct task_struct *next,
			   u64 now)
{
	u64 off = k->off, since = off;
	struct event *e;
	long bytes;

	if (k->pid != (u32)next->pid || !off)
		return;
	k->off = 0;
	if (k->state == TASK_IDLE ||
	    (k->state == TASK_INTERRUPTIBLE && !(next->flags & PF_WQ_WORKER)))
		since = k->wake;
	if (!since || now - since < cfg_off_ns)
		return;
	e = event(K_KTHREAD, ~0u);
	if (!e)
		return;
	e->start = off;
	e->middle = k->state ? k->wake : 0;
	e->end = now;
	e->a = k->state;
	e->b = k->own | (u32)of_server(next) << 1;
	if (k->state)
		who_is(&e->who, prev);
	else
		e->who = k->taker;
	who_is(&e->other, next);
	bytes = task_stack(next, e->stack, sizeof(e->stack), 0);
	e->stack_bytes = bytes > 0 ? bytes : 0;
	ring_submit(e, RB_NO_WAKEUP);
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	bool preempt = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u64 state = preempt ? 0 : (u32)ctx[3], now = 0;
	struct kthread *k;
	struct thread *t;
	u32 index;

	k = kthread_of(prev);
	if (k) {
		now = ktime_ns();
		kthread_leaves(k, prev, next, state, now);
	}
	k = kthread_of(next);
	if (k) {
		now = now ? now : ktime_ns();
		kthread_enters(k, prev, next, now);
	}
	if (is_own(prev)) {
		bool follow = 1;

		if (cfg_watch && !(prev->flags & PF_IO_WORKER)) {
			now = now ? now : ktime_ns();
			follow = call_leaves(prev, state, now);
		}
		t = follow ? thread_of(prev->pid, &index) : 0;
		if (t) {
			now = now ? now : ktime_ns();
			leaves(t, index, next, state, now);
		} else if (prev->flags & PF_IO_WORKER) {
			now = now ? now : ktime_ns();
			worker_leaves(prev, next, state, now);
		}
	}
	if (is_own(next)) {
		t = thread_of(next->pid, &index);
		if (t) {
			now = now ? now : ktime_ns();
			enters(t, index, prev, next, now);
			if (cfg_watch)
				call_enters(t, index, now);
		} else if (next->flags & PF_IO_WORKER) {
			worker_enters(prev, next, now ? now : ktime_ns());
		}
	}
	return 0;
}

/* Who wakes up: the running thread, but in an interrupt, where that has nothing to do with it: then nobody
 * is named. Of other programs' threads this is made sure where the sleep was long enough to be told. BY_OWN
 * for one of this program's, with the index of one of the load, from 1 on; else 0. */
INLINE u32 waker(struct who *w, u64 since)
{
	struct task_struct *me = current_task();
	bool own = is_own(me);
	u32 index;

	if (own ? interrupted() : cfg_irq_to && ktime_ns() - since >= cfg_off_ns && interrupted())
		return 0;
	who_is(w, me);
	if (!own)
		return 0;
	return BY_OWN | (thread_of(me->pid, &index) ? index + 1 : 0);
}

/* Who of this program sleeps and is not yet said to wake up: a thread of the load in `t`, else one of
 * its io_uring worker threads in `i`, or neither. */
INLINE void sleeper(struct task_struct *task, struct thread **t, struct idle **i, u32 *at)
{
	u32 index;

	*t = 0;
	*i = 0;
	if (!is_own(task))
		return;
	*t = thread_of(task->pid, &index);
	if (*t) {
		*at = index;
		if (!(*t)->off || (*t)->wake)
			*t = 0;
		return;
	}
	if (!(task->flags & PF_IO_WORKER))
		return;
	index = task->pid;
	*i = map_lookup(&idles, &index);
	if (*i && (!(*i)->off || (*i)->wake))
		*i = 0;
}

/* Tells when a thread waited for the world outside since then, or for a CPU after it slept: another one waited for it. */
INLINE void tell_rests(struct asleep *a, u32 index, u64 since)
{
	struct event *e;

	for (int i = 0; i < RESTS; i++) {
		struct rest *r = &a->rests[i];

		if (r->run <= since || r->told)
			continue;
		r->told = 1;
		if (r->to > r->from) {
			e = event(K_WAIT, index);
			if (!e)
				return;
			e->start = r->from;
			e->middle = e->end = r->to;
			e->a = W_IDLE;
			ring_submit(e, RB_NO_WAKEUP);
		}
		if (r->run - r->to >= cfg_off_ns) {
			e = event(K_OFF, index);
			if (!e)
				return;
			e->start = e->middle = r->to;
			e->end = r->run;
			ring_submit(e, RB_NO_WAKEUP);
		}
	}
}

/* Whether a thread was in an operation since then, or in a wait that was told. */
INLINE bool was_busy(struct thread *t, struct asleep *a, u32 index, u64 since)
{
	struct call *c = open_call(t);

	return flies(t, index) || a->busy_to > since ||
	       (c && c->last > since && c->last - c->begin >= counter(C_SLOW_NS) / BESIDE);
}

/* The running thread of a program that is watched ends a sleep of another one: it gets a place, its index from 1 on, and
 * from now on it is looked at what it does itself. */
NOINLINE u32 wakes(struct asleep *sleeper, u64 off)
{
	struct asleep *a;
	struct thread *t;
	struct rest *last;
	u32 index;

	if (!(sleeper->what & (W_LOCK | W_WAIT)))
		return 0;
	t = seat(current_task(), &index);
	a = t ? map_lookup(&sleepers, &index) : 0;
	if (!a)
		return 0;
	a->wakes = 1;
	last = &a->rests[(a->next - 1) & (RESTS - 1)];
	if (sleeper->what & W_LOCK)
		tell_rests(a, index, off);
	else if (last->to > off)
		rests(sleeper, last->from > off ? last->from : off, last->to, last->to);
	return (index + 1) | (was_busy(t, a, index, off) ? BY_BUSY : 0);
}

/* Here runs who wakes up; the wake-up itself may be left to an interrupt of another CPU. Of threads of the
 * kernel that is not told apart from an interrupt of this program's thread, which would take a look at the
 * stack each time: who reads `own` asks that it came at once after a stamp of the I/O. */
SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct kthread *k = kthread_of(task);
	u64 ids = current_pid_tgid();
	struct thread *t;
	struct asleep *a;
	struct idle *i;
	u32 index = 0;

	if (k) {
		if (k->pid == (u32)task->pid && k->off && !k->wake) {
			k->wake = ktime_ns();
			k->own = is_ours(ids >> 32);
		}
		return 0;
	}
	/* The idle thread of a CPU wakes nobody up but for an interrupt: nobody is named, without a look at the stack. */
	if (!ids)
		return 0;
	sleeper(task, &t, &i, &index);
	if (t) {
		a = cfg_watch ? map_lookup(&sleepers, &index) : 0;
		/* Who ends a sleep that nobody is told of is nobody's concern, and takes a look at the stack. */
		if (a && ktime_ns() - t->off <
				 (a->what ? counter(C_SLOW_NS) / BESIDE : cfg_off_ns))
			return 0;
		t->by = waker(&t->by_whom, t->off);
		if (a && a->what && t->by & BY_OWN)
			t->by |= wakes(a, t->off);
	} else if (i) {
		i->waker = waker(&i->by_whom, i->off) & ~BY_OWN;
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *t;
	struct idle *i;
	u32 index = 0;

	sleeper(task, &t, &i, &index);
	if (t)
		t->wake = ktime_ns();
	else if (i)
		i->wake = ktime_ns();
	return 0;
}

/* A hypervisor took the CPU from a thread of the load, or from one of io_uring's for it, as if another
 * program had run there. */
INLINE void robbed(struct task_struct *me, u64 start, u64 now)
{
	u32 pid = me->pid, index, polled = 0;
	struct thread *t = thread_of(pid, &index);
	struct event *e = 0;
	u64 token = 0;
	struct slot *s;

	if (t) {
		if (t->off || start < t->last_in)
			return;
		t->robbed_ns += now - start;
		e = event(K_OFF, index);
	} else if (me->flags & PF_IO_WORKER) {
		token = of_worker(address(me));
		s = slot_of(token);
		polled = s ? 0 : polls_for(me);
		if (s || polled)
			e = event(K_WORKER, s ? (u32)s->worker : polled - 1);
	}
	if (!e)
		return;
	e->start = start;
	e->end = now;
	e->b = t ? 0 : token;
	__builtin_memcpy(e->who.comm, "the hypervisor", 15);
	ring_submit(e, RB_NO_WAKEUP);
}

/* The timer's tick counts what a hypervisor took since the one before. Where that is most of the time
 * between them, the tick was due meanwhile and came as soon as the CPU was there again: what was taken
 * ends now. Else nobody knows when it was; told is it where a thread of the load came to this CPU. */
SEC("tp_btf/hrtimer_expire_exit")
int steal(u64 *ctx)
{
	struct task_struct *me = current_task();
	struct cpu *here = cpu_here();
	u64 all, more, since, now;
	struct event *e;

	if (!here)
		return 0;
	now = ktime_ns();
	all = me->se.cfs_rq->rq->prev_steal_time;
	more = here->stolen ? all - here->stolen : 0;
	since = here->timer;
	here->stolen = all;
	here->timer = now;
	if (!since || more < cfg_off_ns)
		return 0;
	if (here->entered > since) {
		e = event(K_STOLEN, ~0u);
		if (e) {
			e->start = since;
			e->end = now;
			e->a = more;
			ring_submit(e, RB_NO_WAKEUP);
		}
	}
	if (is_ours(me->tgid) && more >= (now - since) / 2)
		robbed(me, now - more, now);
	return 0;
}
