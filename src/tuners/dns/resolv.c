/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/resolv.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"

#define BLANKS          " \t\r"
#define RESOLV_CONF_MAX 65536

static void take_search(struct dns_resolv *resolv, char *rest)
{
	char *state = NULL;

	/* The last line of these wins: resolv.conf(5). */
	resolv->n_search = 0;
	for (char *word = strtok_r(rest, BLANKS, &state);
		word && resolv->n_search < DNS_RESOLV_SEARCH;
		word = strtok_r(NULL, BLANKS, &state)) {
		size_t len = strlen(word);

		if (len > 0 && word[len - 1] == '.')
			word[len - 1] = '\0';
		if (word[0] && copy_text(resolv->search[resolv->n_search], DNS_DOMAIN_MAX, word))
			resolv->n_search++;
	}
}

static void take_server(struct dns_resolv *resolv, char *rest)
{
	char *state = NULL, *word = strtok_r(rest, BLANKS, &state);

	if (word && resolv->n_servers < DNS_RESOLV_SERVERS &&
		dns_address_parse(word, &resolv->servers[resolv->n_servers]))
		resolv->n_servers++;
}

void dns_resolv_parse(struct dns_resolv *resolv, char *text)
{
	char *state = NULL;

	*resolv = (struct dns_resolv){0};
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		size_t len = strcspn(line, BLANKS);
		char *rest = line + len;

		if (*rest)
			*rest++ = '\0';
		if (streq(line, "nameserver"))
			take_server(resolv, rest);
		else if (streq(line, "search") || streq(line, "domain"))
			take_search(resolv, rest);
	}
}

void dns_resolv_read(struct dns_resolv *resolv, const struct host *host)
{
	static const char *const paths[] = {"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"};

	*resolv = (struct dns_resolv){0};
	for (size_t i = 0; i < ARRAY_SIZE(paths) && resolv->n_servers == 0; i++) {
		_cleanup_free_ char *text = NULL;
		char full[PATH_MAX];

		if (host_path(host, paths[i], full) &&
			read_file(full, RESOLV_CONF_MAX, &text, NULL) == 0)
			dns_resolv_parse(resolv, text);
	}
}

bool dns_resolv_names(const struct dns_resolv *resolv, const struct dns_key *server)
{
	for (size_t i = 0; i < resolv->n_servers; i++)
		if (dns_address_equal(&resolv->servers[i], server))
			return true;
	return false;
}
