/* Loaded into the victim: makes the threads that do its I/O pause in the program itself, as a
 * profiler or a garbage collector would. A thread of this library waits for a time in the first word
 * of a shared file and then sends each of them a signal, whose handler stays there until that time:
 * by the second word asleep (0), busy (1), until a child that it starts has gone on (2), or at a write
 * of its log to a pipe that is full (3). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t *word;
/* The log: its end to read, of which this library alone takes, and its end to write. */
static int out[2] = { -1, -1 };
static const char line[1024] = "log";

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t until)
{
	struct timespec t = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };

	while (now() < until)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
}

/* A process that has the thread's memory until it ends: the thread waits for it. */
static void spawn(uint64_t until)
{
	pid_t child = vfork();

	if (!child) {
		sleep_until(until);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, 0, 0);
}

static void hold(int number)
{
	uint64_t until = word[0], how = word[1];
	int error = errno;

	(void)number;
	if (how == 0)
		sleep_until(until);
	if (how == 2)
		spawn(until);
	if (how == 3 && write(out[1], line, sizeof(line)) < 0)
		sleep_until(until);
	while (now() < until)
		;
	errno = error;
}

/* Writes until there is no more room. */
static void fill(void)
{
	fcntl(out[1], F_SETFL, O_NONBLOCK);
	while (write(out[1], line, sizeof(line)) > 0)
		;
	fcntl(out[1], F_SETFL, 0);
}

/* Whoever waits for room goes on. */
static void drain(void)
{
	char room[4096];

	while (read(out[0], room, sizeof(room)) > 0)
		;
}

static int worker(const char *task)
{
	char path[300], name[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, name, sizeof(name) - 1) < 0)
		name[0] = 0;
	if (fd >= 0)
		close(fd);
	return !strncmp(name, "worker-", 7);
}

static void *watch(void *unused)
{
	struct timespec pause = { 0, 200000 };
	uint64_t last = 0;

	pthread_setname_np(pthread_self(), "pauser");
	for (;; nanosleep(&pause, 0)) {
		struct dirent *task;
		DIR *tasks;

		if (word[0] == last)
			continue;
		last = word[0];
		if (word[1] == 3)
			fill();
		tasks = opendir("/proc/self/task");
		while (tasks && (task = readdir(tasks)))
			if (worker(task->d_name))
				syscall(SYS_tgkill, getpid(), atoi(task->d_name), SIGRTMIN + 3);
		if (tasks)
			closedir(tasks);
		if (word[1] == 3) {
			sleep_until(last);
			drain();
		}
	}
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("TAILLIGHT_LAB_PAUSE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(0, 16, PROT_READ, MAP_SHARED, fd, 0);
	struct sigaction act = { .sa_handler = hold, .sa_flags = SA_RESTART };
	pthread_t thread;

	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED)
		return;
	word = map;
	if (pipe2(out, O_CLOEXEC))
		return;
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	if (!sigaction(SIGRTMIN + 3, &act, 0))
		pthread_create(&thread, 0, watch, 0);
}
