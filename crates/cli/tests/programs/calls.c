/* Ways to read a file that is not in memory, one after another, each in a thread that is called as its way: for the test
 * `watch_calls`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TIMES = 6, PAGE = 4096, PAGES = 64 };
static int file, ends[2], out;
static char *map, page[PAGE];

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
	aio_context_t context = 0;
	struct io_event done;
	must(syscall(SYS_io_setup, 1, &context));
	must(syscall(SYS_io_submit, context, 1, &list));
	must(syscall(SYS_io_getevents, context, 1, 1, &done, 0));
	must(syscall(SYS_io_destroy, context));
}
static void by_fault(loff_t at) { page[0] += map[at]; }

static void *reads(void *arg)
{
	void (*way)(loff_t) = *(void (**)(loff_t))arg;
	for (int i = 0; i < TIMES; i++)
		way((loff_t)(i * 8 + 3) % PAGES * PAGE);
	return 0;
}
static void kind(const char *name, void (*way)(loff_t))
{
	pthread_t thread;

	/* Pages that are mapped stay. */
	must(madvise(map, PAGES * PAGE, MADV_DONTNEED));
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	must(pthread_create(&thread, 0, reads, &way));
	pthread_setname_np(thread, name);
	pthread_join(thread, 0);
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
	kind("pread64", by_read);
	kind("sendfile", by_sendfile);
	kind("splice", by_splice);
	kind("copy_file_range", by_copy);
	kind("preadv2", by_nowait);
	kind("after-readahead", by_ahead);
	kind("io_submit", by_submit);
	kind("page-fault", by_fault);
	return 0;
}
