/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The views of the status document: headroom status, images, top and version. The parts, in order:
 * what several views draw; status; images; repetition and keys; the tables and limits of top; the
 * commands. They print what the document says, and judge nothing.
 */
#include "cli/cli.h"

#include "base/build.h"
#include "report/report.h"
#include "tuners/table.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>

#define WATCH_SECONDS 2
#define VERDICT_WIDTH 28 /* "  headroom 0.1.0  critical" */
#define FIRST_MIN     12 /* a shorter name says nothing */

static void draw_heading(struct screen *screen, const char *text)
{
	draw(screen, COLOR_NONE, "\n");
	draw_heading_mark(screen);
	draw(screen, COLOR_BOLD, "%s", text);
	draw(screen, COLOR_NONE, "\n");
}

/* Says why no agent answers, and what that means for the view. */
static void draw_alone(struct screen *screen, const char *alone, const char *meaning)
{
	draw(screen, COLOR_WARNING, "%s", alone);
	draw_wrapped(screen, 2, ": %s", meaning);
}

enum color color_of(const char *word)
{
	_Static_assert(COLOR_FAINT - COLOR_GOOD == TONE_FAINT, "colours in the order of the tones");
	return (enum color)(COLOR_GOOD + tone_of(word));
}

static void print_rest(struct screen *screen, int n, const char *what)
{
	if (n > 0)
		draw(screen, COLOR_FAINT, "  and %d %s\n", n, what);
}

static double limit_rank(const cJSON *limit, const void *data)
{
	const struct screen *screen = data;
	const char *severity = json_text_at(limit, "severity");
	double share = json_number_at(limit, "used") / MAX(json_number_at(limit, "max"), 1.0);

	return (streq(severity, "critical")         ? 2000
		       : streq(severity, "warning") ? 1000
						    : 0) +
	       (screen->live ? MIN(share, 999.0) : 0);
}

#define NAMES_MAX 24

/* Also makes room for their names. */
static void sort_limits(struct screen *screen, cJSON *limits)
{
	const cJSON *limit;

	json_sort(limits, limit_rank, screen);
	cJSON_ArrayForEach (limit, limits)
		screen->names =
			MIN(MAX(screen->names, text_width(json_text_at(limit, "name"))), NAMES_MAX);
}

/* Names what the verdict does not count: ignored findings, and tuners that change nothing. */
static void add_quiet(const cJSON *status, char *text, size_t size)
{
	const char *between = "; released: ";
	const cJSON *item;
	int n = 0;

	cJSON_ArrayForEach (item, json_at(status, "findings"))
		n += cJSON_IsTrue(json_at(item, "ignored"));
	if (n > 0)
		text_append(text, size, "; %d ignored", n);
	cJSON_ArrayForEach (item, json_at(status, "tuners"))
		if (streq(json_text_at(item, "mode"), mode_names[MODE_RELEASED])) {
			text_append(text, size, "%s%s", between, json_text_at(item, "name"));
			between = ", ";
		}
}

static void print_verdict(struct screen *screen, const cJSON *status, const char *alone)
{
	const char *verdict = json_text_at(status, "node/verdict"), *between = ": ";
	const cJSON *condition;
	char text[512] = "", name[512];

	/* The line has room for the verdict. */
	draw(screen, COLOR_BOLD, "%s",
		shorten(json_text_at(status, "node/name"),
			screen->live ? MAX(screen->width - VERDICT_WIDTH, FIRST_MIN) : INT_MAX,
			name, sizeof(name)));
	draw(screen, COLOR_NONE, "  headroom %s", json_text_at(status, "node/version"));
	if (!alone[0] || !streq(verdict, "ok")) {
		draw(screen, COLOR_NONE, "  ");
		draw(screen, color_of(verdict), "%s", verdict);
	}
	cJSON_ArrayForEach (condition, json_at(status, "conditions")) {
		if (!streq(json_text_at(condition, "status"), "True") || !has_problem(condition))
			continue;
		text_append(text, sizeof(text), "%s%s", between, json_text_at(condition, "type"));
		between = ", ";
	}
	add_quiet(status, text, sizeof(text));
	draw_wrapped(screen, 2, "%s", text);
}

/* Leaves out the last parts, which two blanks separate, until the text fits the live screen. */
static void fit_parts(const struct screen *screen, char *text)
{
	while (screen->live && screen->column + text_width(text) > screen->width) {
		char *cut = NULL;

		for (char *at = text; (at = strstr(at, "  ")); at += 2)
			cut = at;
		if (!cut)
			return;
		*cut = '\0';
	}
}

