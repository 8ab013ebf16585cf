/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/screen.h"

#include "base/json.h"
#include "report/report.h"

#include <limits.h>
#include <math.h>
#include <sys/ioctl.h>

#define BAR_WIDTH 12
#define WIDTH_MIN 40

struct screen screen_of(FILE *out)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool terminal = isatty(fileno(out));
	const char *columns = getenv("COLUMNS");
	struct screen screen = {.out = out, .bars = terminal, .height = INT_MAX};
	struct winsize size = {0};

	screen.color = terminal && !(no_color && no_color[0]) && !(term && streq(term, "dumb"));
	if (terminal)
		ioctl(fileno(out), TIOCGWINSZ, &size);
	if (size.ws_row >= 10)
		screen.height = size.ws_row;
	screen.width = columns ? atoi(columns) : size.ws_col;
	if (screen.width < WIDTH_MIN)
		screen.width = terminal ? 80 : INT_MAX;
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

int draw_bar(const struct screen *screen, enum color color, double share)
{
	int full = (int)lround(fmin(fmax(share, 0), 1) * BAR_WIDTH);

	if (!screen->bars)
		return 0;
	if (share > 0) /* a nearly empty table still shows */
		full = MAX(full, 1);
	set_color(screen, color);
	for (int i = 0; i < BAR_WIDTH; i++) {
		if (i == full)
			set_color(screen, COLOR_FAINT);
		fputs(i < full ? "█" : "·", screen->out);
	}
	set_color(screen, COLOR_NONE);
	fputs("  ", screen->out);
	return BAR_WIDTH + 2;
}

void draw_wrapped(const struct screen *screen, int column, int indent, const char *text)
{
	int used = column;

	while (*text) {
		size_t len = strcspn(text, " ");
		int columns = 0;

		for (size_t i = 0; i < len; i++) /* each character is one */
			columns += (text[i] & 0xc0) != 0x80;
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

enum color color_of(const char *word)
{
	return (enum color)(COLOR_GOOD + tone_of(word));
}
