/* SPDX-License-Identifier: Apache-2.0 */

/* Shapes of containerd's configuration as clouds, installers and people write it:
 * corpus/config.toml. */

#include "directory.h"

#include "base/toml.h"

#include <dirent.h>
#include <errno.h>

#define GRPC     "plugins.\"io.containerd.grpc.v1.cri\""
#define IMAGES   "plugins.\"io.containerd.cri.v1.images\""
#define TRANSFER "plugins.\"io.containerd.transfer.v1.local\""

static const struct target {
	const char *table, *key, *literal, *value;
} targets[] = {
	{GRPC, "max_concurrent_downloads", "17", "17"},
	{GRPC, "image_pull_progress_timeout", "\"30m\"", "30m"},
	{GRPC ".registry", "config_path", "'/a/b'", "/a/b"},
	{IMAGES, "max_concurrent_downloads", "17", "17"},
	{IMAGES ".registry", "config_path", "'/a/b'", "/a/b"},
	{TRANSFER, "max_concurrent_downloads", "17", "17"},
	{"plugins.cri", "max_concurrent_downloads", "17", "17"},
	{"", "temp", "\"/x\"", "/x"},
	{"metrics", "address", "\"x\"", "x"},
};

struct text {
	char *bytes;
	size_t len;
};

typedef void (*corpus_test)(const char *name, const struct text *original);

static void for_each_file(corpus_test test)
{
	DIR *directory = opendir(TEST_CORPUS "/config.toml");
	size_t n = 0;

	assert_non_null(directory);
	for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		_cleanup_free_ char *bytes = NULL;
		struct text original;
		char path[PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), TEST_CORPUS "/config.toml/%s", entry->d_name);
		assert_int_equal(read_file(path, TOML_TEXT_MAX, &bytes, &original.len), 0);
		original.bytes = bytes;
		test(entry->d_name, &original);
		n++;
	}
	closedir(directory);
	assert_true(n >= 20);
}

static void set(struct text *text, const struct target *target, const char *literal)
{
	struct text result;
	int r = toml_set(text->bytes, text->len, target->table, target->key, literal, &result.bytes,
		&result.len, NULL);

	assert_int_equal(r, 0);
	free(text->bytes);
	*text = result;
}

static void take_out(struct text *text, const struct target *target)
{
	struct text result;
	int r = toml_remove(text->bytes, text->len, target->table, target->key, &result.bytes,
		&result.len, NULL);

	assert_int_equal(r, 0);
	free(text->bytes);
	*text = result;
}

static int get(const struct text *text, const struct target *target, struct toml_value *value)
{
	return toml_get(text->bytes, text->len, target->table, target->key, value, NULL);
}

static struct text copy_of(const struct text *original)
{
	struct text copy = {.bytes = malloc(original->len + 1), .len = original->len};

	assert_non_null(copy.bytes);
	memcpy(copy.bytes, original->bytes, original->len + 1);
	return copy;
}

static void assert_same(const char *name, const struct text *text, const struct text *original)
{
	if (text->len != original->len || memcmp(text->bytes, original->bytes, text->len) != 0)
		fail_msg("%s became: %s", name, text->bytes);
}

struct values {
	const char *without;
	char *text;
	size_t len;
};

static int note_value(const char *path, const struct toml_value *value, void *userdata)
{
	struct values *values = userdata;
	size_t more = strlen(path) + strlen(value->text) + 3;

	/* A container is told of by what is in it, and an added table is none to be missed. */
	if (value->type == TOML_TABLE || streq(path, values->without))
		return 0;
	values->text = realloc(values->text, values->len + more);
	assert_non_null(values->text);
	values->len +=
		(size_t)snprintf(values->text + values->len, more, "%s=%s\n", path, value->text);
	return 0;
}

static void assert_same_values(
	const char *name, const struct text *text, const struct text *original, const char *without)
{
	struct values before = {.without = without}, after = {.without = without};

	assert_int_equal(toml_walk(original->bytes, original->len, note_value, &before, NULL), 0);
	assert_int_equal(toml_walk(text->bytes, text->len, note_value, &after, NULL), 0);
	if (before.len != after.len ||
		(before.len > 0 && memcmp(before.text, after.text, before.len) != 0))
		fail_msg("%s without %s: %s", name, without, after.text);
	free(before.text);
	free(after.text);
}

static void round_trip(const char *name, const struct text *original, const struct target *target)
{
	_cleanup_(toml_value_clear) struct toml_value before = {0}, after = {0};
	bool was_there = get(original, target, &before) == 0;
	struct text text = copy_of(original);
	char path[256];

	snprintf(path, sizeof(path), "%s%s%s", target->table, target->table[0] ? "." : "",
		target->key);
	set(&text, target, target->literal);
	assert_int_equal(get(&text, target, &after), 0);
	assert_string_equal(after.text, target->value);
	assert_same_values(name, &text, original, path);
	if (was_there) {
		_cleanup_free_ char *literal = strndup(original->bytes + before.at, before.len);

		assert_non_null(literal);
		set(&text, target, literal);
		assert_same(name, &text, original);
	} else {
		take_out(&text, target);
		assert_same(name, &text, original);
	}
	free(text.bytes);
}

static void round_trips(const char *name, const struct text *original)
{
	assert_int_equal(toml_check(original->bytes, original->len, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		round_trip(name, original, &targets[i]);
}

TEST(each_key_comes_and_goes)
{
	for_each_file(round_trips);
}

/* All that is not there is added in one order, and taken away in another. */
static void shuffle(const char *name, const struct text *original)
{
	for (size_t step = 1; step < ARRAY_SIZE(targets); step++) {
		struct text text = copy_of(original);
		bool added[ARRAY_SIZE(targets)] = {false};
		size_t n = ARRAY_SIZE(targets);

		for (size_t i = 0; i < n; i++) {
			_cleanup_(toml_value_clear) struct toml_value value = {0};
			size_t at = (i * 2 + step) % n;

			added[at] = get(&text, &targets[at], &value) == -ENOENT;
			if (added[at])
				set(&text, &targets[at], targets[at].literal);
		}
		for (size_t i = 0; i < n; i++)
			if (added[(i * step) % n]) {
				added[(i * step) % n] = false;
				take_out(&text, &targets[(i * step) % n]);
			}
		for (size_t i = 0; i < n; i++)
			if (added[i])
				take_out(&text, &targets[i]);
		assert_same(name, &text, original);
		free(text.bytes);
	}
}

TEST(all_keys_come_and_go_in_any_order)
{
	for_each_file(shuffle);
}
