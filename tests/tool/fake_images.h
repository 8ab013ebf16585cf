/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images and leases of fake_containerd. They are in tables, files in a directory with a line
 * "KEY VALUE..." for each entry: images (name, digest), leases (id), pins (name), and of the tester
 * contents (digest, id, bytes). A pull by a digest of contents fetches nothing, but fills a file of
 * that size in the directory "store".
 */

#include "base/file.h"
#include "base/text.h"

#include <fcntl.h>
#include <regex.h>

#define PIN_LABEL     "io.cri-containerd.pinned"
#define ROWS_MAX      64
#define OK            0
#define NOT_FOUND     5
#define EXISTS        6
#define DISK_FULL     8
#define UNIMPLEMENTED 12

struct row {
	char key[512], value[128];
	uint64_t number;
};

struct table {
	struct row rows[ROWS_MAX];
	size_t n;
};

/* ---- messages of protobuf ---- */

/* Appends a field: a string or a message. */
static size_t field(uint8_t *out, int number, const void *data, size_t len)
{
	size_t n = 0;

	out[n++] = (uint8_t)(number << 3 | 2);
	if (len > 127)
		out[n++] = (uint8_t)(len & 127) | 128;
	out[n++] = (uint8_t)(len > 127 ? len >> 7 : len);
	memcpy(out + n, data, len);
	return n + len;
}

static size_t text_field(uint8_t *out, int number, const char *text)
{
	return field(out, number, text, strlen(text));
}

struct slice {
	const uint8_t *data;
	size_t len;
};

static uint64_t take_number(struct slice *in)
{
	uint64_t number = 0;

	for (int shift = 0; in->len > 0 && shift < 64; shift += 7) {
		uint8_t byte = *in->data++;

		in->len--;
		number |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			break;
	}
	return number;
}

/* A string or message in a message; empty if it is missing. */
static struct slice find_field(struct slice in, uint64_t number)
{
	while (in.len > 0) {
		uint64_t key = take_number(&in), len = take_number(&in);

		if ((key & 7) != 2)
			continue;
		len = MIN(len, in.len);
		if (key >> 3 == number)
			return (struct slice){in.data, len};
		in.data += len;
		in.len -= len;
	}
	return (struct slice){0};
}

static void copy_field(char *out, size_t size, struct slice in, uint64_t number)
{
	struct slice found = find_field(in, number);

	snprintf(out, size, "%.*s", (int)found.len, (const char *)found.data);
}

/* ---- images and leases ---- */

static void read_table(const char *images, const char *name, struct table *table)
{
	char path[PATH_MAX], line[1024];
	_cleanup_fclose_ FILE *in = NULL;

	snprintf(path, sizeof(path), "%s/%s", images, name);
	in = fopen(path, "re");
	for (table->n = 0; in && table->n < ROWS_MAX && fgets(line, sizeof(line), in); table->n++) {
		struct row *row = &table->rows[table->n];

		*row = (struct row){0};
		(void)sscanf(line, "%511s %127s %" SCNu64, row->key, row->value, &row->number);
	}
}

static struct row *find_row(struct table *table, const char *key)
{
	for (size_t i = 0; i < table->n; i++)
		if (streq(table->rows[i].key, key))
			return &table->rows[i];
	return NULL;
}

/* Changes, adds or (without a value) removes a row. */
static void set_row(const char *images, const char *name, const char *key, const char *value)
{
	char path[PATH_MAX];
	_cleanup_fclose_ FILE *out = NULL;
	struct table table;

	read_table(images, name, &table);
	snprintf(path, sizeof(path), "%s/%s", images, name);
	out = fopen(path, "we");
	for (size_t i = 0; out && i < table.n; i++)
		if (!streq(table.rows[i].key, key))
			fprintf(out, "%s %s\n", table.rows[i].key, table.rows[i].value);
	if (out && value)
		fprintf(out, "%s %s\n", key, value);
}

/* Removes contents that no name has. */
static void collect(const char *images)
{
	struct table names, contents;
	char path[PATH_MAX];

	read_table(images, "images", &names);
	read_table(images, "contents", &contents);
	for (size_t i = 0; i < contents.n; i++) {
		bool used = false;

		for (size_t k = 0; k < names.n; k++)
			used |= streq(names.rows[k].value, contents.rows[i].key);
		snprintf(path, sizeof(path), "%s/store/%s", images, contents.rows[i].key);
		if (!used)
			unlink(path);
	}
}

