/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include "base/util.h"
#include "cli/draw.h"

#include <ctype.h>

/* For each server: so many users and names at most. */
#define USERS_SHOWN 5
#define NAMES_SHOWN 5

/* "380 us", "21 ms", "1.2 s"; "-" without an answer. */
static void put_latency(const struct screen *screen, const cJSON *latency, const char *name)
{
	double seconds = number_of(latency, name);
	char text[16] = "-";

	if (!cJSON_IsNumber(member(latency, name)))
		;
	else if (seconds < 0.001)
		snprintf(text, sizeof(text), "%.0f us", seconds * 1e6);
	else if (seconds < 1)
		snprintf(text, sizeof(text), "%.0f ms", seconds * 1e3);
	else
		snprintf(text, sizeof(text), "%.1f s", seconds);
	fprintf(screen->out, "%7s", text);
}

static enum color color_against(double value, double budget)
{
	if (budget <= 0)
		return COLOR_NONE;
	return value > budget ? COLOR_BAD : value > 0.8 * budget ? COLOR_WARNING : COLOR_GOOD;
}

static void put_number(const struct screen *screen, int width, double value, enum color color)
{
	draw_color(screen, color);
	fprintf(screen->out, "%*.0f", width, value);
	draw_color(screen, COLOR_NONE);
}

/* "1024", "200 pps", "-": of several the one in queries. */
static void put_budget(const struct screen *screen, const cJSON *budget)
{
	static const struct {
		const char *name, *unit;
	} kinds[] = {{"qps", ""}, {"pps", " pps"}, {"pending", " pend"}};
	char text[32] = "-";

	for (size_t i = ARRAY_SIZE(kinds); i-- > 0;) {
		if (number_of(budget, kinds[i].name) > 0)
			snprintf(text, sizeof(text), "%.0f%s", number_of(budget, kinds[i].name),
				kinds[i].unit);
	}
	fprintf(screen->out, "%9s", text);
}

/* Fits 80 columns while all are IPv4. */
static int server_width(const cJSON *servers)
{
	const cJSON *server;
	size_t width = strlen("255.255.255.255");

	cJSON_ArrayForEach (server, servers)
		width = MAX(width, strlen(text_of(server, "server")));
	return (int)width;
}

static void print_server(const struct screen *screen, const cJSON *server, int width)
{
	const cJSON *budget = member(server, "budget"), *latency = member(server, "latency");
	double qps = number_of(budget, "qps"), unanswered = number_of(server, "unanswered");
	double now = number_of(server, "queries_per_second"), peak = number_of(server, "peak");

	fprintf(screen->out, "  %-*s %-8s", width, text_of(server, "server"),
		text_of(server, "role"));
	put_number(screen, 6, now, color_against(now, qps));
	put_number(screen, 6, peak, color_against(peak, qps));
	put_budget(screen, budget);
	put_number(screen, 8, number_of(server, "pending"),
		color_against(number_of(server, "pending"), number_of(budget, "pending")));
	put_number(screen, 11, unanswered, unanswered > 0 ? COLOR_WARNING : COLOR_NONE);
	put_latency(screen, latency, "p50");
	put_latency(screen, latency, "p99");
	fputc('\n', screen->out);
}

static void print_rate(const struct screen *screen, const cJSON *user)
{
	fprintf(screen->out, "    %8.0f/s %12.0f  ", number_of(user, "queries_per_second"),
		number_of(user, "queries"));
}

static void print_user(const struct screen *screen, const cJSON *user)
{
	print_rate(screen, user);
	draw_workload(screen, member(user, "workload"));
	fputc('\n', screen->out);
}

/* Whoever asks chooses the name: nothing in it may steer the terminal. */
static void print_name(const struct screen *screen, const cJSON *name)
{
	fprintf(screen->out, "    %8.0f %%               ", 100 * number_of(name, "share"));
	for (const char *c = text_of(name, "name"); *c; c++)
		fputc(isprint((unsigned char)*c) ? *c : '?', screen->out);
	fprintf(screen->out, "  %s\n", text_of(name, "type"));
}

/* Who asks this server, and for what, in at most so many lines. Returns how many it took. */
static int print_details(const struct screen *screen, const cJSON *server, int lines)
{
	const cJSON *other = member(server, "other"), *item;
	int users = MIN(USERS_SHOWN, lines), names = NAMES_SHOWN, before = lines;

	cJSON_ArrayForEach (item, member(server, "top")) {
		if (users-- <= 0)
			break;
		print_user(screen, item);
		lines--;
	}
	if (lines > 0 && number_of(other, "queries") > 0) {
		print_rate(screen, other);
		fputs("other\n", screen->out);
		lines--;
	}
	cJSON_ArrayForEach (item, member(server, "names")) {
		if (lines <= 0 || names-- <= 0)
			break;
		print_name(screen, item);
		lines--;
	}
	return before - lines;
}

/* "Not counted in full: servers 12, rows 4". */
static void print_lost(const struct screen *screen, const cJSON *lost)
{
	const char *between = "  not counted in full: ";
	const cJSON *item;

	cJSON_ArrayForEach (item, lost) {
		if (!cJSON_IsNumber(item) || item->valuedouble <= 0)
			continue;
		fprintf(screen->out, "%s%s %.0f", between, item->string, item->valuedouble);
		between = ", ";
	}
	if (between[0] == ',')
		fputc('\n', screen->out);
}

/* What the search lists of resolv.conf cost: "cluster 40 of 50/s". */
static void print_expansions(const struct screen *screen, const cJSON *expansions)
{
	const char *between = "  failed search-list expansions: ";
	const cJSON *item;

	cJSON_ArrayForEach (item, expansions) {
		if (number_of(item, "failed_per_second") < 0.5)
			continue;
		fprintf(screen->out, "%s%s %.0f of %.0f/s", between, text_of(item, "role"),
			number_of(item, "failed_per_second"),
			number_of(item, "queries_per_second"));
		between = ", ";
	}
	if (between[0] == ',')
		fputc('\n', screen->out);
}

static void print_why_not(const struct screen *screen, const cJSON *status)
{
	const cJSON *tuner;

	cJSON_ArrayForEach (tuner, member(status, "tuners")) {
		if (!streq(text_of(tuner, "name"), "dns"))
			continue;
		fprintf(screen->out, "  %s", text_of(tuner, "state"));
		if (text_of(tuner, "why")[0])
			fprintf(screen->out, ": %s", text_of(tuner, "why"));
		fputc('\n', screen->out);
	}
}

void screen_print_dns(const struct screen *screen, const cJSON *status)
{
	const cJSON *dns = member(status, "dns"), *servers = member(dns, "servers"), *server;
	int left = screen->height - 6 - cJSON_GetArraySize(servers);
	int width = server_width(servers);

	draw_colored(screen, COLOR_BOLD, "DNS");
	fputc('\n', screen->out);
	if (!cJSON_IsObject(dns)) {
		print_why_not(screen, status);
		return;
	}
	draw_color(screen, COLOR_FAINT);
	fprintf(screen->out, "  %-*s %-8s%6s%6s%9s%8s%11s%7s%7s\n", width, "server", "role", "q/s",
		"peak", "budget", "pending", "unanswered", "p50", "p99");
	draw_color(screen, COLOR_NONE);
	cJSON_ArrayForEach (server, servers) {
		print_server(screen, server, width);
		left -= print_details(screen, server, left);
	}
	if (cJSON_GetArraySize(servers) == 0)
		fputs("  no query has left this node yet\n", screen->out);
	print_expansions(screen, member(dns, "expansions"));
	print_lost(screen, member(dns, "lost"));
}
