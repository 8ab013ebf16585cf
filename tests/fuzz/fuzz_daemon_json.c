/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as daemon.json: a fault with its place and nothing changed, or a text in which
 * one key can be set and taken out again. The same bytes as what a Docker daemon answers.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/docker_config.h"
#include "runtime/docker_parse.h"
#include "runtime/json_stream.h"

#define KEY "max-concurrent-downloads"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fault(const struct docker_config_fault *fault)
{
	if (fault->line == 0 || fault->column == 0 || fault->message[0] == '\0' ||
		strpbrk(fault->message, "\n\r\033"))
		abort();
}

/* A text that was taken must take these changes, each of which is checked by docker_config_set. */
static void edit(const char *text, size_t len)
{
	_cleanup_free_ char *with = NULL, *again = NULL, *without = NULL;
	size_t with_len, again_len, without_len;
	unsigned int value;

	/* Numbers of more than 63 characters are no numbers to cJSON: the change is given up. */
	if (docker_config_set(text, len, KEY, "10", &with, &with_len, NULL) < 0)
		return;
	if (docker_config_get_count(with, with_len, KEY, &value, NULL) < 0 || value != 10) {
		/* The value was there already, in other words. */
		if (with_len != len || memcmp(with, text, len) != 0)
			abort();
	}
	if (docker_config_set(with, with_len, KEY, "10", &again, &again_len, NULL) < 0 ||
		again_len != with_len || memcmp(again, with, with_len) != 0)
		abort();
	if (docker_config_set(with, with_len, KEY, NULL, &without, &without_len, NULL) < 0 ||
		docker_config_get_count(without, without_len, KEY, &value, NULL) != -ENOENT)
		abort();
}

static int parse(const char *text, size_t len, void *userdata)
{
	struct docker_state *state = userdata;
	struct docker_container container;
	struct docker_image image;
	struct docker_event event;
	struct docker_progress progress;
	char why[DOCKER_WHY_MAX] = "";

	(void)docker_parse_version(text, len, state);
	(void)docker_parse_info(text, len, state);
	(void)docker_parse_event(text, len, &event, state);
	(void)docker_parse_container(text, len, &container);
	(void)docker_parse_image(text, len, &image);
	(void)docker_parse_progress(text, len, &progress, why);
	(void)docker_parse_refusal(text, why);
	if (strpbrk(why, "\n\r\033"))
		abort();
	return 0;
}

/* In two pieces, wherever the first byte says. */
static void answer(const char *text, size_t len)
{
	struct docker_state state = {0};
	size_t cut = len > 0 ? (size_t)(unsigned char)text[0] % (len + 1) : 0;

	for (int list = 0; list < 2; list++) {
		struct json_stream stream = {.list = list == 1, .max = 65536};

		if (json_stream_feed(&stream, text, cut, parse, &state) == 0)
			(void)json_stream_feed(&stream, text + cut, len - cut, parse, &state);
		(void)json_stream_is_whole(&stream);
		json_stream_clear(&stream);
	}
	parse(text, len, &state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = calloc(1, size + 1);
	_cleanup_free_ char *value = NULL;
	struct docker_config_fault fault = {0};
	char key[DOCKER_CONFIG_KEY_MAX];
	int r;

	if (!text)
		return -1;
	if (size > 0)
		memcpy(text, data, size);
	r = docker_config_get(text, size, "max-concurrent-downloads", &value, &fault);
	if (r == -EINVAL)
		check_fault(&fault);
	if (r == 0 || r == -ENOENT) {
		edit(text, size);
		(void)docker_config_unknown_key(text, size, "20.10.24", key, &fault);
	}
	answer(text, size);
	return 0;
}