static void print_limit(struct screen *screen, const cJSON *limit)
{
	const cJSON *full = json_at(limit, "full_in_seconds");
	const char *unit = json_text_at(limit, "unit");
	double used = json_number_at(limit, "used"), max = json_number_at(limit, "max");
	double peak = json_number_at(limit, "peak"), hits = json_number_at(limit, "hits");
	double before = json_number_at(limit, "hits_before"), share = used / MAX(max, 1.0);
	char use[USE_MAX], percent[SHARE_MAX], amount[AMOUNT_MAX], text[512];

	shorten(json_text_at(limit, "name"), screen->live ? screen->names : INT_MAX, text,
		sizeof(text));
	draw(screen, COLOR_NONE, "  %s%*s ", text, MAX(screen->names - text_width(text), 0), "");
	draw_bar(screen, color_of(json_text_at(limit, "severity")), share);
	if (max > 0)
		snprintf(text, sizeof(text), "%s%s  %s",
			streq(json_text_at(limit, "bound"), "upper") ? "<= " : "",
			use_text(used, max, unit, use), share_text(share, percent));
	else
		snprintf(text, sizeof(text), "no maximum is known");
	if (screen->live && screen->column + text_width(text) > screen->width)
		draw_further(screen, LIVE_INDENT);
	/* The parts from the most to the least important. */
	if (cJSON_IsNumber(full)) {
		duration_text(full->valuedouble, amount);
		text_append(text, sizeof(text), "  full in %s", amount);
	}
	if (max > 0)
		text_append(text, sizeof(text), "  peak %s", bare_amount_text(peak, unit, amount));
	if (max > 0 && peak > max)
		text_append(text, sizeof(text), " at %s", json_text_at(limit, "peak_at"));
	if (peak > used && json_at(limit, "peak_top/0"))
		text_append(text, sizeof(text), " (%s %s)",
			json_text_at(limit, "peak_top/0/workload/text"),
			bare_amount_text(json_number_at(limit, "peak_top/0/used"), unit, amount));
	if (hits > 0)
		text_append(text, sizeof(text), "  hits %.0f", hits - before);
	if (before > 0)
		text_append(text, sizeof(text), " (%.0f since boot)", hits);
	fit_parts(screen, text);
	draw_wrapped(screen, screen->names + 3, "%s", text);
}

static void print_tuner(struct screen *screen, const cJSON *tuner, const cJSON *settings)
{
	const char *name = json_text_at(tuner, "name"), *mode = json_text_at(tuner, "mode");
	const char *state = json_text_at(tuner, "state");
	int blanks = MAX(11 - (int)strlen(state), 1);

	draw(screen, COLOR_NONE, "  %-10s %-8s ", name, mode);
	draw(screen, color_of(state), "%s", state);
	for (size_t i = 0; i <= SETTING_OBSERVED; i++) {
		const cJSON *setting;
		int n = 0;

		cJSON_ArrayForEach (setting, settings)
			n += streq(json_text_at(setting, "tuner"), name) &&
			     streq(json_text_at(setting, "state"), setting_state_names[i]);
		if (n == 0)
			continue;
		draw(screen, COLOR_NONE, "%*s%d ", blanks, blanks > 0 ? "" : ", ", n);
		draw(screen, color_of(setting_state_names[i]), "%s", setting_state_names[i]);
		blanks = 0;
	}
	draw(screen, COLOR_NONE, "\n");
	if (streq(mode, "released"))
		draw(screen, COLOR_NONE, "%13ssince %s, until headroom apply\n", "",
			json_text_at(tuner, "since"));
	draw_paragraph(screen, 13, json_text_at(tuner, "why"));
}

static void print_pulls(struct screen *screen, const cJSON *pulls)
{
	const cJSON *pull;

	if (cJSON_GetArraySize(pulls) > 0)
		draw_heading(screen, "Pulls");
	cJSON_ArrayForEach (pull, pulls) {
		double total = json_number_at(pull, "total");

		draw(screen, COLOR_NONE, "  %-12s ", json_text_at(pull, "runtime"));
		if (total > 0)
			draw_bar(screen, COLOR_GOOD, json_number_at(pull, "done") / total);
		draw_wrapped(screen, 15, "%s  %s", json_text_at(pull, "progress"),
			json_text_at(pull, "image"));
	}
}

/*
 * Lists the conditions that are True or Unknown, and counts those that are OK, except for tuners
 * that are off. The findings say why one is True.
 */
static void print_conditions(struct screen *screen, const cJSON *conditions)
{
	const cJSON *condition;
	char absent[256] = "";
	int n = 0;

	draw_heading(screen, "Conditions");
	cJSON_ArrayForEach (condition, conditions) {
		const char *reason = json_text_at(condition, "reason");
		const char *status = json_text_at(condition, "status");
		const char *word = condition_word(condition, status);
		const char *what = reason_rows[reason_parse(reason)].absent;

		if (what && !strstr(absent, what))
			text_append(absent, sizeof(absent), "%s%s", absent[0] ? ", " : "", what);
		n += !what && streq(status, "False");
		if (!condition_is_listed(condition))
			continue;
		draw(screen, COLOR_NONE, "  ");
		draw(screen, color_of(word), "%-8s", word);
		draw_wrapped(screen, 11, " %-28s %s", json_text_at(condition, "type"), reason);
		if (streq(status, condition_status_names[CONDITION_UNKNOWN]))
			draw_paragraph(screen, 11, json_text_at(condition, "message"));
	}
	draw(screen, COLOR_NONE, "  ");
	draw(screen, COLOR_GOOD, "%d OK", n);
	draw(screen, COLOR_NONE, "\n");
	if (absent[0]) {
		draw(screen, COLOR_NONE, "  not applicable: ");
		draw_wrapped(screen, 4, "%s", absent);
	}
}

/* Prints "ready  12.3 MB  1.2 s  docker.io/library/busybox:1.36  from PATH  pinned"; then the
 * error. */
