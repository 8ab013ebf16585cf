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
		.lines = INT_MAX,
		.problems = INT_MAX,
		.names = 19,
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

/* Makes the numbers of rows smaller. Returns false if there is nothing left to leave out. */
static bool leave_out(struct screen *screen)
{
	if (screen->keep > 0)
		screen->keep -= MAX(screen->keep / 8, 1);
	else if (screen->lines > 0)
		screen->lines--;
	else if (screen->problems > 0)
		screen->problems -= MAX(screen->problems / 8, 1);
	else
		return false;
	if (screen->keep > 0)
		screen->lines = MAX(screen->keep, LINES_MIN);
	return true;
}

/* Returns the next line, without its end, and moves text past it. */
static const char *next_line(const char **text, size_t *len)
{
	const char *line = *text;

	*len = strcspn(line, "\n");
	*text = line + *len + (line[*len] == '\n');
	return line;
}

/* Returns whether a line is to be shown: the first one has the verdict. */
static bool passes(const struct live_view *view, const char *line, size_t len, bool first)
{
	_cleanup_free_ char *text = must(strndup(line, len));

	return first || !view->filter[0] || strcasestr(text, view->filter);
}

/* Writes the whole text from the line to which it was scrolled: the lines that pass the filter. */
static void put_scrolled(const struct screen *screen, const char *text)
{
	struct live_view *view = screen->view;
	const int room = MAX(screen->height - 2 - (view->typing || view->filter[0]), 1);
	const char *rest = text, *line;
	int n = 0, at = 0;
	size_t len;

	for (bool first = true; *rest; first = false)
		line = next_line(&rest, &len), n += passes(view, line, len, first);
	view->scroll = MAX(MIN(view->scroll, n - 1 - room), 0);
	for (bool first = true; *text; first = false) {
		line = next_line(&text, &len);
		if (!passes(view, line, len, first))
			continue;
		if (first || (at > view->scroll && at <= view->scroll + room))
			printf("%.*s\n", (int)len, line);
		at++;
	}
	if (view->typing || view->filter[0])
		printf("/%s%s\n", view->filter, view->typing ? "_" : "");
}

static void put_keys(void)
{
	puts("s          sort by the next column\n"
	     "up, down   scroll by a line, with the page keys by a screen; home, end\n"
	     "/          show only lines with a text: type it, then Enter; Esc shows all\n"
	     "?          this list\n"
	     "q          quit");
}

/* Draws a view that the keys have scrolled or filtered, or their list. Returns false for others. */
static bool draw_changed(
	struct screen *screen, void (*render)(struct screen *screen, void *data), void *data)
{
	struct live_view *view = screen->view;
	_cleanup_free_ char *text = NULL;
	size_t size;

	if (!view || !(view->scroll > 0 || view->typing || view->filter[0] || view->keys))
		return false;
	screen->out = must(open_memstream(&text, &size));
	render(screen, data);
	fclose(screen->out);
	screen->out = stdout;
	fputs(SCREEN_CLEAR, stdout);
	if (view->keys)
		put_keys();
	else
		put_scrolled(screen, text);
	fflush(stdout);
	return true;
}

void screen_fit(
	struct screen *screen, void (*render)(struct screen *screen, void *data), void *data)
{
	if (!screen->live) {
		render(screen, data);
		fflush(stdout); /* status --watch in a pipe */
		return;
	}
	if (draw_changed(screen, render, data))
		return;
	screen->keep = screen->lines = screen->problems = KEEP_MAX;
	for (bool fits = false; !fits;) {
		_cleanup_free_ char *text = NULL;
		size_t size;
		int n;

		screen->out = must(open_memstream(&text, &size));
		render(screen, data);
		fclose(screen->out);
		screen->out = stdout;
		size = lines_of(text, screen->height - 1, &n);
		fits = n < screen->height || !leave_out(screen);
		if (!fits)
			continue;
		fputs(SCREEN_CLEAR, stdout);
		fwrite(text, 1, size, stdout);
		fflush(stdout);
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
	/* A line breaks at blanks, which are not drawn at its begin and at the end of the text. */
	for (const char *word = text; *word;) {
		const char *before = word;
		size_t blanks = strspn(word, " "), len = strcspn(word + blanks, " ");
		bool breaks = blanks > 0 && len > 0 && screen->column > MIN(begin, indent);

		word += blanks;
		if (breaks &&
			screen->column + (int)blanks + columns_of(word, len) > screen->width) {
			draw(screen, COLOR_NONE, "\n");
			draw(screen, COLOR_NONE, "%*s", indent, "");
			begin = indent;
		} else if (breaks) {
			put(screen, before, blanks);
		}
		put(screen, word, len);
		word += len;
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
