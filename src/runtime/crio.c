/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "runtime/cri.h"
#include "workload/process.h"

#include <glob.h>

#define REGISTRIES "/etc/containers/registries.conf"

#define CONFIG    "/etc/crio/crio.conf"
#define PINS      "headroom-pins.conf" /* in the directory CONFIG.d */
#define PINS_MAX  ((size_t)64 * 1024)
#define RELOAD_US (3 * USEC_PER_SEC)

/* ---- find ---- */

static const struct runtime_location locations[] = {
	{.runtime = {.name = "crio",
		 .managed_by = RUNTIME_OF_NODE,
		 .socket = "/run/crio/crio.sock",
		 .config = CONFIG,
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
static void read_files(struct node_runtime *runtime, const struct host *, const struct wait *)
{
	struct runtime_key *downloads = &runtime->files.keys[RUNTIME_DOWNLOADS];

	downloads->refusal = KEY_UNKNOWN;
	copy_text(downloads->why, RUNTIME_WHY_MAX,
		"CRI-O cannot be told how many layers to fetch at once");
}

/* CRI-O writes no pid file: the process that listens on the socket is CRI-O. */
static int find_process(const struct host *, const char *socket, const struct wait *, pid_t *pid)
{
	pid_t peer = process_of_socket(socket);

	if (peer == 0)
		return -ESRCH;
	*pid = peer;
	return 0;
}

/* ---- mirrors: containers-registries.conf(5) ---- */

/* Whether a line of the file begins with the key and has the word. */
static bool has_line(const char *full, const char *key, const char *word)
{
	_cleanup_fclose_ FILE *file = fopen(full, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (file && !found && getline(&line, &size, file) > 0)
		found = starts_with(line + strspn(line, " \t"), key) && strstr(line, word);
	return found;
}

/* Whether the file defines this registry: CRI-O uses one definition only. */
static bool has_registry(const char *full, const char *registry)
{
	char quoted[REGISTRY_NAME_MAX + 2];

	snprintf(quoted, sizeof(quoted), "\"%s\"", registry);
	return has_line(full, "location", quoted) || has_line(full, "prefix", quoted);
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
	FILE *out, const char *, const char *registry, const char *const *urls, size_t n)
{
	bool possible = !streq(registry, REGISTRY_DEFAULT);

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

/* ---- pins: pinned_images of crio.conf(5), whose last definition counts ---- */

/* Since 1.31 a reload also ends the pins that are no longer listed. */
static bool honours_pins(const char *version)
{
	return strverscmp(version, "1.31") >= 0;
}

/* Our list would replace another one, or be replaced by it. */
static bool is_defined_elsewhere(const struct host *host, char *why)
{
	char pattern[PATH_MAX];
	glob_t found = {0};
	bool taken = false;

	(void)glob(host_path(host, CONFIG, pattern), GLOB_NOSORT, NULL, &found);
	(void)glob(
		host_path(host, CONFIG ".d/*", pattern), GLOB_NOSORT | GLOB_APPEND, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && !taken; i++) {
		taken = !streq(basename(found.gl_pathv[i]), PINS) &&
			has_line(found.gl_pathv[i], "pinned_images", "");
		if (taken)
			snprintf(why, IMAGES_WHY_MAX,
				"%s has a list pinned_images of its own: add the image there",
				found.gl_pathv[i] + strlen(host->root));
	}
	globfree(&found);
	return taken;
}

static const char pins_head[] = "# Written by headroom: images.pin\n"
				"[crio.image]\npinned_images = [\n";

/* old: our file, with a line for each image, or "". The caller frees the text; NULL: no image. */
static char *edit_pins(const char *old, const char *name, bool pinned)
{
	char quoted[IMAGE_NAME_MAX + 8], *text = NULL;
	const char *line = old + strlen(old[0] ? pins_head : "");
	size_t n = pinned, size;
	FILE *out = must(open_memstream(&text, &size));

	snprintf(quoted, sizeof(quoted), "\t\"%s\",\n", name);
	fputs(pins_head, out);
	for (; line[0] == '\t'; line += strspn(line, "\n")) {
		int len = (int)strcspn(line, "\n");

		if (!starts_with(line, quoted))
			n += fprintf(out, "%.*s\n", len, line) > 0;
		line += len;
	}
	fprintf(out, "%s]\n", pinned ? quoted : "");
	must_do(fclose(out) == 0);
	if (n == 0)
		free(steal(text));
	return text;
}

static int pin_image(const struct image_runtime *runtime, const struct host *host, const char *name,
	bool pinned, const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	const struct wait answer = wait_at_most(wait, RELOAD_US);
	_cleanup_free_ char *old = NULL, *new = NULL;
	char directory[PATH_MAX], path[PATH_MAX + NAME_MAX];
	int r;

	if (pinned && is_defined_elsewhere(host, why))
		return -EEXIST;
	r = path_in_root(host->root, CONFIG ".d", directory);
	if (r < 0) {
		snprintf(why, IMAGES_WHY_MAX, CONFIG ".d: %s: create it", strerror(-r));
		return r;
	}
	snprintf(path, sizeof(path), "%s/" PINS, directory);
	r = read_file(path, PINS_MAX, &old, NULL);
	if (r < 0 && r != -ENOENT)
		return r;
	if (old && !starts_with(old, pins_head)) {
		snprintf(
			why, IMAGES_WHY_MAX, CONFIG ".d/" PINS " was changed by others: remove it");
		return -EEXIST;
	}
	new = edit_pins(old ? old : "", name, pinned);
	if (new)
		r = replace_path(path, new, strlen(new), true);
	else if (old)
		r = unlink(path) < 0 ? -errno : 0;
	else
		r = 0;
	/* Also for an unchanged file: an earlier reload may have failed. */
	return r < 0 ? r
		     : runtime_reload(host, runtime->driver, runtime->daemon.socket, 0, &answer);
}

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
	.find = cri_find_image,
	.pull = cri_pull_image,
	.honours_pins = honours_pins,
	.pin = pin_image,
};
