/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hosts_toml.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>

/* What follows may be worded otherwise one day: only this much is the mark. */
#define MARK      "# Written by headroom."
#define MARK_REST " It replaces and removes this file, unless this line is gone.\n"

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

/* The same address twice would be a table defined twice: an error in TOML, the file would not be
 * read. */
static bool is_double(const struct hosts_toml *hosts, size_t at)
{
	char url[REGISTRY_URL_MAX], other[REGISTRY_URL_MAX];

	registry_copy_url(url, sizeof(url), hosts->mirrors[at].url);
	for (size_t i = 0; i < at; i++) {
		registry_copy_url(other, sizeof(other), hosts->mirrors[i].url);
		if (streq(url, other))
			return true;
	}
	return false;
}

/* Of doubles the first counts, wherever it goes: so one on the same node may stand with the others.
 */
static void write_mirrors(FILE *out, const struct hosts_toml *hosts, bool same_node)
{
	char url[REGISTRY_URL_MAX];

	for (size_t i = 0; i < hosts->n; i++) {
		if (hosts->mirrors[i].same_node != same_node || is_double(hosts, i))
			continue;
		registry_copy_url(url, sizeof(url), hosts->mirrors[i].url);
		fprintf(out, "\n[host.\"%s\"]\n", url);
		fputs("  capabilities = [\"pull\", \"resolve\"]\n", out);
		if (hosts->dial_timeout_ms > 0)
			fprintf(out, "  dial_timeout = \"%ums\"\n", hosts->dial_timeout_ms);
	}
}

static int check(const struct hosts_toml *hosts)
{
	if (hosts->n > HOSTS_TOML_HOSTS_MAX)
		return -E2BIG;
	if (hosts->n == 0 || (hosts->upstream && registry_check_url(hosts->upstream) < 0))
		return -EINVAL;
	for (size_t i = 0; i < hosts->n; i++)
		if (registry_check_url(hosts->mirrors[i].url) < 0)
			return -EINVAL;
	return 0;
}

int hosts_toml_write(const struct hosts_toml *hosts, char **text, size_t *len)
{
	_cleanup_free_ char *buffer = NULL;
	char upstream[REGISTRY_URL_MAX];
	size_t size = 0;
	FILE *out;
	int r = check(hosts);

	if (r < 0)
		return r;
	out = open_memstream(&buffer, &size);
	if (!out)
		return -ENOMEM;
	fputs(MARK MARK_REST, out);
	/* A key of the root: it must stand before the first table, although it is asked last. */
	if (hosts->upstream) {
		registry_copy_url(upstream, sizeof(upstream), hosts->upstream);
		fprintf(out, "server = \"%s\"\n", upstream);
	}
	write_mirrors(out, hosts, true);
	write_mirrors(out, hosts, false);
	if (fclose(out) != 0)
		return -ENOMEM;
	*text = steal(buffer);
	*len = size;
	return 0;
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
