/* Asks ext4 for what has no tool. `move FILE DONOR`: the first 16 KiB of the file get the blocks of another one, which is
 * made where it is not there, and their data moves (EXT4_IOC_MOVE_EXT). `empty DIRECTORY`: the journal is written to where
 * it belongs (EXT4_IOC_CHECKPOINT). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MOVED 16384

struct move {
	uint32_t reserved, donor;
	uint64_t from, to, blocks, done;
};

static int move(const char *name, const char *donor)
{
	int fd = open(name, O_RDWR), other = open(donor, O_RDWR | O_CREAT, 0600);
	struct move asked = { 0 };
	struct statvfs fs;

	if (fd < 0 || other < 0 || fstatvfs(fd, &fs) || fallocate(other, 0, 0, MOVED))
		return -1;
	asked.donor = (uint32_t)other;
	asked.blocks = MOVED / fs.f_bsize;
	return ioctl(fd, _IOWR('f', 15, struct move), &asked);
}

static int empty(const char *directory)
{
	int fd = open(directory, O_RDONLY);
	uint32_t flags = 0;

	return fd < 0 ? -1 : ioctl(fd, _IOW('f', 43, uint32_t), &flags);
}

int main(int count, char **words)
{
	int failed = -1;

	if (count == 4 && !strcmp(words[1], "move"))
		failed = move(words[2], words[3]);
	if (count == 3 && !strcmp(words[1], "empty"))
		failed = empty(words[2]);
	if (failed)
		perror(count > 1 ? words[1] : "ext4");
	return failed ? 1 : 0;
}
