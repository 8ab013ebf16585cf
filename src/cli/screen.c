/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include "base/util.h"
#include "cli/draw.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <headroom/setting.h>

struct screen screen_of(FILE *out)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool terminal = isatty(fileno(out));
	struct screen screen = {.out = out, .bars = terminal, .width = INT_MAX, .height = INT_MAX};
	struct winsize size;

	screen.color = terminal && !(no_color && no_color[0]) && !(term && streq(term, "dumb"));
	if (!terminal || ioctl(fileno(out), TIOCGWINSZ, &size) != 0)
		return screen;
	if (size.ws_col >= 40)
		screen.width = size.ws_col;
	if (size.ws_row >= 10)
		screen.height = size.ws_row;
	return screen;
}

static enum color color_of_verdict(const char *verdict)
{
	if (streq(verdict, "ok"))
		return COLOR_GOOD;
	return streq(verdict, "critical") ? COLOR_BAD : COLOR_WARNING;
}

static void print_head(const struct screen *screen, const cJSON *status)
{
	const cJSON *node = member(status, "node");
	const char *verdict = text_of(node, "verdict");

	draw_colored(screen, COLOR_BOLD, text_of(node, "name"));
	fprintf(screen->out, "  headroom %s  ", text_of(node, "version"));
	draw_colored(screen, color_of_verdict(verdict), verdict);
	fputc('\n', screen->out);
}

static void print_limit(const struct screen *screen, const cJSON *limit)
{
	double used = number_of(limit, "used"), max = number_of(limit, "max");
	const cJSON *full = member(limit, "full_in_seconds");

	fprintf(screen->out, "  %-19s ", text_of(limit, "name"));
	draw_bar(screen, max > 0 ? used / max : 0);
	fprintf(screen->out, "%s%.0f of %.0f  %.0f %%  peak %.0f  ",
		streq(text_of(limit, "bound"), "upper") ? "<= " : "", used, max,
		max > 0 ? 100 * used / max : 0, number_of(limit, "peak"));
	draw_color(screen, number_of(limit, "hits") > 0 ? COLOR_BAD : COLOR_NONE);
	fprintf(screen->out, "hits %.0f", number_of(limit, "hits"));
	draw_color(screen, COLOR_NONE);
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

/* "21 in-sync, 1 failed": how many of a tuner's settings are in each state; blanks before any. */
static void print_counts(
	const struct screen *screen, const cJSON *settings, const char *tuner, int blanks)
{
	static const char *const states[] = {
		"in-sync", "pending", "drifted", "yielded", "failed", "observed", "unsupported"};
	bool first = true;

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		const cJSON *setting;
		int n = 0;

		cJSON_ArrayForEach (setting, settings)
			n += streq(text_of(setting, "tuner"), tuner) &&
			     streq(text_of(setting, "state"), states[i]);
		if (n == 0)
			continue;
		fprintf(screen->out, "%*s%s%d ", first ? blanks : 0, "", first ? "" : ", ", n);
		draw_colored(screen, color_of_state(states[i]), states[i]);
		first = false;
	}
}

static void print_tuner(const struct screen *screen, const cJSON *tuner, const cJSON *settings)
{
	const char *name = text_of(tuner, "name"), *state = text_of(tuner, "state");

	fprintf(screen->out, "  %-10s %-8s ", name, text_of(tuner, "mode"));
	draw_color(screen, color_of_state(state));
	fputs(state, screen->out);
	draw_color(screen, COLOR_NONE);
	print_counts(screen, settings, name, MAX(11 - (int)strlen(state), 1));
	fputc('\n', screen->out);
	if (text_of(tuner, "why")[0]) {
		fputs("             ", screen->out);
		draw_wrapped(screen, 13, 13, text_of(tuner, "why"));
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
	draw_color(screen, color_of_state(state));
	used += fprintf(screen->out, "%-8s ", state);
	draw_color(screen, COLOR_NONE);
	snprintf(text, sizeof(text), "%s, wanted %s (%s)", text_of(setting, "actual"),
		text_of(setting, "wanted"), text_of(setting, "reason"));
	draw_wrapped(screen, used, 6, text);
}

static void print_condition(const struct screen *screen, const cJSON *condition)
{
	const char *status = text_of(condition, "status");
	bool is_true = streq(status, "True");

	if (streq(status, "False"))
		return;
	fputs("  ", screen->out);
	draw_color(screen, is_true ? COLOR_BAD : COLOR_FAINT);
	fprintf(screen->out, "%-8s", status);
	draw_color(screen, COLOR_NONE);
	fprintf(screen->out, "%-28s %s\n", text_of(condition, "type"),
		text_of(condition, "reason"));
	if (text_of(condition, "message")[0]) {
		fputs("          ", screen->out);
		draw_wrapped(screen, 10, 10, text_of(condition, "message"));
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
	const cJSON *settings = member(status, "settings"),
		    *conditions = member(status, "conditions");
	const cJSON *item;

	print_head(screen, status);
	draw_heading(screen, "Limits");
	cJSON_ArrayForEach (item, member(status, "limits"))
		print_limit(screen, item);
	draw_heading(screen, "Settings");
	cJSON_ArrayForEach (item, member(status, "tuners"))
		print_tuner(screen, item, settings);
	cJSON_ArrayForEach (item, settings)
		print_setting(screen, item);
	draw_heading(screen, "Conditions");
	cJSON_ArrayForEach (item, conditions)
		print_condition(screen, item);
	fprintf(screen->out, "  ");
	draw_color(screen, COLOR_GOOD);
	fprintf(screen->out, "%-8s", "False");
	draw_color(screen, COLOR_NONE);
	fprintf(screen->out, "%d of %d: no problem\n", count_false(conditions),
		cJSON_GetArraySize(conditions));
}

static void print_user(const struct screen *screen, const cJSON *user, double of)
{
	double used = number_of(user, "used");

	fputs("    ", screen->out);
	draw_bar(screen, of > 0 ? used / of : 0);
	fprintf(screen->out, "%10.0f  ", used);
	draw_workload(screen, member(user, "workload"));
	fputc('\n', screen->out);
}

void screen_print_top(const struct screen *screen, const cJSON *status, const char *prefix)
{
	const cJSON *limit, *user;

	cJSON_ArrayForEach (limit, member(status, "limits")) {
		if (!starts_with(text_of(limit, "name"), prefix))
			continue;
		print_limit(screen, limit);
		cJSON_ArrayForEach (user, member(limit, "top"))
			print_user(screen, user, number_of(limit, "used"));
	}
}
