/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mirrors of containerd: our hosts.toml files, and those of any author, which pulls ask.
 */
#include "base/file.h"
#include "base/toml.h"
#include "runtime/containerd.h"

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

/* Returns whether the file's directory has anything: a hosts.toml would switch off certificates
 * there. */
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

static int locate_hosts(const struct host *host, const char *certs, const char *registry,
	char path[static SETTING_PATH_MAX], char full[static PATH_MAX],
	char why[static MIRROR_WHY_MAX])
{
	const char *colon = strrchr(registry, ':');
	char name[REGISTRY_NAME_MAX + 1];
	int r = -ENOENT;

	why[0] = '\0';
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
		fprintf(out, "\n[host.\"%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n%s%s",
			urls[i], registry_api_length(urls[i]) > 0 ? "  override_path = true\n" : "",
			containerd_is_at_least(version, 2, 1) ? DIAL_TIMEOUT : "");
	return true;
}

/* The registry itself is asked last, without being named. */
const struct mirror_format containerd_hosts_files = {
	.setting = "mirrors.",
	.directory = CONTAINERD_CERTS,
	.url_mark = "\n[host.\"",
	.locate = locate_hosts,
	.write = write_hosts,
};

/* ---- hosts.toml files of any author ---- */

#define FILE_MAX 65536

struct mirror_reading {
	const struct host *host;
	const char *directory; /* where the file is, below the host's root */
	const char *text;
	struct mirror_access *mirrors;
	size_t n, max;
};

/* Finds the mirror of a table host."URL" or host."URL".header; NULL: another table. */
static struct mirror_access *find_mirror(
	struct mirror_reading *reading, const char *table, bool *header)
{
	char name[REGISTRY_URL_MAX], url[REGISTRY_URL_MAX];
	struct mirror_access *mirror;
	const char *end;
	bool whole;

	if (!starts_with(table, "host.\""))
		return NULL;
	table += strlen("host.\"");
	end = table + strcspn(table, "\"");
	whole = starts_with(table, "http://") || starts_with(table, "https://");
	snprintf(name, sizeof(name), "%s%.*s", whole ? "" : "https://", (int)(end - table), table);
	*header = streq(end, "\".header");
	if ((!streq(end, "\"") && !*header) || registry_check_url(name) < 0 ||
		!registry_copy_url(url, sizeof(url), name))
		return NULL;
	mirror = find_named(reading->mirrors, reading->n, url);
	if (mirror || reading->n == reading->max)
		return mirror;
	mirror = &reading->mirrors[reading->n++];
	*mirror = (struct mirror_access){0};
	copy_text(mirror->url, REGISTRY_URL_MAX, url);
	return mirror;
}

/* Relative paths begin at the file. */
static bool copy_path(
	const struct mirror_reading *reading, const char *path, char out[MIRROR_PATH_MAX])
{
	char whole[PATH_MAX], full[PATH_MAX];

	snprintf(whole, sizeof(whole), "%s%s%s", path[0] == '/' ? "" : reading->directory,
		path[0] == '/' ? "" : "/", path);
	/* A missing file is an error of the question. */
	(void)path_in_root(reading->host->root, whole, full);
	return copy_text(out, MIRROR_PATH_MAX, full);
}

/* Copies the strings of a value, also of an array within an array. Returns their number. */
static size_t read_strings(const struct mirror_reading *reading, const struct toml_item *item,
	char (*strings)[MIRROR_PATH_MAX], size_t max)
{
	char more[MIRROR_PATH_MAX];
	size_t n = 0, at = 0;

	while (toml_next_string(
		reading->text, item, &at, n < max ? strings[n] : more, MIRROR_PATH_MAX))
		n++;
	return n;
}

static void read_mirror_key(const struct mirror_reading *reading, const struct toml_item *item,
	struct mirror_access *mirror)
{
	char strings[8][MIRROR_PATH_MAX], path[MIRROR_PATH_MAX] = "", value[8] = "";
	size_t n = read_strings(reading, item, strings, ARRAY_SIZE(strings));
	bool pair = reading->text[item->value + 1 + strspn(reading->text + item->value + 1, " ")] ==
		    '[',
	     ca = streq(item->key, "ca");

	(void)toml_value(reading->text, item, value, sizeof(value));
	if (streq(item->key, "skip_verify")) {
		mirror->insecure = streq(value, "true");
	} else if (streq(item->key, "override_path")) {
		mirror->is_root = streq(value, "true");
	} else if ((ca || streq(item->key, "client")) && n > 0) {
		for (size_t i = 0; i < MIN(n, ARRAY_SIZE(strings)); i++) {
			mirror->unsupported |= !copy_path(reading, strings[i], path);
			text_append(ca ? mirror->cas : mirror->clients, sizeof(mirror->cas), "%s\n",
				path);
			/* One file has both, unless it is of a pair. */
			if (!ca && !pair)
				text_append(mirror->clients, sizeof(mirror->clients), "%s\n", path);
		}
		mirror->unsupported |= n > ARRAY_SIZE(strings);
	} else if (streq(item->key, "capabilities")) {
		mirror->useless = true;
		for (size_t i = 0; i < MIN(n, ARRAY_SIZE(strings)); i++)
			mirror->useless &= !streq(strings[i], "pull");
	}
}

static void read_header(const struct mirror_reading *reading, const struct toml_item *item,
	struct mirror_access *mirror)
{
	char strings[8][MIRROR_PATH_MAX];
	size_t n = read_strings(reading, item, strings, ARRAY_SIZE(strings));

	mirror->unsupported |= n > ARRAY_SIZE(strings);
	for (size_t i = 0; i < MIN(n, ARRAY_SIZE(strings)); i++) {
		size_t used = strlen(mirror->headers), room = sizeof(mirror->headers) - used;

		if ((size_t)snprintf(mirror->headers + used, room, "%s: %s\n", item->key,
			    strings[i]) >= room)
			mirror->unsupported = true;
	}
}

static void read_file_text(struct mirror_reading *reading, size_t len)
{
	struct toml_scan scan = {.text = reading->text, .len = len};
	struct toml_item item;
	bool header = false;

	while (toml_next(&scan, &item) > 0) {
		struct mirror_access *mirror = find_mirror(reading, item.table, &header);

		if (mirror && !item.header && header)
			read_header(reading, &item, mirror);
		else if (mirror && !item.header)
			read_mirror_key(reading, &item, mirror);
	}
}

size_t containerd_find_mirrors(const struct image_runtime *runtime, const struct host *host,
	const char *registry, struct mirror_access *mirrors, size_t max)
{
	const char *directories = runtime->knows_mirrors ? runtime->mirrors : CONTAINERD_CERTS;
	char directory[SETTING_PATH_MAX], path[SETTING_PATH_MAX], full[PATH_MAX];
	char why[MIRROR_WHY_MAX];
	struct mirror_reading reading = {.host = host, .mirrors = mirrors, .max = max};
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = -ENOENT;

	for (const char *at = directories; *at && r == -ENOENT; at += strspn(at, ":")) {
		snprintf(directory, sizeof(directory), "%.*s", (int)strcspn(at, ":"), at);
		at += strcspn(at, ":");
		r = locate_hosts(host, directory, registry, path, full, why);
		if (r == -ENOENT)
			r = locate_hosts(host, directory, REGISTRY_DEFAULT, path, full, why);
	}
	if (r < 0 || read_file(full, FILE_MAX, &text, &len) < 0)
		return 0;
	reading.text = text;
	reading.directory = dirname(path);
	read_file_text(&reading, len);
	return reading.n;
}
