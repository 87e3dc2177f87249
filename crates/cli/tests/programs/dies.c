/* Threads that end in the middle of an operation, for the test `watch_hard`: N of them, one after another, that ask for a
 * page of FILE by libaio and end before anybody takes the answer; then one that reads FILE until the program becomes
 * another one, whose exit code is 3. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64, CANNOT = 8, WRONG = 9 };
static aio_context_t context;
static int file;
static void *page;

static void *asks(void *arg)
{
	struct iocb one = {
		.aio_fildes = file,
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_buf = (unsigned long)page,
		.aio_nbytes = PAGE,
		.aio_offset = (long)arg % PAGES * PAGE,
	};
	struct iocb *list[] = { &one };

	if (syscall(SYS_io_submit, context, 1L, list) != 1)
		exit(WRONG);
	return 0;
}
static void *reads(void *arg)
{
	while (pread(file, page, PAGE, 0) == PAGE)
		;
	exit(WRONG);
}

int main(int argc, char **argv)
{
	struct io_event event;
	pthread_t thread;

	file = argc > 2 ? open(argv[2], O_RDONLY | O_DIRECT) : -1;
	if (file < 0 || posix_memalign(&page, PAGE, PAGE) ||
	    syscall(SYS_io_setup, 64L, &context))
		return CANNOT;
	for (long i = 0; i < atoi(argv[1]); i++)
		if (pthread_create(&thread, 0, asks, (void *)i) || pthread_join(thread, 0) ||
		    syscall(SYS_io_getevents, context, 1L, 1L, &event, 0L) != 1 ||
		    event.res != PAGE)
			return WRONG;
	if (pthread_create(&thread, 0, reads, 0))
		return WRONG;
	usleep(100000);
	execl("/bin/sh", "sh", "-c", "exit 3", (char *)0);
	return WRONG;
}
