/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as Docker's daemon.json: they are read or refused with a place, and a key that
 * is set is there; with its old value, the text is the old one.
 */

#include <stdint.h>
#include <stdlib.h>

#include "apply/edit_text.h"
#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/daemon_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const keys[][2] = {
	{"max-concurrent-downloads", "10"},
	{"registry-mirrors", "[\"http://127.0.0.1:30020\"]"},
};

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void try_key(const char *text, size_t len, const char *key, const char *literal)
{
	_cleanup_free_ char *was = NULL, *is = NULL, *there = NULL, *back = NULL;
	char why[EDIT_WHY_MAX] = "";
	size_t there_len, back_len;

	if (json_key_get(text, len, key, &was, why) < 0 ||
		json_key_set(text, len, key, literal, &there, &there_len, why) < 0) {
		must(why[0] != '\0');
		return;
	}
	must(strlen(there) == there_len);
	must(json_key_get(there, there_len, key, &is, why) == 0 && is && streq(is, literal));
	if (json_key_set(there, there_len, key, was, &back, &back_len, why) < 0)
		return; /* its old value was no JSON */
	if (streq(back, "{\n}\n"))
		return; /* it was a blank text, or is this one */
	else
		must(back_len == len && memcmp(back, text, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct host host = {0};
	const struct docker_daemon daemon = {
		.host = &host, .binary = "", .version = "20.10.24", .config = "/x"};
	const struct wait wait = {.deadline_us = 0, .cancel_fd = -1};
	_cleanup_free_ char *text = malloc(size + 1);
	char why[DOCKER_WHY_MAX] = "";

	if (!text)
		return -1;
	memcpy(text, data, size);
	text[size] = '\0';
	must((docker_config_check(&daemon, text, size, "/x", &wait, why) < 0) == (why[0] != '\0'));
	if (strlen(text) < size)
		return 0; /* a zero byte: no text */
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		try_key(text, size, keys[i][0], keys[i][1]);
	return 0;
}
