/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/registry.h"

#include "base/hash.h"
#include "base/util.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define HOST_MAX 253 /* characters of a DNS name: RFC 1035, 2.3.4 */

/* A host and its port, as parts of a longer text. */
struct authority {
	const char *host, *port; /* port NULL: none */
	size_t host_len, port_len;
};

/* Names and IPv4 addresses alike; the underscore is no DNS but is met in names of containers. */
static bool is_host_name(const char *host, size_t len)
{
	if (len == 0 || len > HOST_MAX || host[0] == '-' || host[0] == '.' || host[len - 1] == '.')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isascii(host[i]) ||
			(!isalnum((unsigned char)host[i]) && !strchr("._-", host[i])))
			return false;
		if (host[i] == '.' && host[i + 1] == '.')
			return false;
	}
	/* "_default" is a directory of its own meaning beside the registries' ones. */
	return host[0] != '_';
}

/* "[::1]", without a zone: it would be this node's alone. */
static bool is_ipv6(const char *host, size_t len)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (len < 4 || host[0] != '[' || host[len - 1] != ']' || len - 2 >= sizeof(text))
		return false;
	memcpy(text, host + 1, len - 2);
	text[len - 2] = '\0';
	return inet_pton(AF_INET6, text, &address) == 1;
}

static bool is_port(const char *port, size_t len)
{
	unsigned int value = 0;

	if (len == 0 || len > 5 || port[0] == '0')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (port[i] < '0' || port[i] > '9')
			return false;
		value = value * 10 + (unsigned int)(port[i] - '0');
	}
	return value <= 65535;
}

static bool split(const char *text, size_t len, struct authority *authority)
{
	const char *bracket = memchr(text, ']', len);
	size_t skip = bracket ? (size_t)(bracket - text) : 0;
	const char *colon = memchr(text + skip, ':', len - skip);

	*authority = (struct authority){.host = text, .host_len = len};
	if (colon) {
		authority->host_len = (size_t)(colon - text);
		authority->port = colon + 1;
		authority->port_len = len - authority->host_len - 1;
	}
	if (!is_host_name(text, authority->host_len) && !is_ipv6(text, authority->host_len))
		return false;
	return !authority->port || is_port(authority->port, authority->port_len);
}

int registry_check_name(const char *name)
{
	struct authority authority;
	size_t len = strlen(name);

	return len < REGISTRY_NAME_MAX && split(name, len, &authority) ? 0 : -EINVAL;
}

/* What follows the scheme, or NULL. */
static const char *after_scheme(const char *url)
{
	if (starts_with(url, "http://"))
		return url + strlen("http://");
	return starts_with(url, "https://") ? url + strlen("https://") : NULL;
}

/* Segments of a path: unreserved characters of RFC 3986 and a few more; none that leads upwards. */
static bool is_path(const char *path)
{
	for (const char *p = path; *p; p++) {
		if (!isascii(*p) || (!isalnum((unsigned char)*p) && !strchr("/-._~+:", *p)))
			return false;
		if (*p == '/' && p[1] == '.')
			return false;
	}
	return true;
}

int registry_check_url(const char *url)
{
	const char *start = after_scheme(url);
	struct authority authority;
	size_t len;

	if (!start || strlen(url) >= REGISTRY_URL_MAX)
		return -EINVAL;
	len = strcspn(start, "/");
	return split(start, len, &authority) && is_path(start + len) ? 0 : -EINVAL;
}

bool registry_copy_url(char *dst, size_t size, const char *url)
{
	size_t len = strlen(url);

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (len >= size)
		return false;
	memcpy(dst, url, len);
	dst[len] = '\0';
	return true;
}

bool registry_list_has(const char *list, const char *url, size_t len)
{
	for (const char *at = list; *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		if (n == len && memcmp(at, url, len) == 0)
			return true;
		at += n;
	}
	return false;
}

void registry_list_add(char *list, size_t size, const char *url, size_t len)
{
	size_t used = strlen(list);

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (len > 0 && used + len + 2 < size && !registry_list_has(list, url, len))
		snprintf(list + used, size - used, "%s%.*s", used > 0 ? " " : "", (int)len, url);
}

void registry_shorten_list(const char *list, char *out, size_t size)
{
	char sum[HASH_TEXT_MAX];

	if (copy_text(out, size, list))
		return;
	hash_bytes(list, strlen(list), sum);
	snprintf(out + size - 11, 11, " ~%.8s", sum);
}

bool registry_is_loopback(const char *url)
{
	const char *start = after_scheme(url);
	struct authority authority;
	char host[HOST_MAX + 1];
	struct in_addr address;

	if (!start || !split(start, strcspn(start, "/"), &authority) ||
		authority.host_len >= sizeof(host))
		return false;
	memcpy(host, authority.host, authority.host_len);
	host[authority.host_len] = '\0';
	if (strcasecmp(host, "localhost") == 0 || streq(host, "[::1]"))
		return true;
	return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}
