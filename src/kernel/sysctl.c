/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/sysctl.h"

#include "base/util.h"
#include "config/suggest.h"

#include <dirent.h>
#include <stdio.h>

bool sysctl_path(const char *name, char path[static SETTING_PATH_MAX])
{
	int n = snprintf(path, SETTING_PATH_MAX, "/proc/sys/%s", name);

	if (n < 0 || n >= SETTING_PATH_MAX)
		return false;
	for (char *p = path + strlen("/proc/sys/"); *p; p++)
		*p = *p == '.' ? '/' : *p == '/' ? '.' : *p;
	return true;
}

/* The entry of a directory that differs least from a name, if it may be a slip of it. */
static bool nearest_entry(const char *directory, const char *name, char found[static NAME_MAX + 1])
{
	unsigned best = UINT_MAX, apart;
	const struct dirent *entry;
	DIR *dir = opendir(directory);

	while (dir && (entry = readdir(dir))) {
		if (!suggest_is_slip(name, entry->d_name, &apart) || apart >= best)
			continue;
		best = apart;
		copy_text(found, NAME_MAX + 1, entry->d_name);
	}
	if (dir)
		closedir(dir);
	return best < UINT_MAX;
}

bool sysctl_exists(const struct host *host, const char *name, char nearest[static SETTING_NAME_MAX])
{
	char path[SETTING_PATH_MAX], full[PATH_MAX], part[NAME_MAX + 1];
	char found[NAME_MAX + 1];
	size_t root, used;
	bool exists = true;

	nearest[0] = '\0';
	if (!sysctl_path(name, path) || !host_path(host, "/proc/sys", full))
		return false;
	root = used = strlen(full);
	for (const char *p = path + strlen("/proc/sys"); *p;) {
		size_t n = strcspn(++p, "/");

		snprintf(part, sizeof(part), "%.*s", (int)n, p);
		p += n;
		snprintf(full + used, sizeof(full) - used, "/%s", part);
		if (access(full, F_OK) < 0) {
			exists = false;
			full[used] = '\0';
			if (!nearest_entry(full, part, found))
				return false;
			snprintf(full + used, sizeof(full) - used, "/%s", found);
		}
		used += strlen(full + used);
	}
	copy_text(nearest, SETTING_NAME_MAX, full + root + 1);
	for (char *p = nearest; *p; p++)
		*p = *p == '/' ? '.' : *p == '.' ? '/' : *p;
	return exists;
}
