/* Kinds of waits inside a program, one after another, each by a thread that is called as its kind: for the test
 * `watch_waits`. Reads of the file are direct, and slow where a limit holds them back. A line says when each kind was:
 * its name, from, to, CLOCK_MONOTONIC ns. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 4, SLOW_MS = 60 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER, inherits;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both, three;
static const char *path;
static int file, ends[2], given;

static void sleep_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
	nanosleep(&t, 0);
}
static long long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void spin_ms(int ms)
{
	long long until = now_ns() + ms * 1000000LL;
	while (now_ns() < until)
		;
}
static void slow_read(void)
{
	static long at;
	void *page;
	if (posix_memalign(&page, 4096, 4096) || pread(file, page, 4096, at++ % 64 * 4096) < 0)
		exit(9);
	free(page);
}
static void idle(void)
{
	struct pollfd in = { ends[0], POLLIN, 0 };
	poll(&in, 1, SLOW_MS);
}
static void nap(void) { sleep_ms(SLOW_MS); }
static void work(void) { spin_ms(SLOW_MS); }
static void read_some(void) { slow_read(); slow_read(); slow_read(); }

/* Holds a lock while it does something; the other one comes a little later. */
struct held { pthread_mutex_t *lock; void (*does)(void); };
static void *holds(void *arg)
{
	struct held *h = arg;
	for (int i = 0; i < TIMES; i++) {
		pthread_mutex_lock(h->lock);
		pthread_barrier_wait(&both);
		h->does();
		pthread_mutex_unlock(h->lock);
		pthread_barrier_wait(&both);
	}
	return 0;
}
static void *wants(void *arg)
{
	struct held *h = arg;
	for (int i = 0; i < TIMES; i++) {
		pthread_barrier_wait(&both);
		pthread_mutex_lock(h->lock);
		pthread_mutex_unlock(h->lock);
		pthread_barrier_wait(&both);
	}
	return 0;
}
/* As `wants`, every other time with a request of its own under way. */
static void *wants_with_requests(void *arg)
{
	struct held *h = arg;
	aio_context_t context = 0;
	struct iocb reads[TIMES] = { 0 }, *list;
	struct io_event done[TIMES];
	void *page;

	if (posix_memalign(&page, 4096, 4096 * TIMES) || syscall(SYS_io_setup, TIMES, &context))
		exit(9);
	for (int i = 0; i < TIMES; i++) {
		list = reads + i;
		list->aio_fildes = file;
		list->aio_lio_opcode = IOCB_CMD_PREAD;
		list->aio_nbytes = 4096;
		list->aio_buf = (unsigned long)page + 4096 * i;
		if (i % 2 == 0 && syscall(SYS_io_submit, context, 1, &list) != 1)
			exit(9);
		pthread_barrier_wait(&both);
		pthread_mutex_lock(h->lock);
		pthread_mutex_unlock(h->lock);
		pthread_barrier_wait(&both);
	}
	syscall(SYS_io_getevents, context, TIMES / 2, TIMES, done, 0);
	syscall(SYS_io_destroy, context);
	free(page);
	return 0;
}
/* Has news for the thread in `takes`, each after it did something. */
static void *gives(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		((struct held *)arg)->does();
		pthread_mutex_lock(&lock);
		given++;
		pthread_cond_broadcast(&news);
		pthread_mutex_unlock(&lock);
	}
	return 0;
}
static void *takes(void *arg)
{
	pthread_mutex_lock(&lock);
	for (int had = given; had < TIMES; had++)
		while (given <= had)
			pthread_cond_wait(&news, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}
static void *writes_pipe(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		slow_read();
		if (write(ends[1], "x", 1) < 0)
			exit(9);
	}
	return 0;
}
static void *reads_pipe(void *arg)
{
	char byte;
	for (int i = 0; i < TIMES; i++)
		if (read(ends[0], &byte, 1) < 0)
			exit(9);
	return 0;
}
/* The first one reads under a lock, for which the second one waits, for whose own lock the last one waits. */
static void *first_of_three(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&three);
		slow_read();
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&three);
	}
	return 0;
}
static void *second_of_three(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		pthread_mutex_lock(&second);
		pthread_barrier_wait(&three);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		pthread_mutex_unlock(&second);
		pthread_barrier_wait(&three);
	}
	return 0;
}
static void *last_of_three(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		pthread_barrier_wait(&three);
		sleep_ms(2);
		pthread_mutex_lock(&second);
		pthread_mutex_unlock(&second);
		pthread_barrier_wait(&three);
	}
	return 0;
}
static void *holds_file(void *arg)
{
	int own = open(path, O_RDONLY);
	for (int i = 0; i < TIMES; i++) {
		flock(own, LOCK_EX);
		pthread_barrier_wait(&both);
		nap();
		flock(own, LOCK_UN);
		pthread_barrier_wait(&both);
	}
	close(own);
	return 0;
}
static void *wants_file(void *arg)
{
	int own = open(path, O_RDONLY);
	for (int i = 0; i < TIMES; i++) {
		pthread_barrier_wait(&both);
		flock(own, LOCK_EX);
		flock(own, LOCK_UN);
		pthread_barrier_wait(&both);
	}
	close(own);
	return 0;
}

static void kind(const char *name, void *(*does)(void *), void *(*waits)(void *), struct held h)
{
	pthread_t a, b;
	long long from = now_ns();
	given = 0;
	pthread_create(&b, 0, waits, &h);
	pthread_setname_np(b, name);
	pthread_create(&a, 0, does, &h);
	pthread_setname_np(a, "other");
	pthread_join(a, 0);
	pthread_join(b, 0);
	printf("%s %lld %lld\n", name, from, now_ns());
	sleep_ms(200);
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t attributes;
	pthread_t middle;

	path = argv[1];
	file = open(path, O_RDONLY | O_DIRECT);
	if (file < 0 || pipe(ends))
		return 9;
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&inherits, &attributes);
	pthread_barrier_init(&both, 0, 2);
	pthread_barrier_init(&three, 0, 3);
	kind("sleeper", holds, wants, (struct held){ &lock, nap });
	kind("spinner", holds, wants, (struct held){ &lock, work });
	kind("inheriting", holds, wants, (struct held){ &inherits, nap });
	kind("file-lock", holds_file, wants_file, (struct held){ 0, 0 });
	kind("requests", holds, wants_with_requests, (struct held){ &lock, nap });
	kind("reader", holds, wants, (struct held){ &lock, slow_read });
	kind("commit", gives, takes, (struct held){ 0, slow_read });
	kind("stall", gives, takes, (struct held){ 0, read_some });
	kind("pipe", writes_pipe, reads_pipe, (struct held){ 0, 0 });
	pthread_create(&middle, 0, second_of_three, 0);
	pthread_setname_np(middle, "chain-2");
	kind("chain-3", first_of_three, last_of_three, (struct held){ 0, 0 });
	pthread_join(middle, 0);
	kind("no-news", gives, takes, (struct held){ 0, nap });
	kind("queue", holds, wants, (struct held){ &lock, idle });
	return 0;
}
