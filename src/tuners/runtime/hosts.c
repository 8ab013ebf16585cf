/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_DIRECTORY "/etc/containerd/certs.d"

static bool is_there(const struct host *host, const char *path)
{
	char full[PATH_MAX];

	return path_in_root(host->root, path, full) == 0;
}

/* The file that counts for the registry: the first that is there, else the first that would. */
static int find_file(
	const struct host *host, const char *certs, const char *registry, char *path, size_t size)
{
	char directories[2][REGISTRY_NAME_MAX];
	int n = hosts_toml_directories(registry, directories);

	for (int i = 0; i < n; i++) {
		if (snprintf(path, size, "%s/%s/hosts.toml", certs, directories[i]) >= (int)size)
			return -ENAMETOOLONG;
		if (is_there(host, path))
			return 0;
	}
	if (n > 0)
		snprintf(path, size, "%s/%s/hosts.toml", certs, directories[0]);
	return MIN(n, 0);
}

/* A directory with certificates and without a hosts.toml is another's: ours would switch them off.
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

static void read_hosts(const struct host *host, const char *certs, struct runtime_hosts *hosts)
{
	_cleanup_free_ char *text = NULL;
	char full[PATH_MAX];
	size_t len = 0;
	int r = find_file(host, certs, hosts->registry, hosts->path, sizeof(hosts->path));

	hosts->error = r;
	if (r < 0)
		return;
	r = path_in_root(host->root, hosts->path, full);
	if (r == 0)
		r = read_file(full, HOSTS_TOML_FILE_MAX, &text, &len);
	if (r == -ENOENT || r == -ENOTDIR) {
		hosts->exists = directory_is_taken(host, hosts->path);
		return;
	}
	hosts->exists = true;
	hosts->error = r;
	hosts->ours = r == 0 && hosts_toml_is_ours(text, len);
	if (!hosts->ours)
		return;
	hash_bytes(text, len, hosts->sum);
	hosts_toml_mirrors(text, hosts->mirrors, sizeof(hosts->mirrors));
}

static void add_registry(struct runtime_sample *sample, const char *registry)
{
	for (size_t i = 0; i < sample->n_hosts; i++)
		if (streq(sample->hosts[i].registry, registry))
			return;
	copy_text(sample->hosts[sample->n_hosts++].registry, REGISTRY_NAME_MAX, registry);
}

int runtime_sample_hosts(struct runtime_request *request)
{
	const struct runtime_config *config = &request->config;
	struct runtime_sample *sample = &request->sample;
	const struct node_runtime *runtime = NULL;
	char certs[SETTING_PATH_MAX];

	free(sample->hosts);
	sample->n_hosts = 0;
	sample->hosts = calloc(config->n_mirrors + request->recorded.n + 1, sizeof(*sample->hosts));
	if (!sample->hosts)
		return -ENOMEM;
	for (size_t i = 0; i < sample->n && !runtime; i++)
		if (sample->runtimes[i].found.kind == RUNTIME_CONTAINERD &&
			sample->runtimes[i].found.managed_by == RUNTIME_OF_NODE)
			runtime = &sample->runtimes[i];
	/* Where a file goes depends on the configuration: without it nothing is decided yet. */
	if (!runtime || !runtime->files_known)
		return 0;
	/* Of several directories the first. */
	copy_text(certs, sizeof(certs), runtime->directory);
	if (!certs[0])
		copy_text(certs, sizeof(certs),
			runtime->containerd.keys[CONTAINERD_REGISTRY_DIRECTORY].on_disk);
	certs[strcspn(certs, ":")] = '\0';
	if (!certs[0])
		copy_text(certs, sizeof(certs), DEFAULT_DIRECTORY);
	for (size_t i = 0; i < config->n_mirrors; i++)
		add_registry(sample, config->mirrors[i].registry);
	/* A registry whose mirrors were taken out of the configuration keeps its record. */
	for (size_t i = 0; i < request->recorded.n; i++)
		add_registry(sample, request->recorded.registries[i]);
	for (size_t i = 0; i < sample->n_hosts; i++)
		read_hosts(request->host, certs, &sample->hosts[i]);
	return 0;
}
