/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines of any bytes as the name of a registry and mirrors: refused, or a file of which every line
 * is one that was meant, and directories that lie nowhere else. Any text read as a file of ours.
 */

#include "base/util.h"
#include "runtime/registry.h"

#define MIRRORS 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_directories(const char *registry)
{
	char directories[2][REGISTRY_NAME_MAX];
	int n = hosts_toml_directories(registry, directories);

	for (int i = 0; i < n; i++)
		if (directories[i][0] == '\0' || directories[i][0] == '.' ||
			strchr(directories[i], '/') || strlen(directories[i]) >= REGISTRY_NAME_MAX)
			abort();
}

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
	if (starts_with(line, "[host.\"http") || streq(line, "  dial_timeout = \"200ms\"")) {
		if (quotes != 2)
			abort();
	} else if (!streq(line, "  capabilities = [\"pull\", \"resolve\"]")) {
		abort();
	}
}

static void check_file(char *text)
{
	char words[64], *rest = text;

	if (!hosts_toml_is_ours(text, strlen(text)) || text[strlen(text) - 1] != '\n')
		abort();
	hosts_toml_mirrors(text, words, sizeof(words));
	if (!starts_with(words, "http"))
		abort();
	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
		check_line(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *input = calloc(1, size + 1), *text = NULL;
	const char *urls[MIRRORS];
	char words[64], *rest = input, *line;
	size_t n = 0;

	if (!input)
		return -1;
	if (size > 0)
		memcpy(input, data, size);
	(void)hosts_toml_is_ours(input, size);
	hosts_toml_mirrors(input, words, sizeof(words));
	line = strsep(&rest, "\n");
	check_directories(line);
	while (rest && n < MIRRORS) {
		urls[n] = strsep(&rest, "\n");
		n += registry_check_url(urls[n]) == 0 &&
		     registry_copy_url((char *)urls[n], REGISTRY_URL_MAX, urls[n]);
	}
	if (n > 0) {
		text = hosts_toml_make(urls, n, size % 2 ? 200 : 0);
		check_file(text);
	}
	return 0;
}
