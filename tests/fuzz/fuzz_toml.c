/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as TOML: what is set can be got, every other value stays, and taking away what
 * was added, or setting what was there, gives the bytes from before.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/toml.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct target {
	const char *table, *key, *path, *literal, *value;
} targets[] = {
	{"", "a", "a", "7", "7"},
	{"a", "b", "a.b", "\"\\u00e9\"", "\xc3\xa9"},
	{"plugins.\"io.containerd.grpc.v1.cri\".registry", "config_path",
		"plugins.\"io.containerd.grpc.v1.cri\".registry.config_path", "'/x'", "/x"},
	{"plugins.\"io.containerd.grpc.v1.cri\"", "max_concurrent_downloads",
		"plugins.\"io.containerd.grpc.v1.cri\".max_concurrent_downloads", "10", "10"},
};

struct text {
	char *bytes;
	size_t len;
};

static void must(bool holds)
{
	if (!holds)
		abort();
}

static bool same(const struct text *a, const char *bytes, size_t len)
{
	return a->len == len && (len == 0 || memcmp(a->bytes, bytes, len) == 0);
}

struct values {
	const char *without;
	uint64_t hash;
};

/* FNV-1a over all values but one, in order. */
static int hash_value(const char *path, const struct toml_value *value, void *userdata)
{
	struct values *values = userdata;

	size_t n = strlen(values->without);

	if (value->type == TOML_TABLE ||
		(strncmp(path, values->without, n) == 0 && (path[n] == '\0' || path[n] == '[')))
		return 0;
	for (const char *p = path; *p; p++)
		values->hash = (values->hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
	for (const char *p = value->text; *p; p++)
		values->hash = (values->hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
	return 0;
}

static uint64_t hash_of(const char *bytes, size_t len, const char *without)
{
	struct values values = {.without = without, .hash = UINT64_C(14695981039346656037)};

	must(toml_walk(bytes, len, hash_value, &values, NULL) == 0);
	return values.hash;
}

static void put_back(const struct target *target, const struct text *changed, const char *text,
	size_t len, const struct toml_value *before)
{
	_cleanup_free_ char *literal = before ? strndup(text + before->at, before->len) : NULL;
	struct text back = {0};

	if (!before) {
		must(toml_remove(changed->bytes, changed->len, target->table, target->key,
			     &back.bytes, &back.len, NULL) == 0);
		/* A table that was marked as added is taken away with its last key. */
		must(same(&back, text, len) || memmem(text, len, "added by headroom", 17));
	} else {
		must(toml_set(changed->bytes, changed->len, target->table, target->key, literal,
			     &back.bytes, &back.len, NULL) == 0);
		must(same(&back, text, len));
	}
	free(back.bytes);
}

static void try_target(const struct target *target, const char *text, size_t len)
{
	_cleanup_(toml_value_clear) struct toml_value before = {0}, after = {0};
	struct toml_error error = {0};
	struct text changed = {0};
	int r = toml_get(text, len, target->table, target->key, &before, &error);
	int set = toml_set(text, len, target->table, target->key, target->literal, &changed.bytes,
		&changed.len, NULL);

	must(set == (r == -ENOENT ? 0 : r));
	if (set < 0) {
		must((set != -EBADMSG && set != -EEXIST) || (error.line > 0 && error.column > 0));
		return;
	}
	must(toml_get(changed.bytes, changed.len, target->table, target->key, &after, NULL) == 0);
	must(streq(after.text, target->value));
	must(hash_of(text, len, target->path) == hash_of(changed.bytes, changed.len, target->path));
	put_back(target, &changed, text, len, r == 0 ? &before : NULL);
	free(changed.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size > 0 ? size : 1);
	int r;

	if (!text)
		return -1;
	memcpy(text, data, size);
	r = toml_check(text, size, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		if (r == 0)
			try_target(&targets[i], text, size);
		else
			must(toml_set(text, size, "a", "b", "1", &(char *){NULL}, NULL, NULL) == r);
	return 0;
}
