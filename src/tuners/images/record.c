/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include "base/file.h"
#include "base/json.h"

#define RECORD_FILE    "images.json"
#define RECORD_VERSION 1
#define RECORD_MAX     ((size_t)4 * 1024 * 1024)

struct preload *preload_find(const struct preload_list *list, const char *source, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (streq(list->entries[i].source, source) && streq(list->entries[i].name, name))
			return &list->entries[i];
	return NULL;
}

struct preload *preload_add(struct preload_list *list, const char *source, const char *name)
{
	struct preload *preload = add_element(&list->entries, &list->n, &list->allocated);

	copy_text(preload->source, sizeof(preload->source), source);
	copy_text(preload->name, sizeof(preload->name), name);
	return preload;
}

/* Numbers are texts: an inode or a time in microseconds may have more digits than a double. */
static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{"device", offsetof(struct preload, key.device)},
	{"inode", offsetof(struct preload, key.inode)},
	{"file_size", offsetof(struct preload, key.size)},
	{"mtime_us", offsetof(struct preload, key.mtime_us)},
	{"ctime_us", offsetof(struct preload, key.ctime_us)},
	{"size", offsetof(struct preload, size)},
	{"first_seen_us", offsetof(struct preload, first_seen_us)},
	{"took_us", offsetof(struct preload, took_us)},
	{"bytes", offsetof(struct preload, bytes)},
};

void record_read(const char *directory, struct preload_list *list)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	const cJSON *item;

	if (snprintf(path, sizeof(path), "%s/" RECORD_FILE, directory) >= PATH_MAX ||
		read_file(path, RECORD_MAX, &text, NULL) < 0)
		return;
	root = cJSON_Parse(text);
	if ((int)json_number_at(root, "version") != RECORD_VERSION)
		return;
	cJSON_ArrayForEach (item, json_at(root, "images")) {
		struct preload *preload =
			preload_add(list, json_text_at(item, "source"), json_text_at(item, "name"));

		copy_text(preload->id, sizeof(preload->id), json_text_at(item, "id"));
		preload->failures = (unsigned)json_number_at(item, "failures");
		for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
			(void)parse_count(json_text_at(item, numbers[i].key),
				(uint64_t *)((char *)preload + numbers[i].offset));
	}
}

char *record_text(const struct preload_list *list)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = must(cJSON_CreateObject());
	cJSON *images;

	json_number(root, "version", RECORD_VERSION);
	images = json_array(root, "images");
	for (size_t i = 0; i < list->n; i++) {
		const struct preload *preload = &list->entries[i];
		cJSON *item;

		/* An archive whose content is unknown is read again anyway. */
		if (!preload->name[0] && preload->reason)
			continue;
		item = json_append(images);
		json_text(item, "source", preload->source);
		json_text(item, "name", preload->name);
		json_text(item, "id", preload->id);
		json_number(item, "failures", preload->failures);
		for (size_t n = 0; n < ARRAY_SIZE(numbers); n++) {
			const char *at = (const char *)preload + numbers[n].offset;
			uint64_t number = *(const uint64_t *)at;
			char digits[24];

			snprintf(digits, sizeof(digits), "%" PRIu64, number);
			if (number > 0)
				json_text(item, numbers[n].key, digits);
		}
	}
	return must(cJSON_Print(root));
}

int record_write(const char *directory, const char *text)
{
	int r = directory[0] ? make_directories(directory, 0755) : -ENODEV;
	_cleanup_close_ int dir = -1;

	if (r == 0)
		dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0)
		r = dir < 0 ? -errno : write_file_atomic(dir, RECORD_FILE, text, strlen(text));
	return r;
}
