/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Uses any lines as mirrors: they are refused, or the file has expected lines only. Reads any text
 * as a file of ours.
 */

#include "runtime/driver.h"

#define MIRRORS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const char *line)
{
	size_t quotes = 0;

	if (*line == '\0' || *line == '#')
		return;
	for (const char *p = line; *p; p++) {
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f || *p == '\\')
			abort();
		quotes += *p == '"';
	}
	if (starts_with(line, "[host.\"http") || streq(line, "  dial_timeout = \"3000ms\"")) {
		if (quotes != 2)
			abort();
	} else if (!streq(line, "  capabilities = [\"pull\", \"resolve\"]") &&
		   !streq(line, "  override_path = true")) {
		abort();
	}
}

static void check_file(char *text)
{
	char words[SETTING_VALUE_MAX], *rest = text;

	if (!starts_with(text, "# Written by headroom. ") || text[strlen(text) - 1] != '\n')
		abort();
	mirror_file_list(containerd_driver.mirrors, text, words);
	if (!starts_with(words, "http"))
		abort();
	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
		check_line(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *input = calloc(1, size + 1), *text = NULL;
	const char *urls[MIRRORS];
	char words[SETTING_VALUE_MAX], *rest = input;
	size_t n = 0;

	if (!input)
		return -1;
	if (size > 0)
		memcpy(input, data, size);
	mirror_file_list(containerd_driver.mirrors, input, words);
	while (rest && n < MIRRORS) {
		urls[n] = strsep(&rest, "\n");
		n += registry_check_url(urls[n]) == 0 &&
		     registry_copy_url((char *)urls[n], REGISTRY_URL_MAX, urls[n]);
	}
	if (n > 0) {
		text = mirror_file_make(
			containerd_driver.mirrors, size % 2 ? "2.1" : "1.6", "docker.io", urls, n);
		check_file(text);
	}
	return 0;
}
