/* SPDX-License-Identifier: Apache-2.0 */

#include "config/config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>
#include <sys/un.h>

/* config_choice() returns values of enum mode, enum on_drift and enum on_removed. */
static const char *const mode_choices[] = {
	[MODE_ENFORCE] = "enforce", [MODE_OBSERVE] = "observe", NULL};
static const char *const drift_choices[] = {[ON_DRIFT_ENFORCE] = "enforce",
	[ON_DRIFT_YIELD] = "yield",
	[ON_DRIFT_REPORT] = "report",
	NULL};
static const char *const log_choices[] = {"text", "json", NULL};
static const char *const removed_choices[] = {
	[ON_REMOVED_KEEP] = "keep", [ON_REMOVED_RESTORE] = "restore", NULL};

socklen_t listen_address(const char *text, struct sockaddr_storage *address)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	const char *colon = strrchr(text, ':');
	size_t brackets = text[0] == '[', len = colon ? (size_t)(colon - text) : 0;
	char host[INET6_ADDRSTRLEN + 2];
	uint64_t port;

	if (len < 2 || len >= sizeof(host) || parse_count(colon + 1, &port) < 0 ||
		port > UINT16_MAX || (brackets && text[len - 1] != ']'))
		return 0;
	copy_text(host, len + 1 - 2 * brackets, text + brackets);
	*address = (struct sockaddr_storage){.ss_family = brackets ? AF_INET6 : AF_INET};
	four->sin_port = htons((uint16_t)port); /* sin6_port has the same offset */
	if (brackets)
		return inet_pton(AF_INET6, host, &six->sin6_addr) == 1 ? sizeof(*six) : 0;
	return inet_pton(AF_INET, host, &four->sin_addr) == 1 ? sizeof(*four) : 0;
}

#define PORT_PATTERN                                                                   \
	"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|" \
	"6553[0-5])"

static const char *check_listen(const char *text)
{
	struct sockaddr_storage address;

	if (text[0] == '\0' ||
		(listen_address(text, &address) > 0 && !streq(strrchr(text, ':'), ":0")))
		return NULL;
	return "write ADDRESS:PORT, such as 127.0.0.1:19810 or [::1]:19810, or \"\" for no TCP";
}

static const char *check_socket(const char *text)
{
	return text[0] == '\0' || text[0] == '/'
		       ? NULL
		       : "write an absolute path, such as /run/headroom/headroom.sock";
}

static const char *check_web_config(const char *text)
{
	return text[0] == '\0' || text[0] == '/'
		       ? NULL
		       : "write an absolute path, such as /etc/headroom/web-config.yml";
}

static const char *check_documents(const char *text)
{
	return text[0] == '\0' || starts_with(text, "http://") || starts_with(text, "https://")
		       ? NULL
		       : "write an address, such as https://git.example.com/headroom/blob/v0.1.0";
}

static const struct config_option ignore_items[] = {
	{"", OPTION_TEXT, .min = 1, .max = SETTING_NAME_MAX - 1, .help = "A finding."}, {0}};

