/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines of any bytes as the name of a registry, upstream and mirrors: refused, or a file of which
 * every line is one that was meant, and directories that lie nowhere else.
 */

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/hosts_toml.h"

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
	if (starts_with(line, "server = \"http") || starts_with(line, "[host.\"http") ||
		streq(line, "  dial_timeout = \"200ms\"")) {
		if (quotes != 2)
			abort();
	} else if (!streq(line, "  capabilities = [\"pull\", \"resolve\"]")) {
		abort();
	}
}

static void check_file(char *text, size_t len)
{
	char *rest = text;

	if (!hosts_toml_is_ours(text, len) || strlen(text) != len || text[len - 1] != '\n')
		abort();
	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
		check_line(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *input = calloc(1, size + 1), *text = NULL;
	struct hosts_toml_mirror mirrors[MIRRORS];
	struct hosts_toml hosts = {.mirrors = mirrors};
	char *rest = input, *line;
	size_t len;

	if (!input)
		return -1;
	if (size > 0)
		memcpy(input, data, size);
	(void)hosts_toml_is_ours(input, size);
	(void)hosts_toml_knows_dial_timeout(input);
	line = strsep(&rest, "\n");
	check_directories(line);
	hosts.dial_timeout_ms = size % 2 ? 200 : 0;
	hosts.upstream = rest && size % 3 ? strsep(&rest, "\n") : NULL;
	while (rest && hosts.n < MIRRORS) {
		line = strsep(&rest, "\n");
		mirrors[hosts.n++] = (struct hosts_toml_mirror){line, registry_is_loopback(line)};
	}
	if (hosts_toml_write(&hosts, &text, &len) == 0)
		check_file(text, len);
	return 0;
}
