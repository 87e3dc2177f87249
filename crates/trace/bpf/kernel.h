/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The few kernel types the programs look into, reduced to the fields they read. Field places are
 * not taken from here: every access is relocated against the running kernel's own BTF. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq {
	u64 prev_steal_time;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct task_io_accounting {
	u64 syscr;
	u64 syscw;
};

typedef struct {
	s32 counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct task_struct {
	u32 flags;
	s32 pid;
	s32 tgid;
	char comm[16];
	u64 start_boottime;
	u64 utime;
	struct task_struct *real_parent;
	struct signal_struct *signal;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct files_struct *files;
	struct task_io_accounting ioac;
	void *worker_private;
	struct sched_entity se;
};

/* Of a thread that is in the kernel: what it had in its registers when it came (x86-64). */
struct pt_regs {
	unsigned long r10;
	unsigned long r9;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct gendisk {
	s32 major;
	s32 first_minor;
};

struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
	struct request_queue *bd_queue;
};

struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
	u32 bi_idx;
	u32 bi_bvec_done;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	atomic_t __bi_remaining;
	void *bi_end_io;
	void *bi_private;
	struct bio_vec *bi_io_vec;
};

struct request_queue {
	struct gendisk *disk;
	void *mq_ops; /* 0 where bios are no requests */
	s32 id;
};

struct blk_mq_hw_ctx {
	u32 queue_num;
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	s32 tag; /* of the device, -1 while it waits for one */
	s32 internal_tag; /* of the I/O scheduler, -1 without one */
	u32 cmd_flags;
	struct bio *bio;
	u64 start_time_ns;
	u64 io_start_time_ns;
	u32 __data_len;
};

struct super_block {
	unsigned long s_magic;
	u32 s_dev;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct inode {
	u16 i_mode;
	unsigned long i_ino;
	u32 i_rdev;
	u32 i_generation; /* of those that had its number */
	struct super_block *i_sb;
	struct address_space *i_mapping;
	struct hlist_head i_dentry; /* its names */
};

struct xfs_inode {
	struct inode i_vnode;
};

struct qstr {
	u64 hash_len; /* of the name */
	const u8 *name;
};

struct dentry {
	struct dentry *d_parent; /* itself at the root */
	struct qstr d_name;
	struct hlist_node d_u; /* in its inode's list */
};

struct address_space {
	struct inode *host;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
};

struct page {
	unsigned long compound_head; /* of a folio's further pages: its first one, and 1 */
};

struct bio_vec {
	struct page *bv_page;
	u32 bv_offset; /* may reach beyond that page, inside of its folio */
};

struct file {
	struct address_space *f_mapping;
	struct inode *f_inode;
	s64 f_pos;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
	void *ki_complete;
	s32 ki_flags;
};

struct backing_aio {
	struct kiocb iocb;
	struct kiocb *orig_iocb;
};

struct list_head {
	struct list_head *next;
};

struct swait_queue {
	struct task_struct *task;
	struct list_head task_list;
};

struct swait_queue_head {
	struct list_head task_list;
};

struct completion {
	struct swait_queue_head wait;
};

struct iomap_dio {
	struct kiocb *iocb;
	struct {
		struct task_struct *waiter;
	} submit;
};

struct blkdev_dio {
	struct kiocb *iocb;
	struct task_struct *waiter;
	u32 flags;
	struct bio bio;
};

struct loop_cmd {
	struct kiocb iocb;
};

struct io_rw {
	struct kiocb kiocb;
	u64 addr;
	u32 len;
};

struct io_cqe {
	u64 user_data;
	s32 res;
	s32 fd; /* until it is complete */
};

struct io_wq_work {
	s32 cancel_seq;
};

struct io_kiocb {
	struct file *file; /* the request's own state begins here, of a read or write a kiocb */
	u8 opcode;
	u32 flags; /* the lower half, where it has more */
	struct io_cqe cqe;
	struct io_wq_work work;
};

struct io_uring_cqe {
	u64 user_data;
	s32 res;
};

struct io_worker {
	struct io_wq_work *cur_work;
};

struct journal_s {
	struct block_device *j_fs_dev;
};

#pragma clang attribute pop