const struct config_option core_options[] = {
	{"mode", OPTION_CHOICE, .choices = mode_choices, .def = "enforce",
		.help = "Whether the agent changes the node. enforce: sets the configured values "
			"and keeps them. observe: writes nothing and reports the values that "
			"enforce would change. The mode of a tuner overrides this for that "
			"tuner."},
	{"profile", OPTION_CHOICE, .choices = profile_choices, .def = "kubernetes-node",
		.help = "A named set of defaults for a kind of node, listed with their sources by "
			"`headroom explain profile`. Values of files override the profile, and null "
			"removes a key of the profile. minimal sets no sysctl."},
	{"node_name", OPTION_TEXT, .max = 253,
		.help = "The name of this node in status and metrics. Empty: the "
			"environment variable NODE_NAME, else the host name."},
	{"http.listen", OPTION_TEXT, .check = check_listen, .def = "127.0.0.1:19810",
		.pattern =
			"^((([0-9]{1,3}\\.){3}[0-9]{1,3}|\\[[0-9A-Fa-f:.]+\\]):" PORT_PATTERN ")?$",
		.help = "Address and port for metrics, health and the status page, such as "
			"127.0.0.1:19810 or [::1]:19810. It is read-only, without "
			"authentication: everyone who reaches another address than loopback can "
			"read it. \"\": no TCP."},
	{"http.socket", OPTION_TEXT, .max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1,
		.check = check_socket, .pattern = "^(/.*)?$", .def = "/run/headroom/headroom.sock",
		.help = "Path of the unix socket for the command line; only root can open it. "
			"\"\": no socket, so that status, apply and restore cannot reach the "
			"running agent."},
	{"http.web_config", OPTION_TEXT, .max = PATH_MAX - 1, .check = check_web_config,
		.pattern = "^(/.*)?$",
		.help = "Path of a file with TLS and users for http.listen, in the format of "
			"Prometheus' exporter-toolkit: tls_server_config and basic_auth_users. It "
			"and its certificates are reloaded when they change. Use a key for ECDSA, or "
			"RSA with 2048 bits: a longer one makes handshakes slow, and is warned "
			"about. TLS 1.2 has suites with ECDHE and without CBC only. The unix socket "
			"needs neither. \"\": plain HTTP for everyone."},
	{"http.documents", OPTION_TEXT, .check = check_documents, .pattern = "^(https?://.*)?$",
		.help = "Address of the documents of this version, such as "
			"https://git.example.com/headroom/blob/v0.1.0. On the status page, each "
			"problem links to its condition in deploy/TROUBLESHOOTING.md below it. "
			"\"\": no links; the page names the manuals."},
	{"on_drift", OPTION_CHOICE, .choices = drift_choices, .def = "enforce",
		.help = "How the agent reacts when someone else changes a setting that headroom "
			"has set. enforce: sets it again, and yields at the sixth change within ten "
			"minutes. yield: leaves the new value at once. report: leaves it and "
			"reports drift. Each change is counted and shown."},
	{"on_removed", OPTION_CHOICE, .choices = removed_choices, .def = "keep",
		.help = "What happens to a value that headroom has set when the configuration no "
			"longer asks for it. keep: it stays in force, and status, plan and doctor "
			"show it with the command that restores it. restore: it gets its original. "
			"Values that a default or a profile had asked for, values of a file that "
			"was lost, and files of programs always stay, and so does a limit of whose "
			"original more than 80 % is in use."},
	{"log", OPTION_CHOICE, .choices = log_choices, .def = "text",
		.help = "The form of the agent's log. text: lines, with time and level (critical, error, "
			"warning, notice, info or debug) unless systemd's journal adds them; the "
			"journal also gets the fields MESSAGE_ID "
			"(the kinds are in headroom(8)), HEADROOM_OBJECT, HEADROOM_CONDITION, "
			"HEADROOM_REASON, HEADROOM_LIMIT and HEADROOM_WORKLOAD. json: one JSON object a line."},
	{"doctor.ignore", OPTION_LIST, .items = ignore_items, .def = "[]",
		.help = "Findings that need no action on this node: names of limits, conditions, "
			"reasons, settings and of the checks of `headroom doctor`, or the id of one "
			"finding, such as pids/cgroup@cgroup:4711; also patterns such as "
			"filesystem/*. Status, health, metrics, alerts and the log are silent about "
			"them. Status and doctor list them as ignored, and a condition that has no "
			"other finding is False (ignored)."},
	{0},
};

const struct config_option *option_find(const struct config_option *const *tables, const char *name)
{
	for (; *tables; tables++)
		for (const struct config_option *option = *tables; option->name; option++)
			if (streq(option->name, name))
				return option;
	return NULL;
}

bool option_is_below(const char *option, const char *name)
{
	size_t len = strlen(name);

	return starts_with(option, name) && (option[len] == '\0' || option[len] == '.');
}

bool option_is_section(const struct config_option *const *tables, const char *name)
{
	for (; *tables; tables++)
		for (const struct config_option *option = *tables; option->name; option++)
			if (option_is_below(option->name, name) && !streq(option->name, name))
				return true;
	return false;
}

static bool is_same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/*
 * Returns the Damerau-Levenshtein distance: letters inserted, deleted, replaced or transposed. A
 * capital letter equals its small one.
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned char cost[SUGGEST_WORD_MAX + 1][SUGGEST_WORD_MAX + 1];
	size_t rows = strlen(a), columns = strlen(b);

	for (size_t i = 0; i <= rows; i++)
		cost[i][0] = (unsigned char)i;
	for (size_t j = 0; j <= columns; j++)
		cost[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= rows; i++) {
		for (size_t j = 1; j <= columns; j++) {
			unsigned best = cost[i - 1][j - 1] + !is_same_letter(a[i - 1], b[j - 1]);

			best = MIN(best, cost[i - 1][j] + 1U);
			best = MIN(best, cost[i][j - 1] + 1U);
			if (i > 1 && j > 1 && is_same_letter(a[i - 1], b[j - 2]) &&
				is_same_letter(a[i - 2], b[j - 1]))
				best = MIN(best, cost[i - 2][j - 2] + 1U);
			cost[i][j] = (unsigned char)best;
		}
	}
	return cost[rows][columns];
}

void suggest_offer(struct suggestion *suggestion, const char *typed, const char *word)
{
	size_t len = strlen(word), n_typed = strlen(typed);
	unsigned apart;

	if (len > SUGGEST_WORD_MAX || n_typed > SUGGEST_WORD_MAX)
		return;
	apart = distance(typed, word);
	/* At most two letters, and less than half of the word; or the word begins with typed. */
	if ((apart > 2 || apart * 2 >= len) &&
		(n_typed < 3 || strncasecmp(typed, word, n_typed) != 0))
		return;
	if (suggestion->word[0] && apart >= suggestion->distance)
		return;
	set_text(suggestion->word, word);
	suggestion->distance = apart;
}