static void print_image(struct screen *screen, const cJSON *image)
{
	const char *state = json_text_at(image, "state"), *why = json_text_at(image, "why");
	const char *source = json_text_at(image, "source"), *name = json_text_at(image, "name");
	double size = json_number_at(image, "size_bytes"), next;
	const cJSON *done = json_at(image, "bytes_done");
	char amount[USE_MAX], took[TIME_TEXT_MAX], text[1024] = "";

	draw(screen, COLOR_NONE, "  ");
	draw(screen, color_of(state), "%-8s ", state);
	if (cJSON_IsNumber(done)) {
		draw_bar(screen, COLOR_GOOD, done->valuedouble / MAX(size, 1.0));
		text_append(text, sizeof(text), "%s  ",
			use_text(done->valuedouble, size, "bytes", amount));
	} else if (size > 0) {
		text_append(text, sizeof(text), "%s  ", amount_text(size, "bytes", amount));
	}
	if (json_number_at(image, "seconds") > 0) {
		latency_text(json_number_at(image, "seconds"), took);
		text_append(text, sizeof(text), "%s  ", took);
	}
	text_append(text, sizeof(text), "%s", name);
	if (!streq(source, name))
		text_append(text, sizeof(text), "  from %s", source);
	if (cJSON_IsTrue(json_at(image, "pinned")))
		text_append(text, sizeof(text), "  pinned");
	if (!streq(state, "ready") && !why[0])
		text_append(text, sizeof(text), "  (%s)", json_text_at(image, "reason"));
	draw_wrapped(screen, 11, "%s", text);
	if (!why[0])
		return;
	next = json_number_at(image, "next_in_seconds");
	duration_text(next, took);
	draw(screen, COLOR_NONE, "%11s", "");
	draw_wrapped(screen, 11, "%s: %s%s%s", json_text_at(image, "reason"), why,
		next > 0 ? "; again in " : "", next > 0 ? took : "");
}

/* On a small screen, the last ones are left out; the agent leaves out what its list cannot hold. */
static void print_problems(struct screen *screen, const cJSON *status)
{
	const cJSON *findings = json_at(status, "findings"), *finding;
	int n = 0;

	if (cJSON_GetArraySize(findings) > 0)
		draw_heading(screen, "Problems");
	cJSON_ArrayForEach (finding, findings)
		if (n++ == 0 || n <= screen->problems)
			draw_finding(screen, 2, finding_word(finding), finding);
	print_rest(screen,
		MAX(n - MAX(screen->problems, 1), 0) +
			(int)json_number_at(status, "node/findings_left_out"),
		"problems");
}

struct status_view {
	cJSON *status;
	const char *alone;
};

static void render_status(struct screen *screen, void *data)
{
	const struct status_view *view = data;
	const cJSON *status = view->status;
	const cJSON *settings = json_at(status, "settings"), *item;
	const char *heading = "Images";
	double would_change = json_number_at(status, "node/would_change");
	int width = 30, n = 0;

	if (view->alone[0]) /* a single reading cannot tell that the node is ok */
		draw_alone(screen, view->alone, "this is a single reading without BPF counters.");
	print_verdict(screen, status, view->alone);
	if (would_change > 0)
		draw(screen, COLOR_WARNING, "  %.0f would change: see headroom plan\n",
			would_change);
	print_problems(screen, status);
	draw_heading(screen, "Limits");
	cJSON_ArrayForEach (item, json_at(status, "limits"))
		if (has_problem(item) || n++ < screen->keep)
			print_limit(screen, item);
	print_rest(screen, n - screen->keep, "idle");
	print_conditions(screen, json_at(status, "conditions"));
	draw_heading(screen, "Settings");
	n = 0;
	cJSON_ArrayForEach (item, json_at(status, "tuners"))
		if (!streq(json_text_at(item, "mode"), "off") &&
			(!streq(json_text_at(item, "state"), "active") || n++ < screen->keep))
			print_tuner(screen, item, settings);
	print_rest(screen, n - screen->keep, "active tuners");
	cJSON_ArrayForEach (item, settings)
		width = MIN(MAX(width, (int)strlen(json_text_at(item, "name"))), 40);
	/* Settings that need attention; print_tuner() has counted the others. */
	cJSON_ArrayForEach (item, settings) {
		const char *state = json_text_at(item, "state");
		const char *reason = json_text_at(item, "reason");
		bool is_removed = reason_parse(reason) == REASON_NO_LONGER_CONFIGURED;

		if (streq(state, "in-sync") || streq(state, "unsupported") ||
			(streq(state, "observed") && !is_removed))
			continue;
		draw(screen, COLOR_NONE, "    %-*s ", width, json_text_at(item, "name"));
		draw(screen, color_of(state), "%-8s ", state);
		if (is_removed)
			draw_wrapped(screen, 6, "%s, original %s (%s)",
				json_text_at(item, "actual"), json_text_at(item, "original"),
				reason);
		else
			draw_wrapped(screen, 6, "%s, wanted %s (%s)", json_text_at(item, "actual"),
				json_text_at(item, "wanted"), reason);
	}
	print_pulls(screen, json_at(status, "runtime/pulls"));
	cJSON_ArrayForEach (item, json_at(status, "images")) {
		if (!streq(json_text_at(item, "state"), "active"))
			continue; /* `headroom images` lists all */
		if (heading)
			draw_heading(screen, steal(heading));
		print_image(screen, item);
	}
}

static int show_status(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_open();
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, false, &status, alone);

	if (r != EXIT_OK)
		return r;
	if (cli->json) {
		json_put(stdout, cJSON_Duplicate(status, true), true);
	} else {
		screen.live = screen.live && cli->watch;
		screen.view = cli->live;
		sort_limits(&screen, cJSON_GetObjectItem(status, "limits"));
		screen_fit(&screen, render_status, &(struct status_view){status, alone});
	}
	return streq(json_text_at(status, "node/verdict"), "ok") ? EXIT_OK : EXIT_ATTENTION;
}

/* Keys that terminals send as several bytes. */
enum { KEY_UP = 256, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END, KEY_OTHER };

