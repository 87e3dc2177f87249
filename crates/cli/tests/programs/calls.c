/* Ways to read a file that is not in memory, one after another, each in a thread that is called as its way: for the
 * test `watch_calls`. With the name of a way, also of one that writes, that one until it is killed: for the proof
 * `watch-strangers`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TIMES = 6, PAGE = 4096, PAGES = 64, PAUSE = 2000 };
static int file, ends[2], out, synced, dir, for_long;
static char *map, *shared, page[PAGE];

static void must(long done)
{
	if (done < 0)
		_exit(9);
}
static void by_read(loff_t at) { must(pread(file, page, PAGE, at)); }
static void by_sendfile(loff_t at) { must(sendfile(out, file, &at, PAGE)); }
static void by_splice(loff_t at)
{
	must(splice(file, &at, ends[1], 0, PAGE, 0));
	must(read(ends[0], page, PAGE));
}
static void by_copy(loff_t at)
{
	loff_t to = 0;
	must(copy_file_range(file, &at, out, &to, PAGE, 0));
}
/* One that may not wait has the pages brought, for one that may. */
static void by_nowait(loff_t at)
{
	struct iovec v = { page, PAGE };
	if (preadv2(file, &v, 1, at, RWF_NOWAIT) < 0)
		must(preadv2(file, &v, 1, at, 0));
}
static void by_ahead(loff_t at)
{
	must(readahead(file, at, PAGE));
	must(pread(file, page, PAGE, at));
}
static void by_submit(loff_t at)
{
	struct iocb one = { .aio_fildes = file, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (unsigned long)page,
			    .aio_nbytes = PAGE, .aio_offset = at }, *list = &one;
	static aio_context_t context;
	struct io_event done;
	if (!context)
		must(syscall(SYS_io_setup, 1, &context));
	must(syscall(SYS_io_submit, context, 1, &list));
	must(syscall(SYS_io_getevents, context, 1, 1, &done, 0));
	/* To destroy it takes long, and tells one call from the next one of the same words. */
	if (!for_long) {
		must(syscall(SYS_io_destroy, context));
		context = 0;
	}
}
static void by_fault(loff_t at) { page[0] += map[at]; }

static void by_allocate(loff_t at)
{
	must(fallocate(out, 0, at, 4 * PAGE));
	must(pwrite(out, page, PAGE, at));
	must(fallocate(out, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at + PAGE, 2 * PAGE));
	must(fsync(out));
	must(ftruncate(out, at + PAGE / 2));
}
static void by_dsync(loff_t at) { must(pwrite(synced, page, PAGE, at)); }
static void by_msync(loff_t at)
{
	shared[at]++;
	must(msync(shared + at, PAGE, MS_SYNC));
}
static void by_syncfs(loff_t at)
{
	must(pwrite(out, page, PAGE, at));
	must(syncfs(out));
}
static void by_rename(loff_t at)
{
	int new = open("new", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	must(new);
	must(pwrite(new, page, PAGE, at % (4 * PAGE)));
	must(fsync(new));
	must(close(new));
	must(rename("new", "old"));
	must(fsync(dir));
}

static void *reads(void *arg)
{
	void (*way)(loff_t) = *(void (**)(loff_t))arg;
	for (int i = 0; i < TIMES; i++)
		way((loff_t)(i * 8 + 3) % PAGES * PAGE);
	return 0;
}
/* Has the file leave memory, which pages do not that are mapped. */
static void forget(void)
{
	must(madvise(map, PAGES * PAGE, MADV_DONTNEED));
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}
static void kind(const char *name, void (*way)(loff_t))
{
	pthread_t thread;

	forget();
	must(pthread_create(&thread, 0, reads, &way));
	pthread_setname_np(thread, name);
	pthread_join(thread, 0);
}

static const struct {
	const char *name;
	void (*way)(loff_t);
} ways[] = {
	{ "pread64", by_read }, { "sendfile", by_sendfile }, { "splice", by_splice },
	{ "copy_file_range", by_copy }, { "preadv2", by_nowait }, { "after-readahead", by_ahead },
	{ "io_submit", by_submit }, { "page-fault", by_fault },
	/* The ones above only read, the ones below write. */
	{ "fallocate", by_allocate }, { "dsync", by_dsync }, { "msync", by_msync },
	{ "syncfs", by_syncfs }, { "rename", by_rename },
};
enum { READS = 8, WAYS = sizeof(ways) / sizeof(ways[0]) };

static void for_ever(void (*way)(loff_t))
{
	for_long = 1;
	for (;;) {
		forget();
		for (int i = 0; i < PAGES; i++) {
			way((loff_t)(i * 11 + 3) % PAGES * PAGE);
			usleep(PAUSE);
		}
	}
}
int main(int argc, char **argv)
{
	file = open(argv[1], O_RDONLY);
	out = open(argv[2], O_RDWR | O_CREAT, 0600);
	must(file);
	must(out);
	must(pipe(ends));
	posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
	map = mmap(0, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
	must(madvise(map, PAGES * PAGE, MADV_RANDOM));
	if (argc > 3) {
		must(ftruncate(out, PAGES * PAGE));
		shared = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
		must(synced = open(argv[2], O_WRONLY | O_DSYNC));
		must(dir = open(".", O_RDONLY | O_DIRECTORY));
		for (int i = 0; i < WAYS; i++)
			if (!strcmp(ways[i].name, argv[3]))
				for_ever(ways[i].way);
		return 2;
	}
	for (int i = 0; i < READS; i++)
		kind(ways[i].name, ways[i].way);
	return 0;
}
