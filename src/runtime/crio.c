/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/text.h"
#include "base/toml.h"
#include "runtime/cri.h"
#include "workload/process.h"

#include <glob.h>

#define REGISTRIES "/etc/containers/registries.conf"

#define CONFIG "/etc/crio/crio.conf"
#define PINS   CONFIG ".d/headroom-pins.conf"

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

/* CRI-O writes no pid file: the process that listens on the socket is CRI-O. */
static int find_process(const struct host *, const char *socket, const struct wait *, pid_t *pid)
{
	pid_t peer = process_of_socket(socket);

	if (peer == 0)
		return -ESRCH;
	*pid = peer;
	return 0;
}

/* ---- files of others ---- */

/* Parses a file of the host. -ENOENT, -EBADMSG or another -errno with why. */
static int parse_file(const struct host *host, const char *full, cJSON **document, char *why)
{
	const char *path = full + strlen(host->root);
	_cleanup_free_ char *text = NULL;
	char fault[TOML_WHY_MAX];
	size_t len = 0;
	int r = read_file(full, TOML_TEXT_MAX, &text, &len);

	if (r == 0 && toml_parse(text, len, document, fault) < 0) {
		snprintf(why, MIRROR_WHY_MAX, "%.120s:%s: correct it", path, fault);
		return -EBADMSG;
	}
	if (r < 0 && r != -ENOENT)
		snprintf(why, MIRROR_WHY_MAX, "%.120s: %s", path, strerror(-r));
	return r;
}

/* CRI-O does not start with a file that is no TOML. */
static void check_files(const struct host *host, const char *config, struct runtime_files *files)
{
	struct bad_file *bad = &files->bad;
	char pattern[PATH_MAX], path[SETTING_PATH_MAX + 8], why[MIRROR_WHY_MAX] = "";
	glob_t found = {0};
	int r = 0;

	snprintf(path, sizeof(path), "%s.d/*", config);
	(void)glob(host_path(host, config, pattern), GLOB_NOSORT, NULL, &found);
	(void)glob(host_path(host, path, pattern), GLOB_APPEND, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && r != -EBADMSG; i++) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;

		r = parse_file(host, found.gl_pathv[i], &document, why);
		if (r == -EBADMSG)
			set_text(bad->path, found.gl_pathv[i] + strlen(host->root));
	}
	globfree(&found);
	files->error = r == -EBADMSG ? r : 0;
	set_text(files->why, files->error < 0 ? why : "");
	if (files->error < 0) {
		bad->line = bad_file_line(text_after_path(why, bad->path));
		bad_file_find_writer(host, bad);
	}
}

/* No key of CRI-O's files is edited. */
static void read_files(struct node_runtime *runtime, const struct host *host, const struct wait *)
{
	struct runtime_key *downloads = &runtime->files.keys[RUNTIME_DOWNLOADS];

	check_files(host, runtime->daemon.config, &runtime->files);
	downloads->refusal = KEY_UNKNOWN;
	copy_text(downloads->why, RUNTIME_WHY_MAX,
		"CRI-O cannot be told how many layers to fetch at once");
}

/* ---- mirrors: containers-registries.conf(5) ---- */

/*
 * Returns whether images of the registry have this prefix: CRI-O uses the longest prefix alone, so
 * ours would hide it. "*.example" is any name below example.
 */
static bool covers(const char *prefix, const char *registry)
{
	size_t n = strlen(prefix);
	const char *end;

	while (n > 0 && prefix[n - 1] == '/')
		n--;
	if (n > 2 && prefix[0] == '*' && prefix[1] == '.') {
		end = registry + strcspn(registry, ":");
		return !memchr(prefix, '/', n) && (size_t)(end - registry) > n - 1 &&
		       strncasecmp(end - (n - 1), prefix + 1, n - 1) == 0;
	}
	return strncmp(prefix, registry, n) == 0 && (!registry[n] || registry[n] == ':');
}

/* Returns whether a document defines this registry, in version 2 or 1 of the format. */
static bool defines(const cJSON *document, const char *registry)
{
	static const char *const lists[] = {
		"registries/block/registries", "registries/insecure/registries"};
	const cJSON *item;

	cJSON_ArrayForEach (item, json_at(document, "registry")) {
		const char *prefix = json_text_at(item, "prefix");

		if (covers(*prefix ? prefix : json_text_at(item, "location"), registry))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		cJSON_ArrayForEach (item, json_at(document, lists[i]))
			if (covers(json_text_at(item, ""), registry))
				return true;
	return false;
}

/* Returns -EEXIST if the file defines the registry, else 0 or an error of parse_file(). */
static int check_file(const struct host *host, const char *full, const char *registry, char *why)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	int r = parse_file(host, full, &document, why);

	return r == 0 && defines(document, registry) ? -EEXIST : r == -ENOENT ? 0 : r;
}