static int parse_key(const char *bytes)
{
	static const struct {
		const char *bytes;
		int key;
	} keys[] = {
		{"\033[A", KEY_UP},
		{"\033[B", KEY_DOWN},
		{"\033OA", KEY_UP},
		{"\033OB", KEY_DOWN},
		{"\033[5~", KEY_PAGE_UP},
		{"\033[6~", KEY_PAGE_DOWN},
		{"\033[H", KEY_HOME},
		{"\033[F", KEY_END},
		{"\033[1~", KEY_HOME},
		{"\033[4~", KEY_END},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (streq(keys[i].bytes, bytes))
			return keys[i].key;
	return bytes[0] == '\033' && bytes[1] ? KEY_OTHER : (unsigned char)bytes[0];
}

/*
 * Waits two seconds or for a key and returns it, or 0. Ctrl-C and the end of input count as q. A
 * signal that ends the process is delivered after the terminal has been reset.
 */
static int wait_key(bool *ends)
{
	static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	struct pollfd inputs[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
	struct termios was, raw;
	_cleanup_close_ int signals = -1;
	sigset_t held, before;
	char bytes[8] = "";

	/* A background process must not change the terminal. */
	if (tcgetattr(STDIN_FILENO, &was) < 0 || tcgetpgrp(STDIN_FILENO) != getpgrp()) {
		sleep(WATCH_SECONDS);
		return 0;
	}
	sigemptyset(&held);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		sigaddset(&held, ending[i]);
	sigprocmask(SIG_BLOCK, &held, &before);
	inputs[1].fd = signals = signalfd(-1, &held, SFD_CLOEXEC);
	raw = was;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	*ends = poll(inputs, 2, WATCH_SECONDS * 1000) > 0 && inputs[0].revents &&
		(read(STDIN_FILENO, bytes, 1) != 1 || bytes[0] == (char)was.c_cc[VINTR]);
	/* The rest of a key that is several bytes comes with its first one. */
	if (bytes[0] == '\033' && poll(inputs, 1, 0) > 0)
		(void)!read(STDIN_FILENO, bytes + 1, sizeof(bytes) - 2);
	tcsetattr(STDIN_FILENO, TCSANOW, &was);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return parse_key(bytes);
}

/* Adds a key to the filter. Enter ends the typing, and Esc the filter. */
static void type_key(struct live_view *view, int key)
{
	const size_t len = strlen(view->filter);

	if (key == '\033')
		view->filter[0] = '\0';
	if (key == '\033' || key == '\r' || key == '\n')
		view->typing = false;
	else if ((key == '\b' || key == 0x7f) && len > 0)
		view->filter[len - 1] = '\0';
	else if (key >= ' ' && key < 0x7f && len + 1 < sizeof(view->filter))
		snprintf(view->filter + len, sizeof(view->filter) - len, "%c", key);
}

/* Returns false if the key ends the view. */
static bool press_key(struct live_view *view, int key)
{
	const int page = MAX(screen_open().height - 3, 1);

	if (view->typing) {
		type_key(view, key);
		return true;
	}
	if (key != 0)
		view->keys = key == '?' && !view->keys;
	if (key == '\033')
		view->filter[0] = '\0';
	view->typing = key == '/';
	view->sort_column += key == 's';
	view->scroll += key == KEY_DOWN        ? 1
			: key == KEY_UP        ? -1
			: key == KEY_PAGE_DOWN ? page
			: key == KEY_PAGE_UP   ? -page
					       : 0;
	view->scroll = key == KEY_HOME ? 0 : key == KEY_END ? INT_MAX / 2 : MAX(view->scroll, 0);
	return key != 'q';
}

static int cli_repeat(const struct cli *cli, bool again, int (*print)(const struct cli *cli))
{
	struct live_view live = {0};
	struct cli view = *cli;
	int r;

	view.live = again ? &live : NULL;
	r = print(&view);
	while (again && r != EXIT_FAILED && !ferror(stdout)) {
		bool ends = false;
		const int key = wait_key(&ends);

		if (ends || !press_key(&live, key))
			break;
		r = print(&view);
	}
	return r;
}

/* ---- top ---- */

/*
 * Columns with a larger rank do not fit. The first column is as wide as its longest text, if that
 * fits. A live view cuts it else; in a pipe it is at least as wide, and the last cells wrap.
 */
struct layout {
	const struct table_view *view;
	const struct column *sorted; /* NULL: the order of the document */
	int first_width;
	unsigned rank;
};

static bool is_shown(const struct layout *layout, const struct column *column)
{
	return column->heading && column->rank <= layout->rank;
}

static struct layout lay_out(const struct screen *screen, const struct table_view *view,
	const cJSON *rows, const struct column *sorted)
{
	struct layout layout = {.view = view, .sorted = sorted, .rank = UINT_MAX};
	const cJSON *row;
	int width, longest = FIRST_MIN;

	cJSON_ArrayForEach (row, rows)
		longest = MAX(longest, text_width(json_text_at(row, view->columns[0].key)));
	layout.first_width = MIN(view->columns[0].width, -longest);
	do {
		unsigned largest = 0;

		width = 3 - layout.first_width;
		for (const struct column *c = view->columns + 1; c->key || c->write; c++) {
			if (!is_shown(&layout, c))
				continue;
			width += abs(c->width);
			largest = MAX(largest, c->rank);
		}
		if (width <= screen->width || largest == 0) {
			if (width > screen->width)
				layout.first_width = MIN(layout.first_width + width - screen->width,
					screen->live ? -FIRST_MIN : -longest);
			return layout;
		}
		layout.rank = largest - 1;
	} while (true);
}

/* Writes a cell of a row, or the heading if row is NULL. */
static void write_cell(const struct layout *layout, const struct column *column, const cJSON *row,
	char text[static CELL_MAX])
{
	const struct table_view *view = layout->view;
	const bool is_number = column->format == COLUMN_NUMBER;
	char whole[CELL_MAX];

	if (!row)
		copy_text(text, CELL_MAX, column->heading);
	else if (is_number && view->blanks && view->blanks(row))
		copy_text(text, CELL_MAX, "-");
	else if (is_number && !column->write)
		snprintf(text, CELL_MAX, "%.0f", json_number_at(row, column->key));
	else if (column == view->columns)
		shorten(cell_text(column, row, whole, sizeof(whole)), -layout->first_width, text,
			CELL_MAX);
	else
		cell_text(column, row, text, CELL_MAX);
	if (row && column->format == COLUMN_SECONDS && !text[0])
		copy_text(text, CELL_MAX, "-");
}

/* Numbers are green below their limit, yellow near it, red above it. */
static enum color cell_color(const struct column *column, const cJSON *row, const char *text)
{
	const double value = column->key ? json_number_at(row, column->key) : 0;
	const double limit = column->limit ? json_number_at(row, column->limit) : 0;

	if (column->format == COLUMN_STATE)
		return color_of(column->tone ? json_text_at(row, column->tone) : text);
	return limit <= 0 || streq(text, "-") ? COLOR_NONE
	       : value > limit                ? COLOR_BAD
	       : value > 0.8 * limit          ? COLOR_WARNING
					      : COLOR_GOOD;
}

/* Prints a row, or the headings if row is NULL. No line ends with blanks. */
static void print_row(struct screen *screen, const struct layout *layout, const cJSON *row)
{
	const struct column *first = layout->view->columns;
	int blanks = 2; /* before the next text */

	for (const struct column *c = first; c->key || c->write; c++) {
		char text[CELL_MAX];
		int width = c == first ? layout->first_width : c->width, free;

		if (!is_shown(layout, c))
			continue;
		write_cell(layout, c, row, text);
		free = abs(width) - text_width(text);
		/* A text as wide as its column would touch its neighbour. */
		if (width > 0)
			blanks += MAX(free, 1);
		if (c != first && text[0] &&
			screen->column + blanks + text_width(text) > screen->width) {
			draw_further(screen, LIVE_INDENT);
			blanks = 0;
		}
		if (text[0]) {
			draw(screen, COLOR_NONE, "%*s", blanks, "");
			blanks = 0;
			draw(screen,
				row                   ? cell_color(c, row, text)
				: c == layout->sorted ? COLOR_BOLD
						      : COLOR_FAINT,
				"%s", text);
		}
		if (width < 0)
			blanks += MAX(free, 0) + (c == first || free <= 0);
	}
	draw(screen, COLOR_NONE, "\n");
}

static double number_of(const cJSON *row, const void *key)
{
	return json_number_at(row, key);
}

/*
 * Sorts by the numeric column with this index, modulo their number. Returns the column. If the
 * view has an order of its own, that is the first, and NULL is returned.
 */
static const struct column *sort_rows(const struct table_view *view, cJSON *rows, unsigned index)
{
	const struct column *c = view->columns;
	unsigned n = view->order ? 1 : 0;

	for (const struct column *k = c; k->key || k->write; k++)
		n += k->heading && k->format == COLUMN_NUMBER;
	index %= MAX(n, 1U);
	if (view->order && index-- == 0)
		return NULL;
	while (!c->heading || c->format != COLUMN_NUMBER || index-- > 0) {
		c++;
		if (!c->key && !c->write)
			c = view->columns;
	}
	json_sort(rows, number_of, c->key);
	return c;
}

/* Draws lines of notes. */
static void draw_lines(struct screen *screen, const char *text)
{
	for (size_t len; *text; text += len + (text[len] == '\n')) {
		const size_t blanks = strspn(text, " ");

		len = strcspn(text, "\n");
		draw(screen, COLOR_NONE, "%*s", (int)blanks, "");
		draw_wrapped(screen, (int)blanks + 2, "%.*s", (int)(len - blanks), text + blanks);
	}
}

/* Prints the table of a tuner with the lines below each row, as far as the screen has room. */
static void print_table(struct screen *screen, const struct tuner_ops *ops,
	const struct table_view *view, cJSON *status, unsigned sort_column)
{
	cJSON *document = cJSON_GetObjectItem(status, ops->name),
	      *rows = cJSON_GetObjectItem(document, view->rows);
	const struct column *sorted = sort_rows(view, rows, sort_column);
	const struct layout layout = lay_out(screen, view, rows, sorted);
	int idle = 0;
	char text[512] = "";
	const cJSON *item;

	draw_heading_mark(screen);
	draw(screen, COLOR_BOLD, "%s", view->title);
	if (view->times && cJSON_GetArraySize(rows) > 0)
		draw(screen, COLOR_FAINT, "  (%s)", view->times);
	if (screen->live)
		draw(screen, COLOR_FAINT, "  %s%s; s sorts, q quits, ? helps", sorted ? "by " : "",
			sorted ? sorted->heading : view->order);
	draw(screen, COLOR_NONE, "\n");
	if (!cJSON_IsObject(document)) {
		cJSON_ArrayForEach (item, json_at(status, "tuners"))
			if (streq(json_text_at(item, "name"), ops->name)) {
				draw(screen, COLOR_NONE, "  ");
				draw_wrapped(screen, 4, "%s%s%s", json_text_at(item, "state"),
					json_text_at(item, "why")[0] ? ": " : "",
					json_text_at(item, "why"));
			}
		return;
	}
	draw_heading_mark(screen);
	print_row(screen, &layout, NULL);
	cJSON_ArrayForEach (item, rows) {
		int lines = 0;

		if (!has_problem(item) && idle++ >= screen->keep)
			continue;
		print_row(screen, &layout, item);
		for (int i = screen->lines < LINES_MIN ? view->users_at : 0;
			lines < (has_problem(item) ? screen->lines : screen->keep) &&
			view->write_detail && view->write_detail(item, i, text, sizeof(text));
			i++) {
			if (!text[0])
				continue;
			draw(screen, COLOR_NONE, "%*s", LIVE_INDENT, "");
			draw_wrapped(screen, LIVE_INDENT, "%s", text);
			lines++;
		}
	}
	print_rest(screen, idle - screen->keep, "without a problem");
	if (cJSON_GetArraySize(rows) == 0)
		draw(screen, COLOR_NONE, "  %s\n", view->empty);
	text[0] = '\0';
	view->write_notes(document, text, sizeof(text));
	draw_lines(screen, text);
}

static bool has_table(const struct tuner_ops *ops)
{
	for (const struct table_view *view = ops->tables->view; view; view = view->next)
		if (view->write_notes && !view->is_optional)
			return true;
	return false;
}

/*
 * `headroom top NAME` shows a tuner, a table by the name of its rows, or the limits that have the
 * name or begin with it; else the limits that match it best, or the tuner that has a better match.
 */
struct topic {
	const char *name; /* NULL: everything */
	const struct tuner_ops *tuner;
	enum name_match match; /* of the limits; NAME_NOT: they begin with the name */
};

static bool begins_with(const char *limit, const char *name)
{
	const size_t len = strlen(name);

	return starts_with(limit, name) && (!limit[len] || limit[len] == '/');
}

static bool topic_has(const struct topic *topic, const char *limit)
{
	const struct limit_row *row;
	struct help_entry entry;

	if (!topic->name || topic->tuner)
		return !topic->name || limit_row_of(topic->tuner->tables, limit);
	if (topic->match == NAME_NOT)
		return begins_with(limit, topic->name);
	row = limit_row_find(limit);
	entry = row ? limit_entry(row) : (struct help_entry){0};
	return row && name_matches(&entry, topic->name) == topic->match;
}

/* Returns whether a table has limits of the topic, although this node may lack them. */
static bool topic_exists(const struct topic *topic)
{
	if (!topic->name)
		return true;
	if (topic->tuner)
		return has_table(topic->tuner) || topic->tuner->tables->limits;
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct limit_row *row = all_tables[i]->limits; row && row->name; row++)
			if (topic_has(topic, row->name))
				return true;
	return topic->match == NAME_NOT && limit_row_find(topic->name);
}

/*
 * Returns whether it is a name of the kernel or of C, or the text of an error: texts have them for
 * one reason.
 */
static bool is_technical(const char *word)
{
	return strpbrk(word, " _0123456789") || !word[strcspn(word, "abcdefghijklmnopqrstuvwxyz")];
}

/* Returns the tuner that shows something and has an entry that the word matches so, or NULL. */
static const struct tuner_ops *tuner_with(const char *word, enum name_match match)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);

	for (size_t i = 0; i < n; i++) {
		const struct topic topic = {
			word, .tuner = entries[i].tuner ? tuner_find(entries[i].tuner) : NULL};

		if (topic.tuner && topic_exists(&topic) && name_matches(&entries[i], word) == match)
			return topic.tuner;
	}
	return NULL;
}

