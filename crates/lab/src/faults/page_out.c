/* Takes the pages of a process that are of one file out of memory. Arguments: the process; the file. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

int main(int count, char **words)
{
	char name[64], line[4096];
	int fd, found = 0;
	FILE *maps;

	if (count != 3)
		return 2;
	snprintf(name, sizeof(name), "/proc/%d/maps", atoi(words[1]));
	fd = (int)syscall(SYS_pidfd_open, atoi(words[1]), 0);
	maps = fopen(name, "r");
	if (fd < 0 || !maps) {
		perror(name);
		return 1;
	}
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		struct iovec part;

		line[strcspn(line, "\n")] = 0;
		if (!strstr(line, words[2]) || sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		part.iov_base = (void *)from;
		part.iov_len = to - from;
		if (syscall(SYS_process_madvise, fd, &part, 1, MADV_PAGEOUT, 0) < 0) {
			perror("process_madvise");
			return 1;
		}
		found = 1;
	}
	return found ? 0 : 3;
}
