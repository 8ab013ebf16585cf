/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_config.h"

#include "base/cleanup.h"
#include "base/toml.h"
#include "base/util.h"

#include <errno.h>

/* One key of a dump. */
struct entry {
	char *path;
	char *text;
	enum toml_type type;
};

struct entries {
	struct entry *entries;
	size_t n, allocated;
};

static void entries_release(struct entries *entries)
{
	for (size_t i = 0; i < entries->n; i++) {
		free(entries->entries[i].path);
		free(entries->entries[i].text);
	}
	free(entries->entries);
}

static int add_entry(const char *path, const struct toml_value *value, void *userdata)
{
	struct entries *entries = userdata;
	struct entry *entry;
	int r = grow_array(
		&entries->entries, entries->n, &entries->allocated, sizeof(*entries->entries));

	if (r < 0)
		return r;
	entry = &entries->entries[entries->n++];
	entry->path = strdup(path);
	entry->text = strdup(value->text);
	entry->type = value->type;
	return entry->path && entry->text ? 0 : -ENOMEM;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *one = a, *other = b;

	return strcmp(one->path, other->path);
}

static int read_dump(const char *dump, struct entries *entries)
{
	int r = toml_walk(dump, strlen(dump), add_entry, entries, NULL);

	if (r == 0 && entries->n > 0)
		qsort(entries->entries, entries->n, sizeof(*entries->entries), compare_entries);
	return r;
}

static bool is_allowed(const char *path, const char *const *allowed, size_t n)
{
	size_t imports = strlen("imports");

	if (starts_with(path, "imports") && (path[imports] == '[' || path[imports] == '\0'))
		return true;
	for (size_t i = 0; i < n; i++)
		if (streq(path, allowed[i]))
			return true;
	return false;
}

/*
 * old or new may be NULL: the dump does not have the key. It goes to logs and pages, so it names
 * the key alone: a registry's password is a value too.
 */
static int differ(const struct entry *old, const struct entry *new,
	char difference[static CONTAINERD_DIFFERENCE_MAX])
{
	snprintf(difference, CONTAINERD_DIFFERENCE_MAX, "%.400s would %s",
		old ? old->path : new->path,
		!old   ? "be new"
		: !new ? "go"
		       : "have another value");
	return 1;
}

static int compare(const struct entries *old, const struct entries *new, const char *const *allowed,
	size_t n_allowed, char difference[static CONTAINERD_DIFFERENCE_MAX])
{
	size_t i = 0, j = 0;

	while (i < old->n || j < new->n) {
		const struct entry *one = i < old->n ? &old->entries[i] : NULL;
		const struct entry *other = j < new->n ? &new->entries[j] : NULL;
		int order = !one ? 1 : !other ? -1 : strcmp(one->path, other->path);

		if (order > 0)
			one = NULL;
		if (order < 0)
			other = NULL;
		i += one != NULL;
		j += other != NULL;
		if (one && other && one->type == other->type && streq(one->text, other->text))
			continue;
		if (!is_allowed(one ? one->path : other->path, allowed, n_allowed))
			return differ(one, other, difference);
	}
	return 0;
}

int containerd_dump_differs(const char *old_dump, const char *new_dump, const char *const *allowed,
	size_t n_allowed, char difference[static CONTAINERD_DIFFERENCE_MAX])
{
	_cleanup_(entries_release) struct entries old = {0}, new = {0};
	int r = read_dump(old_dump, &old);

	if (r == 0)
		r = read_dump(new_dump, &new);
	return r < 0 ? r : compare(&old, &new, allowed, n_allowed, difference);
}

struct text {
	char *bytes;
	size_t len;
};

static int append(struct text *text, const char *more)
{
	size_t n = strlen(more);
	char *moved = realloc(text->bytes, text->len + n + 1);

	if (!moved)
		return -ENOMEM;
	memcpy(moved + text->len, more, n + 1);
	text->bytes = moved;
	text->len += n;
	return 0;
}

static int append_quoted(struct text *text, const char *string)
{
	_cleanup_free_ char *quoted = NULL;
	int r = toml_quote(string, &quoted);

	if (r == 0 && text->len > 1)
		r = append(text, ", ");
	return r < 0 ? r : append(text, quoted);
}

/* The array with one string more, as TOML. */
static int extend_array(const char *literal, const char *string, struct text *longer)
{
	char **strings = NULL;
	size_t n = 0;
	int r = literal ? toml_strings(literal, &strings, &n) : 0;

	if (r == 0)
		r = append(longer, "[");
	for (size_t i = 0; i < n && r == 0; i++)
		r = append_quoted(longer, strings[i]);
	toml_strings_free(strings, n);
	if (r == 0)
		r = append_quoted(longer, string);
	return r < 0 ? r : append(longer, "]");
}

int containerd_trial_main(const char *main_text, size_t len, const char *drop_in_path, char **text)
{
	_cleanup_(toml_value_clear) struct toml_value value = {0};
	struct text longer = {0};
	int r = toml_get(main_text, len, "", "imports", &value, NULL);

	if (r < 0 && r != -ENOENT)
		return r;
	r = extend_array(value.text, drop_in_path, &longer);
	if (r == 0)
		r = toml_set(main_text, len, "", "imports", longer.bytes, text, NULL, NULL);
	free(longer.bytes);
	return r;
}
