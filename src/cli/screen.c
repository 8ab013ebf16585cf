/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include "base/util.h"

#include <math.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <headroom/setting.h>

#define BAR_WIDTH 20

enum color {
	COLOR_NONE,
	COLOR_GOOD,
	COLOR_WARNING,
	COLOR_BAD,
	COLOR_FAINT,
	COLOR_BOLD,
};

struct screen screen_of(FILE *out)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool terminal = isatty(fileno(out));
	struct screen screen = {.out = out, .bars = terminal, .width = 80};
	struct winsize size;

	screen.color = terminal && !(no_color && no_color[0]) && !(term && streq(term, "dumb"));
	if (terminal && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
		screen.width = size.ws_col;
	return screen;
}

static void set_color(const struct screen *screen, enum color color)
{
	static const char *const codes[] = {
		[COLOR_NONE] = "\033[0m",
		[COLOR_GOOD] = "\033[32m",
		[COLOR_WARNING] = "\033[33m",
		[COLOR_BAD] = "\033[31m",
		[COLOR_FAINT] = "\033[2m",
		[COLOR_BOLD] = "\033[1m",
	};

	if (screen->color)
		fputs(codes[color], screen->out);
}

static void colored(const struct screen *screen, enum color color, const char *text)
{
	set_color(screen, color);
	fputs(text, screen->out);
	set_color(screen, COLOR_NONE);
}

static const cJSON *get(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *text_of(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(get(object, name));

	return text ? text : "";
}

static double number_of(const cJSON *object, const char *name)
{
	const cJSON *item = get(object, name);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static enum color color_of_verdict(const char *verdict)
{
	if (streq(verdict, "ok"))
		return COLOR_GOOD;
	return streq(verdict, "critical") ? COLOR_BAD : COLOR_WARNING;
}

static void heading(const struct screen *screen, const char *text)
{
	fputc('\n', screen->out);
	colored(screen, COLOR_BOLD, text);
	fputc('\n', screen->out);
}

static void print_head(const struct screen *screen, const cJSON *status)
{
	const cJSON *node = get(status, "node");
	const char *verdict = text_of(node, "verdict");

	colored(screen, COLOR_BOLD, text_of(node, "name"));
	fprintf(screen->out, "  headroom %s  ", text_of(node, "version"));
	colored(screen, color_of_verdict(verdict), verdict);
	fputc('\n', screen->out);
}

/* Eighths of a cell, so that a nearly empty table still shows. */
static void print_bar(const struct screen *screen, double share)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	int parts = (int)lround(fmin(fmax(share, 0), 1) * BAR_WIDTH * 8);
	int cells = 0;

	if (!screen->bars)
		return;
	if (share > 0 && parts == 0)
		parts = 1;
	set_color(screen, share >= 0.8 ? COLOR_BAD : share >= 0.6 ? COLOR_WARNING : COLOR_GOOD);
	for (; parts >= 8; parts -= 8, cells++)
		fputs("█", screen->out);
	if (parts > 0 && ++cells)
		fputs(eighths[parts], screen->out);
	set_color(screen, COLOR_FAINT);
	for (; cells < BAR_WIDTH; cells++)
		fputs("·", screen->out);
	set_color(screen, COLOR_NONE);
	fputs("  ", screen->out);
}

static void print_limit(const struct screen *screen, const cJSON *limit)
{
	double used = number_of(limit, "used"), max = number_of(limit, "max");
	const cJSON *full = get(limit, "full_in_seconds");

	fprintf(screen->out, "  %-16s ", text_of(limit, "name"));
	print_bar(screen, max > 0 ? used / max : 0);
	fprintf(screen->out, "%s%.0f of %.0f  %.0f %%  peak %.0f  ",
		streq(text_of(limit, "bound"), "upper") ? "<= " : "", used, max,
		max > 0 ? 100 * used / max : 0, number_of(limit, "peak"));
	set_color(screen, number_of(limit, "hits") > 0 ? COLOR_BAD : COLOR_NONE);
	fprintf(screen->out, "hits %.0f", number_of(limit, "hits"));
	set_color(screen, COLOR_NONE);
	if (cJSON_IsNumber(full))
		fprintf(screen->out, "  full in %.0f s", full->valuedouble);
	fputc('\n', screen->out);
}

static enum color color_of_state(const char *state)
{
	if (streq(state, "in-sync") || streq(state, "active"))
		return COLOR_GOOD;
	if (streq(state, "failed"))
		return COLOR_BAD;
	if (streq(state, "observed") || streq(state, "unsupported") || streq(state, "off"))
		return COLOR_FAINT;
	return COLOR_WARNING;
}

/* "21 in-sync, 1 failed": how many of a tuner's settings are in each state. */
static void print_counts(const struct screen *screen, const cJSON *settings, const char *tuner)
{
	static const char *const states[] = {
		"in-sync", "pending", "drifted", "yielded", "failed", "observed", "unsupported"};
	const char *between = "";

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		const cJSON *setting;
		int n = 0;

		cJSON_ArrayForEach (setting, settings)
			n += streq(text_of(setting, "tuner"), tuner) &&
			     streq(text_of(setting, "state"), states[i]);
		if (n == 0)
			continue;
		fprintf(screen->out, "%s%d ", between, n);
		colored(screen, color_of_state(states[i]), states[i]);
		between = ", ";
	}
}