static int locate(const struct host *host, const char *directory, const char *registry,
	char path[static SETTING_PATH_MAX], char full[static PATH_MAX],
	char why[static MIRROR_WHY_MAX])
{
	char other[PATH_MAX], pattern[PATH_MAX + 8];
	glob_t found = {0};
	int r, others = 0;

	why[0] = '\0';
	if (snprintf(path, SETTING_PATH_MAX, "%s/headroom-%s.conf", directory, registry) >=
		SETTING_PATH_MAX)
		return -ENAMETOOLONG;
	r = path_in_root(host->root, path, full);
	if (path_in_root(host->root, REGISTRIES, other) == 0)
		others = check_file(host, other, registry, why);
	if (path_in_root(host->root, directory, other) == 0) {
		snprintf(pattern, sizeof(pattern), "%s/*.conf", other);
		(void)glob(pattern, GLOB_NOSORT, NULL, &found);
	}
	for (size_t i = 0; i < found.gl_pathc && others == 0; i++)
		if (r < 0 || !streq(found.gl_pathv[i], full))
			others = check_file(host, found.gl_pathv[i], registry, why);
	globfree(&found);
	return others < 0 ? others : r;
}

/* Unsupported: a mirror with an API path, and mirrors of all registries. */
static bool write_registry(
	FILE *out, const char *, const char *registry, const char *const *urls, size_t n)
{
	bool possible = !streq(registry, REGISTRY_DEFAULT);

	fprintf(out, "[[registry]]\nlocation = \"%s\"\n", registry);
	for (size_t i = 0; i < n; i++) {
		const char *name = strstr(urls[i], "://") + strlen("://");
		size_t host = strcspn(name, "/"), api = registry_api_length(urls[i]);
		const char *space = api > 0 ? urls[i] + api : name + host;

		/* CRI-O adds /v2 between host and namespace. */
		possible = possible && (!name[host] || name + host + strlen("/v2") == space);
		fprintf(out, "\n# \"%s\"\n[[registry.mirror]]\nlocation = \"%.*s%s\"\n", urls[i],
			(int)host, name, space);
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
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
		const char *full = found.gl_pathv[i], *path = full + strlen(host->root);

		/* The name may have a suffix: a process was killed while it wrote the file. */
		if (starts_with(path, PINS))
			continue;
		taken = parse_file(host, full, &document, why) < 0;
		if (taken || !json_at(document, "crio/image/pinned_images"))
			continue;
		taken = true;
		snprintf(why, IMAGES_WHY_MAX,
			"%s has a list pinned_images of its own: add the image there", path);
	}
	globfree(&found);
	return taken;
}

static const char pins_head[] = "# Written by headroom: images.pin\n"
				"[crio.image]\npinned_images = [\n";

/* The file has a line for each image. Lines of others stay; a file in another form is theirs. */
static int edit_pins(const struct host *host, const char *old, const char *name, bool pinned,
	char **text, char why[static IMAGES_WHY_MAX])
{
	bool ours = !old || starts_with(old, pins_head);
	const char *line = !old ? "]\n" : old + (ours ? strlen(pins_head) : 0);
	char quoted[IMAGE_NAME_MAX + 8];
	size_t n = pinned, size = 0;
	FILE *out;

	snprintf(quoted, sizeof(quoted), "\t\"%s\",\n", name);
	if (pinned && is_defined_elsewhere(host, why))
		return -EEXIST;
	if (!pinned && (!old || !strstr(old, quoted))) {
		*text = old ? must(strdup(old)) : NULL;
		return 0;
	}
	out = must(open_memstream(text, &size));
	fputs(pins_head, out);
	for (size_t len; line[0] == '\t' && line[len = strcspn(line, "\n")]; line += len + 1)
		if (!starts_with(line, quoted))
			n += fprintf(out, "%.*s\n", (int)len, line) > 0;
	fprintf(out, "%s]\n", pinned ? quoted : "");
	must_do(fclose(out) == 0);
	if (n == 0 || !ours || !streq(line, "]\n"))
		free(steal(*text));
	if (ours && streq(line, "]\n"))
		return 0;
	snprintf(why, IMAGES_WHY_MAX, PINS " was changed by others: remove it");
	return -EEXIST;
}

static const struct meaning unbounded[] = {{"0", NO_BOUND}, {"-1", NO_BOUND}, {0}};

const struct runtime_driver crio_driver = {
	.name = "crio",
	.locations = locations,
	.options = {"config", "c"},
	.read = read_crio,
	.read_files = read_files,
	.keys = {[RUNTIME_DOWNLOADS] = {"max_concurrent_downloads", ACTIVATE_NOTHING, unbounded}},
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
	.pins_path = PINS,
	.edit_pins = edit_pins,
};