/* Returns whether limits have the word in their texts, and nothing else knows it. */
static bool is_of_limits(const char *word)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);

	for (size_t i = 0; i < n; i++)
		if (entries[i].kind != ENTRY_LIMIT && name_matches(&entries[i], word) != NAME_NOT)
			return false;
	return true;
}

static struct topic topic_of(const char *name)
{
	struct topic topic = {.name = name, .tuner = name ? tuner_find(name) : NULL};

	for (size_t i = 0; name && tuner_table[i] && !topic.tuner; i++) {
		const struct table_view *view = tuner_table[i]->tables->view;

		while (view && !(view->write_notes && streq(view->rows, name)))
			view = view->next;
		topic.tuner = view ? tuner_table[i] : NULL;
	}
	if (topic_exists(&topic) || topic.tuner)
		return topic;
	for (topic.match = NAME_WHOLE; topic.match > NAME_IN_TEXT; topic.match--) {
		if (topic_exists(&topic))
			return topic;
		topic.tuner = tuner_with(name, topic.match);
		if (topic.tuner)
			return topic;
	}
	if (!topic_exists(&topic) || !(is_technical(name) || is_of_limits(name)))
		topic.match = NAME_NOT;
	return topic;
}

bool cli_top_accepts(const char *name)
{
	const struct topic topic = topic_of(name);

	return topic_exists(&topic);
}

