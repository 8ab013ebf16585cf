/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hosts_toml.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>

/* What follows may be worded otherwise one day: only this much is the mark. */
#define MARK      "# Written by headroom."
#define MARK_REST " It replaces and removes this file, unless this line is gone.\n"
#define TABLE     "[host.\""

bool hosts_toml_is_ours(const char *text, size_t len)
{
	size_t n = strlen(MARK);

	if (len < n || memcmp(text, MARK, n) != 0)
		return false;
	return len == n || memchr(" \r\n", text[n], 3) != NULL;
}

bool hosts_toml_knows_dial_timeout(const char *version)
{
	unsigned int major, minor;

	if (*version == 'v')
		version++;
	return sscanf(version, "%3u.%3u", &major, &minor) == 2 &&
	       (major > 2 || (major == 2 && minor >= 1));
}

/* The same address twice would be a table defined twice: containerd would refuse the file. */
static bool is_double(const char *const *urls, size_t at)
{
	char url[REGISTRY_URL_MAX], other[REGISTRY_URL_MAX];

	registry_copy_url(url, sizeof(url), urls[at]);
	for (size_t i = 0; i < at; i++) {
		registry_copy_url(other, sizeof(other), urls[i]);
		if (streq(url, other))
			return true;
	}
	return false;
}

int hosts_toml_write(const char *const *urls, size_t n, unsigned int dial_timeout_ms, char **text)
{
	char *buffer = NULL;
	size_t size = 0;
	FILE *out;

	if (n > HOSTS_TOML_URLS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		if (registry_check_url(urls[i]) < 0)
			return -EINVAL;
	if (n == 0)
		return -EINVAL;
	out = open_memstream(&buffer, &size);
	if (!out)
		return -ENOMEM;
	fputs(MARK MARK_REST, out);
	for (int same_node = 1; same_node >= 0; same_node--)
		for (size_t i = 0; i < n; i++) {
			char url[REGISTRY_URL_MAX];

			if (registry_is_loopback(urls[i]) != (bool)same_node || is_double(urls, i))
				continue;
			registry_copy_url(url, sizeof(url), urls[i]);
			fprintf(out, "\n" TABLE "%s\"]\n", url);
			fputs("  capabilities = [\"pull\", \"resolve\"]\n", out);
			if (dial_timeout_ms > 0)
				fprintf(out, "  dial_timeout = \"%ums\"\n", dial_timeout_ms);
		}
	if (fclose(out) != 0) {
		free(buffer);
		return -ENOMEM;
	}
	*text = buffer;
	return 0;
}

void hosts_toml_mirrors(const char *text, char *words, size_t size)
{
	char all[HOSTS_TOML_URLS_MAX * REGISTRY_URL_MAX] = "";

	for (const char *at = strstr(text, "\n" TABLE); at; at = strstr(at, "\n" TABLE)) {
		at += strlen("\n" TABLE);
		registry_list_add(all, sizeof(all), at, strcspn(at, "\"\n"));
	}
	registry_shorten_list(all[0] ? all : "none", words, size);
}

/*
 * containerd's hostDirectory() (remotes/docker/config/hosts.go): the text's last ':' becomes '_',
 * and '_' ends it. It does so with an IPv6 address without a port, too.
 */
int hosts_toml_directories(const char *registry, char directories[static 2][REGISTRY_NAME_MAX])
{
	const char *colon = strrchr(registry, ':');

	if (streq(registry, HOSTS_TOML_DEFAULT)) {
		strcpy(directories[0], registry);
		return 1;
	}
	if (registry_check_name(registry) < 0 || strlen(registry) + 1 >= REGISTRY_NAME_MAX)
		return -EINVAL;
	if (!colon) {
		strcpy(directories[0], registry);
		return 1;
	}
	snprintf(directories[0], REGISTRY_NAME_MAX, "%.*s_%s_", (int)(colon - registry), registry,
		colon + 1);
	strcpy(directories[1], registry);
	return 2;
}