/* The rest of a line, cut where the screen ends. */
static void print_cut(const struct screen *screen, int used, const char *text)
{
	fprintf(screen->out, "%.*s\n", MAX(screen->width - used, 20), text);
}

static void print_tuner(const struct screen *screen, const cJSON *tuner, const cJSON *settings)
{
	const char *name = text_of(tuner, "name"), *state = text_of(tuner, "state");

	fprintf(screen->out, "  %-10s %-8s ", name, text_of(tuner, "mode"));
	set_color(screen, color_of_state(state));
	fprintf(screen->out, "%-9s", state);
	set_color(screen, COLOR_NONE);
	fputs("  ", screen->out);
	print_counts(screen, settings, name);
	fputc('\n', screen->out);
	if (text_of(tuner, "why")[0]) {
		fputs("             ", screen->out);
		print_cut(screen, 13, text_of(tuner, "why"));
	}
}

/* Only what needs a look: everything else is in the counts. */
static void print_setting(const struct screen *screen, const cJSON *setting)
{
	const char *state = text_of(setting, "state");
	char text[2 * SETTING_VALUE_MAX + 64];
	int used;

	if (streq(state, "in-sync") || streq(state, "observed") || streq(state, "unsupported"))
		return;
	used = fprintf(screen->out, "    %-36s ", text_of(setting, "name"));
	set_color(screen, color_of_state(state));
	used += fprintf(screen->out, "%-8s", state);
	set_color(screen, COLOR_NONE);
	snprintf(text, sizeof(text), " %s, wanted %s (%s)", text_of(setting, "actual"),
		text_of(setting, "wanted"), text_of(setting, "reason"));
	print_cut(screen, used, text);
}

static void print_condition(const struct screen *screen, const cJSON *condition)
{
	const char *status = text_of(condition, "status");
	bool is_true = streq(status, "True");

	if (streq(status, "False"))
		return;
	fputs("  ", screen->out);
	set_color(screen, is_true ? COLOR_BAD : COLOR_FAINT);
	fprintf(screen->out, "%-8s", status);
	set_color(screen, COLOR_NONE);
	fprintf(screen->out, "%-28s %s\n", text_of(condition, "type"),
		text_of(condition, "reason"));
	if (text_of(condition, "message")[0]) {
		fputs("          ", screen->out);
		print_cut(screen, 10, text_of(condition, "message"));
	}
}

static int count_false(const cJSON *conditions)
{
	const cJSON *condition;
	int n = 0;

	cJSON_ArrayForEach (condition, conditions)
		n += streq(text_of(condition, "status"), "False");
	return n;
}

void screen_print(const struct screen *screen, const cJSON *status)
{
	const cJSON *settings = get(status, "settings"), *conditions = get(status, "conditions");
	const cJSON *item;

	print_head(screen, status);
	heading(screen, "Limits");
	cJSON_ArrayForEach (item, get(status, "limits"))
		print_limit(screen, item);
	heading(screen, "Settings");
	cJSON_ArrayForEach (item, get(status, "tuners"))
		print_tuner(screen, item, settings);
	cJSON_ArrayForEach (item, settings)
		print_setting(screen, item);
	heading(screen, "Conditions");
	cJSON_ArrayForEach (item, conditions)
		print_condition(screen, item);
	fprintf(screen->out, "  ");
	set_color(screen, COLOR_GOOD);
	fprintf(screen->out, "%-8s", "False");
	set_color(screen, COLOR_NONE);
	fprintf(screen->out, "%d of %d: no problem\n", count_false(conditions),
		cJSON_GetArraySize(conditions));
}

static void print_user(const struct screen *screen, const cJSON *user, double of)
{
	const cJSON *workload = get(user, "workload");
	const char *namespace = text_of(workload, "namespace");
	double used = number_of(user, "used");

	fputs("    ", screen->out);
	print_bar(screen, of > 0 ? used / of : 0);
	fprintf(screen->out, "%10.0f  %-9s %s%s%s\n", used, text_of(workload, "kind"), namespace,
		namespace[0] ? "/" : "", text_of(workload, "name"));
}

void screen_print_top(const struct screen *screen, const cJSON *status, const char *prefix)
{
	const cJSON *limit, *user;

	cJSON_ArrayForEach (limit, get(status, "limits")) {
		if (!starts_with(text_of(limit, "name"), prefix))
			continue;
		print_limit(screen, limit);
		cJSON_ArrayForEach (user, get(limit, "top"))
			print_user(screen, user, number_of(limit, "used"));
	}
}
