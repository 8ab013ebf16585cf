/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/json.h"
#include "base/util.h"
#include "cli/client.h"
#include "cli/screen.h"

#define WATCH_SECONDS 2

static void print_heading(const struct screen *screen, const char *text)
{
	fputc('\n', screen->out);
	draw(screen, COLOR_BOLD, "%s", text);
	fputc('\n', screen->out);
}

/* "12.3 GB" of bytes, the plain number of anything else. */
static void amount_text(double value, const char *unit, char *text, size_t size)
{
	if (streq(unit, "bytes") && value >= 1e6)
		snprintf(text, size, value >= 1e9 ? "%.1f GB" : "%.1f MB",
			value / (value >= 1e9 ? 1e9 : 1e6));
	else
		snprintf(text, size, "%.0f", value);
}

void print_limit(const struct screen *screen, const cJSON *limit)
{
	const cJSON *full = json_at(limit, "full_in_seconds");
	const char *unit = json_text_at(limit, "unit");
	double share = json_number_at(limit, "used") / MAX(json_number_at(limit, "max"), 1.0);
	char used[32], max[32], peak[32], text[192];
	int column = fprintf(screen->out, "  %-19s ", json_text_at(limit, "name"));

	column += draw_bar(screen, share);
	amount_text(json_number_at(limit, "used"), unit, used, sizeof(used));
	amount_text(json_number_at(limit, "max"), unit, max, sizeof(max));
	amount_text(json_number_at(limit, "peak"), unit, peak, sizeof(peak));
	column += fprintf(screen->out, "%s%s of %s  %.0f %%  ",
		streq(json_text_at(limit, "bound"), "upper") ? "<= " : "", used, max, 100 * share);
	snprintf(text, sizeof(text), "peak %s  hits %.0f", peak, json_number_at(limit, "hits"));
	if (cJSON_IsNumber(full))
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "  full in %.0f s",
			full->valuedouble);
	draw_wrapped(screen, column, 22, text);
}

/* A tuner, how many of its settings are in each state, and what it lacks. */
static void print_tuner(const struct screen *screen, const cJSON *tuner, const cJSON *settings)
{
	static const char *const states[] = {
		"in-sync", "pending", "drifted", "yielded", "failed", "observed", "unsupported"};
	const char *name = json_text_at(tuner, "name"), *state = json_text_at(tuner, "state");
	bool first = true;

	fprintf(screen->out, "  %-10s %-8s ", name, json_text_at(tuner, "mode"));
	draw(screen, color_of(state), "%s", state);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		const cJSON *setting;
		int n = 0;

		cJSON_ArrayForEach (setting, settings)
			n += streq(json_text_at(setting, "tuner"), name) &&
			     streq(json_text_at(setting, "state"), states[i]);
		if (n == 0)
			continue;
		fprintf(screen->out, "%*s%s%d ", first ? MAX(11 - (int)strlen(state), 1) : 0, "",
			first ? "" : ", ", n);
		draw(screen, color_of(states[i]), "%s", states[i]);
		first = false;
	}
	fputc('\n', screen->out);
	if (streq(json_text_at(tuner, "mode"), "released"))
		fprintf(screen->out, "%13ssince %s, until headroom apply\n", "",
			json_text_at(tuner, "since"));
	if (json_text_at(tuner, "why")[0]) {
		fprintf(screen->out, "%13s", "");
		draw_wrapped(screen, 13, 13, json_text_at(tuner, "why"));
	}
}

/* Only what deserves attention: everything else is in the counts. */
static void print_setting(const struct screen *screen, const cJSON *setting, int width)
{
	const char *state = json_text_at(setting, "state");
	char text[2 * SETTING_VALUE_MAX + 64];
	int column;

	if (streq(state, "in-sync") || streq(state, "observed") || streq(state, "unsupported"))
		return;
	column = fprintf(screen->out, "    %-*s ", width, json_text_at(setting, "name"));
	column += draw(screen, color_of(state), "%-8s ", state);
	snprintf(text, sizeof(text), "%s, wanted %s (%s)", json_text_at(setting, "actual"),
		json_text_at(setting, "wanted"), json_text_at(setting, "reason"));
	draw_wrapped(screen, column, 6, text);
}

