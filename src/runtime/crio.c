/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "runtime/cri_read.h"
#include "workload/process.h"

#include <glob.h>

#define REGISTRIES "/etc/containers/registries.conf"

/* ---- find ---- */

static const struct runtime_location locations[] = {
	{.runtime = {.name = "crio",
		 .managed_by = RUNTIME_OF_NODE,
		 .socket = "/run/crio/crio.sock",
		 .config = "/etc/crio/crio.conf",
		 .unit = "crio.service"},
		.other_unit = "cri-o.service"},
	{.runtime = {0}},
};

/* ---- read ---- */

/* The CRI does not report pulls that are under way. */
static void read_crio(struct runtime_reading *reading)
{
	static const struct cri_question questions[] = {
		{cri_ask_version, false, true},
		{cri_ask_names, true, true},
		{cri_ask_store, true, true},
		{0},
	};

	cri_read(reading, questions);
}

/* No key of CRI-O's files is edited. */
static void read_files(
	struct node_runtime *runtime, const struct runtime_daemon *daemon, const struct wait *wait)
{
	struct runtime_key *downloads = &runtime->files.keys[RUNTIME_DOWNLOADS];

	(void)daemon, (void)wait;
	downloads->refusal = KEY_UNKNOWN;
	copy_text(downloads->why, RUNTIME_WHY_MAX,
		"CRI-O cannot be told how many layers to fetch at once");
}

/* CRI-O writes no pid file: the process that listens on the socket is CRI-O. */
static int find_process(
	const struct host *host, const char *socket, const struct wait *wait, pid_t *pid)
{
	pid_t peer = process_of_socket(socket);

	(void)host, (void)wait;
	if (peer == 0)
		return -ESRCH;
	*pid = peer;
	return 0;
}

/* ---- mirrors: containers-registries.conf(5) ---- */

/* Whether the file defines this registry: CRI-O uses one definition only. */
static bool has_registry(const char *full, const char *registry)
{
	_cleanup_fclose_ FILE *file = fopen(full, "re");
	_cleanup_free_ char *line = NULL;
	char quoted[REGISTRY_NAME_MAX + 2];
	size_t size = 0;
	bool found = false;

	snprintf(quoted, sizeof(quoted), "\"%s\"", registry);
	while (file && !found && getline(&line, &size, file) > 0) {
		const char *key = line + strspn(line, " \t");

		found = (starts_with(key, "location") || starts_with(key, "prefix")) &&
			strstr(key, quoted);
	}
	return found;
}

static int locate(const struct host *host, const char *directory, const char *registry,
	char path[static SETTING_PATH_MAX], char full[static PATH_MAX])
{
	char other[PATH_MAX], pattern[PATH_MAX + 8];
	bool taken =
		path_in_root(host->root, REGISTRIES, other) == 0 && has_registry(other, registry);
	glob_t found = {0};
	int r;

	if (snprintf(path, SETTING_PATH_MAX, "%s/headroom-%s.conf", directory, registry) >=
		SETTING_PATH_MAX)
		return -ENAMETOOLONG;
	r = path_in_root(host->root, path, full);
	if (path_in_root(host->root, directory, other) == 0) {
		snprintf(pattern, sizeof(pattern), "%s/*.conf", other);
		(void)glob(pattern, GLOB_NOSORT, NULL, &found);
	}
	for (size_t i = 0; i < found.gl_pathc && !taken; i++)
		taken = (r < 0 || !streq(found.gl_pathv[i], full)) &&
			has_registry(found.gl_pathv[i], registry);
	globfree(&found);
	return taken ? -EEXIST : r;
}

/* Unsupported: a mirror with an API path, and mirrors of all registries. */
static bool write_registry(
	FILE *out, const char *version, const char *registry, const char *const *urls, size_t n)
{
	bool possible = !streq(registry, REGISTRY_DEFAULT);

	(void)version;
	fprintf(out, "[[registry]]\nlocation = \"%s\"\n", registry);
	for (size_t i = 0; i < n; i++) {
		const char *name = strstr(urls[i], "://") + strlen("://");

		possible = possible && !strchr(name, '/');
		fprintf(out, "\n# \"%s\"\n[[registry.mirror]]\nlocation = \"%s\"\n", urls[i], name);
		if (starts_with(urls[i], "http:"))
			fputs("insecure = true\n", out);
	}
	return possible;
}

static const struct mirror_format mirrors = {
	.setting = "crio.mirrors.",
	.directory = REGISTRIES ".d",
	.url_mark = "\n# \"",
	.activation = ACTIVATE_RELOAD,
	.locate = locate,
	.write = write_registry,
};

const struct runtime_driver crio_driver = {
	.name = "crio",
	.locations = locations,
	.options = {"config", "c"},
	.read = read_crio,
	.read_files = read_files,
	.keys = {[RUNTIME_DOWNLOADS] = {"max_concurrent_downloads", ACTIVATE_NOTHING, UINT64_MAX}},
	.mirrors = &mirrors,
	.program = "crio",
	.find_process = find_process,
	.serves_kubelet = true,
	.copies_per_image = 1,
	.read_images_info = cri_read_images_info,
	.list = cri_list_images,
	.pull = cri_pull_image,
};
