/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/json.h"
#include "base/text.h"

/* What the page and `headroom top` show of the document. */

/* A number of the server's budget; 0 without one. */
static double budget_number(const cJSON *server, int i)
{
	char path[32];

	snprintf(path, sizeof(path), "budget/%s", dns_numbers[i].key);
	return json_number_at(server, path);
}

/* "1024", "200 pps": the first number of the budget. */
static void write_budget_short(const cJSON *server, char *text, size_t size)
{
	static const char *const briefs[DNS_NUMBERS] = {
		[DNS_PACKETS] = " pps", [DNS_PENDING] = " pend", [DNS_QUERIES] = ""};

	copy_text(text, size, "-");
	for (int i = DNS_NUMBERS - 1; i >= 0; i--)
		if (budget_number(server, i) > 0)
			snprintf(text, size, "%.0f%s", budget_number(server, i), briefs[i]);
}

/* "1000 queries/s, 200 pending". */
static void write_budget(const cJSON *server, char *text, size_t size)
{
	for (int i = 0; i < DNS_NUMBERS; i++) {
		double number = budget_number(server, i);

		if (number > 0)
			text_append(text, size, "%s%.0f %s", text[0] ? ", " : "", number,
				dns_numbers[i].of);
	}
}

/* "lxd web-1 700 of 1500": the busiest client in the second that matters. */
static void write_busiest(const cJSON *server, char *text, size_t size)
{
	const cJSON *second = json_at(server, "second");

	if (json_number_at(server, "top/0/in_second") > 0)
		snprintf(text, size, "%s %.0f of %.0f", json_text_at(server, "top/0/workload/text"),
			json_number_at(server, "top/0/in_second"),
			json_number_at(second, json_text_at(second, "counts")));
}

/* Queries over TLS (DoT) cannot be counted. */
static bool is_encrypted(const cJSON *row)
{
	return json_number_at(row, "dot_packets") > 0 &&
	       json_number_at(row, "queries/udp") + json_number_at(row, "queries/tcp") == 0;
}

static void write_encrypted(const cJSON *row, char *text, size_t size)
{
	if (json_number_at(row, "dot_packets") > 0)
		snprintf(text, size, "over TLS, %.0f packets", json_number_at(row, "dot_packets"));
}

static const struct column server_columns[] = {
	{.title = "Resolver", .heading = "server", .key = "server", .width = -15},
	{"Verdict", "verdict", "verdict", COLUMN_STATE, -12, .tone = "severity"},
	{"Role", "role", "role", .width = -8, .rank = 4},
	{"Queries a second", "q/s", "queries_per_second", COLUMN_NUMBER, 7, .limit = "budget/qps"},
	{"Busiest second", "peak/s", "peak", COLUMN_NUMBER, 8, .limit = "budget/qps"},
	{.title = "Budget", .format = COLUMN_NUMBER, .write = write_budget},
	{.heading = "budget", .write = write_budget_short, .width = 9},
	{"Seconds over it", "s over", "over_budget_seconds", COLUMN_NUMBER, 7},
	{"Failed, last minute", "failed", "minute_failed", COLUMN_NUMBER, 8},
	{"Unanswered, last minute", "unanswered", "minute_unanswered", COLUMN_NUMBER, 11},
	{"Pending", "pending", "pending", COLUMN_NUMBER, 8, .limit = "budget/pending", .rank = 3},
	{"Latency p50", "p50", "latency/p50", COLUMN_SECONDS, 8, .rank = 2},
	{"p99", "p99", "latency/p99", COLUMN_SECONDS, 8, .rank = 1},
	{.title = "Last hour", .key = "history", .format = COLUMN_HISTORY},
	{.title = "Most in its busiest second", .format = COLUMN_NOTE, .write = write_busiest},
	{.title = "Encrypted", .write = write_encrypted},
	{0},
};

static bool is_idle(const cJSON *row)
{
	return !is_encrypted(row) && json_at(row, "minute_queries") &&
	       json_number_at(row, "minute_queries") == 0 && json_number_at(row, "pending") == 0;
}

/* Lines below a server. */
#define USERS_SHOWN 5
#define NAMES_SHOWN 5

static void write_second(const cJSON *server, char *text, size_t size)
{
	const cJSON *second = json_at(server, "second");
	const char *counts = json_text_at(second, "counts");
	double over = json_number_at(server, "over_lately_seconds");

	if (over > 0)
		text_append(text, size, "%.0f s over the budget in the last five minutes; ", over);
	text_append(text, size,
		"the %s second, until %s, had %.0f %s:", over > 0 ? "worst" : "busiest",
		json_text_at(second, "end"), json_number_at(second, counts), counts);
}

