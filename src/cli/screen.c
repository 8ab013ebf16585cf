/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <ctype.h>
#include <math.h>
#include <sys/ioctl.h>

#define BAR_WIDTH      12
#define BAR_SCREEN_MIN 72 /* a narrower screen has no room for bars beside names and figures */
#define UNIT_MAX       3  /* "GiB" */
#define KEEP_MAX       64 /* rows of a list on a terminal */

/* Begin lines of a live view, for its filter. They are not printed, and no text has them. */
#define MARK_HEADING '\001'
#define MARK_FURTHER '\002' /* it continues the row above */

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

/* Blanks are written with what follows them, so that no line ends with any. */
static void put_blanks(struct screen *screen)
{
	fprintf(screen->out, "%*s", screen->blanks, "");
	screen->blanks = 0;
}

static void set_color(struct screen *screen, enum color color)
{
	static const char *const codes[] = {
		[COLOR_NONE] = "\033[0m",
		[COLOR_GOOD] = "\033[32m",
		[COLOR_WARNING] = "\033[33m",
		[COLOR_BAD] = "\033[31m",
		[COLOR_FAINT] = "\033[2m",
		[COLOR_BOLD] = "\033[1m",
	};

	if (!screen->color)
		return;
	if (color != COLOR_NONE && screen->column < screen->width)
		put_blanks(screen);
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

static bool is_figure(char c)
{
	return (c >= '0' && c <= '9') || c == '.';
}

/* Returns whether the column is between two characters of a number. */
static bool splits_figure(const char *text, int column)
{
	int at = 0;

	for (const char *c = text; *c; c++) {
		if ((*c & 0xc0) == 0x80)
			continue;
		if (at++ == column)
			return c > text && is_figure(c[-1]) && is_figure(*c);
	}
	return false;
}

const char *shorten(const char *text, int width, char *out, size_t size)
{
	const int columns = text_width(text);
	int at = 0, left = width / 2, right = left + columns - width + 1;

	/* A part of a number would be another number. */
	while (columns > width && splits_figure(text, left))
		left--;
	while (columns > width && splits_figure(text, right))
		right++;

	out[0] = '\0';
	for (size_t len; *text; at++) {
		const char *from = utf8_next(&text, &len);

		if (columns <= width || at < left || at >= right)
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

static void put_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != MARK_HEADING && text[i] != MARK_FURTHER)
			putchar(text[i]);
}

/* Returns the next row with all its lines, and moves text past it. */
static const char *next_row(const char **text, size_t *len)
{
	const char *row = *text;

	do {
		*text += strcspn(*text, "\n");
		*text += **text == '\n';
	} while (**text == MARK_FURTHER);
	*len = (size_t)(*text - row);
	return row;
}

/* Returns a row as one line without marks and colours. The caller frees it. */
static char *plain_row(const char *row, size_t len)
{
	char *plain = must(strndup(row, len)), *to = plain;

	for (const char *from = plain; *from; from++) {
		if (*from == '\033')
			from += strcspn(from, "m");
		else if (*from == MARK_FURTHER)
			from += strspn(from + 1, " ");
		else if (*from != MARK_HEADING)
			*to++ = *from == '\n' ? ' ' : *from;
	}
	*to = '\0';
	return plain;
}

/*
 * Returns the first row, which has the verdict, and the rows that have the text, each below the
 * headings of its table and the row that it belongs to. The caller frees it.
 */
static char *filter_rows(const char *text, const char *filter)
{
	const char *headings = NULL, *parent = NULL, *row;
	size_t headings_len = 0, parent_len = 0, size, len;
	bool in_headings = false, has_heading = false, any = false;
	char *kept = NULL;
	FILE *out = must(open_memstream(&kept, &size));

	row = next_row(&text, &len);
	fwrite(row, 1, len, out);
	while (*text) {
		_cleanup_free_ char *plain = NULL;
		bool has;

		row = next_row(&text, &len);
		plain = plain_row(row, len);
		has = strcasestr(plain, filter);
		any = any || has;
		if (*row == MARK_HEADING) {
			headings = in_headings ? headings : row;
			headings_len = (size_t)(text - headings);
			has_heading = has || (in_headings && has_heading);
			in_headings = true;
			continue;
		}
		in_headings = false;
		if (strspn(plain, " ") < LIVE_INDENT)
			parent = row, parent_len = len;
		if ((has || has_heading) && headings)
			fwrite(steal(headings), 1, headings_len, out);
		if (has && parent && parent != row)
			fwrite(parent, 1, parent_len, out);
		if (has)
			fwrite(row, 1, len, out), parent = NULL;
	}
	if (!any)
		fprintf(out, "nothing has \"%s\"\n", filter);
	fclose(out);
	return kept;
}

/* Writes the text from the line to which it was scrolled, below its first row. */
static void put_scrolled(const struct screen *screen, const char *text)
{
	struct live_view *view = screen->view;
	const bool has_filter = view->typing || view->filter[0];
	_cleanup_free_ char *kept = view->filter[0] ? filter_rows(text, view->filter) : NULL;
	const char *rest = kept ? kept : text, *first;
	size_t len;
	int n, pinned, room;

	lines_of(rest, 0, &n);
	first = next_row(&rest, &len);
	pinned = n;
	lines_of(rest, 0, &n);
	pinned -= n;
	room = MAX(screen->height - 1 - pinned - has_filter, 1);
	view->scroll = MAX(MIN(view->scroll, n - room), 0);
	put_text(first, len);
	rest += lines_of(rest, view->scroll, &n);
	put_text(rest, lines_of(rest, room, &n));
	if (has_filter)
		printf("/%s%s\n", view->filter, view->typing ? "_" : "");
}

static void put_keys(void)
{
	puts("s          sort by the next column\n"
	     "up, down   scroll by a line, with the page keys by a screen; home, end\n"
	     "/          show only rows with a text and their headings: type it, then Enter; Esc shows all\n"
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
		put_text(text, size);
		fflush(stdout);
	}
}

/* Returns whether a live view is drawn: each line must fit its width. */
static bool is_buffered(const struct screen *screen)
{
	return screen->live && screen->out != stdout;
}

void draw_further(struct screen *screen, int indent)
{
	fputc('\n', screen->out);
	if (is_buffered(screen))
		fputc(MARK_FURTHER, screen->out);
	screen->column = screen->blanks = indent;
}

void draw_heading_mark(struct screen *screen)
{
	if (is_buffered(screen))
		fputc(MARK_HEADING, screen->out);
}

/* A word that is wider than the screen continues on the next line. ASCII for other locales. */
static void put(struct screen *screen, const char *text, size_t len)
{
	static const char *const replaced[] = {"█#", "·.", "…~", "µu"};

	for (const char *end = text + len, *from; text < end;) {
		from = utf8_next(&text, &len);
		if (*from == '\n') {
			fputc('\n', screen->out);
			screen->column = screen->blanks = 0;
			continue;
		}
		if (*from != ' ' && screen->column >= screen->width && is_buffered(screen))
			draw_further(screen, 0);
		screen->column++;
		if (*from == ' ') {
			screen->blanks++;
			continue;
		}
		put_blanks(screen);
		for (size_t i = 0; screen->ascii && len > 1 && i < ARRAY_SIZE(replaced); i++)
			if (strncmp(replaced[i], from, len) == 0)
				from = replaced[i] + len, len = 1;
		fwrite(screen->ascii && len > 1 ? "?" : from, 1, screen->ascii ? 1 : len,
			screen->out);
	}
}

/* Returns the length of the word; a number and its unit are one. */
static size_t word_length(const char *text)
{
	const size_t len = strcspn(text, " \n");
	const char *unit = text + len + 1;

	if (text[len] != ' ' || !isdigit((unsigned char)text[len - 1]) || !*unit ||
		strchr(" (0123456789", *unit) ||
		columns_of(unit, strcspn(unit, " ,;:)\n")) > UNIT_MAX)
		return len;
	return len + 1 + strcspn(unit, " \n");
}

/*
 * Breaks lines between words. The further lines begin at column indent, or before it for a word
 * that is whole there.
 */
static void put_words(struct screen *screen, int indent, const char *text)
{
	for (size_t len; *text; put(screen, text, len), text += len) {
		int columns, begin;

		len = strspn(text, " \n");
		if (len > 0)
			continue;
		len = word_length(text);
		columns = columns_of(text, len);
		begin = MAX(MIN(MIN(indent, screen->width / 2), screen->width - columns), 0);
		if (screen->column <= begin || screen->column + columns <= screen->width)
			continue;
		if (screen->blanks == screen->column)
			screen->column = screen->blanks = begin;
		else
			draw_further(screen, begin);
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
	if (is_buffered(screen))
		put_words(screen, LIVE_INDENT, text);
	else
		put(screen, text, strlen(text));
	if (color != COLOR_NONE)
		set_color(screen, COLOR_NONE);
}

void draw_bar(struct screen *screen, enum color color, double share)
{
	int full = (int)lround(fmin(fmax(share, 0), 1) * BAR_WIDTH);

	if (!screen->bars || screen->width < BAR_SCREEN_MIN)
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
	va_list args;

	va_start(args, format);
	must_do(vasprintf(&text, format, args) >= 0);
	va_end(args);
	put_words(screen, indent, text);
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
