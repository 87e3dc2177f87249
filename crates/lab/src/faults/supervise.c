/* Becomes the victim, whose reads, writes and entries to io_uring a supervisor lets pass (seccomp notification), as
 * that of a container does: every N-th after a while. Arguments: a shared file of two words, ns and N; a log of when it
 * held one; then the command. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void supervise(int listener, volatile uint64_t *word, int log)
{
	uint64_t passed = 0;

	for (;;) {
		struct seccomp_notif asked = { 0 };
		struct seccomp_notif_resp answer = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			continue;
		if (word[1] && ++passed % word[1] == 0) {
			struct timespec t = { 0, (long)word[0] };
			int64_t from = now();

			nanosleep(&t, 0);
			dprintf(log, "%lld %lld\n", (long long)from, (long long)now());
		}
		answer.id = asked.id;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
}

int main(int count, char **words)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	struct sock_fprog filter = { .len = sizeof(rules) / sizeof(*rules), .filter = rules };
	int fd, log, listener;
	void *map;

	if (count < 4)
		return 2;
	fd = open(words[1], O_RDONLY);
	log = open(words[2], O_WRONLY | O_APPEND | O_CREAT, 0600);
	map = mmap(0, 16, PROT_READ, MAP_SHARED, fd, 0);
	if (fd < 0 || log < 0 || map == MAP_FAILED || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 2;
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
	if (listener < 0)
		return 2;
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		supervise(listener, map, log);
	}
	close(fd);
	close(log);
	execv(words[3], words + 3);
	return 2;
}
