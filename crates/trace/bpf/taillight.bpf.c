/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Taillight's trace programs: stamps of the benchmark's own I/Os on their way through the kernel.
 *
 * Every program hangs on one trace point, looks only at the I/Os of one process and writes into
 * memory that this process has mapped. Built by `cargo xtask bpf` into taillight.bpf.o, which is
 * part of the source, so that nobody needs a C compiler to build Taillight. */
#include "block.h"
#include "fs.h"
#include "sched.h"
#include "uring.h"
#include "watched.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
