/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as a TOML text: a key that is set is found again, every other item stays as it
 * was, and without the key, or with its old value, the text is the old one.
 */

#include "apply/editor.h"
#include "base/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const keys[][2] = {
	{"plugins.\"io.containerd.grpc.v1.cri\"", "max_concurrent_downloads"},
	{"plugins.\"io.containerd.grpc.v1.cri\".registry", "config_path"},
	{"plugins.cri", "a"},
	{"", "imports"},
	{"a.b", "c"},
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* True for the item that was set, and for the header that was added with it. */
static bool is_ours(const struct toml_item *item, const char *table, const char *key)
{
	char name[TOML_FULL_MAX], wanted[TOML_FULL_MAX];

	snprintf(wanted, sizeof(wanted), "%s%s%s", table, table[0] ? "." : "", key);
	return streq(toml_name(item, name), item->header ? table : wanted);
}

static int next_of(
	struct toml_scan *scan, struct toml_item *item, const char *table, const char *key)
{
	int r;

	while ((r = toml_next(scan, item)) > 0 && is_ours(item, table, key))
		;
	return r;
}

static void compare(const struct file_bytes *old, const struct file_bytes *new, const char *table,
	const char *key)
{
	struct toml_scan a = {.text = old->bytes, .len = old->len};
	struct toml_scan b = {.text = new->bytes, .len = new->len};
	struct toml_item x, y;
	int r;

	while ((r = next_of(&a, &x, table, key)) > 0) {
		require(next_of(&b, &y, table, key) > 0);
		require(streq(x.table, y.table) && streq(x.key, y.key) &&
			x.value_end - x.value == y.value_end - y.value);
		require(memcmp(old->bytes + x.value, new->bytes + y.value, x.value_end - x.value) ==
			0);
	}
	require(r == next_of(&b, &y, table, key));
}

static void try_key(const struct file_bytes *old, const char *table, const char *key)
{
	_cleanup_(file_bytes_clear) struct file_bytes text = {0};
	_cleanup_free_ char *was = NULL, *is = NULL;
	char why[EDIT_WHY_MAX];

	text_copy(&text, old->bytes, old->len);
	if (edit_languages[EDIT_TOML].get(old, table, key, &was, why) < 0 ||
		edit_languages[EDIT_TOML].set(&text, table, key, "10", why) < 0)
		return;
	require(edit_languages[EDIT_TOML].get(&text, table, key, &is, why) == 0 && is &&
		streq(is, "10"));
	compare(old, &text, table, key);
	require(edit_languages[EDIT_TOML].set(&text, table, key, was, why) == 0);
	require(text.len == old->len && memcmp(text.bytes, old->bytes, old->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(file_bytes_clear) struct file_bytes bytes = {0};
	const char *text;
	char string[64];

	text_copy(&bytes, (const char *)data, size);
	text = bytes.bytes;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char why[TOML_WHY_MAX];
		struct toml_item item;
		size_t at = 0;

		try_key(&bytes, keys[i][0], keys[i][1]);
		if (toml_find(text, size, keys[i][0], keys[i][1], &item, why) < 0)
			continue;
		(void)toml_value(text, &item, string, sizeof(string));
		while (toml_next_string(text, &item, &at, string, sizeof(string)))
			;
	}
	return 0;
}
