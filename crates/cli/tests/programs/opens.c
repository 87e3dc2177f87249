/* Opens the files that it is given, one after another, by a path that is in the same place each time. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int words, char **word)
{
	char path[64];

	for (int i = 1; i < words; i++) {
		int file;

		snprintf(path, sizeof(path), "%s", word[i]);
		file = open(path, O_RDONLY);
		if (file < 0)
			return 1;
		close(file);
	}
	return 0;
}
