/* Holds a lease of one file after another, as a file server does for its clients, and gives each back only a while after
 * somebody else wants to open the file. Arguments: a log of when somebody waited; the while, ns; the files. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void hold(const char *file, long ns, int log)
{
	struct timespec slow = { 0, ns }, longest = { 0, 200000000 }, none = { 0, 0 };
	int fd = open(file, O_RDWR | O_CLOEXEC);
	sigset_t asked;

	sigemptyset(&asked);
	sigaddset(&asked, SIGIO);
	/* Of the file before, asked for as it was closed: nobody waits any more. */
	sigtimedwait(&asked, 0, &none);
	/* Refused while somebody else has it open. */
	if (fd >= 0 && !fcntl(fd, F_SETLEASE, F_WRLCK) && sigtimedwait(&asked, 0, &longest) > 0) {
		int64_t from = now();

		nanosleep(&slow, 0);
		fcntl(fd, F_SETLEASE, F_UNLCK);
		dprintf(log, "%lld %lld\n", (long long)from, (long long)now());
	}
	if (fd >= 0)
		close(fd);
}

int main(int count, char **words)
{
	struct timespec gap = { 0, 50000000 };
	int log = count < 4 ? -1 : open(words[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
	sigset_t asked;

	sigemptyset(&asked);
	sigaddset(&asked, SIGIO);
	sigprocmask(SIG_BLOCK, &asked, 0);
	if (log < 0)
		return 2;
	for (int n = 3;; n = n + 1 < count ? n + 1 : 3) {
		hold(words[n], atol(words[2]), log);
		nanosleep(&gap, 0);
	}
}
