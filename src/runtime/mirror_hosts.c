/* SPDX-License-Identifier: Apache-2.0 */

/* Reads hosts.toml files of any author (containerd docs/hosts.md). */

#include "base/file.h"
#include "base/toml.h"
#include "runtime/containerd.h"
#include "runtime/mirror_ask.h"

#include <libgen.h>

#define FILE_MAX 65536

struct reading {
	const struct host *host;
	const char *directory; /* of the file, below the host's root */
	const char *text;
	struct mirror_access *mirrors;
	size_t n, max;
};

/* The mirror of a table host."URL" or host."URL".header; NULL: another table. */
static struct mirror_access *find_mirror(struct reading *reading, const char *table, bool *header)
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
static bool copy_path(const struct reading *reading, const char *path, char out[MIRROR_PATH_MAX])
{
	char whole[PATH_MAX], full[PATH_MAX];

	snprintf(whole, sizeof(whole), "%s%s%s", path[0] == '/' ? "" : reading->directory,
		path[0] == '/' ? "" : "/", path);
	/* A missing file is an error of the question. */
	(void)path_in_root(reading->host->root, whole, full);
	return copy_text(out, MIRROR_PATH_MAX, full);
}

/* The strings of a value, also of an array within an array. Returns their number. */
static size_t read_strings(const struct reading *reading, const struct toml_item *item,
	char (*strings)[MIRROR_PATH_MAX], size_t max)
{
	char more[MIRROR_PATH_MAX];
	size_t n = 0, at = 0;

	while (toml_next_string(
		reading->text, item, &at, n < max ? strings[n] : more, MIRROR_PATH_MAX))
		n++;
	return n;
}

static void read_key(
	const struct reading *reading, const struct toml_item *item, struct mirror_access *mirror)
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

static void read_header(
	const struct reading *reading, const struct toml_item *item, struct mirror_access *mirror)
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

static void read_file_text(struct reading *reading, size_t len)
{
	struct toml_scan scan = {.text = reading->text, .len = len};
	struct toml_item item;
	bool header = false;

	while (toml_next(&scan, &item) > 0) {
		struct mirror_access *mirror = find_mirror(reading, item.table, &header);

		if (mirror && !item.header && header)
			read_header(reading, &item, mirror);
		else if (mirror && !item.header)
			read_key(reading, &item, mirror);
	}
}

size_t containerd_find_mirrors(const struct image_runtime *runtime, const struct host *host,
	const char *registry, struct mirror_access *mirrors, size_t max)
{
	const char *directories = runtime->knows_mirrors ? runtime->mirrors : CONTAINERD_CERTS;
	char directory[SETTING_PATH_MAX], path[SETTING_PATH_MAX], full[PATH_MAX];
	struct reading reading = {.host = host, .mirrors = mirrors, .max = max};
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = -ENOENT;

	for (const char *at = directories; *at && r == -ENOENT; at += strspn(at, ":")) {
		snprintf(directory, sizeof(directory), "%.*s", (int)strcspn(at, ":"), at);
		at += strcspn(at, ":");
		r = containerd_mirrors.locate(host, directory, registry, path, full);
		if (r == -ENOENT)
			r = containerd_mirrors.locate(
				host, directory, REGISTRY_DEFAULT, path, full);
	}
	if (r < 0 || read_file(full, FILE_MAX, &text, &len) < 0)
		return 0;
	reading.text = text;
	reading.directory = dirname(path);
	read_file_text(&reading, len);
	return reading.n;
}
