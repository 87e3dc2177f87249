/* Threads of the load leaving and entering the CPU. Sums go to shared memory; a stretch off the
 * CPU longer than the limit also becomes an event with the kernel stack it slept in. */
#pragma once

#include "shared.h"

INLINE void leaves(struct thread *t, struct task_struct *next, u64 state, u64 now)
{
	t->off = now;
	t->state = state;
	t->wake = state ? 0 : now;
	if (!state)
		read_kernel(t->taker, sizeof(t->taker), next->comm);
}

INLINE void enters(struct thread *t, u32 index, struct task_struct *prev,
		   struct task_struct *next, u64 now)
{
	u64 off = t->off, wake = t->wake;
	struct event *e;
	long bytes;

	if (!off)
		return;
	t->off = 0;
	if (!t->state) {
		t->robbed_ns += now - off;
		t->preempted++;
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
	e = event(K_OFF, index);
	if (!e)
		return;
	e->start = off;
	e->middle = wake;
	e->end = now;
	e->a = t->state;
	e->pid = prev->pid;
	read_kernel(e->comm, sizeof(e->comm), t->state ? prev->comm : t->taker);
	__builtin_memcpy(e->other, t->waker, sizeof(e->other));
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
	struct thread *t;
	u32 index;

	if ((u32)prev->tgid == cfg_tgid) {
		t = thread_of(prev->pid, &index);
		if (t) {
			now = ktime_ns();
			leaves(t, next, state, now);
		}
	}
	if ((u32)next->tgid == cfg_tgid) {
		t = thread_of(next->pid, &index);
		if (t)
			enters(t, index, prev, next, now ? now : ktime_ns());
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *t;
	u32 index;

	if ((u32)task->tgid != cfg_tgid)
		return 0;
	t = thread_of(task->pid, &index);
	if (t && t->off && !t->wake) {
		t->wake = ktime_ns();
		current_comm(t->waker, sizeof(t->waker));
	}
	return 0;
}
