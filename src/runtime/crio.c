/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of CRI-O. In this order: its reports over the CRI; its files, and the files of
 * registries; the fault that keeps it from starting; mirrors; pins. Nothing here writes a file.
 */
#include "base/child.h"
#include "base/file.h"
#include "base/text.h"
#include "base/toml.h"
#include "runtime/cri.h"
#include "workload/process.h"

#include <fts.h>
#include <glob.h>

#define REGISTRIES "/etc/containers/registries.conf"

#define CONFIG "/etc/crio/crio.conf"
#define PINS   CONFIG ".d/headroom-pins.conf"

#define OUTPUT_MAX ((size_t)1 << 20) /* bytes of `crio config` */

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
	char fault[TOML_WHY_MAX], real[PATH_MAX];
	size_t len = 0;
	int r = path_in_root(host->root, path, real); /* a link may lead out of it */

	if (r == 0)
		r = read_file(real, TOML_TEXT_MAX, &text, &len);
	if (r == 0 && toml_parse(text, len, document, fault) < 0) {
		snprintf(why, MIRROR_WHY_MAX, "%.120s:%s: correct it", path, fault);
		return -EBADMSG;
	}
	if (r < 0 && r != -ENOENT)
		snprintf(why, MIRROR_WHY_MAX, "%.120s: %s", path, strerror(-r));
	return r;
}

#define FILES_MAX 64

/* Full paths. */
struct crio_files {
	char path[FILES_MAX][PATH_MAX];
	size_t n;
};

static void add_path(struct crio_files *files, const char *path)
{
	if (files->n < FILES_MAX)
		copy_text(files->path[files->n++], PATH_MAX, path);
}

/* CRI-O reads all files below the directory, whatever their names are. */
static void find_files(
	const struct host *host, const char *main, const char *directory, struct crio_files *files)
{
	char full[PATH_MAX];
	char *const roots[] = {full, NULL};
	FTS *tree;

	if (access(host_path(host, main, full), F_OK) == 0)
		add_path(files, full);
	host_path(host, directory, full);
	tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	for (const FTSENT *entry; tree && (entry = fts_read(tree));)
		if (entry->fts_info == FTS_F || entry->fts_info == FTS_SL)
			add_path(files, entry->fts_path);
	if (tree)
		fts_close(tree);
}

static void find_registries(const struct host *host, struct crio_files *files)
{
	char pattern[PATH_MAX];
	glob_t found = {0};

	(void)glob(host_path(host, REGISTRIES, pattern), GLOB_NOSORT, NULL, &found);
	(void)glob(host_path(host, REGISTRIES ".d/*.conf", pattern), GLOB_NOSORT | GLOB_APPEND,
		NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		add_path(files, found.gl_pathv[i]);
	globfree(&found);
}

/* ---- the file that CRI-O refuses ---- */

/* Returns what keeps CRI-O from starting with a [[registry]], or NULL. */
static const char *check_registry(const cJSON *registry)
{
	static const char *const texts[] = {"prefix", "location", "mirror/0/location"};
	static const char *const bools[] = {"blocked", "insecure", "mirror-by-digest-only"};
	const cJSON *item;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if ((item = json_at(registry, texts[i])) && !cJSON_IsString(item))
			return "a location or prefix of a registry must be a text";
	for (size_t i = 0; i < ARRAY_SIZE(bools); i++)
		if ((item = json_at(registry, bools[i])) && !cJSON_IsBool(item))
			return "blocked, insecure and mirror-by-digest-only must be true or false";
	if (!json_text_at(registry, "location")[0] && !json_text_at(registry, "prefix")[0])
		return "a registry has neither location nor prefix";
	return NULL;
}

/* The library that reads these files: pkg/sysregistriesv2 of containers/image. */
static const char *check_registries(const cJSON *document, bool is_drop_in)
{
	const cJSON *list = json_at(document, "registry"), *item;
	const char *what = NULL;

	if (is_drop_in && json_at(document, "registries"))
		return "a file of registries.conf.d cannot have version 1 of the format";
	if (list && json_at(document, "registries"))
		return "versions 1 and 2 of the format are mixed";
	if (list && !cJSON_IsArray(list))
		return "registry must be [[registry]]";
	cJSON_ArrayForEach (item, list)
		what = what ? what : check_registry(item);
	return what;
}

/* Finds the first of these files with a fault of its own. -EBADMSG with why, or 0. */
static int find_fault(const struct host *host, const struct crio_files *files, bool registries,
	struct bad_file *bad, char why[static RUNTIME_WHY_MAX])
{
	for (size_t i = 0; i < files->n; i++) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
		const char *path = files->path[i] + strlen(host->root), *what = NULL;
		int r = parse_file(host, files->path[i], &document, why);

		if (r == 0 && registries)
			what = check_registries(document, !streq(path, REGISTRIES));
		if (what)
			snprintf(why, RUNTIME_WHY_MAX, "%.120s: %s", path, what);
		if (r != -EBADMSG && !what)
			continue;
		set_text(bad->path, path);
		bad->line = bad_file_line(text_after_path(why, path));
		return -EBADMSG;
	}
	return 0;
}

/* "PATH: toml: line 2 (last key ...): what", or what with a value in quotes. */
static void blame(const struct host *host, const struct crio_files *files, const char *message,
	struct bad_file *bad)
{
	const char *line = strstr(message, "line "), *quote = strchr(message, '"');
	char value[128] = "", found[128];

