/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "tuners/table.h"

#include <inttypes.h>

/* A bar's colour: the agent itself speaks of pressure from 80 % on. */
#define BAR_WARNING  80
#define BAR_CRITICAL 95

/*
 * Rows are left out beyond this, so that no node makes a page of 200 kB: the largest row, of values
 * that all have to be escaped, is 5 kB.
 */
#define PAGE_ROWS_MAX (180 * 1000)

/* Text within an element or a quoted attribute, escaped. NULL is empty. */
static void put_text(FILE *out, const char *text)
{
	static const char *const entities[256] = {['&'] = "&amp;",
		['<'] = "&lt;",
		['>'] = "&gt;",
		['"'] = "&quot;",
		['\''] = "&#39;"};

	while (text && *text) {
		const char *entity = entities[(unsigned char)*text];
		size_t n = utf8_length(text);

		if (entity)
			fputs(entity, out);
		else if (n > 0)
			fwrite(text, 1, n, out);
		else
			fputs(UTF8_REPLACEMENT, out);
		text += MAX(n, (size_t)1);
	}
}

/* 1234567 as "1 234 567", with thin spaces that do not break. */
static void put_count(FILE *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			fputs("\xe2\x80\xaf", out);
		fputc(digits[i], out);
	}
}

/* class is one of the style sheet's: ok, warning, critical, dim. */
static void put_badge(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<span class=\"badge %s\">", class);
	put_text(out, text);
	fputs("</span>", out);
}

static void put_workload(FILE *out, const char *kind, const char *namespace, const char *name)
{
	fputs("<span class=\"dim\">", out);
	put_text(out, kind);
	fputs("</span> ", out);
	put_text(out, namespace);
	fputs(namespace[0] ? "/" : "", out);
	put_text(out, name);
}

/* Tables. A row begins with its name. */

static void begin_table(FILE *out, const char *title)
{
	fprintf(out, "<h2>%s</h2>\n<div class=\"wide\"><table>\n<thead><tr>", title);
}

static void put_head(FILE *out, const char *head)
{
	fprintf(out, "<th scope=\"col\">%s</th>", head);
}

static void put_heads(FILE *out, const char *const *heads)
{
	for (; *heads; heads++)
		put_head(out, *heads);
	fputs("</tr></thead>\n<tbody>\n", out);
}

static void put_cell(FILE *out, const char *class, const char *text)
{
	fprintf(out, class ? "<td class=\"%s\">" : "<td>", class);
	put_text(out, text);
	fputs("</td>", out);
}

static void begin_row(FILE *out, const char *name, const char *title)
{
	fputs("<tr><th scope=\"row\"", out);
	if (title) {
		fputs(" title=\"", out);
		put_text(out, title);
		fputc('"', out);
	}
	fputc('>', out);
	put_text(out, name);
	fputs("</th>", out);
}

static void put_badge_cell(FILE *out, const char *class, const char *text)
{
	fputs("<td>", out);
	put_badge(out, class, text);
	fputs("</td>", out);
}

static bool is_full(FILE *out)
{
	return ftello(out) > PAGE_ROWS_MAX;
}

static void end_table(FILE *out, size_t left_out)
{
	fputs("</tbody>\n</table></div>\n", out);
	if (left_out > 0)
		fprintf(out, "<p class=\"dim\">%zu more: see /v1/status.</p>\n", left_out);
}

/* The parts of the page. */

