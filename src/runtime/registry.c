/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/registry.h"

#include "base/file.h"
#include "base/text.h"
#include "config/config.h"
#include "runtime/http_client.h"

#include <arpa/inet.h>
#include <regex.h>

#define HOST_MAX 253 /* characters of a DNS name: RFC 1035, 2.3.4 */

/*
 * A name or IPv4 address, or an IPv6 address in brackets without a zone. Container names may have
 * underscores; a leading one is reserved for "_default".
 */
#define HOST "([A-Za-z0-9][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*|\\[[0-9A-Fa-f:.]+])"

/* 1 to 65535. */
#define PORT                                                                             \
	"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|" \
	"6553[0-5]))?"

/* Unreserved characters of RFC 3986 and a few more; no segment starts with a dot. */
#define PATH "(/([A-Za-z0-9_~+:-][A-Za-z0-9._~+:-]*)?)*"

/* The first group of the pattern is the host. */
static int check(const char *text, size_t size, const char *pattern)
{
	struct in6_addr address;
	char host[HOST_MAX + 1];
	regmatch_t groups[2];
	size_t len;
	regex_t regex;
	int r;

	if (strlen(text) >= size || regcomp(&regex, pattern, REG_EXTENDED) != 0)
		return -EINVAL;
	r = regexec(&regex, text, ARRAY_SIZE(groups), groups, 0);
	regfree(&regex);
	len = r == 0 ? (size_t)(groups[1].rm_eo - groups[1].rm_so) : 0;
	if (r != 0 || len > HOST_MAX)
		return -EINVAL;
	memcpy(host, text + groups[1].rm_so, len);
	if (host[0] != '[')
		return 0;
	host[len - 1] = '\0';
	return inet_pton(AF_INET6, host + 1, &address) == 1 ? 0 : -EINVAL;
}

int registry_check_name(const char *name)
{
	return check(name, REGISTRY_NAME_MAX, "^" HOST PORT "$");
}

