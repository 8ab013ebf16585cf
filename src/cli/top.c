/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "report/report.h"
#include "tuners/table.h"

#define FIRST_MIN 12 /* a shorter name says nothing */

/*
 * Columns with a larger rank do not fit. The first column is as wide as its longest text, if that
 * fits.
 */
struct layout {
	const struct table_view *view;
	const struct column *sorted; /* NULL: the order of the document */
	int first_width;
	unsigned rank;
};

static struct layout lay_out(const struct screen *screen, const struct table_view *view,
	const cJSON *rows, const struct column *sorted)
{
	struct layout layout = {.view = view, .sorted = sorted, .rank = UINT_MAX};
	const cJSON *row;
	int width;

	layout.first_width = view->columns[0].width;
	cJSON_ArrayForEach (row, rows)
		layout.first_width = MIN(
			layout.first_width, -text_width(json_text_at(row, view->columns[0].key)));
	do {
		unsigned largest = 0;

		width = 3 - layout.first_width;
		for (const struct column *c = view->columns + 1; c->key || c->write; c++) {
			if (!c->heading || c->rank > layout.rank)
				continue;
			width += abs(c->width);
			largest = MAX(largest, c->rank);
		}
		if (width <= screen->width || largest == 0) {
			if (width > screen->width && screen->live)
				layout.first_width =
					MIN(layout.first_width + width - screen->width, -FIRST_MIN);
			return layout;
		}
		layout.rank = largest - 1;
	} while (true);
}

/* Prints a row, or the headings if row is NULL. */
static void print_row(struct screen *screen, const struct layout *layout, const cJSON *row)
{
	const struct table_view *view = layout->view;

	draw(screen, COLOR_NONE, "  ");
	for (const struct column *c = view->columns; c->key || c->write; c++) {
		double value = c->key ? json_number_at(row, c->key) : 0;
		double limit = c->limit ? json_number_at(row, c->limit) : 0;
		char text[CELL_MAX], brief[CELL_MAX];
		bool blank = row && c->format == COLUMN_NUMBER && view->blanks && view->blanks(row);
		int width = c == view->columns ? layout->first_width : c->width;

		if (!c->heading || c->rank > layout->rank)
			continue;
		if (row)
			cell_text(c, row, text, sizeof(text));
		/* printf() pads bytes, not characters. */
		if (row)
			width += (width < 0 ? -1 : 1) * ((int)strlen(text) - text_width(text));
		if (row && c == view->columns && text_width(text) > -layout->first_width)
			shorten(text, -layout->first_width, brief, sizeof(brief)),
				set_text(text, brief),
				width = layout->first_width -
					((int)strlen(text) - text_width(text));
		if (!row)
			draw(screen, c == layout->sorted ? COLOR_BOLD : COLOR_FAINT, "%*s", width,
				c->heading);
		else if (blank)
			draw(screen, COLOR_NONE, "%*s", width, "-");
		else if (c->format == COLUMN_NUMBER && !c->write)
			/* Green below the limit, yellow near it, red above it. */
			draw(screen,
				limit <= 0            ? COLOR_NONE
				: value > limit       ? COLOR_BAD
				: value > 0.8 * limit ? COLOR_WARNING
						      : COLOR_GOOD,
				"%*.0f", width, value);
		else if (c->format == COLUMN_STATE)
			draw(screen, color_of(c->tone ? json_text_at(row, c->tone) : text), "%*s",
				width, text);
		else
			draw(screen, COLOR_NONE, "%*s", width,
				text[0] || c->format != COLUMN_SECONDS ? text : "-");
		if (width < 0 && c == view->columns)
			draw(screen, COLOR_NONE, " ");
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

/* Prints the table of a tuner with the lines below each row, as far as the screen has room. */
static void print_table(
	struct screen *screen, const struct tuner_ops *ops, cJSON *status, unsigned sort_column)
{
	const struct table_view *view = ops->tables->view;
	cJSON *document = cJSON_GetObjectItem(status, ops->name),
	      *rows = cJSON_GetObjectItem(document, view->rows);
	const struct column *sorted = sort_rows(view, rows, sort_column);
	const struct layout layout = lay_out(screen, view, rows, sorted);
	int idle = 0;
	char text[512] = "", brief[512];
	const cJSON *item;

	draw(screen, COLOR_BOLD, "%s", view->title);
	if (screen->live)
		draw(screen, COLOR_FAINT, "  %s%s; s sorts, q quits", sorted ? "by " : "",
			sorted ? sorted->heading : view->order);
	draw(screen, COLOR_NONE, "\n");
	if (!cJSON_IsObject(document)) {
		cJSON_ArrayForEach (item, json_at(status, "tuners"))
			if (streq(json_text_at(item, "name"), ops->name))
				draw(screen, COLOR_NONE, "  %s%s%s\n", json_text_at(item, "state"),
					json_text_at(item, "why")[0] ? ": " : "",
					json_text_at(item, "why"));
		return;
	}
	print_row(screen, &layout, NULL);
	cJSON_ArrayForEach (item, rows) {
		int lines = 0;

		if (!has_problem(item) && idle++ >= screen->keep)
			continue;
		print_row(screen, &layout, item);
		for (int i = 0; lines < screen->keep && view->write_detail &&
				view->write_detail(item, i, text, sizeof(text));
			i++) {
			if (!text[0])
				continue;
			/* Wrapping would not keep the columns. */
			if (screen->live || text_width(text) + 4 <= screen->width)
				draw(screen, COLOR_NONE, "    %s\n",
					shorten(text, screen->live ? screen->width - 4 : INT_MAX,
						brief, sizeof(brief)));
			else
				draw_paragraph(screen, 4, text);
			lines++;
		}
	}
	print_rest(screen, idle - screen->keep, "without a problem");
	if (cJSON_GetArraySize(rows) == 0)
		draw(screen, COLOR_NONE, "  %s\n", view->empty);
	text[0] = '\0';
	view->write_notes(document, text, sizeof(text));
	draw(screen, COLOR_NONE, "%s", text);
}

static bool has_table(const struct tuner_ops *ops)
{
	return ops->tables->view && ops->tables->view->write_notes;
}

/* `headroom top NAME` shows a tuner, or the limits that have the name or begin with it. */
struct topic {
	const char *name; /* NULL: everything */
	const struct tuner_ops *tuner;
};

static struct topic topic_of(const struct cli *cli)
{
	const char *name = cli->n_names > 0 ? cli->names[0] : NULL;

	return (struct topic){name, name ? tuner_find(name) : NULL};
}

static bool topic_has(const struct topic *topic, const char *limit)
{
	size_t len = topic->name ? strlen(topic->name) : 0;

	if (!topic->name || topic->tuner)
		return !topic->name || limit_row_of(topic->tuner->tables, limit);
	return starts_with(limit, topic->name) && (!limit[len] || limit[len] == '/');
}

/* Prints the limits of the topic with their users, and what to do if one limit was asked for. */
static void print_limits(struct screen *screen, const struct topic *topic, const cJSON *status)
{
	const cJSON *limit, *user;
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
			if (lines++ >= (has_problem(limit) ? screen->keep : screen->keep / 2))
				break;
			draw(screen, COLOR_NONE, "    ");
			draw_bar(
				screen, COLOR_GOOD, used / MAX(json_number_at(limit, "used"), 1.0));
			snprintf(text, sizeof(text), "%s%s%s", json_text_at(user, "workload/text"),
				detail[0] ? ", " : "", detail);
			draw(screen, COLOR_NONE, "%10s  ",
				amount_text(used, streq(unit, "bytes") ? unit : "", amount));
			draw(screen, COLOR_NONE, "%s\n",
				shorten(text,
					screen->live ? screen->width - screen->column : INT_MAX,
					brief, sizeof(brief)));
		}
		if (!topic->name || topic->tuner || !row)
			continue;
		draw_field(screen, COLOR_NONE, 4, 7, "breaks", row->breaks);
		draw_field(screen, COLOR_NONE, 4, 7, "now", row->now);
	}
	print_rest(screen, idle - screen->keep, "idle");
	if (!any && topic->name)
		draw(screen, COLOR_NONE, "  %s: not on this node, or not read yet\n", topic->name);
}