	if (quote)
		snprintf(value, sizeof(value), "%.*s", (int)strcspn(quote + 1, "\""), quote + 1);
	for (size_t i = 0; i < files->n; i++) {
		const char *path = files->path[i] + strlen(host->root);
		_cleanup_free_ char *text = NULL;
		struct toml_scan scan = {0};
		struct toml_item item;

		if (starts_with(message, path) && message[strlen(path)] == ':') {
			set_text(bad->path, path);
			bad->line = line ? (unsigned)strtoul(line + 5, NULL, 10) : 0;
			return;
		}
		if (message[0] == '/' || !value[0] ||
			read_file(files->path[i], TOML_TEXT_MAX, &text, &scan.len) < 0)
			continue;
		scan.text = text;
		while (toml_next(&scan, &item) > 0) {
			if (item.header || !toml_value(text, &item, found, sizeof(found)) ||
				!streq(found, value))
				continue;
			set_text(bad->path, path);
			bad->line = (unsigned)text_position(text, item.start).line;
		}
	}
}

/* `crio config` reads its files as a start does, and no files of registries. */
static int check_files(const struct host *host, const struct daemon *daemon, const char *directory,
	const struct crio_files *files, const struct wait *wait, struct runtime_files *result)
{
	static const char refuses[] = " refuses it: ";
	const char *const arguments[] = {
		daemon->program, "-c", daemon->config, "-d", directory, "config", NULL};
	const struct child child = {.arguments = arguments,
		.root = host->root,
		.skip = "unable to decode configuration ",
		.output_max = OUTPUT_MAX};
	struct bad_file *bad = &result->bad;
	char why[RUNTIME_WHY_MAX], position[16] = "";
	const char *message;
	int r = daemon->program[0] ? child_ask(&child, wait, NULL, why) : -ESRCH;

	result->is_unverified = r == -ESRCH;
	if ((r == -EINVAL || r == -ESRCH) &&
		find_fault(host, files, false, bad, result->why) == -EBADMSG)
		return -EBADMSG;
	if (r == 0 || r == -ESRCH)
		return 0;
	set_text(bad->path, daemon->config);
	message = strstr(why, refuses);
	message = message ? message + strlen(refuses) : why;
	if (r == -EINVAL)
		blame(host, files, message, bad);
	if (bad->line > 0)
		snprintf(position, sizeof(position), ":%u", bad->line);
	snprintf(result->why, RUNTIME_WHY_MAX, "%.120s%s: %.180s", bad->path, position,
		text_after_path(message, bad->path));
	return r == -EINVAL ? -EBADMSG : r;
}

static void hash_files(const struct daemon *daemon, const char *directory,
	const struct crio_files lists[2], char hash[static HASH_TEXT_MAX])
{
	_cleanup_free_ char *all = NULL;
	size_t len = 0;
	FILE *out = must(open_memstream(&all, &len));

	fprintf(out, "%s %s %s %s", daemon->program, daemon->version, daemon->config, directory);
	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k].n; i++) {
			_cleanup_free_ char *text = NULL;
			size_t n = 0;

			(void)read_file(lists[k].path[i], TOML_TEXT_MAX, &text, &n);
			fprintf(out, "\n%s %zu\n", lists[k].path[i], n);
			fwrite(text ? text : "", 1, n, out);
		}
	must_do(fclose(out) == 0);
	hash_bytes(all, len, hash);
}

/* No key of CRI-O's files is edited. */
static void read_files(
	struct node_runtime *runtime, const struct host *host, const struct wait *wait)
{
	_cleanup_free_ struct crio_files *lists = must(calloc(2, sizeof(*lists)));
	struct runtime_files *files = &runtime->files;
	const struct daemon *daemon = &runtime->daemon;
	struct runtime_key *downloads = &files->keys[RUNTIME_DOWNLOADS];
	char value[PATH_MAX], directory[PATH_MAX], hash[HASH_TEXT_MAX];

	if ((process_option("", daemon->pid, "config-dir", false, value, PATH_MAX) != 1 &&
		    process_option("", daemon->pid, "d", false, value, PATH_MAX) != 1) ||
		process_path("", daemon->pid, value, directory) < 0)
		set_text(directory, CONFIG ".d");
	find_files(host, daemon->config, directory, &lists[0]);
	find_registries(host, &lists[1]);
	hash_files(daemon, directory, lists, hash);
	if (streq(hash, files->hash))
		return;
	*files = (struct runtime_files){0};
	files->error = check_files(host, daemon, directory, &lists[0], wait, files);
	if (files->error == 0)
		files->error = find_fault(host, &lists[1], true, &files->bad, files->why);
	if (files->error == -EBADMSG)
		bad_file_find_writer(host, &files->bad);
	if (files->error == 0 || files->error == -EBADMSG)
		memcpy(files->hash, hash, sizeof(hash));
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
		const char *given = *prefix ? prefix : json_text_at(item, "location");

		/* [registry."docker.io"] is BuildKit's: CRI-O refuses it, but it says a choice. */
		if (covers(item->string ? item->string : given, registry))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		cJSON_ArrayForEach (item, json_at(document, lists[i]))
			if (covers(json_text_at(item, ""), registry))
				return true;
	return false;
}

/* Returns -EEXIST with the path if the file defines the registry, else 0 or an error of
 * parse_file(). */
static int check_file(const struct host *host, const char *full, const char *registry, char *why)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	int r = parse_file(host, full, &document, why);

	if (r == 0 && defines(document, registry)) {
		snprintf(why, MIRROR_WHY_MAX, "%s", full + strlen(host->root));
		r = -EEXIST;
	}
	return r == -ENOENT ? 0 : r;
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
	_cleanup_free_ struct crio_files *files = must(calloc(1, sizeof(*files)));
	bool taken = false;

	find_files(host, CONFIG, CONFIG ".d", files);
	for (size_t i = 0; i < files->n && !taken; i++) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
		const char *full = files->path[i], *path = full + strlen(host->root);

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

static const struct meaning unbounded[] = {{"0", NO_BOUND}, {"-", NO_BOUND}, {0}};

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
