/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/host.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

bool host_init(struct host *host, const char *root)
{
	size_t len = strlen(root);

	while (len > 0 && root[len - 1] == '/')
		len--;
	if (len >= sizeof(host->root))
		return false;
	memcpy(host->root, root, len);
	host->root[len] = '\0';
	host->names = NULL;
	return true;
}

bool host_path(const struct host *host, const char *path, char full[static PATH_MAX])
{
	return snprintf(full, PATH_MAX, "%s%s", host->root, path) < PATH_MAX;
}

/* A choice in sysfs marks the selected word: "always [madvise] never". */
static void take_selected(char *text)
{
	char *open = strchr(text, '[');
	char *close = open ? strchr(open, ']') : NULL;

	if (!close)
		return;
	*close = '\0';
	memmove(text, open + 1, (size_t)(close - open));
}

static void fold_blanks(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (!isspace((unsigned char)*in))
			*out++ = *in;
		else if (out > text && out[-1] != ' ')
			*out++ = ' ';
	}
	if (out > text && out[-1] == ' ')
		out--;
	*out = '\0';
}

int kept_read(const struct host *host, struct kept_file *file, char *buffer, size_t size)
{
	char full[PATH_MAX];
	ssize_t n;

	if (file->fd < 0) {
		if (!host_path(host, file->path, full))
			return -ENAMETOOLONG;
		file->fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (file->fd < 0)
			return -errno;
	}
	n = pread(file->fd, buffer, size - 1, 0);
	if (n < 0) {
		n = -errno;
		kept_close(file);
		return (int)n;
	}
	buffer[n] = '\0';
	return (int)n;
}

int kept_read_value(
	const struct host *host, struct kept_file *file, char value[static SETTING_VALUE_MAX])
{
	char text[2 * SETTING_VALUE_MAX];
	int n = kept_read(host, file, text, sizeof(text));

	if (n < 0)
		return n;
	if ((size_t)n == sizeof(text) - 1)
		return -E2BIG;
	if (starts_with(file->path, "/sys/"))
		take_selected(text);
	fold_blanks(text);
	if (strlen(text) >= SETTING_VALUE_MAX)
		return -E2BIG;
	copy_text(value, SETTING_VALUE_MAX, text);
	return 0;
}

void kept_close(struct kept_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

int host_read_value(const struct host *host, const char *path, char value[static SETTING_VALUE_MAX])
{
	struct kept_file file = {.fd = -1};
	int r;

	if (!copy_text(file.path, sizeof(file.path), path))
		return -ENAMETOOLONG;
	r = kept_read_value(host, &file, value);
	kept_close(&file);
	return r;
}

int host_may_write(const struct host *host, const char *path)
{
	char full[PATH_MAX];

	if (!host_path(host, path, full))
		return -ENAMETOOLONG;
	return faccessat(AT_FDCWD, full, W_OK, AT_EACCESS) < 0 ? -errno : 0;
}

bool host_is_dangling(const struct host *host, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	return host_path(host, path, full) && lstat(full, &st) == 0 && S_ISLNK(st.st_mode);
}
