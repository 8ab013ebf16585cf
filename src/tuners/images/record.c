/* SPDX-License-Identifier: Apache-2.0 */

/* The record of archives and images, which survives restarts. */

#include "tuners/images/images.h"

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

#define RECORD_FILE    "images.json"
#define RECORD_VERSION 1
#define RECORD_MAX     ((size_t)4 * 1024 * 1024)

/* Returns the number of entries whose sources are before this one, or are the same with `same`. */
static size_t count_before(const struct preload_list *list, const char *source, bool same)
{
	size_t from = 0, to = list->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (strcmp(list->entries[middle].source, source) < same)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

size_t preload_first(const struct preload_list *list, const char *source)
{
	return count_before(list, source, false);
}

struct preload *preload_find(const struct preload_list *list, const char *source, const char *name)
{
	for (size_t i = preload_first(list, source);
		i < list->n && streq(list->entries[i].source, source); i++)
		if (streq(list->entries[i].name, name))
			return &list->entries[i];
	return NULL;
}

struct preload *preload_add(struct preload_list *list, const char *source, const char *name)
{
	size_t at = count_before(list, source, true), after = list->n - at;
	struct preload *preload;

	(void)add_element(&list->entries, &list->n, &list->allocated);
	preload = &list->entries[at];
	memmove(preload + 1, preload, after * sizeof(*preload));
	*preload = (struct preload){0};
	set_text(preload->source, source);
	set_text(preload->name, name);
	return preload;
}

void preload_remove(struct preload_list *list, const char *source)
{
	size_t first = preload_first(list, source), end = count_before(list, source, true);

	if (end > first)
		memmove(&list->entries[first], &list->entries[end],
			(list->n - end) * sizeof(*list->entries));
	list->n -= end - first;
}

/* Stored as strings: a double cannot represent every inode or time in microseconds. */
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
	{"need", offsetof(struct preload, need)},
	{"first_seen_us", offsetof(struct preload, first_seen_us)},
	{"peers_have_us", offsetof(struct preload, peers.have_us)},
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

		set_text(preload->id, json_text_at(item, "id"));
		set_text(preload->content, json_text_at(item, "content"));
		preload->passed = cJSON_IsTrue(json_at(item, "passed"));
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
		json_text(item, "content", preload->content);
		json_bool(item, "passed", preload->passed);
		json_number(item, "failures", preload->failures);
		for (size_t n = 0; n < ARRAY_SIZE(numbers); n++) {
			const void *number = (const char *)preload + numbers[n].offset;
			char digits[24];

			snprintf(digits, sizeof(digits), "%" PRIu64, *(const uint64_t *)number);
			if (!streq(digits, "0"))
				json_text(item, numbers[n].key, digits);
		}
	}
	return must(cJSON_Print(root));
}

int record_write(const char *directory, const char *text)
{
	int r = directory[0] ? make_directories(directory, 0755) : -ENODEV;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" RECORD_FILE, directory);
	return r < 0 ? r : replace_path(path, text, strlen(text), true);
}

/* ---- changes ---- */

/*
 * Drops entries that the configuration no longer names, unless the runtime still has their image:
 * the next archive may replace it.
 */
void record_prune(struct images_tuner *tuner)
{
	struct preload_list *record = &tuner->record;
	struct element_index by_path = {0};
	size_t kept = 0;

	for (size_t i = 0; i < record->n; i++) {
		const struct preload *entry = &record->entries[i];
		const struct runtime_image *image = sampled_image(&tuner->sample, entry->name);

		if ((image && entry->content[0] && streq(image->id, entry->id)) ||
			(!entry->source[0] && text_list_has(&tuner->config.pulls, entry->name)) ||
			find_indexed(&by_path, tuner->sample.archives, tuner->sample.n_archives,
				entry->source))
			record->entries[kept++] = *entry;
	}
	record->n = kept;
	free(by_path.positions);
}

void record_adopt(struct preload_list *record, const struct preload *found)
{
	struct preload *known = preload_find(record, found->source, found->name), old;
	const char *name = found->name[0] ? found->name : found->source;

	/* The content of a replaced archive replaces all entries of the old one. */
	if (!found->name[0] && !found->reason &&
		(!known || known->reason ||
			memcmp(&known->key, &found->key, sizeof(old.key)) != 0)) {
		preload_remove(record, found->source);
		known = NULL;
	}
	if (!known)
		known = preload_add(record, found->source, found->name);
	old = *known;
	*known = *found;
	/* The name of other archives now belongs to this one. */
	for (size_t i = 0; i < record->n && found->content[0] && !found->passed; i++) {
		struct preload *other = &record->entries[i];

		if (!streq(other->name, found->name) || streq(other->source, found->source) ||
			!other->source[0])
			continue;
		set_text(other->id, found->id);
		set_text(other->content, found->content);
		other->passed = true;
	}
	known->done_us = now_us();
	known->bytes += old.bytes;
	known->first_seen_us = old.first_seen_us;
	known->peers = old.peers;
	if (!found->loaded)
		known->took_us = old.took_us;
	known->rounds = old.rounds;
	known->rounds_us = old.rounds_us;
	if (found->loaded && old.done_us > 0 && !old.reason && !old.passed && found->name[0]) {
		bool again = known->done_us - old.rounds_us < PRELOAD_ROUNDS_US;

		known->rounds = again ? old.rounds + 1 : 1;
		known->rounds_us = again ? old.rounds_us : known->done_us;
	}
	if (found->reason) {
		known->failures = old.failures + 1;
		if (!old.reason || !streq(old.why, found->why))
			log_as(LOG_IMAGE, LOG_WARNING, name, "%s", found->why);
	} else if (found->loaded) {
		log_as(LOG_IMAGE, LOG_INFO, name, "%s%s in %.1f s",
			found->source[0] ? "loaded from " : "pulled", found->source,
			(double)found->took_us / (double)USEC_PER_SEC);
	}
}