struct top_view {
	cJSON *status;
	const char *alone;
	const struct topic *topic;
	unsigned sort_column;
};

static void render_top(struct screen *screen, void *data)
{
	const struct top_view *view = data;
	const struct topic *topic = view->topic;

	if (view->alone[0])
		draw(screen, COLOR_WARNING, "%s: this is a single reading.\n", view->alone);
	if (json_text_at(view->status, "node/name")[0])
		print_verdict(screen, view->status, view->alone);
	if (!topic->tuner || !has_table(topic->tuner))
		print_limits(screen, topic, view->status);
	if (!topic->name)
		draw(screen, COLOR_NONE, "\n");
	for (size_t i = 0; tuner_table[i]; i++)
		if (has_table(tuner_table[i]) && (!topic->name || topic->tuner == tuner_table[i]))
			print_table(screen, tuner_table[i], view->status, view->sort_column);
}

static int show_top(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	const struct topic topic = topic_of(cli);
	struct screen screen = screen_open();
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, true, &status, alone);

	if (r != EXIT_OK)
		return r;
	sort_limits(&screen, cJSON_GetObjectItem(status, "limits"));
	screen_fit(
		&screen, render_top, &(struct top_view){status, alone, &topic, cli->sort_column});
	return EXIT_OK;
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
	return limit_row_find(topic->name) != NULL;
}

/* Repeats on a terminal, and prints once elsewhere. */
int cli_top(const struct cli *cli)
{
	const struct topic topic = topic_of(cli);

	if (cli->n_names > 1 || !topic_exists(&topic)) {
		cli_fail(cli->names[0],
			"neither a limit nor a tuner with limits: usage: headroom top [TUNER|LIMIT]");
		return EXIT_USAGE;
	}
	return cli_repeat(cli, screen_open().live, show_top);
}
