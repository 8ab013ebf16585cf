/* SPDX-License-Identifier: Apache-2.0 */
/* Finds who sets a sysctl at boot, in the files of sysctl.d(5) and in a profile of TuneD. */
#include "base/text.h"
#include "kernel/host.h"

#include <dirent.h>

#define FILE_MAX ((size_t)256 * 1024)

/* An assignment: "net.ipv4.ip_forward = 1", also with slashes, or with "-" for no error. */
static bool parse_line(char *line, char **key, char **value)
{
	char *equals = strchr(line, '=');

	line += strspn(line, " \t");
	if (!equals || line[0] == '#' || line[0] == ';')
		return false;
	*equals = '\0';
	line += line[0] == '-';
	text_fold_blanks(line);
	text_fold_blanks(equals + 1);
	for (char *slash = line; (slash = strchr(slash, '/'));)
		*slash = '.';
	*key = line;
	*value = equals + 1;
	return true;
}

/* Returns the number of the last line that gives this value; 0: none. */
static unsigned find_line(
	const struct host *host, const char *path, const char *name, const char *value)
{
	_cleanup_free_ char *text = NULL;
	unsigned found = 0, number = 0;
	char *key, *given, *rest;

	if (host_read_file(host, path, FILE_MAX, &text) < 0)
		return 0;
	rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		number++;
		if (parse_line(line, &key, &given) && streq(key, name) && value_equal(given, value))
			found = number;
	}
	return found;
}

bool host_find_sysctl(const struct host *host, const char *name, const char *value,
	char where[static SETTING_WHY_MAX])
{
	static const char *const directories[] = {
		"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"};
	unsigned line = find_line(host, "/etc/sysctl.conf", name, value);
	char given[SETTING_VALUE_MAX];

	where[0] = '\0';
	if (line > 0)
		snprintf(where, SETTING_WHY_MAX, "set by /etc/sysctl.conf:%u", line);
	for (size_t i = 0; i < ARRAY_SIZE(directories) && !where[0]; i++) {
		char full[PATH_MAX], path[PATH_MAX];
		struct dirent **files = NULL;
		int n = scandir(host_path(host, directories[i], full), &files, NULL, alphasort);

		for (int k = 0; k < n; k++) {
			const char *end = strrchr(files[k]->d_name, '.');

			snprintf(path, sizeof(path), "%s/%s", directories[i], files[k]->d_name);
			line = end && streq(end, ".conf") ? find_line(host, path, name, value) : 0;
			if (line > 0)
				snprintf(where, SETTING_WHY_MAX, "set by %.150s:%u", path, line);
			free(files[k]);
		}
		free(files);
	}
	if (!where[0] && (!host_find_tuned(host, "sysctl", name, given, where) ||
				 !value_equal(given, value)))
		where[0] = '\0';
	return where[0];
}
