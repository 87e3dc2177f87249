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

struct task_struct {
	u32 flags;
	s32 pid;
	s32 tgid;
	char comm[16];
	void *worker_private;
};

struct gendisk {
	s32 major;
	s32 first_minor;
};

struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
};

struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	void *bi_end_io;
	void *bi_private;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	struct bio *bio;
	u64 start_time_ns;
	u64 io_start_time_ns;
	u32 __data_len;
};

struct kiocb {
	void *ki_complete;
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

struct io_cqe {
	u64 user_data;
};

struct io_wq_work {
	s32 cancel_seq;
};

struct io_kiocb {
	struct io_cqe cqe;
	struct io_wq_work work;
};

struct io_uring_cqe {
	u64 user_data;
};

struct io_worker {
	struct io_wq_work *cur_work;
};

struct journal_s {
	struct block_device *j_fs_dev;
};

#pragma clang attribute pop
