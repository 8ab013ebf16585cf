/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/json.h"
#include "report/report.h"
#include "tuners/table.h"

/* Lines per server. */
#define USERS_SHOWN 5
#define NAMES_SHOWN 5

/* Prints a row of the view, or the headings if row is NULL. */
static void print_row(struct screen *screen, const struct table_view *view, const cJSON *rows,
	const cJSON *row, const struct column *sorted)
{
	draw(screen, COLOR_NONE, "  ");
	for (const struct column *c = view->columns; c->key || c->write; c++) {
		double value = c->key ? json_number_at(row, c->key) : 0;
		double limit = c->limit ? json_number_at(row, c->limit) : 0;
		char text[CELL_MAX];
		int width = c->width;
		const cJSON *other;

		if (!c->heading)
			continue;
		/* The first column is as wide as its longest text. */
		if (c == view->columns)
			cJSON_ArrayForEach (other, rows)
				width = MIN(width, -(int)strlen(json_text_at(other, c->key)));
		if (row)
			cell_text(c, row, text, sizeof(text));
		if (!row)
			draw(screen, c == sorted ? COLOR_BOLD : COLOR_FAINT, "%*s", width,
				c->heading);
		else if (c->format == COLUMN_NUMBER && !c->write)
			/* Green below the limit, yellow near it, red above it. */
			draw(screen,
				limit <= 0            ? COLOR_NONE
				: value > limit       ? COLOR_BAD
				: value > 0.8 * limit ? COLOR_WARNING
						      : COLOR_GOOD,
				"%*.0f", width, value);
		else
			draw(screen, COLOR_NONE, "%*s", width,
				text[0] || c->format != COLUMN_SECONDS ? text : "-");
		if (width < 0 && c == view->columns)
			draw(screen, COLOR_NONE, " ");
	}
	draw(screen, COLOR_NONE, "\n");
}

static void print_user(struct screen *screen, const cJSON *user, const char *name)
{
	draw(screen, COLOR_NONE, "    %8.0f/s %12.0f  %s\n",
		json_number_at(user, "queries_per_second"), json_number_at(user, "queries"), name);
}

/* Prints the clients and names of a server in at most lines lines. Returns the lines left. */
static int print_details(struct screen *screen, const cJSON *server, int lines)
{
	const cJSON *other = json_at(server, "other"), *item;
	int users = USERS_SHOWN, names = NAMES_SHOWN;

	cJSON_ArrayForEach (item, json_at(server, "top"))
		if (users-- > 0 && lines-- > 0)
			print_user(screen, item, json_text_at(item, "workload/text"));
	if (json_number_at(other, "queries") > 0 && lines-- > 0)
		print_user(screen, other, "other");
	cJSON_ArrayForEach (item, json_at(server, "names"))
		if (names-- > 0 && lines-- > 0)
			draw(screen, COLOR_NONE, "    %8.0f %%               %s  %s\n",
				100 * json_number_at(item, "share"), json_text_at(item, "name"),
				json_text_at(item, "type"));
	return MAX(lines, 0);
}

/* Sorts by the numeric column with this index, modulo their number. Returns the column. */
static const struct column *sort_rows(const struct table_view *view, cJSON *rows, unsigned index)
{
	const struct column *c = view->columns;

	while (!c->heading || c->format != COLUMN_NUMBER || index-- > 0) {
		c++;
		if (!c->key && !c->write)
			c = view->columns;
	}
	/* Largest first; equal rows keep their order. */
	for (int left = cJSON_GetArraySize(rows); left > 0; left--) {
		int largest = 0;

		for (int i = 1; i < left; i++)
			if (json_number_at(cJSON_GetArrayItem(rows, i), c->key) >
				json_number_at(cJSON_GetArrayItem(rows, largest), c->key))
				largest = i;
		cJSON_AddItemToArray(rows, cJSON_DetachItemFromArray(rows, largest));
	}
	return c;
}

