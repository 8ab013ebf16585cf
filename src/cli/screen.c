/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <math.h>
#include <sys/ioctl.h>

#define BAR_WIDTH 12
#define KEEP_MAX  64 /* rows of a list on a terminal */

/* Without any of the variables, terminals have UTF-8 nearly always. */
static bool locale_is_ascii(void)
{
	const char *locale = getenv("LC_ALL");

	if (!locale || !locale[0])
		locale = getenv("LC_CTYPE");
	if (!locale || !locale[0])
		locale = getenv("LANG");
	return locale && locale[0] && !strcasestr(locale, "utf-8") && !strcasestr(locale, "utf8");
}

struct screen screen_open(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	const char *columns = getenv("COLUMNS");
	bool terminal = isatty(STDOUT_FILENO);
	bool dumb = !term || !term[0] || streq(term, "dumb");
	struct screen screen = {.bars = terminal,
		.height = INT_MAX,
		.keep = INT_MAX,
		.live = terminal && !dumb,
		.ascii = locale_is_ascii(),
		.out = stdout};
	struct winsize size = {0};

	screen.color = terminal && !(no_color && no_color[0]) && !dumb;
	if (terminal)
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	if (size.ws_row > 1)
		screen.height = size.ws_row;
	screen.width = columns ? atoi(columns) : size.ws_col;
	if (screen.width <= 0)
		screen.width = terminal ? 80 : INT_MAX;
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

/* Returns the number of characters; each has one column. */
static int columns_of(const char *text, size_t len)
{
	int columns = 0;

	for (size_t i = 0; i < len; i++)
		columns += (text[i] & 0xc0) != 0x80;
	return columns;
}

int text_width(const char *text)
{
	return columns_of(text, strlen(text));
}

const char *shorten(const char *text, int width, char *out, size_t size)
{
	const int columns = text_width(text), left = width / 2, skipped = columns - width + 1;
	int at = 0;

	out[0] = '\0';
	for (size_t len; *text; at++) {
		const char *from = utf8_next(&text, &len);

		if (columns <= width || at < left || at >= left + skipped)
			text_append(out, size, "%.*s", (int)len, from);
		else if (at == left)
			text_append(out, size, "…");
	}
	return out;
}

/* Returns the length of the first lines, and the number of all. */
static size_t lines_of(const char *text, int max, int *n)
{
	size_t len = 0;

	*n = 0;
	for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1)
		if ((*n)++ < max)
			len = (size_t)(end + 1 - text);
	return len;
}

void screen_fit(
	struct screen *screen, void (*render)(struct screen *screen, void *data), void *data)
{
	if (!screen->live) {
		render(screen, data);
		fflush(stdout); /* status --watch in a pipe */
		return;
	}
	for (int keep = KEEP_MAX; keep >= 0; keep -= MAX(keep / 8, 1)) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		int n;

		screen->keep = keep;
		screen->out = must(open_memstream(&text, &size));
		render(screen, data);
		fclose(screen->out);
		screen->out = stdout;
		size = lines_of(text, screen->height - 1, &n);
		if (n >= screen->height && keep > 0)
			continue;
		fputs(SCREEN_CLEAR, stdout);
		fwrite(text, 1, size, stdout);
		fflush(stdout);
		return;
	}
}

/* A screen that must fit the terminal cuts its lines. A locale without UTF-8 gets ASCII. */
static void put(struct screen *screen, const char *text, size_t len)
{
	static const char *const replaced[] = {"█#", "·.", "…~", "µu"};

	for (const char *end = text + len, *from; text < end;) {
		from = utf8_next(&text, &len);
		if (*from == '\n')
			screen->column = 0;
		else if (screen->column++ >= screen->width && screen->out != stdout)
			continue;
		for (size_t i = 0; screen->ascii && len > 1 && i < ARRAY_SIZE(replaced); i++)
			if (strncmp(replaced[i], from, len) == 0)
				from = replaced[i] + len, len = 1;
		fwrite(screen->ascii && len > 1 ? "?" : from, 1, screen->ascii ? 1 : len,
			screen->out);
	}
}

void draw(struct screen *screen, enum color color, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	must_do(vasprintf(&text, format, args) >= 0);
	va_end(args);
	if (color != COLOR_NONE)
		set_color(screen, color);
	put(screen, text, strlen(text));
	if (color != COLOR_NONE)
		set_color(screen, COLOR_NONE);
}

void draw_bar(struct screen *screen, enum color color, double share)
{
	int full = (int)lround(fmin(fmax(share, 0), 1) * BAR_WIDTH);

	if (!screen->bars)
		return;
	if (share > 0) /* even the smallest use is visible */
		full = MAX(full, 1);
	for (int i = 0; i < BAR_WIDTH; i++) {
		if (i == 0 || i == full)
			set_color(screen, i < full ? color : COLOR_FAINT);
		draw(screen, COLOR_NONE, i < full ? "█" : "·");
	}
	set_color(screen, COLOR_NONE);
	draw(screen, COLOR_NONE, "  ");
}

void draw_wrapped(struct screen *screen, int indent, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	int begin = screen->column;
	va_list args;

	va_start(args, format);
	must_do(vasprintf(&text, format, args) >= 0);
	va_end(args);
	for (const char *word = text; *word;) {
		size_t len = strcspn(word, " ");

		if (screen->column > begin &&
			screen->column + 1 + columns_of(word, len) > screen->width) {
			draw(screen, COLOR_NONE, "\n");
			draw(screen, COLOR_NONE, "%*s", indent, "");
			begin = indent;
		} else if (screen->column > begin) {
			put(screen, " ", 1);
		}
		put(screen, word, len);
		word += len + (word[len] == ' ');
	}
	put(screen, "\n", 1);
}

void draw_field(struct screen *screen, enum color color, int indent, int width, const char *name,
	const char *text)
{
	if (!text || !text[0])
		return;
	draw(screen, color, "%*s%-*s ", indent, "", width, name);
	draw_wrapped(screen, indent + width + 1, "%s", text);
}

void draw_paragraph(struct screen *screen, int indent, const char *text)
{
	if (!text[0])
		return;
	draw(screen, COLOR_NONE, "%*s", indent, "");
	draw_wrapped(screen, indent, "%s", text);
}