/* Prints the limits of the topic with their users, and what to do if one limit was asked for. */
static void print_limits(struct screen *screen, const struct topic *topic, const cJSON *status)
{
	const cJSON *limit, *user, *finding;
	char absent[512] = "";
	bool any = false;
	int idle = 0;

	cJSON_ArrayForEach (limit, json_at(status, "limits")) {
		const char *name = json_text_at(limit, "name"), *unit = json_text_at(limit, "unit");
		char amount[AMOUNT_MAX], text[512] = "", brief[512];
		int lines;
		const struct limit_row *row = limit_row_find(name);

		if (!topic_has(topic, name))
			continue;
		any = true;
		if (!has_problem(limit) && idle++ >= screen->keep)
			continue;
		print_limit(screen, limit);
		lines = 0;
		cJSON_ArrayForEach (user, json_at(limit, "top")) {
			const char *detail = json_text_at(user, "detail");
			double used = json_number_at(user, "used");

			/* On a small screen, users of the limits with room go first. */
			if (lines++ >= (has_problem(limit) ? screen->lines : screen->keep / 2))
				break;
			draw(screen, COLOR_NONE, "    ");
			draw_bar(
				screen, COLOR_GOOD, used / MAX(json_number_at(limit, "used"), 1.0));
			snprintf(text, sizeof(text), "%s%s%s", json_text_at(user, "workload/text"),
				detail[0] ? ", " : "", detail);
			draw(screen, COLOR_NONE, "%10s  ", bare_amount_text(used, unit, amount));
			if (screen->live)
				draw(screen, COLOR_NONE, "%s\n",
					shorten(text, screen->width - screen->column, brief,
						sizeof(brief)));
			else
				draw_wrapped(screen, 6, "%s", text);
		}
		if (!topic->name || topic->tuner)
			continue;
		finding = finding_of(status, name);
		if (finding)
			draw_finding_cure(screen, 4, finding);
		else if (row)
			draw_field(screen, COLOR_NONE, 4, 7, "breaks", row->breaks);
	}
	print_rest(screen, idle - screen->keep, "idle");
	if (any || !topic->name)
		return;
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct limit_row *row = all_tables[i]->limits; row && row->name; row++)
			if (topic_has(topic, row->name))
				text_append(absent, sizeof(absent), "%s%s", absent[0] ? ", " : "",
					row->name);
	draw(screen, COLOR_NONE, "  ");
	draw_wrapped(screen, 4, "%s: not on this node, or not read yet",
		absent[0] ? absent : topic->name);
}

