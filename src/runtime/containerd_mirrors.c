/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd.h"

#include "base/file.h"
#include "runtime/containerd_config.h"

#include <libgen.h>

/* Until connected to a mirror, before the next one is tried: from containerd 2.1. */
#define DIAL_TIMEOUT "  dial_timeout = \"3000ms\"\n"

/*
 * containerd reads certs.d/REGISTRY/hosts.toml at each pull (containerd docs/hosts.md), from the
 * first directory that exists: HOST_PORT_, then HOST:PORT, then _default. A new directory hides
 * those after it.
 */
static int locate_in(const struct host *host, const char *certs, const char *name,
	char path[static SETTING_PATH_MAX], char full[static PATH_MAX])
{
	int r;

	if (snprintf(path, SETTING_PATH_MAX, "%s/%s/hosts.toml", certs, name) >= SETTING_PATH_MAX)
		return -ENAMETOOLONG;
	r = path_in_root(host->root, path, full);
	return r == -ENOTDIR ? -ENOENT : r;
}

/* Whether the file's directory has anything: a hosts.toml would switch off certificates there. */
static bool has_neighbors(const struct host *host, const char *path)
{
	char directory[SETTING_PATH_MAX], full[PATH_MAX];
	const struct dirent *entry;
	_cleanup_(cleanup_closedir) DIR *entries = NULL;
	bool found = false;

	set_text(directory, path);
	if (path_in_root(host->root, dirname(directory), full) == 0)
		entries = opendir(full);
	while (entries && !found && (entry = readdir(entries)))
		found = entry->d_name[0] != '.';
	return found;
}

static int locate(const struct host *host, const char *certs, const char *registry,
	char path[static SETTING_PATH_MAX], char full[static PATH_MAX])
{
	const char *colon = strrchr(registry, ':');
	char name[REGISTRY_NAME_MAX + 1];
	int r = -ENOENT;

	/* hostDirectory() (remotes/docker/config/hosts.go): also of an IPv6 address alone. */
	if (colon) {
		snprintf(name, sizeof(name), "%.*s_%s_", (int)(colon - registry), registry,
			colon + 1);
		r = locate_in(host, certs, name, path, full);
	}
	if (r == -ENOENT)
		r = locate_in(host, certs, registry, path, full);
	/* A new file goes to the first directory. */
	if (r == -ENOENT && colon)
		r = locate_in(host, certs, name, path, full);
	return r == -ENOENT && has_neighbors(host, path) ? -EEXIST : r;
}

static bool write_hosts(
	FILE *out, const char *version, const char *, const char *const *urls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(out, "\n[host.\"%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n%s",
			urls[i], containerd_is_at_least(version, 2, 1) ? DIAL_TIMEOUT : "");
	return true;
}

/* The registry itself is asked last, without being named. */
const struct mirror_format containerd_mirrors = {
	.setting = "mirrors.",
	.directory = CONTAINERD_CERTS,
	.url_mark = "\n[host.\"",
	.locate = locate,
	.write = write_hosts,
};