static void print_dns(struct screen *screen, cJSON *status, unsigned sort_column)
{
	const struct table_view *view = tuner_find("dns")->view;
	cJSON *dns = cJSON_GetObjectItem(status, "dns"),
	      *rows = cJSON_GetObjectItem(dns, view->rows);
	const struct column *sorted = sort_rows(view, rows, sort_column);
	const char *between = "  failed search-list expansions: ";
	const cJSON *item;
	int left = screen->height - 6 - cJSON_GetArraySize(rows);

	draw(screen, COLOR_BOLD, "%s", view->title);
	if (screen->bars)
		draw(screen, COLOR_FAINT, "  by %s; s sorts, q quits", sorted->heading);
	draw(screen, COLOR_NONE, "\n");
	if (!cJSON_IsObject(dns)) {
		cJSON_ArrayForEach (item, json_at(status, "tuners"))
			if (streq(json_text_at(item, "name"), "dns"))
				draw(screen, COLOR_NONE, "  %s%s%s\n", json_text_at(item, "state"),
					json_text_at(item, "why")[0] ? ": " : "",
					json_text_at(item, "why"));
		return;
	}
	print_row(screen, view, rows, NULL, sorted);
	cJSON_ArrayForEach (item, rows) {
		print_row(screen, view, rows, item, sorted);
		left = print_details(screen, item, left);
	}
	if (cJSON_GetArraySize(rows) == 0)
		draw(screen, COLOR_NONE, "  no query has left this node yet\n");
	cJSON_ArrayForEach (item, json_at(dns, "expansions")) {
		if (json_number_at(item, "failed_per_second") < 0.5)
			continue;
		draw(screen, COLOR_NONE, "%s%s %.0f of %.0f/s", between, json_text_at(item, "role"),
			json_number_at(item, "failed_per_second"),
			json_number_at(item, "queries_per_second"));
		between = ", ";
	}
	draw(screen, COLOR_NONE, between[0] == ',' ? "\n" : "");
	between = "  not counted in full: ";
	cJSON_ArrayForEach (item, json_at(dns, "lost")) {
		if (!cJSON_IsNumber(item) || item->valuedouble <= 0)
			continue;
		draw(screen, COLOR_NONE, "%s%s %.0f", between, item->string, item->valuedouble);
		between = ", ";
	}
	draw(screen, COLOR_NONE, between[0] == ',' ? "\n" : "");
}

static int show(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	const char *topic = cli->n_names > 0 ? cli->names[0] : "";
	const char *prefix = topic[0] ? "neighbor/" : "";
	struct screen screen = screen_open();
	const cJSON *limit, *user;
	bool alone;
	int r = status_document(cli, true, &status, &alone);

	if (r != EXIT_OK)
		return r;
	if (screen.bars)
		fputs(SCREEN_CLEAR, stdout);
	cJSON_ArrayForEach (limit, json_at(status, "limits")) {
		if (streq(topic, "dns") || !starts_with(json_text_at(limit, "name"), prefix))
			continue;
		print_limit(&screen, limit);
		cJSON_ArrayForEach (user, json_at(limit, "top")) {
			double used = json_number_at(user, "used");

			draw(&screen, COLOR_NONE, "    ");
			draw_bar(&screen, COLOR_GOOD,
				used / MAX(json_number_at(limit, "used"), 1.0));
			draw(&screen, COLOR_NONE, "%10.0f  %s\n", used,
				json_text_at(user, "workload/text"));
		}
	}
	if (!topic[0])
		fputc('\n', stdout);
	if (!streq(topic, "neighbor"))
		print_dns(&screen, status, cli->sort_column);
	fflush(stdout);
	return EXIT_OK;
}

/* Live on a terminal, else once. */
int cli_top(const struct cli *cli)
{
	const char *topic = cli->n_names > 0 ? cli->names[0] : "neighbor";

	if (cli->n_names > 1 || (!streq(topic, "neighbor") && !streq(topic, "dns"))) {
		cli_fail(topic, "unknown topic: usage: headroom top [dns|neighbor]");
		return EXIT_USAGE;
	}
	return cli_repeat(cli, screen_open().bars, show);
}