/* Prints the tables of the topic. It leaves out an empty second table of a tuner. */
static void print_tables(
	struct screen *screen, const struct topic *topic, cJSON *status, unsigned sort_column)
{
	for (size_t i = 0; tuner_table[i]; i++) {
		const struct tuner_ops *ops = tuner_table[i];
		const struct table_view *view = ops->tables->view;

		for (; view && (!topic->name || topic->tuner == ops); view = view->next) {
			const cJSON *rows = json_at(json_at(status, ops->name), view->rows);

			bool is_first = view == ops->tables->view;
			bool is_kept = view->is_optional ? is_first && topic->name
							 : is_first || topic->name;

			if (view->write_notes && (is_kept || cJSON_GetArraySize(rows) > 0))
				print_table(screen, ops, view, status, sort_column);
		}
	}
}

/* Prints a line for each problem of the topic, the worst first. */
static void print_rows(struct screen *screen, const struct topic *topic, const cJSON *findings)
{
	const cJSON *finding;
	int n = 0;

	cJSON_ArrayForEach (finding, findings) {
		bool is_shown = topic->tuner
					? streq(json_text_at(finding, "tuner"), topic->tuner->name)
					: topic_has(topic, json_text_at(finding, "slug"));

		if (is_shown && (n++ == 0 || n <= screen->problems))
			draw_finding_row(screen, finding);
	}
	print_rest(screen, n - MAX(screen->problems, 1), "problems");
}

struct top_view {
	cJSON *status;
	const char *alone;
	const struct topic *topic;
	unsigned sort_column;
	char counted[2048]; /* only when asked */
};

static void render_top(struct screen *screen, void *data)
{
	const struct top_view *view = data;
	const struct topic *topic = view->topic;

	if (view->alone[0])
		draw_alone(screen, view->alone, "this is a single reading.");
	if (json_text_at(view->status, "node/name")[0])
		print_verdict(screen, view->status, view->alone);
	print_rows(screen, topic, json_at(view->status, "findings"));
	if (!topic->tuner || !has_table(topic->tuner))
		print_limits(screen, topic, view->status);
	draw_lines(screen, view->counted);
	if (!topic->name)
		draw(screen, COLOR_NONE, "\n");
	print_tables(screen, topic, view->status, view->sort_column);
}

static int show_top(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	const struct topic topic = topic_of(cli->n_names > 0 ? cli->names[0] : NULL);
	struct screen screen = screen_open();
	struct top_view view;
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, true, &status, alone);

	if (r != EXIT_OK)
		return r;
	screen.view = cli->live;
	view = (struct top_view){status, alone, &topic, cli->live ? cli->live->sort_column : 0, ""};
	if (topic.tuner && topic.tuner->count_when_asked)
		topic.tuner->count_when_asked(view.counted, sizeof(view.counted));
	sort_limits(&screen, cJSON_GetObjectItem(status, "limits"));
	screen_fit(&screen, render_top, &view);
	return EXIT_OK;
}

static int fail_topic(const char *typed)
{
	const char *name = typed;
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);
	struct suggestion nearest = {0};
	const char *before = ": did you mean ", *after = "?";
	char word[SHELL_WORD_MAX];

	if (cli_find_command(name)) {
		before = ": did you mean headroom ";
	} else if (names_match(entries, n, name) != NAME_NOT) {
		before = ": headroom explain ";
		after = " knows it";
	} else {
		names_suggest(entries, n, name, cli_top_accepts, &nearest);
		name = nearest.word;
	}
	cli_fail(typed,
		"neither a limit nor a tuner with limits%s%s%s: usage: headroom top [TUNER|LIMIT]",
		name[0] ? before : "", name[0] ? shell_word(word, name) : "", name[0] ? after : "");
	return EXIT_USAGE;
}