static void put_header(FILE *out, const struct node *node)
{
	const char *verdict = verdict_names[node_verdict(node)];
	uint64_t now = realtime_us();
	char started[TIME_TEXT_MAX], up[TIME_TEXT_MAX], at[TIME_TEXT_MAX], change[40];

	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	      "<meta http-equiv=\"refresh\" content=\"5\">\n<title>",
		out);
	put_text(out, node->name);
	fprintf(out, ": %s - Headroom</title>\n", verdict);
	fputs("<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg "
	      "xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%232aa869' "
	      "d='M2 9h3v6H2zm4.500-4h3v10h-3zM11 1h3v14h-3z'/%3E%3C/svg%3E\">\n<style>",
		out);
	fputs(page_style, out);
	fputs("</style>\n</head>\n<body>\n<header>\n<h1>", out);
	put_text(out, node->name);
	fputs("</h1>", out);
	put_badge(out, verdict, verdict);
	if (!node->applied)
		put_badge(out, "dim", "not applied yet");
	if (node_would_change(node) > 0) {
		snprintf(change, sizeof(change), "%zu would change", node_would_change(node));
		put_badge(out, "warning", change);
	}
	time_text(node->started_us, started);
	time_text(now, at);
	duration_text(
		now > node->started_us ? (double)(now - node->started_us) / USEC_PER_SEC : 0, up);
	fprintf(out,
		"\n<p class=\"sub\">Headroom %s (%s), up %s since <time>%s</time>, seen "
		"<time>%s</time></p>\n</header>\n<main>\n",
		HEADROOM_VERSION, HEADROOM_COMMIT, up, started, at);
}

static const char *condition_class(const struct condition *condition)
{
	enum verdict verdict = condition_verdict(condition);

	if (verdict != VERDICT_OK)
		return verdict_names[verdict];
	return condition->now.status == CONDITION_FALSE ? "ok" : "dim";
}

static void put_condition(FILE *out, const struct condition *condition)
{
	char since[TIME_TEXT_MAX] = "";

	if (condition->since_us)
		time_text(condition->since_us, since);
	begin_row(out, condition->now.type->name, condition->now.type->help);
	put_badge_cell(
		out, condition_class(condition), condition_status_names[condition->now.status]);
	put_cell(out, NULL,
		condition->now.message[0] ? condition->now.message : condition->now.reason);
	put_cell(out, "dim num", since);
	fputs("</tr>\n", out);
}

static void put_conditions(FILE *out, const struct node *node)
{
	static const char *const heads[] = {"Condition", "Status", "Message", "Since", NULL};

	begin_table(out, "Conditions");
	put_heads(out, heads);
	/* Problems first. */
	for (int problem = 1; problem >= 0; problem--)
		for (size_t i = 0; i < node->n_conditions; i++)
			if ((node->conditions[i].now.status == CONDITION_TRUE) == problem)
				put_condition(out, &node->conditions[i]);
	end_table(out, 0);
}

static void put_bar(FILE *out, const struct limit *limit, double percent, const char *class)
{
	double peak = limit->now.max > 0 ? (double)limit->peak / (double)limit->now.max * 100 : 100;

	fprintf(out,
		"<div class=\"track\" role=\"meter\" aria-valuemin=\"0\" aria-valuemax=\"100\" "
		"aria-valuenow=\"%.0f\" aria-label=\"",
		percent);
	put_text(out, limit->now.name);
	fprintf(out,
		" used\"><div class=\"bar %s\" style=\"width:%.1f%%\"></div>"
		"<div class=\"peak\" style=\"left:%.1f%%\" title=\"peak\"></div></div>\n",
		class, percent, MIN(peak, 99.5));
}

static void put_facts(FILE *out, const struct limit *limit)
{
	double full = limit_full_in_seconds(limit);
	char duration[TIME_TEXT_MAX];

	fprintf(out, "<p class=\"facts num\"><span>%s", limit->now.upper_bound ? "at most " : "");
	put_count(out, limit->now.used);
	fputs(" of ", out);
	put_count(out, limit->now.max);
	fputc(' ', out);
	put_text(out, limit->now.unit);
	fputs("</span></p>\n<p class=\"facts num\"><span>peak ", out);
	put_count(out, limit->peak);
	fputs("</span><span>reached ", out);
	put_count(out, limit->now.hits);
	fputs(limit->now.hits == 1 ? " time</span>" : " times</span>", out);
	if (limit->now.upper_bound)
		fputs("<span>an upper bound: the exact count is not known here</span>", out);
	if (full >= 0) {
		duration_text(full, duration);
		fprintf(out, "<span class=\"critical\">full in %s</span>", duration);
	}
	fputs("</p>\n", out);
}

