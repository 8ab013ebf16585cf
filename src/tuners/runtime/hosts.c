/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEFAULT_DIRECTORY "/etc/containerd/certs.d"

/* What is asked of a mirror before the next one gets its turn. */
#define DIAL_TIMEOUT_MS 3000

static const struct runtime_one *containerd_of(const struct runtime_seen *seen)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->ones[i].where.kind == RUNTIME_CONTAINERD &&
			seen->ones[i].where.managed_by == RUNTIME_OF_NODE)
			return &seen->ones[i];
	return NULL;
}

/* Where it looks for hosts.toml, or will: of several directories the first. */
static void directory_of(const struct runtime_one *one, char directory[static SETTING_PATH_MAX])
{
	const char *on_disk = one->edits[CONTAINERD_REGISTRY_DIRECTORY].on_disk;

	copy_text(directory, SETTING_PATH_MAX,
		one->directory[0] ? one->directory
		: on_disk[0]      ? on_disk
				  : DEFAULT_DIRECTORY);
	directory[strcspn(directory, ":")] = '\0';
}

static struct runtime_hosts *hosts_of(struct runtime_seen *seen, const char *registry)
{
	struct runtime_hosts *hosts;

	for (size_t i = 0; i < seen->n_hosts; i++)
		if (streq(seen->hosts[i].registry, registry))
			return &seen->hosts[i];
	if (seen->n_hosts == ARRAY_SIZE(seen->hosts))
		return NULL;
	hosts = &seen->hosts[seen->n_hosts++];
	*hosts = (struct runtime_hosts){0};
	copy_text(hosts->registry, sizeof(hosts->registry), registry);
	return hosts;
}

/* The mirrors that work, as the text that is wanted; none at all: no file. */
static void want_text(struct runtime_hosts *hosts, const struct runtime_config *config,
	const struct runtime_seen *seen, const char *version)
{
	struct hosts_toml_mirror up[RUNTIME_MIRROR_MAX];
	struct hosts_toml wanted = {.mirrors = up};
	size_t used = 0, len;

	for (size_t i = 0; i < config->n_mirrors; i++) {
		const struct runtime_mirror *mirror = &config->mirrors[i];

		if (!streq(mirror->registry, hosts->registry))
			continue;
		hosts->unchecked = hosts->unchecked || seen->mirror_states[i] == MIRROR_UNKNOWN;
		if (seen->mirror_states[i] != MIRROR_UP)
			continue;
		up[wanted.n++] = (struct hosts_toml_mirror){
			.url = mirror->url, .same_node = registry_is_loopback(mirror->url)};
		if (used < sizeof(hosts->wanted) - 1)
			used += (size_t)snprintf(hosts->wanted + used, sizeof(hosts->wanted) - used,
				"%s%s", used > 0 ? " " : "", mirror->url);
	}
	if (hosts_toml_knows_dial_timeout(version))
		wanted.dial_timeout_ms = DIAL_TIMEOUT_MS;
	if (wanted.n == 0)
		copy_text(hosts->wanted, sizeof(hosts->wanted), "none");
	else
		hosts->error = hosts_toml_write(&wanted, &hosts->text, &len);
}

static bool is_there(const struct host *host, const char *path)
{
	char full[PATH_MAX];

	return path_in_root(host->root, path, full) == 0;
}

/* The file that counts for the registry: the first that is there, else the first that would. */
static int find_file(const struct host *host, struct runtime_hosts *hosts, const char *directory)
{
	char directories[2][REGISTRY_NAME_MAX];
	int n = hosts_toml_directories(hosts->registry, directories);

	for (int i = n - 1; i >= 0; i--) {
		char path[SETTING_PATH_MAX];

		if (snprintf(path, sizeof(path), "%s/%s/hosts.toml", directory, directories[i]) >=
			(int)sizeof(path))
			return -ENAMETOOLONG;
		if (i == 0 ? !is_there(host, hosts->path) || is_there(host, path)
			   : is_there(host, path))
			copy_text(hosts->path, sizeof(hosts->path), path);
	}
	return MIN(n, 0);
}

/* A directory with certificates and without a hosts.toml is somebody's: ours would switch them off.
 */
static bool directory_is_taken(const struct host *host, const char *file)
{
	char directory[PATH_MAX], full[PATH_MAX];
	const struct dirent *entry;
	bool taken = false;
	DIR *dir;

	copy_text(directory, sizeof(directory), file);
	if (path_in_root(host->root, dirname(directory), full) < 0)
		return false;
	dir = opendir(full);
	if (!dir)
		return false;
	while (!taken && (entry = readdir(dir)))
		taken = entry->d_name[0] != '.';
	closedir(dir);
	return taken;
}

static void read_file_of(const struct host *host, struct runtime_hosts *hosts)
{
	_cleanup_free_ char *text = NULL;
	char full[PATH_MAX];
	size_t len = 0;
	int r = path_in_root(host->root, hosts->path, full);

	if (r == 0)
		r = read_file(full, HOSTS_TOML_FILE_MAX, &text, &len);

	if (r == -ENOENT || r == -ENOTDIR) {
		hosts->exists = directory_is_taken(host, hosts->path);
		hosts->matches = !hosts->text;
		return;
	}
	hosts->exists = true;
	if (r < 0) {
		hosts->error = r;
		return;
	}
	hosts->ours = hosts_toml_is_ours(text, len);
	hosts->matches = hosts->text && streq(text, hosts->text);
}

void runtime_hosts_clear(struct runtime_seen *seen)
{
	for (size_t i = 0; i < seen->n_hosts; i++)
		free(seen->hosts[i].text);
	seen->n_hosts = 0;
}

/* A registry whose mirrors were taken out of the configuration keeps its record: it is looked at.
 */
static void note_registries(const struct runtime_config *config,
	const struct runtime_memory *memory, struct runtime_seen *seen)
{
	for (size_t i = 0; i < config->n_mirrors; i++)
		(void)hosts_of(seen, config->mirrors[i].registry);
	for (size_t i = 0; i < memory->n_recorded; i++)
		(void)hosts_of(seen, memory->recorded[i]);
}

void runtime_hosts_read(const struct host *host, const struct runtime_config *config,
	const struct runtime_memory *memory, struct runtime_seen *seen)
{
	const struct runtime_one *one = containerd_of(seen);
	char directory[SETTING_PATH_MAX];

	runtime_hosts_clear(seen);
	/* Where a file goes depends on the version: without one nothing is decided yet. */
	if (!one || one->file_signature == 0)
		return;
	directory_of(one, directory);
	note_registries(config, memory, seen);
	for (size_t i = 0; i < seen->n_hosts; i++) {
		struct runtime_hosts *hosts = &seen->hosts[i];

		want_text(hosts, config, seen, one->version);
		if (hosts->error == 0)
			hosts->error = find_file(host, hosts, directory);
		if (hosts->error == 0)
			read_file_of(host, hosts);
	}
}