int registry_check_url(const char *url)
{
	return check(url, REGISTRY_URL_MAX, "^https?://" HOST PORT PATH "$");
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

size_t registry_read_mirrors(
	const struct config *config, struct runtime_mirror mirrors[static RUNTIME_MIRROR_MAX])
{
	size_t n = config_list(config, "runtime.mirrors");

	for (size_t i = 0; i < n; i++) {
		copy_text(mirrors[i].registry, REGISTRY_NAME_MAX,
			config_item(config, "runtime.mirrors", i, "registry"));
		(void)registry_copy_url(mirrors[i].url, REGISTRY_URL_MAX,
			config_item(config, "runtime.mirrors", i, "url"));
	}
	return n;
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
	const char *host = strchr(url, '/') + 2;
	size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
	char text[HOST_MAX + 1];
	struct in_addr address;

	snprintf(text, sizeof(text), "%.*s", (int)len, host);
	return strcasecmp(text, "localhost") == 0 || streq(text, "[::1]") ||
	       (inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

bool registry_list_covers(const char *list, const char *address)
{
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;
	uint8_t wanted[16] = {0}, network[16] = {0};
	char text[INET6_ADDRSTRLEN];
	unsigned bits = 0, same = 0;

	for (; *list && inet_pton(family, address, wanted) == 1; list += strspn(list, " ")) {
		if (sscanf(list, "%45[0-9a-fA-F:.]/%3u", text, &bits) == 2 &&
			inet_pton(family, text, network) == 1) {
			for (same = 0; same < MIN(bits, 128U); same++)
				if ((wanted[same / 8] ^ network[same / 8]) & 0x80 >> same % 8)
					break;
			if (same == bits)
				return true;
		}
		list += strcspn(list, " ");
	}
	return false;
}

/* ---- health of mirrors ---- */

#define CHECK_US    (10 * USEC_PER_SEC) /* between two checks */
#define DEADLINE_US (2 * USEC_PER_SEC)
#define DOUBT_US    (1 * USEC_PER_SEC) /* until an unexpected answer is checked again */
#define AGREE       2                  /* answers in a row that change a state */
#define ANSWER_MAX  65536              /* bytes */

/* As Go's crypto/x509: Debian, Red Hat, SUSE, Alpine. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

void registry_find_ca(const char *host_root, char path[static PATH_MAX])
{
	path[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(bundles) && !path[0]; i++)
		if (path_in_root(host_root, bundles[i], path) < 0)
			path[0] = '\0';
}

static void update_state(struct mirror *mirror, bool healthy, uint64_t checked_us)
{
	enum mirror_state seen = healthy ? MIRROR_UP : MIRROR_DOWN;

	mirror->against = seen == mirror->state ? 0 : mirror->against + 1;
	if (mirror->against >= (mirror->state == MIRROR_UNKNOWN ? 1 : AGREE)) {
		mirror->state = seen;
		mirror->against = 0;
	}
	mirror->due_us = checked_us + (mirror->against > 0 ? DOUBT_US : CHECK_US);
}

/* No registry answers with a page for people, such as that of a login. */
static bool is_page(const struct http_get *get)
{
	return get->status == 200 && get->body && get->body[strspn(get->body, " \t\r\n")] == '<';
}

void mirrors_check(struct mirror *mirrors, size_t n, const char *host_root, const struct wait *wait)
{
	_cleanup_free_ struct http_get *gets = must(calloc(n + 1, sizeof(*gets)));
	_cleanup_free_ char(*urls)[REGISTRY_URL_MAX + 8] = must(calloc(n + 1, sizeof(*urls)));
	struct wait bounded = wait_at_most(wait, DEADLINE_US);
	uint64_t now = now_us();
	char ca_file[PATH_MAX];
	size_t due = 0;

	registry_find_ca(host_root, ca_file);
	for (size_t i = 0; i < n; i++) {
		struct mirror *mirror = &mirrors[i];
		size_t len = strlen(mirror->url);
		/* As in containerd, a path that ends in /v2 is already the API's root. */
		bool is_root = len > 3 && streq(mirror->url + len - 3, "/v2");

		if (mirror->due_us > now)
			continue;
		if (starts_with(mirror->url, "https:") && !ca_file[0]) {
			copy_text(mirror->why, MIRROR_WHY_MAX,
				"no CA certificates found on this node");
			update_state(mirror, false, now);
			continue;
		}
		snprintf(urls[due], sizeof(urls[due]), "%s%s", mirror->url, is_root ? "/" : "/v2/");
		gets[due] = (struct http_get){.url = urls[due],
			.ca_files = ca_file,
			.limit = ANSWER_MAX,
			.userdata = mirror};
		due++;
	}
	if (due > 0)
		http_get_all(gets, due, &bounded);
	for (size_t i = 0; i < due; i++) {
		const struct http_get *get = &gets[i];
		bool page = is_page(get);
		bool healthy =
			get->error == 0 && !page && (get->status == 200 || get->status == 401);
		struct mirror *mirror = get->userdata;

		free(get->body);
		if (get->error == -ECANCELED)
			continue;
		mirror->took_us = get->took_us;
		copy_text(mirror->why, MIRROR_WHY_MAX, get->why);
		if (get->error == -EKEYREJECTED)
			copy_text(mirror->why, MIRROR_WHY_MAX,
				"this node does not trust its certificate");
		else if (get->error == -ETIMEDOUT)
			copy_text(mirror->why, MIRROR_WHY_MAX, "no answer within 2 s");
		else if (get->error == 0 && page)
			copy_text(mirror->why, MIRROR_WHY_MAX, "GET /v2/ answers with a web page");
		else if (get->error == 0 && !healthy)
			snprintf(mirror->why, MIRROR_WHY_MAX, "GET /v2/ answers %ld", get->status);
		update_state(mirror, healthy, now_us());
	}
}
