/* SPDX-License-Identifier: Apache-2.0 */
/* Finds who sets a sysctl at boot, in the files of sysctl.d(5) and in a profile of TuneD. */
#include "base/text.h"
#include "kernel/host.h"

#include <dirent.h>
#include <fnmatch.h>

#define FILE_MAX ((size_t)256 * 1024)

/* In the order of precedence. Names are sorted across all directories. */
static const char *const directories[] = {
	"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"};

/*
 * Makes the path below /proc/sys of a name. Dots and slashes are exchanged unless a slash comes
 * first: net.ipv4.conf.eth0/1.mtu and net/ipv4/conf/eth0.1/mtu are the same.
 */
static void make_path(char *name)
{
	char *first = strpbrk(name, "./");

	for (char *c = first && *first == '.' ? name : ""; *c; c++)
		*c = *c == '.' ? '/' : *c == '/' ? '.' : *c;
}

/*
 * "net.ipv4.ip_forward = 1", with "-" before it for no error. The name may be a pattern; "-NAME"
 * alone excludes names from patterns.
 */
static bool parse_line(char *line, char **key, char **value)
{
	char *equals = strchr(line, '=');

	line += strspn(line, " \t");
	if (line[0] == '#' || line[0] == ';' || (!equals && line[0] != '-'))
		return false;
	if (equals)
		*equals = '\0';
	line += line[0] == '-';
	text_fold_blanks(line);
	make_path(line);
	*key = line;
	*value = equals ? equals + 1 : NULL;
	if (equals)
		text_fold_blanks(*value);
	return true;
}

/* What the files say about a name, in their order. An exact name beats all patterns. */
struct sysctl_search {
	const char *path, *value; /* below /proc/sys; the value to find */
	bool is_exact, is_excluded;
	char where[SETTING_WHY_MAX]; /* "": the last line that counts gives another value */
};

static void search_file(const struct host *host, const char *file, struct sysctl_search *search)
{
	_cleanup_free_ char *text = NULL;
	unsigned number = 0;
	char *key, *given, *rest;

	if (host_read_file(host, file, FILE_MAX, &text) < 0)
		return;
	rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		bool is_exact;

		number++;
		if (!parse_line(line, &key, &given))
			continue;
		is_exact = streq(key, search->path);
		search->is_excluded |= is_exact && !given;
		if (is_exact && !given && !search->is_exact)
			search->where[0] = '\0';
		if (!given || (!is_exact && (search->is_exact || search->is_excluded ||
						    fnmatch(key, search->path, FNM_PATHNAME) != 0)))
			continue;
		search->is_exact |= is_exact;
		search->where[0] = '\0';
		if (value_equal(given, search->value))
			snprintf(search->where, sizeof(search->where), "set by %.150s:%u", file,
				number);
	}
}

/* A file hides those with its name in later directories. */
struct sysctl_file {
	char name[NAME_MAX + 1];
	const char *directory;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct sysctl_file *)a)->name, ((const struct sysctl_file *)b)->name);
}

static struct sysctl_file *list_files(const struct host *host, size_t *n)
{
	void *all = NULL;
	size_t allocated = 0;

	*n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		char full[PATH_MAX];
		DIR *directory = opendir(host_path(host, directories[i], full));
		const struct dirent *entry;
		size_t earlier = *n;

		while (directory && (entry = readdir(directory))) {
			const char *end = strrchr(entry->d_name, '.');
			const struct sysctl_file *files = all;
			struct sysctl_file *file;
			size_t k = 0;

			while (k < earlier && !streq(files[k].name, entry->d_name))
				k++;
			if (k < earlier || !end || !streq(end, ".conf"))
				continue;
			file = add_bytes(&all, n, &allocated, sizeof(*file));
			set_text(file->name, entry->d_name);
			file->directory = directories[i];
		}
		if (directory)
			closedir(directory);
	}
	if (*n > 0)
		qsort(all, *n, sizeof(struct sysctl_file), by_name);
	return all;
}

bool host_find_sysctl(const struct host *host, const char *name, const char *value,
	char where[static SETTING_WHY_MAX])
{
	char path[SETTING_NAME_MAX], file[PATH_MAX], given[SETTING_VALUE_MAX];
	struct sysctl_search search = {.path = path, .value = value};
	size_t n;
	_cleanup_free_ struct sysctl_file *files = list_files(host, &n);

	set_text(path, name);
	make_path(path);
	for (size_t i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", files[i].directory, files[i].name);
		search_file(host, file, &search);
	}
	/* sysctl(8) reads it last, and Debian has a link to it below the name 99-sysctl.conf. */
	search_file(host, "/etc/sysctl.conf", &search);
	copy_text(where, SETTING_WHY_MAX, search.where);
	if (!where[0] && (!host_find_tuned(host, "sysctl", name, given, where) ||
				 !value_equal(given, value)))
		where[0] = '\0';
	return where[0];
}
