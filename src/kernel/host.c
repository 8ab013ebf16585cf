/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/host.h"

#include "base/file.h"
#include "base/text.h"

#include <sys/sysmacros.h>

bool host_init(struct host *host, const char *root)
{
	size_t len = strlen(root);

	while (len > 0 && root[len - 1] == '/')
		len--;
	if (len >= sizeof(host->root))
		return false;
	*host = (struct host){.state = "", .node_name = ""};
	memcpy(host->root, root, len);
	return true;
}

const char *host_path(const struct host *host, const char *path, char full[static PATH_MAX])
{
	if (snprintf(full, PATH_MAX, "%s%s", host->root, path) >= PATH_MAX)
		full[0] = '\0';
	return full;
}

int host_read_file(const struct host *host, const char *path, size_t max, char **text)
{
	char full[PATH_MAX];

	return read_file(host_path(host, path, full), max, text, NULL);
}

int host_read_value(const struct host *host, const char *path, char value[static SETTING_VALUE_MAX])
{
	_cleanup_free_ char *text = NULL;
	char *shown, *open, *close;
	int r = host_read_file(host, path, 2 * SETTING_VALUE_MAX - 2, &text);

	if (r < 0)
		return r == -EFBIG ? -E2BIG : r;
	/* A choice in sysfs marks the selected word: "always [madvise] never". */
	shown = text;
	open = starts_with(path, "/sys/") ? strchr(text, '[') : NULL;
	close = open ? strchr(open, ']') : NULL;
	if (close) {
		*close = '\0';
		shown = open + 1;
	}
	text_fold_blanks(shown);
	if (strlen(shown) >= SETTING_VALUE_MAX)
		return -E2BIG;
	copy_text(value, SETTING_VALUE_MAX, shown);
	return 0;
}

/* A link may have an absolute target: it is resolved below the host's root. */
static bool has_program(const struct host *host, const char *directory, const char *name)
{
	char path[PATH_MAX], full[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path_in_root(host->root, path, full) == 0 && stat(full, &st) == 0 &&
	       S_ISREG(st.st_mode) && (st.st_mode & S_IXUSR);
}

bool host_find_program(
	const struct host *host, const char *name, char word[static SETTING_PATH_MAX])
{
	/* The $PATH of root on all distributions; then where Flatcar and RKE2 have programs. */
	static const char *const on_path[] = {
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};
	static const char *const others[] = {"/opt/bin", "/var/lib/rancher/rke2/bin"};

	for (size_t i = 0; i < ARRAY_SIZE(on_path); i++)
		if (has_program(host, on_path[i], name))
			return copy_text(word, SETTING_PATH_MAX, name);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (has_program(host, others[i], name)) {
			snprintf(word, SETTING_PATH_MAX, "%s/%s", others[i], name);
			return true;
		}
	word[0] = '\0';
	return false;
}

int host_may_write(const struct host *host, const char *path)
{
	char full[PATH_MAX];

	return faccessat(AT_FDCWD, host_path(host, path, full), W_OK, AT_EACCESS) < 0 ? -errno : 0;
}

bool host_is_dangling(const struct host *host, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	return lstat(host_path(host, path, full), &st) == 0 && S_ISLNK(st.st_mode);
}

/* ---- mounts ---- */

FILE *mounts_open(const char *root)
{
	char path[PATH_MAX];

	/* In a container the mounts of the host's first process are the host's. */
	snprintf(path, sizeof(path), "%s/proc/%s/mountinfo", root, root[0] ? "1" : "self");
	return fopen(path, "re");
}

/* Replaces "\040", which is a blank, and the like. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		unsigned code;

		if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
			*to = (char)code;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

bool mounts_next(FILE *mounts, struct mount *mount)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	while (mounts && getline(&line, &size, mounts) > 0) {
		const char *separator = strstr(line, " - "), *options = strrchr(line, ' ');
		unsigned major_number, minor_number;

		mount->source[0] = '\0';
		if (!separator ||
			sscanf(line, "%*d %*d %u:%u %4095s %4095s", &major_number, &minor_number,
				mount->root, mount->point) != 4 ||
			sscanf(separator + 3, "%31s %255s", mount->type, mount->source) < 1)
			continue;
		mount->device = makedev(major_number, minor_number);
		mount->is_read_only = starts_with(options, " ro,") || streq(options, " ro\n");
		unescape(mount->point);
		unescape(mount->source);
		return true;
	}
	return false;
}

/* ---- sysctls ---- */

bool sysctl_path(const char *name, char path[static SETTING_PATH_MAX])
{
	int n = snprintf(path, SETTING_PATH_MAX, "/proc/sys/%s", name);

	if (n < 0 || n >= SETTING_PATH_MAX)
		return false;
	for (char *p = path + strlen("/proc/sys/"); *p; p++)
		*p = *p == '.' ? '/' : *p == '/' ? '.' : *p;
	return true;
}
