/* Loaded into the victim: a thread of its program holds 3 GiB and forks each time that the first word of a shared file
 * changes, as a database does that saves itself; when a fork began and ended stands in the next two words. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD (3ul << 30)

static volatile int64_t *word;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void *forks(void *unused)
{
	struct timespec pause = { 0, 200000 };
	char *held = mmap(0, HELD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int64_t last = 0;

	pthread_setname_np(pthread_self(), "forker");
	if (held == MAP_FAILED)
		return unused;
	madvise(held, HELD, MADV_NOHUGEPAGE);
	memset(held, 1, HELD);
	word[3] = 1;
	for (;; nanosleep(&pause, 0)) {
		int64_t from = now();
		long child;

		if (word[0] == last)
			continue;
		last = word[0];
		child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (!child)
			syscall(SYS_exit_group, 0);
		word[1] = from;
		word[2] = now();
		if (child > 0)
			waitpid((pid_t)child, 0, 0);
	}
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("TAILLIGHT_LAB_FORK");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(0, 32, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pthread_t thread;

	if (fd >= 0)
		close(fd);
	/* Children of the program have no thread of this kind. */
	unsetenv("TAILLIGHT_LAB_FORK");
	unsetenv("LD_PRELOAD");
	if (map == MAP_FAILED)
		return;
	word = map;
	pthread_create(&thread, 0, forks, 0);
}