static void write_losses(const cJSON *server, char *text, size_t size)
{
	double unanswered = json_number_at(server, "minute_unanswered");
	double failed = json_number_at(server, "minute_failed");
	const char *between = "";

	write_encrypted(server, text, size);
	if (text[0])
		between = "; ";
	if (failed > 0) {
		text_append(text, size, "%s%.0f of %.0f answers of the last minute failed", between,
			failed, json_number_at(server, "minute_responses"));
		if (json_at(server, "failing"))
			text_append(text, size, ", most to %s",
				json_text_at(server, "failing/workload/text"));
		between = "; ";
	}
	if (unanswered > 0)
		text_append(text, size, "%s%.0f of %.0f queries of the last minute unanswered",
			between, unanswered, json_number_at(server, "minute_queries"));
}

/* A client or the sum of all others. */
static void write_user(const cJSON *server, const cJSON *user, char *text, size_t size)
{
	const cJSON *second = json_at(server, "second");
	double all = json_number_at(second, json_text_at(second, "counts"));
	const char *name = json_text_at(user, "workload/text");
	char share[SHARE_MAX];

	snprintf(text, size, "%8.0f/s %5s %10.0f in all  %s", json_number_at(user, "in_second"),
		share_text(json_number_at(user, "in_second") / MAX(all, 1.0), share),
		json_number_at(user, "queries"), name[0] ? name : "other");
}

static void write_cure(const cJSON *server, char *text, size_t size)
{
	const char *name = json_text_at(server, "condition");

	for (const struct condition_type *type = dns_conditions; type->name; type++)
		if (streq(type->name, name))
			snprintf(text, size, "%s: %s", name, type->help);
}

static void write_name(const cJSON *name, char *text, size_t size)
{
	char share[SHARE_MAX];

	if (name)
		snprintf(text, size, "%10s  %s  %s",
			share_text(json_number_at(name, "share"), share),
			json_text_at(name, "name"), json_text_at(name, "type"));
}

/*
 * The losses, the second that matters with its clients, the cure, and the most frequent names.
 * Lines without a text are left out.
 */
static bool write_detail(const cJSON *server, int i, char *text, size_t size)
{
	const cJSON *top = json_at(server, "top"), *other = json_at(server, "other");
	const cJSON *names = json_at(server, "names");
	const bool second = cJSON_IsObject(json_at(server, "second"));

	text[0] = '\0';
	if (i == 0)
		write_losses(server, text, size);
	else if (i == 1 && second)
		write_second(server, text, size);
	else if (i < 2 + USERS_SHOWN && i >= 2 && i - 2 < cJSON_GetArraySize(top))
		write_user(server, cJSON_GetArrayItem(top, i - 2), text, size);
	else if (i == 2 + USERS_SHOWN &&
		 json_number_at(other, "queries") + json_number_at(other, "in_second") >= 1)
		write_user(server, other, text, size);
	else if (i == 3 + USERS_SHOWN)
		write_cure(server, text, size);
	else if (i > 3 + USERS_SHOWN)
		write_name(cJSON_GetArrayItem(names, i - 4 - USERS_SHOWN), text, size);
	return i < 4 + USERS_SHOWN + MIN(cJSON_GetArraySize(names), NAMES_SHOWN);
}

static void write_notes(const cJSON *dns, char *text, size_t size)
{
	const char *between = "  failed search-list expansions: ";
	const cJSON *item;

	if (json_text_at(dns, "since")[0])
		text_append(text, size, "  counting since %s\n", json_text_at(dns, "since"));

	cJSON_ArrayForEach (item, json_at(dns, "expansions")) {
		if (json_number_at(item, "failed_per_second") < 0.5)
			continue;
		text_append(text, size, "%s%s %.0f of %.0f/s", between, json_text_at(item, "role"),
			json_number_at(item, "failed_per_second"),
			json_number_at(item, "queries_per_second"));
		between = ", ";
	}
	text_append(text, size, between[0] == ',' ? "\n" : "");
	json_append_losses(json_at(dns, "lost"), text, size);
}

const struct table_view dns_view = {.title = "DNS",
	.rows = "servers",
	.columns = server_columns,
	.folds = is_idle,
	.folded = "idle",
	.blanks = is_encrypted,
	.order = "problems first",
	.empty = "no query has left this node yet",
	.write_detail = write_detail,
	.write_notes = write_notes};
