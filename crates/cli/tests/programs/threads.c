/* Many threads: `idle` has a thousand that wait 20 ms each time, for a word of the main thread or for the world
 * outside; `many N FILE` has N that read a page of the file each, directly, all at once. For the tests `watch_waits`
 * and `watch_hard`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 100, IDLE = 1000, PAGE = 4096 };
static sem_t words[IDLE];
static pthread_barrier_t all;
static int ends[2], file;

static void *takes(void *arg)
{
	for (int i = 0; i < TIMES; i++)
		sem_wait(words + (long)arg);
	return 0;
}
static void *idles(void *arg)
{
	struct pollfd in = { ends[0], POLLIN, 0 };
	for (int i = 0; i < TIMES; i++)
		poll(&in, 1, 20);
	return 0;
}
static void *reads(void *arg)
{
	void *page;
	pthread_barrier_wait(&all);
	if (posix_memalign(&page, PAGE, PAGE) || pread(file, page, PAGE, (long)arg % 64 * PAGE) < 0)
		exit(9);
	free(page);
	return 0;
}

int main(int argc, char **argv)
{
	int many = argc > 3, n = many ? atoi(argv[2]) : IDLE;
	pthread_t *threads = calloc(n, sizeof(*threads));
	pthread_attr_t small;

	file = many ? open(argv[3], O_RDONLY | O_DIRECT) : 0;
	if (file < 0 || pipe(ends) || pthread_barrier_init(&all, 0, n))
		return 9;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (long i = 0; i < n; i++)
		if (pthread_create(threads + i, &small, many ? reads : i % 2 ? takes : idles, (void *)i))
			return 8;
	for (int i = 0; !many && i < TIMES; i++) {
		struct timespec t = { 0, 20000000 };
		nanosleep(&t, 0);
		for (int j = 1; j < n; j += 2)
			sem_post(words + j);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], 0);
	return 0;
}
