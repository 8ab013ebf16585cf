/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include "base/json.h"
#include "base/util.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR_WIDTH 16

struct screen screen_of(FILE *out)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool terminal = isatty(fileno(out));
	struct screen screen = {.out = out, .bars = terminal, .width = 80, .height = INT_MAX};
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

void screen_clear(const struct screen *screen)
{
	if (screen->bars)
		fputs("\033[H\033[J", screen->out);
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

int draw(const struct screen *screen, enum color color, const char *format, ...)
{
	va_list args;
	int columns;

	if (color != COLOR_NONE)
		set_color(screen, color);
	va_start(args, format);
	columns = vfprintf(screen->out, format, args);
	va_end(args);
	if (color != COLOR_NONE)
		set_color(screen, COLOR_NONE);
	return columns;
}

/* Eighths of a cell, so that a nearly empty table still shows. */
int draw_bar(const struct screen *screen, double share)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	int parts = (int)lround(fmin(fmax(share, 0), 1) * BAR_WIDTH * 8);
	int cells = 0;

	if (!screen->bars)
		return 0;
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
	return BAR_WIDTH + 2;
}

/* Columns of a text, taking each character for one. */
static int columns_of(const char *text, size_t len)
{
	int columns = 0;

	for (size_t i = 0; i < len; i++)
		columns += (text[i] & 0xc0) != 0x80;
	return columns;
}

void draw_wrapped(const struct screen *screen, int column, int indent, const char *text)
{
	int used = column;

	while (*text) {
		size_t len = strcspn(text, " ");
		int columns = columns_of(text, len);

		if (used > column && used + 1 + columns > screen->width) {
			fprintf(screen->out, "\n%*s", indent, "");
			used = column = indent;
		} else if (used > column) {
			fputc(' ', screen->out);
			used++;
		}
		fprintf(screen->out, "%.*s", (int)len, text);
		used += columns;
		text += len + (text[len] == ' ');
	}
	fputc('\n', screen->out);
}

void draw_workload(const struct screen *screen, const cJSON *workload)
{
	const char *namespace = json_text_at(workload, "namespace");
	const char *name = json_text_at(workload, "name");

	fprintf(screen->out, "%-9s %s%s%s\n", json_text_at(workload, "kind"), namespace,
		namespace[0] ? "/" : "", name[0] ? name : json_text_at(workload, "id"));
}

enum color color_of(const char *word)
{
	static const struct {
		const char *word;
		enum color color;
	} words[] = {{"ok", COLOR_GOOD}, {"in-sync", COLOR_GOOD}, {"active", COLOR_GOOD},
		{"False", COLOR_GOOD}, {"critical", COLOR_BAD}, {"failed", COLOR_BAD},
		{"True", COLOR_BAD}, {"observed", COLOR_FAINT}, {"unsupported", COLOR_FAINT},
		{"off", COLOR_FAINT}, {"Unknown", COLOR_FAINT}, {"advice", COLOR_FAINT}};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (streq(words[i].word, word))
			return words[i].color;
	return COLOR_WARNING;
}