/* Repeats on a terminal, and prints once elsewhere. */
int cli_top(const struct cli *cli)
{
	if (cli->n_names == 1 && !cli_top_accepts(cli->names[0]))
		return fail_topic(cli->names[0]);
	return cli_repeat(cli, screen_open().live, show_top);
}

/* ---- the other commands ---- */

#define PROBE_WAIT_US  (3 * USEC_PER_SEC)
#define PROBE_EVERY_US (100 * USEC_PER_MSEC)

/*
 * Serves the probes of a pod. The kubelet reports what is printed: of /readyz the lines that say
 * why the agent is not ready. An agent that starts is given some time, so that its pod is Ready at
 * once although the kubelet asks rarely: a probe takes as much CPU as the agent in five seconds,
 * and the runtime that executes it five times more.
 */
static int probe(const struct cli *cli)
{
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, &faulty);
	_cleanup_free_ char *answer = NULL;
	char socket_path[PATH_MAX];
	char hung[CLI_ALONE_MAX];
	bool is_patient = streq(cli->probe, "/readyz");
	uint64_t until_us = now_us() + PROBE_WAIT_US;
	const char *line;
	long status = 0;
	int r;

	core_socket_path(config, socket_path);
	for (;;) {
		r = client_text(socket_path, NULL, false, cli->probe, &answer, &status);
		if ((r == 0 && status == 200) || !is_patient || now_us() > until_us)
			break;
		free(steal(answer));
		usleep(PROBE_EVERY_US);
	}
	if (r < 0 && faulty)
		cli_print_faults(cli);
	if (r == -ETIMEDOUT)
		return cli_fail_hung(socket_path, hung);
	if (r < 0)
		return cli_fail(socket_path, "%s",
			r == -EACCES ? "permission denied: run as root"
				     : "no agent is running here: start its unit or pod");
	if (status == 200)
		return EXIT_OK;
	for (line = answer ? answer : ""; *line; line += *line == '\n') {
		int len = (int)strcspn(line, "\n");

		if (starts_with(line, "[-] "))
			printf("%.*s\n", len - 4, line + 4);
		line += len;
	}
	return cli_fail(cli->probe, "HTTP status %ld", status);
}

int cli_status(const struct cli *cli)
{
	if (cli->probe)
		return probe(cli);
	return cli_repeat(cli, cli->watch, show_status);
}

static cJSON *images_document(const cJSON *images)
{
	cJSON *root = cJSON_CreateObject();

	json_number(root, "schema", 1);
	json_copy(root, "images", images);
	return root;
}

int cli_images(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_open();
	const cJSON *images, *image;
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, false, &status, alone);

	if (r != EXIT_OK)
		return r;
	images = json_at(status, "images");
	if (cli->json)
		return json_put(stdout, images_document(images), true) ? EXIT_OK : EXIT_FAILED;
	if (alone[0])
		draw_alone(&screen, alone, "no image is loaded.");
	cJSON_ArrayForEach (image, images)
		print_image(&screen, image);
	if (cJSON_GetArraySize(images) == 0)
		draw_wrapped(&screen, 0,
			"No images are configured: see images.archives and images.pull in "
			"headroom.yaml(5).");
	return EXIT_OK;
}

cJSON *version_document(const cJSON *status)
{
	cJSON *root = cJSON_CreateObject();

	json_number(root, "schema", 1);
	json_text(root, "version", HEADROOM_VERSION);
	json_text(root, "commit", HEADROOM_COMMIT);
	if (!status) {
		json_null(root, "agent");
		json_array(root, "tuners");
		return root;
	}
	json_copy(root, "agent", json_at(status, "node"));
	json_copy(root, "tuners", json_at(status, "tuners"));
	return root;
}

/* Returns what the running agent says, or NULL. The caller deletes it. */
static cJSON *ask_agent(const struct cli *cli)
{
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, &faulty);
	const char *address = config_text(config, "http.listen");
	char socket_path[PATH_MAX];
	cJSON *status = NULL;
	long code = 0;
	int r;

	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, "/v1/status", &status, &code);
	if (r == -EACCES && address[0])
		(void)client_call(NULL, address, false, "/v1/status", &status, &code);
	if (!status && faulty)
		cli_print_faults(cli);
	json_make_printable(status);
	return status;
}

static void print_tuners(struct screen *screen, const cJSON *tuners)
{
	const cJSON *tuner;

	if (!screen->bars) /* a script finds the reason on the line of its tuner */
		screen->width = INT_MAX;
	cJSON_ArrayForEach (tuner, tuners) {
		const char *why = json_text_at(tuner, "why");

		draw(screen, COLOR_NONE, "  %-10s %-*s", json_text_at(tuner, "name"),
			why[0] ? 10 : 0, json_text_at(tuner, "state"));
		draw_wrapped(screen, 23, "%s", why);
	}
}

/* Asks the agent: to probe the node as it does would load its BPF programs once more. */
int cli_version(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = ask_agent(cli);
	struct screen screen = screen_open();
	const char *version = json_text_at(status, "node/version");
	const char *commit = json_text_at(status, "node/commit");

	if (cli->json)
		return json_put(stdout, version_document(status), true) ? EXIT_OK : EXIT_FAILED;
	printf("headroom %s (%s)\n", HEADROOM_VERSION, HEADROOM_COMMIT);
	if (!status)
		draw_alone(&screen, "No agent is running",
			"headroom doctor shows what this node can run.");
	else if (!streq(version, HEADROOM_VERSION) || !streq(commit, HEADROOM_COMMIT))
		printf("agent %s (%s)\n", version, commit);
	print_tuners(&screen, json_at(status, "tuners"));
	return EXIT_OK;
}