static int pull(const char *images, const char *reference)
{
	const char *digest = strchr(reference, '@');
	struct table contents;
	const struct row *row;
	char path[PATH_MAX];
	int fd, r;

	read_table(images, "contents", &contents);
	row = digest ? find_row(&contents, digest + 1) : NULL;
	if (!row)
		return UNIMPLEMENTED; /* it knows no registry */
	snprintf(path, sizeof(path), "%s/store/%s", images, row->key);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	r = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)row->number);
	if (fd >= 0)
		close(fd);
	if (r == 0) {
		set_row(images, "images", reference, row->key);
		set_row(images, "pins", reference, NULL);
	}
	return r == 0 ? OK : DISK_FULL;
}

/* Whether a name is another one, or a filter such as name~="^a" does not select it. */
static bool is_other(const char *key, const char *name, const char *filter)
{
	char pattern[256];
	regex_t regex;
	bool other;

	if (name[0] && !streq(key, name))
		return true;
	if (sscanf(filter, "%*[^~]~=\"%255[^\"]", pattern) != 1 ||
		regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	other = regexec(&regex, key, 0, NULL, 0) != 0;
	regfree(&regex);
	return other;
}

/* Answers with one row and with many have the same field. */
static size_t show_rows(const char *images, const char *kind, const char *name, const char *filter,
	bool of_cri, uint8_t *out)
{
	struct table table, contents, pins;
	uint8_t entry[1024], target[256];
	size_t len = 0;

	read_table(images, kind, &table);
	read_table(images, "contents", &contents);
	read_table(images, "pins", &pins);
	for (size_t i = 0; i < table.n; i++) {
		const struct row *row = &table.rows[i];
		bool pinned = find_row(&pins, row->key);
		const struct row *content = find_row(&contents, row->value);
		size_t n;

		if (is_other(row->key, name, filter))
			continue;
		if (of_cri && content) {
			n = text_field(entry, 1, content->value);
			n += text_field(entry + n, strchr(row->key, '@') ? 3 : 2, row->key);
			entry[n++] = 8 << 3;
			entry[n++] = pinned;
		} else {
			n = text_field(entry, 1, row->key);
			if (pinned)
				n += field(entry + n, 2, target,
					text_field(target, 1, PIN_LABEL) +
						text_field(target + 2 + strlen(PIN_LABEL), 2,
							"pinned"));
			n += field(entry + n, 3, target, text_field(target, 2, row->value));
		}
		len += field(out + len, 1, entry, n);
	}
	return len;
}

static size_t serve_images(
	const char *images, const char *service, struct slice in, uint8_t *out, int *status)
{
	const char *kind = strstr(service, "Leases") ? "leases" : "images";
	const char *method = strrchr(service, '/') + 1;
	char name[512], digest[128], label[128], value[32], path[PATH_MAX];
	struct table table;
	size_t n = 0;
	bool found, of_cri = strstr(service, "ImageService");

	/* In requests of the CRI, and to write an image, a message has the name. */
	copy_field(name, sizeof(name), in, 1);
	if (of_cri || (kind[0] == 'i' && strchr("CU", method[0])))
		copy_field(name, sizeof(name), find_field(in, 1), 1);
	copy_field(digest, sizeof(digest), find_field(find_field(in, 1), 3), 2);
	copy_field(label, sizeof(label), find_field(find_field(in, 1), 2), 1);
	copy_field(value, sizeof(value), find_field(find_field(in, 1), 2), 2);
	if (streq(method, "Update") && streq(label, PIN_LABEL))
		set_row(images, "pins", name, value[0] ? "-" : NULL);
	read_table(images, kind, &table);
	found = find_row(&table, name);
	if (streq(method, "ImageFsInfo")) {
		uint8_t usage[PATH_MAX + 8], id[PATH_MAX + 4];

		snprintf(path, sizeof(path), "%s/store", images);
		return field(out, 1, usage, field(usage, 2, id, text_field(id, 1, path)));
	}
	if (streq(method, "ListImages"))
		return show_rows(images, kind, "", "", true, out);
	if (streq(method, "List"))
		return show_rows(images, kind, "", name, false, out);
	if (streq(method, "PullImage"))
		*status = pull(images, name);
	else if (streq(method, "Get") || streq(method, "ImageStatus"))
		n = found ? show_rows(images, kind, name, "", of_cri, out) : 0;
	else if (found || streq(method, "Create"))
		set_row(images, kind, name,
			streq(method, "Delete") ? NULL
			: digest[0]             ? digest
						: "-");
	if (streq(method, "Create"))
		*status = found ? EXISTS : OK;
	else if (!found && !of_cri)
		*status = NOT_FOUND;
	collect(images);
	return n;
}
