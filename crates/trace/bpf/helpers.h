/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Kernel helper functions by their fixed numbers, map definitions, field reads. */
#pragma once

#include "kernel.h"

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
/* A function that the verifier looks at once and not at each of the places that lead to it. It takes numbers, and
 * pointers to memory that it asks for 0. */
#define GLOBAL __attribute__((noinline))
/* What nearly always is so: the compiler puts the rest out of the way, into lines that the processor need not fetch. */
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#define __uint(name, value) int(*name)[value]
#define __type(name, value) value *name

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_LRU_HASH = 9,
	MAP_QUEUE = 22,
	MAP_STACK = 23,
	MAP_RINGBUF = 27,
};
enum { F_MMAPABLE = 1 << 10 };
enum { RB_NO_WAKEUP = 1 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_ns)(void) = (void *)5;
static u32 (*this_cpu)(void) = (void *)8;
static u64 (*current_pid_tgid)(void) = (void *)14;
static long (*queue_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*queue_pop)(void *map, void *value) = (void *)88;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*read_kernel_text)(void *to, u32 size, const void *from) = (void *)115;
static void *(*ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ring_submit)(void *event, u64 flags) = (void *)132;
static long (*task_stack)(struct task_struct *task, void *to, u32 size, u64 flags) = (void *)141;
static struct task_struct *(*current_task)(void) = (void *)158;
static struct pt_regs *(*task_regs)(struct task_struct *task) = (void *)175;

/* A field of a structure that is only known by its address. */
#define READ(type, address, field)                                                      \
	({                                                                              \
		typeof(((type *)0)->field) value_ = 0;                                  \
		read_kernel(&value_, sizeof(value_), &((type *)(address))->field);      \
		value_;                                                                 \
	})
#define OFFSET_OF(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define EXISTS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define SIZE_OF(type) __builtin_preserve_type_info(*(type *)0, 1)

/* An address as a pointer to a type of the kernel, so that its fields are read by plain loads and
 * not by calls of a helper: bpf_rdonly_cast, a function of the kernel (6.2) without a fixed number.
 * The loader puts the kernel's number for it in place of this one, or clears `cfg_cast`; src/bpf/cast.rs
 * knows both. Only where the field is no pointer to calculate with. */
static void *(*cast)(const void *object, u32 type) = (void *)0x7a11ca57;
#define AS(type, pointer) ((type *)cast(pointer, __builtin_btf_type_id(*(type *)0, 1)))
/* As READ, by the shortest way; the same holds of what is a pointer. */
#define FIELD(type, address, field)                                                     \
	({                                                                              \
		typeof(((type *)0)->field) field_;                                      \
		if (cfg_cast)                                                           \
			field_ = AS(type, (void *)(address))->field;                    \
		else                                                                    \
			field_ = READ(type, address, field);                            \
		field_;                                                                 \
	})

/* The pointer that lies at an address: of whatever kind, as the first one of that list is. */
#define POINTER_AT(address) FIELD(struct hlist_head, address, first)

/* A pointer as a plain number, which the verifier lets us calculate with: what was put into an order of bytes is no
 * pointer to it any more. In this order it is already, for which the processor does nothing; on a machine of the other
 * order the second time undoes the first. Not the other way round: kernels before 6.7 take the mark of that order in an
 * instruction for one of another register (fixed in 291d044fd51f). A helper would do it for twenty times the time. */
INLINE u64 address(void *pointer)
{
	u64 number = (u64)pointer;

	asm volatile("%0 = le64 %0\n%0 = le64 %0" : "+r"(number));
	return number;
}
