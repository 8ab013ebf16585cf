/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/json.h"
#include "base/text.h"
#include "tuners/table.h"

/*
 * Rows are left out beyond this, so that no node makes a page of 200 kB: the largest row, of values
 * that all have to be escaped, is 5 kB.
 */
#define PAGE_ROWS_MAX (180 * 1000)

/* Classes of the style sheet. */
static const char *const tone_classes[] = {
	[TONE_GOOD] = "ok",
	[TONE_WARNING] = "warning",
	[TONE_BAD] = "critical",
	[TONE_FAINT] = "dim",
};

/* Text within an element or a quoted attribute, escaped. NULL is empty. */
static void put_text(FILE *out, const char *text)
{
	static const char *const entities[256] = {['&'] = "&amp;",
		['<'] = "&lt;",
		['>'] = "&gt;",
		['"'] = "&quot;",
		['\''] = "&#39;"};

	while (text && *text) {
		size_t n;
		const char *from = utf8_next(&text, &n), *entity = entities[(unsigned char)*from];

		if (entity)
			fputs(entity, out);
		else
			fwrite(from, 1, n, out);
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

static void put_number(FILE *out, const cJSON *object, const char *key)
{
	put_count(out, (uint64_t)MAX(json_number_at(object, key), 0.0));
}

static void put_badge(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<span class=\"badge %s\">", class);
	put_text(out, text);
	fputs("</span>", out);
}

/* ---- tables: of the document's lists, and of what tuners report beside them ---- */

static void write_message(const cJSON *condition, char *text, size_t size)
{
	const char *message = json_text_at(condition, "message");

	copy_text(text, size, message[0] ? message : json_text_at(condition, "reason"));
}

static void write_mode(const cJSON *tuner, char *text, size_t size)
{
	const char *mode = json_text_at(tuner, "mode");

	copy_text(text, size, mode);
	if (streq(mode, mode_names[MODE_RELEASED]))
		text_append(text, size, " since %s", json_text_at(tuner, "since"));
}

static bool is_no_problem(const cJSON *condition)
{
	return !streq(json_text_at(condition, "status"), "True");
}

static const struct table_view conditions_view = {.title = "Conditions",
	.folds = is_no_problem,
	.folded = "OK or not applicable",
	.rows = "conditions",
	.kind = "condition",
	.help_key = "type",
	.columns = (const struct column[]){
		{.title = "Condition", .key = "type"},
		{.title = "Status", .key = "status", .format = COLUMN_STATE},
		{.title = "Message", .write = write_message},
		{.title = "Since", .key = "since", .format = COLUMN_NOTE},
		{0},
	}};
static const struct table_view events_view = {.title = "Events",
	.rows = "events",
	.columns = (const struct column[]){
		{.title = "Time", .key = "time"},
		{.title = "Level", .key = "level", .format = COLUMN_STATE},
		{.title = "Event", .key = "text"},
		{0},
	}};
static const struct table_view tuners_view = {.title = "Tuners",
	.rows = "tuners",
	.kind = "tuner",
	.help_key = "name",
	.columns = (const struct column[]){
		{.title = "Tuner", .key = "name"},
		{.title = "State", .key = "state", .format = COLUMN_STATE},
		{.title = "Mode", .write = write_mode},
		{.title = "Why", .key = "why"},
		{0},
	}};
static const struct table_view settings_view = {.title = "Settings",
	.rows = "settings",
	.kind = "reason",
	.help_key = "reason",
	.columns = (const struct column[]){
		{.title = "Setting", .key = "name"},
		{.title = "State", .key = "state", .format = COLUMN_STATE},
		{.title = "Wanted", .key = "wanted", .format = COLUMN_CODE},
		{.title = "Actual", .key = "actual", .format = COLUMN_CODE},
		{.title = "Original", .key = "original", .format = COLUMN_CODE},
		{.title = "Reason", .key = "reason", .format = COLUMN_NOTE},
		{0},
	}};

/*
 * The last hour as a line, the newest at the right; minutes that are not known leave it. The peak
 * is its title. The scale ends at max, or at the peak where that is 0.
 */
static void put_history(FILE *out, const cJSON *history, double max)
{
	const cJSON *minute;
	double peak = 0;
	int x = 0;

	cJSON_ArrayForEach (minute, history)
		if (cJSON_IsNumber(minute))
			peak = MAX(peak, minute->valuedouble);
	if (max <= 0)
		max = peak;
	fputs("<svg viewBox=\"0 0 59 20\" preserveAspectRatio=\"none\" role=\"img\"><title>"
	      "the last hour: at most ",
		out);
	put_count(out, (uint64_t)peak);
	fputs("</title><polyline points=\"", out);
	cJSON_ArrayForEach (minute, history) {
		if (cJSON_IsNumber(minute))
			fprintf(out, "%d,%.1f ", x,
				19 - 18 * MIN(minute->valuedouble / MAX(max, 1.0), 1.0));
		x++;
	}
	fputs("\"/></svg>", out);
}

/* A column that says nothing in any row is left out. */
static bool is_blank(const struct column *column, const cJSON *rows)
{
	const cJSON *row;
	char buffer[512];

	cJSON_ArrayForEach (row, rows) {
		const cJSON *item = column->key ? json_at(row, column->key) : NULL;

		buffer[0] = '\0';
		if (column->write)
			column->write(row, buffer, sizeof(buffer));
		if (buffer[0] || cJSON_IsNumber(item) || cJSON_IsArray(item) ||
			(cJSON_IsString(item) && item->valuestring[0]))
			return false;
	}
	return true;
}

static const char *const column_classes[] = {
	[COLUMN_TEXT] = "",
	[COLUMN_CODE] = "code",
	[COLUMN_NOTE] = "dim note",
	[COLUMN_STATE] = "",
	[COLUMN_NUMBER] = "num",
	[COLUMN_SECONDS] = "num",
	[COLUMN_HISTORY] = "",
};

static void put_cell(FILE *out, const struct column *column, const cJSON *row)
{
	const cJSON *item = column->key ? json_at(row, column->key) : NULL;
	const char *text = column->key ? json_text_at(row, column->key) : "";
	char buffer[512] = "";

	fprintf(out, "<td class=\"%s\" data-title=\"%s\">", column_classes[column->format],
		column->title);
	if (column->write) {
		column->write(row, buffer, sizeof(buffer));
		put_text(out, buffer);
	} else if (column->format == COLUMN_STATE) {
		text = condition_word(row, text);
		put_badge(out, tone_classes[tone_of(text)], text);
	} else if (column->format == COLUMN_NUMBER) {
		put_number(out, row, column->key);
	} else if (column->format == COLUMN_SECONDS && cJSON_IsNumber(item)) {
		latency_text(item->valuedouble, buffer);
		fputs(buffer, out);
	} else if (column->format == COLUMN_HISTORY && item) {
		put_history(out, item, 0);
	} else {
		put_text(out, text);
	}
	fputs("</td>", out);
}

/* A row begins with its name, which unfolds what the entry of that kind says of its key. */
static void put_row(FILE *out, const struct table_view *view, uint32_t blank, const cJSON *row)
{
	const char *name = json_text_at(row, view->columns[0].key);
	const char *help =
		view->kind ? entry_help(view->kind, json_text_at(row, view->help_key)) : NULL;

	fputs("<tr><th scope=\"row\">", out);
	fputs(help ? "<details><summary>" : "", out);
	put_text(out, name);
	if (help) {
		fputs("</summary><p>", out);
		put_text(out, help);
		fputs("</p></details>", out);
	}
	fputs("</th>", out);
	for (unsigned i = 1; view->columns[i].key || view->columns[i].write; i++)
		if (!(blank & 1U << i))
			put_cell(out, &view->columns[i], row);
	fputs("</tr>\n", out);
}

static void end_list(FILE *out, const char *end, size_t left_out)
{
	fputs(end, out);
	if (left_out > 0)
		fprintf(out, "<p class=\"dim\">%zu more: see /v1/status.</p>\n", left_out);
}

/* The rows that are folded away, or the others. */
static void put_table(
	FILE *out, const struct table_view *view, uint32_t blank, const cJSON *rows, bool folded)
{
	const cJSON *row;
	size_t left_out = 0;

	fputs("<div class=\"wide\"><table>\n<thead><tr>", out);
	for (unsigned i = 0; view->columns[i].key || view->columns[i].write; i++)
		if (!(blank & 1U << i))
			fprintf(out, "<th scope=\"col\" class=\"%s\">%s</th>",
				column_classes[view->columns[i].format], view->columns[i].title);
	fputs("</tr></thead>\n<tbody>\n", out);
	cJSON_ArrayForEach (row, rows) {
		if ((view->shows && !view->shows(row)) ||
			(view->folds && view->folds(row)) != folded)
			continue;
		if (ftello(out) > PAGE_ROWS_MAX)
			left_out++;
		else
			put_row(out, view, blank, row);
	}
	end_list(out, "</tbody>\n</table></div>\n", left_out);
}

static void put_view(FILE *out, const struct table_view *view, const cJSON *document)
{
	const cJSON *rows = json_at(document, view->rows), *row;
	size_t n[2] = {0}; /* shown, folded */
	uint32_t blank = 0;

	cJSON_ArrayForEach (row, rows)
		if (!view->shows || view->shows(row))
			n[view->folds && view->folds(row)]++;
	if (n[0] + n[1] == 0)
		return;
	for (unsigned i = 0; view->columns[i].key || view->columns[i].write; i++)
		if (!view->columns[i].title || is_blank(&view->columns[i], rows))
			blank |= 1U << i;
	fprintf(out, "<h2>%s</h2>\n", view->title);
	if (n[0] > 0)
		put_table(out, view, blank, rows, false);
	if (n[1] > 0) {
		fprintf(out, "<details><summary>%zu %s</summary>\n", n[1], view->folded);
		put_table(out, view, blank, rows, true);
		fputs("</details>\n", out);
	}
}

/* ---- limits: a card each ---- */

static void put_bar(FILE *out, const cJSON *limit, double percent, const char *class)
{
	double max = json_number_at(limit, "max");
	double peak = max > 0 ? json_number_at(limit, "peak") / max * 100 : 100;

	fprintf(out,
		"<div class=\"track\" role=\"meter\" aria-valuemin=\"0\" aria-valuemax=\"100\" "
		"aria-valuenow=\"%.0f\" aria-label=\"",
		percent);
	put_text(out, json_text_at(limit, "name"));
	fprintf(out,
		" used\"><div class=\"bar %s\" style=\"width:%.1f%%\"></div>"
		"<div class=\"peak\" style=\"left:%.1f%%\" title=\"peak\"></div></div>\n",
		class, percent, MIN(peak, 99.5));
}

static void put_facts(FILE *out, const cJSON *limit)
{
	bool upper = streq(json_text_at(limit, "bound"), "upper");
	const cJSON *full = json_at(limit, "full_in_seconds");
	double hits = json_number_at(limit, "hits");
	double before = json_number_at(limit, "hits_before");
	char duration[TIME_TEXT_MAX];

	fprintf(out, "<p class=\"facts num\"><span>%s", upper ? "at most " : "");
	put_number(out, limit, "used");
	fputs(" of ", out);
	put_number(out, limit, "max");
	fputc(' ', out);
	put_text(out, json_text_at(limit, "unit"));
	fputs("</span></p>\n<p class=\"facts num\"><span>peak ", out);
	put_number(out, limit, "peak");
	if (json_number_at(limit, "peak") > json_number_at(limit, "max"))
		fprintf(out, " at <time>%s</time>", json_text_at(limit, "peak_at"));
	fputs("</span><span>reached ", out);
	put_count(out, (uint64_t)(hits - before));
	fputs(hits - before == 1 ? " time" : " times", out);
	if (before > 0) {
		fputs(", ", out);
		put_count(out, (uint64_t)hits);
		fputs(" since boot", out);
	}
	fputs("</span>", out);
	if (upper)
		fputs("<span>an upper bound: the exact count is not known here</span>", out);
	if (cJSON_IsNumber(full)) {
		duration_text(full->valuedouble, duration);
		fprintf(out, "<span class=\"warning\">full in %s</span>", duration);
	}
	fputs("</p>\n", out);
}

static void put_limit(FILE *out, const cJSON *limit)
{
	double percent = (1 - json_number_at(limit, "headroom")) * 100;
	const char *class = json_text_at(limit, "severity");
	const cJSON *top = json_at(limit, "top"), *user;

	fputs("<section class=\"card\"><div class=\"row\"><h3>", out);
	put_text(out, json_text_at(limit, "name"));
	fprintf(out, "</h3><b class=\"num %s\">%.0f %%</b></div>\n", class, percent);
	put_bar(out, limit, percent, class);
	put_history(out, json_at(limit, "history"), json_number_at(limit, "max"));
	put_facts(out, limit);
	if (cJSON_GetArraySize(top) > 0)
		fputs("<ol aria-label=\"who uses most\">\n", out);
	cJSON_ArrayForEach (user, top) {
		fputs("<li class=\"row\"><span>", out);
		put_text(out, json_text_at(user, "workload/text"));
		fputs("</span><span class=\"num\">", out);
		put_number(out, user, "used");
		fputs("</span></li>\n", out);
	}
	fputs(cJSON_GetArraySize(top) > 0 ? "</ol>\n</section>\n" : "</section>\n", out);
}

static void put_limits(FILE *out, const cJSON *limits)
{
	const cJSON *limit;
	size_t left_out = 0;

	if (cJSON_GetArraySize(limits) == 0)
		return;
	fputs("<h2>Limits</h2>\n<div class=\"cards\">\n", out);
	cJSON_ArrayForEach (limit, limits)
		if (ftello(out) > PAGE_ROWS_MAX)
			left_out++;
		else
			put_limit(out, limit);
	end_list(out, "</div>\n", left_out);
}

/* ---- the page ---- */

static void put_header(FILE *out, const struct node *node, bool paused)
{
	const char *verdict = verdict_names[node_verdict(node)];
	uint64_t now = realtime_us();
	char started[TIME_TEXT_MAX], up[TIME_TEXT_MAX], at[TIME_TEXT_MAX], change[40];

	fprintf(out,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		"%s<title>",
		paused ? "" : "<meta http-equiv=\"refresh\" content=\"5\">\n");
	put_text(out, node->name);
	fprintf(out, ": %s - Headroom</title>\n", verdict);
	fputs("<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg "
	      "xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%232aa869' "
	      "d='M2 9h3v6H2zm4.500-4h3v10h-3zM11 1h3v14h-3z'/%3E%3C/svg%3E\">\n<style>",
		out);
	fputs(report_page_style, out);
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
		"<time>%s</time>, %s</p>\n</header>\n<main>\n",
		HEADROOM_VERSION, HEADROOM_COMMIT, up, started, at,
		paused ? "paused: <a href=\"/\">renew every 5 seconds</a>"
		       : "renewed every 5 seconds: <a href=\"/?paused\">pause</a>");
}

void report_page(FILE *out, const struct node *node, bool paused)
{
	/* The page is for everyone who reaches the port. */
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = report_status(node, false);

	put_header(out, node, paused);
	put_limits(out, json_at(status, "limits"));
	put_view(out, &conditions_view, status);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_ops *ops = node->tuners[i].ops;

		if (ops->view)
			put_view(out, ops->view, json_at(status, ops->document_name));
	}
	put_view(out, &events_view, status);
	put_view(out, &tuners_view, status);
	put_view(out, &settings_view, status);
	fputs("</main>\n<footer>Read-only. More: <a href=\"/v1/status\">"
	      "/v1/status</a>, <a href=\"/metrics\">/metrics</a>, <a href=\"/health\">/health</a>, "
	      "<a href=\"/readyz?verbose\">/readyz</a>.</footer>\n</body>\n</html>\n",
		out);
}