/* What the runtimes are fetching now. */
static void print_pulls(const struct screen *screen, const cJSON *runtimes)
{
	const cJSON *runtime, *pull;
	bool begun = false;

	cJSON_ArrayForEach (runtime, runtimes)
		cJSON_ArrayForEach (pull, json_at(runtime, "pulls")) {
			const char *image = json_text_at(pull, "image");
			double total = json_number_at(pull, "total");
			char text[256], done[32];
			int column;

			if (!begun)
				print_heading(screen, "Pulls");
			begun = true;
			column = fprintf(screen->out, "  %-12s ", json_text_at(runtime, "name"));
			if (total > 0)
				column += draw_bar(screen, json_number_at(pull, "offset") / total);
			amount_text(json_number_at(pull, "offset"), "bytes", done, sizeof(done));
			snprintf(text, sizeof(text), "%s  %.1f MB/s  %s", done,
				json_number_at(pull, "bytes_per_second") / 1e6,
				image[0] ? image : json_text_at(pull, "ref"));
			draw_wrapped(screen, column, 15, text);
		}
}

static void print_condition(const struct screen *screen, const cJSON *condition)
{
	const char *status = json_text_at(condition, "status");
	bool advice = streq(json_text_at(condition, "severity"), "advice");

	fputs("  ", screen->out);
	draw(screen, color_of(advice ? "advice" : status), "%-8s", status);
	fprintf(screen->out, "%-28s %s\n", json_text_at(condition, "type"),
		json_text_at(condition, "reason"));
	if (json_text_at(condition, "message")[0]) {
		fprintf(screen->out, "%10s", "");
		draw_wrapped(screen, 10, 10, json_text_at(condition, "message"));
	}
}

static void print_conditions(const struct screen *screen, const cJSON *conditions)
{
	const cJSON *condition;
	int n = 0;

	print_heading(screen, "Conditions");
	cJSON_ArrayForEach (condition, conditions) {
		if (streq(json_text_at(condition, "status"), "False"))
			n++;
		else
			print_condition(screen, condition);
	}
	fputs("  ", screen->out);
	draw(screen, COLOR_GOOD, "%-8s", "False");
	fprintf(screen->out, "%d of %d: no problem\n", n, cJSON_GetArraySize(conditions));
}

void print_status(const struct screen *screen, const cJSON *status, bool alone)
{
	const cJSON *settings = json_at(status, "settings"), *item;
	const char *verdict = json_text_at(status, "node/verdict");
	double would_change = json_number_at(status, "node/would_change");
	int width = 30;

	if (alone) /* what only an agent watches is not known: nothing here says ok */
		draw(screen, COLOR_WARNING,
			"No agent is running: this is one reading, without what only BPF counts.\n");
	draw(screen, COLOR_BOLD, "%s", json_text_at(status, "node/name"));
	fprintf(screen->out, "  headroom %s", json_text_at(status, "node/version"));
	if (!alone || !streq(verdict, "ok")) {
		fputs("  ", screen->out);
		draw(screen, color_of(verdict), "%s", verdict);
	}
	if (would_change > 0)
		draw(screen, COLOR_WARNING, "  %.0f would change: see headroom plan", would_change);
	fputc('\n', screen->out);
	print_heading(screen, "Limits");
	cJSON_ArrayForEach (item, json_at(status, "limits"))
		print_limit(screen, item);
	print_heading(screen, "Settings");
	cJSON_ArrayForEach (item, json_at(status, "tuners"))
		print_tuner(screen, item, settings);
	cJSON_ArrayForEach (item, settings)
		width = MIN(MAX(width, (int)strlen(json_text_at(item, "name"))), 40);
	cJSON_ArrayForEach (item, settings)
		print_setting(screen, item, width);
	print_pulls(screen, json_at(status, "runtime/found"));
	print_conditions(screen, json_at(status, "conditions"));
}

static int show(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_of(stdout);
	const cJSON *condition;
	bool alone;
	int r = status_document(cli, false, &status, &alone);

	if (r != EXIT_OK)
		return r;
	if (cli->json) {
		_cleanup_free_ char *text = cJSON_Print(status);

		if (!text)
			return cli_fail("status", "out of memory");
		puts(text);
	} else {
		if (cli->watch)
			screen_clear(&screen);
		print_status(&screen, status, alone);
		fflush(stdout);
	}
	cJSON_ArrayForEach (condition, json_at(status, "conditions"))
		if (streq(json_text_at(condition, "status"), "True"))
			return EXIT_ATTENTION;
	return EXIT_OK;
}

int cli_status(const struct cli *cli)
{
	int r = show(cli);

	while (cli->watch && r != EXIT_FAILED && !ferror(stdout)) {
		sleep(WATCH_SECONDS);
		r = show(cli);
	}
	return r;
}