static void put_limit(FILE *out, const struct limit *limit)
{
	double percent = (1 - limit_headroom(limit)) * 100;
	const char *class = percent >= BAR_CRITICAL  ? "critical"
			    : percent >= BAR_WARNING ? "warning"
						     : "ok";

	fputs("<section class=\"card\"><div class=\"row\"><h3>", out);
	put_text(out, limit->now.name);
	fprintf(out, "</h3><b class=\"num %s\">%.0f %%</b></div>\n", class, percent);
	put_bar(out, limit, percent, class);
	put_facts(out, limit);
	if (limit->now.n_top > 0)
		fputs("<ol aria-label=\"who uses most\">\n", out);
	for (unsigned i = 0; i < limit->now.n_top; i++) {
		const struct workload *workload = &limit->now.top[i].workload;

		fputs("<li class=\"row\"><span>", out);
		put_workload(out, workload_kind_names[workload->kind], workload->namespace,
			workload->name[0] ? workload->name : workload->id);
		fputs("</span><span class=\"num\">", out);
		put_count(out, limit->now.top[i].used);
		fputs("</span></li>\n", out);
	}
	fputs(limit->now.n_top > 0 ? "</ol>\n</section>\n" : "</section>\n", out);
}

static void put_limits(FILE *out, const struct node *node)
{
	size_t i;

	if (node->n_limits == 0)
		return;
	fputs("<h2>Limits</h2>\n<div class=\"cards\">\n", out);
	for (i = 0; i < node->n_limits && !is_full(out); i++)
		put_limit(out, &node->limits[i]);
	fputs("</div>\n", out);
	if (i < node->n_limits)
		fprintf(out, "<p class=\"dim\">%zu more: see /v1/status.</p>\n",
			node->n_limits - i);
}

static const char *setting_class(enum setting_state state)
{
	static const char *const classes[] = {
		[SETTING_IN_SYNC] = "ok",
		[SETTING_PENDING] = "warning",
		[SETTING_DRIFTED] = "warning",
		[SETTING_YIELDED] = "warning",
		[SETTING_FAILED] = "critical",
		[SETTING_UNSUPPORTED] = "dim",
		[SETTING_OBSERVED] = "dim",
	};

	return classes[state];
}

static void put_settings(FILE *out, const struct node *node)
{
	static const char *const heads[] = {
		"Setting", "State", "Wanted", "Actual", "Original", "Reason", NULL};
	size_t i;

	if (node->n_settings == 0)
		return;
	begin_table(out, "Settings");
	put_heads(out, heads);
	for (i = 0; i < node->n_settings && !is_full(out); i++) {
		const struct setting *setting = &node->settings[i];
		const char *reason = setting->reason ? setting->reason : "";

		begin_row(out, setting->name, reason_help(reason));
		put_badge_cell(
			out, setting_class(setting->state), setting_state_names[setting->state]);
		put_cell(out, "code", setting->wanted);
		put_cell(out, "code", setting->actual);
		put_cell(out, "code", setting->original);
		put_cell(out, "dim", reason);
		fputs("</tr>\n", out);
	}
	end_table(out, node->n_settings - i);
}

static void put_tuners(FILE *out, const struct node *node)
{
	static const char *const heads[] = {"Tuner", "State", "Mode", "Why", NULL};

	begin_table(out, "Tuners");
	put_heads(out, heads);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];
		char mode[64], since[TIME_TEXT_MAX];

		begin_row(out, tuner->ops->name, tuner->ops->summary);
		put_badge_cell(out,
			tuner->state == TUNER_ACTIVE     ? "ok"
			: tuner->state == TUNER_DEGRADED ? "warning"
							 : "dim",
			tuner_state_names[tuner->state]);
		snprintf(mode, sizeof(mode), "%s", mode_names[tuner->mode]);
		if (tuner->mode == MODE_RELEASED) {
			time_text(tuner->since_us, since);
			snprintf(mode, sizeof(mode), "%s since %s", mode_names[tuner->mode], since);
		}
		put_cell(out, NULL, mode);
		put_cell(out, NULL, tuner->why);
		fputs("</tr>\n", out);
	}
	end_table(out, 0);
}

