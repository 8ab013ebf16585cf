/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as Docker's daemon.json: they are read or refused with a place, and a key that
 * is set is there; with its old value, the text is the old one.
 */

#include "apply/editor.h"
#include "runtime/daemon_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const keys[][2] = {
	{"max-concurrent-downloads", "10"},
	{"registry-mirrors", "[\"http://127.0.0.1:30020\"]"},
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void try_key(const struct file_bytes *old, const char *key, const char *literal)
{
	_cleanup_(file_bytes_clear) struct file_bytes text = {0};
	_cleanup_free_ char *was = NULL, *is = NULL;
	char why[EDIT_WHY_MAX] = "";

	text_copy(&text, old->bytes, old->len);
	if (edit_languages[EDIT_JSON].get(old, "", key, &was, why) < 0 ||
		edit_languages[EDIT_JSON].set(&text, "", key, literal, why) < 0) {
		require(why[0] != '\0');
		return;
	}
	require(strlen(text.bytes) == text.len);
	require(edit_languages[EDIT_JSON].get(&text, "", key, &is, why) == 0 && is &&
		streq(is, literal));
	if (edit_languages[EDIT_JSON].set(&text, "", key, was, why) < 0)
		return; /* its old value was no JSON */
	if (streq(text.bytes, "{\n}\n"))
		return; /* it was a blank text, or is this one */
	require(text.len == old->len && memcmp(text.bytes, old->bytes, old->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct host host = {0};
	const struct runtime_daemon daemon = {
		.host = &host, .binary = "", .version = "20.10.24", .config = "/x"};
	const struct wait wait = {.deadline_us = 0, .cancel_fd = -1};
	_cleanup_free_ char *text = malloc(size + 1);
	char why[DOCKER_WHY_MAX] = "";

	if (!text)
		return -1;
	memcpy(text, data, size);
	text[size] = '\0';
	require((docker_config_check(&daemon, text, size, "/x", &wait, why) < 0) ==
		(why[0] != '\0'));
	if (strlen(text) < size)
		return 0; /* a zero byte: no text */
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		try_key(&(struct file_bytes){.bytes = text, .len = size}, keys[i][0], keys[i][1]);
	return 0;
}
