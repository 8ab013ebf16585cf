/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads any bytes as TOML and as Docker's daemon.json: they are parsed, or refused with a position.
 * After setting a key, it has the new value and every other item is as before. Restoring the old
 * value, or removing the key, restores the old text.
 */

#include "apply/edit.h"
#include "base/environment.h"
#include "base/json.h"
#include "base/toml.h"
#include "runtime/docker.h"
#include "runtime/driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct key {
	enum edit_format format;
	const char *table, *key, *literal;
} keys[] = {
	{EDIT_TOML, "plugins.\"io.containerd.grpc.v1.cri\"", "max_concurrent_downloads", "10"},
	{EDIT_TOML, "plugins.\"io.containerd.grpc.v1.cri\".registry", "config_path", "10"},
	{EDIT_TOML, "plugins.cri", "a", "10"},
	{EDIT_TOML, "", "imports", "10"},
	{EDIT_TOML, "a.b", "c", "10"},
	{EDIT_JSON, "", "max-concurrent-downloads", "10"},
	{EDIT_JSON, "", "registry-mirrors", "[\"http://127.0.0.1:30020\"]"},
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* Returns the next item. Skips the edited key and the header that was added for it. */
static int next_of(struct toml_scan *scan, struct toml_item *item, const struct key *key)
{
	char name[TOML_FULL_MAX], ours[TOML_FULL_MAX];
	int r;

	snprintf(ours, sizeof(ours), "%s%s%s", key->table, key->table[0] ? "." : "", key->key);
	while ((r = toml_next(scan, item)) > 0 &&
		streq(toml_name(item, name), item->header ? key->table : ours))
		;
	return r;
}

static void compare(
	const struct file_bytes *old, const struct file_bytes *new, const struct key *key)
{
	struct toml_scan a = {.text = old->bytes, .len = old->len};
	struct toml_scan b = {.text = new->bytes, .len = new->len};
	struct toml_item x, y;
	int r;

	while ((r = next_of(&a, &x, key)) > 0) {
		require(next_of(&b, &y, key) > 0);
		require(streq(x.table, y.table) && streq(x.key, y.key) &&
			x.value_end - x.value == y.value_end - y.value);
		require(memcmp(old->bytes + x.value, new->bytes + y.value, x.value_end - x.value) ==
			0);
	}
	require(r == next_of(&b, &y, key));
}

static void try_key(const struct file_bytes *old, const struct key *key)
{
	_cleanup_(file_bytes_clear) struct file_bytes text = {0};
	_cleanup_free_ char *was = NULL, *is = NULL;
	char why[EDIT_WHY_MAX] = "";

	text_copy(&text, old->bytes, old->len);
	if (edit_get(key->format, old, key->table, key->key, &was, why) < 0 ||
		edit_set(key->format, &text, key->table, key->key, key->literal, why) < 0) {
		require(why[0] != '\0');
		return;
	}
	require(strlen(text.bytes) == text.len);
	require(edit_get(key->format, &text, key->table, key->key, &is, why) == 0 && is &&
		streq(is, key->literal));
	if (key->format == EDIT_TOML)
		compare(old, &text, key);
	require(edit_set(key->format, &text, key->table, key->key, was, why) == 0);
	if (key->format == EDIT_JSON && streq(text.bytes, "{\n}\n"))
		return; /* the text was blank, or is the same */
	require(text.len == old->len && memcmp(text.bytes, old->bytes, old->len) == 0);
}

static void read_values(const struct file_bytes *text)
{
	static const struct host host = {0};
	const struct daemon daemon = {.version = "20.10.24", .config = "/x"};
	const struct wait wait = {.deadline_us = 0, .cancel_fd = -1};
	struct toml_scan scan = {.text = text->bytes, .len = text->len};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	char why[RUNTIME_WHY_MAX] = "", string[64], fault[TOML_WHY_MAX] = "";
	struct toml_item item;

	require((toml_parse(text->bytes, text->len, &document, fault) == 0) == (fault[0] == '\0'));
	(void)environment_get(text->bytes, "A", string, sizeof(string));
	while (toml_next(&scan, &item) > 0) {
		size_t at = 0;

		(void)toml_value(text->bytes, &item, string, sizeof(string));
		while (toml_next_string(text->bytes, &item, &at, string, sizeof(string)))
			;
	}
	require((docker_config_check(&host, &daemon, text->bytes, text->len, "/x", &wait, why) <
			0) == (why[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(file_bytes_clear) struct file_bytes text = {0};

	text_copy(&text, (const char *)data, size);
	read_values(&text);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		try_key(&text, &keys[i]);
	return 0;
}