/* What tuners report beside limits and settings, by their columns. */

static void put_column(FILE *out, const struct column *column, const cJSON *row)
{
	const cJSON *item = column->key ? json_at(row, column->key) : NULL;
	const char *text = column->key ? json_text_at(row, column->key) : "";
	char buffer[512] = "", latency[TIME_TEXT_MAX] = "";

	if (column->write) {
		column->write(row, buffer, sizeof(buffer));
		put_cell(out, column->format == COLUMN_NUMBER ? "num" : NULL, buffer);
		return;
	}
	switch (column->format) {
	case COLUMN_TEXT:
		put_cell(out, NULL, text);
		return;
	case COLUMN_STATE:
		put_badge_cell(out,
			streq(text, "answers")  ? "ok"
			: streq(text, "silent") ? "warning"
						: "dim",
			text);
		return;
	case COLUMN_NUMBER:
		fputs("<td class=\"num\">", out);
		put_count(out, (uint64_t)MAX(json_number_at(row, column->key), 0.0));
		break;
	case COLUMN_SECONDS:
		if (cJSON_IsNumber(item))
			latency_text(item->valuedouble, latency);
		put_cell(out, "num", latency);
		return;
	case COLUMN_WORKLOAD:
		fputs("<td>", out);
		if (cJSON_IsObject(item))
			put_workload(out, json_text_at(item, "kind"),
				json_text_at(item, "namespace"), json_text_at(item, "name"));
		break;
	}
	fputs("</td>", out);
}

static void put_view_row(FILE *out, const struct column *columns, const cJSON *row)
{
	begin_row(out, json_text_at(row, columns[0].key), NULL);
	for (const struct column *column = columns + 1; column->key || column->write; column++)
		if (column->title)
			put_column(out, column, row);
	fputs("</tr>\n", out);
}

static void put_view(FILE *out, const struct table_view *view, const cJSON *document)
{
	const cJSON *row;
	size_t left_out = 0;
	bool begun = false;

	cJSON_ArrayForEach (row, json_at(document, view->rows)) {
		if (view->shows && !view->shows(row))
			continue;
		if (!begun) {
			begin_table(out, view->title);
			for (const struct column *c = view->columns; c->key || c->write; c++)
				if (c->title)
					put_head(out, c->title);
			fputs("</tr></thead>\n<tbody>\n", out);
		}
		begun = true;
		if (is_full(out))
			left_out++;
		else
			put_view_row(out, view->columns, row);
	}
	if (begun)
		end_table(out, left_out);
}

static void put_views(FILE *out, const struct node *node)
{
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;

		if (!tuner->self || !tuner->ops->view)
			continue;
		/* The page is for everyone who reaches the port. */
		document = tuner->ops->document(tuner->self, tuner->memory, false);
		put_view(out, tuner->ops->view, document);
	}
}

static void put_page(FILE *out, void *data)
{
	const struct node *node = data;

	put_header(out, node);
	put_conditions(out, node);
	put_limits(out, node);
	put_views(out, node);
	put_tuners(out, node);
	put_settings(out, node);
	fputs("</main>\n<footer>Read-only, renewed every 5 seconds. More: <a href=\"/v1/status\">"
	      "/v1/status</a>, <a href=\"/metrics\">/metrics</a>, <a href=\"/health\">/health</a>, "
	      "<a href=\"/readyz?verbose\">/readyz</a>.</footer>\n</body>\n</html>\n",
		out);
}

int report_page(const struct node *node, char **ret, size_t *len)
{
	return document_text(put_page, (void *)node, ret, len);
}
