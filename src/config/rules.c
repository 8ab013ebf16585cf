/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/util.h"
#include "config/text.h"

#include <arpa/inet.h>
#include <sys/un.h>

/* "ADDRESS:PORT", an IPv6 address in brackets. */
static bool is_listen_address(const char *text)
{
	struct in6_addr parsed;
	char address[INET6_ADDRSTRLEN + 2];
	const char *colon = strrchr(text, ':');
	bool brackets = text[0] == '[';
	size_t len = colon ? (size_t)(colon - text) : 0;
	uint64_t port;

	if (len < 2 || len >= sizeof(address) || parse_count(colon + 1, &port) < 0 || port < 1 ||
		port > UINT16_MAX)
		return false;
	if (brackets && text[len - 1] != ']')
		return false;
	memcpy(address, text + brackets, len);
	address[len - 2 * (size_t)brackets] = '\0';
	return inet_pton(brackets ? AF_INET6 : AF_INET, address, &parsed) == 1;
}

static const char *check_listen(const char *text)
{
	if (text[0] == '\0' || is_listen_address(text))
		return NULL;
	return "write ADDRESS:PORT, such as 127.0.0.1:19810 or [::1]:19810, or \"\" for no TCP";
}

static const char *check_socket(const char *text)
{
	if (text[0] == '\0')
		return NULL;
	if (text[0] != '/')
		return "write an absolute path, such as /run/headroom/headroom.sock";
	if (strlen(text) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return "the kernel takes at most 107 bytes as the path of a socket: write a "
		       "shorter one";
	return NULL;
}

static const struct {
	const char *name;
	const char *(*check)(const char *text); /* NULL, or what is wrong and the cure */
} rules[] = {
	{"http.listen", check_listen},
	{"http.socket", check_socket},
};

void rules_check(const struct config *config, struct config_fault_list *faults)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct row *row = config_row(config, rules[i].name);
		const char *wrong = row ? rules[i].check(row->text) : NULL;
		char quoted[TEXT_QUOTE_MAX];

		if (wrong)
			config_fault_add(faults, &row->place, "%s: %s is not possible: %s",
				rules[i].name, text_quote(quoted, row->text), wrong);
	}
}
