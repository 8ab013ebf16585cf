/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status page, one HTML document without a script. The parts, in order: texts and badges; the
 * tables, whose columns come from the tuners; the cards of findings and limits; the style sheet;
 * the page. It asks for nothing but the status document, and shows nothing that only root may see.
 */
#include "report/report.h"

#include "base/build.h"
#include "tuners/table.h"

#include <ctype.h>

/*
 * Rows beyond this size are left out, so that the page stays below 200 kB: the largest row, whose
 * values all have to be escaped, has 5 kB, and the largest finding 18 kB.
 */
#define PAGE_ROWS_MAX (180 * 1000)

#define COUNT_MAX 40 /* 20 digits and 6 thin spaces of 3 bytes */

/* Classes of the style sheet. */
static const char *const tone_classes[] = {
	[TONE_GOOD] = "ok",
	[TONE_WARNING] = "warning",
	[TONE_BAD] = "critical",
	[TONE_FAINT] = "dim",
};

/* Prints like fprintf() with %s only; texts are escaped for elements and quoted attributes. */
static void PRINTF_LIKE(2, 3) put(FILE *out, const char *format, ...)
{
	static const char *const entities[256] = {['&'] = "&amp;",
		['<'] = "&lt;",
		['>'] = "&gt;",
		['"'] = "&quot;",
		['\''] = "&#39;"};
	va_list args;

	va_start(args, format);
	for (const char *next; (next = strstr(format, "%s")); format = next + strlen("%s")) {
		const char *text = va_arg(args, const char *);

		fwrite(format, 1, (size_t)(next - format), out);
		while (*text) {
			size_t n;
			const char *from = utf8_next(&text, &n);
			unsigned char c = (unsigned char)*from;
			const char *entity = entities[c];

			/* HTML forbids them, and a terminal would obey them. */
			if ((c < 0x20 && !isspace(c)) || c == 0x7f)
				entity = UTF8_REPLACEMENT;
			fwrite(entity ? entity : from, 1, entity ? strlen(entity) : n, out);
			if (*from == '-' && *text == '>') /* a word joiner keeps the arrow whole */
				fputs("&#8288;", out);
		}
	}
	va_end(args);
	fputs(format, out);
}

/* Writes 1234567 as "1 234 567" with narrow no-break spaces. */
static const char *count_text(double number, char text[static COUNT_MAX])
{
	char digits[24], *end = text;
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, (uint64_t)MAX(number, 0.0));

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			end = stpcpy(end, "\xe2\x80\xaf");
		*end++ = digits[i];
	}
	*end = '\0';
	return text;
}

/* Writes like amount_text(), with the digits of counts in groups and without their unit. */
static const char *grouped_text(double number, const char *unit, char text[static AMOUNT_MAX])
{
	return unit_is_scaled(unit) ? amount_text(number, unit, text) : count_text(number, text);
}

/* Prints "2024-05-01T12:00:00Z 3 min ago", and another text as it is. */
static void put_time(FILE *out, const char *text)
{
	uint64_t then, now = realtime_us();
	char ago[TIME_TEXT_MAX];

	if (time_parse(text, &then) < 0) {
		put(out, "%s", text);
		return;
	}
	duration_text(now > then ? (double)(now - then) / USEC_PER_SEC : 0, ago);
	put(out, "<time>%s</time> <span class=\"ago\">%s ago</span>", text, ago);
}

/*
 * The fragment of the address names the open part, because a page without a script has no other
 * memory. A refresh would lose it, so these links lead to the paused page.
 */
#define OPEN_LINK   "/?paused#"
#define CLOSE_LINKS "<a href=\"#-\">close</a> or <a href=\"/\">renew</a>"

static void put_badge(FILE *out, const char *class, const char *text)
{
	put(out, "<span class=\"badge %s\">%s</span>", class, text);
}

/* The cards of its findings have the message of a condition that is True. */
static void write_message(const cJSON *condition, char *text, size_t size)
{
	const char *message = json_text_at(condition, "message");
	bool is_true =
		streq(json_text_at(condition, "status"), condition_status_names[CONDITION_TRUE]);

	copy_text(text, size, message[0] && !is_true ? message : json_text_at(condition, "reason"));
}

static bool is_quiet(const cJSON *condition)
{
	return !condition_is_listed(condition);
}

static bool is_settled(const cJSON *setting)
{
	const char *state = json_text_at(setting, "state"),
		   *wanted = json_text_at(setting, "wanted");
	const enum tone tone = tone_of(state);

	if (streq(state, setting_state_names[SETTING_OBSERVED])) /* in observe mode it may differ */
		return !wanted[0] || value_equal(json_text_at(setting, "actual"), wanted);
	return tone != TONE_WARNING && tone != TONE_BAD;
}

static const char *condition_help(const cJSON *row)
{
	const struct condition_type *type = condition_type_find(json_text_at(row, "type"));

	return type ? type->help : NULL;
}

static const char *tuner_help(const cJSON *row)
{
	const struct tuner_ops *ops = tuner_find(json_text_at(row, "name"));

	return ops ? ops->tables->summary : NULL;
}

static const char *reason_help(const cJSON *row)
{
	enum reason reason = reason_parse(json_text_at(row, "reason"));

	return reason == REASON_NONE ? NULL : reason_rows[reason].help;
}

static const struct table_view conditions_view = {.title = "Conditions",
	.folds = is_quiet,
	.folded = "OK or not applicable",
	.rows = "conditions",
	.help = condition_help,
	.columns = (const struct column[]){
		{.title = "Condition", .key = "type"},
		{.title = "Status", .key = "status", .format = COLUMN_STATE},
		{.title = "Message", .write = write_message},
		{.title = "Since", .key = "since", .format = COLUMN_TIME},
		{0},
	}};
static const struct table_view events_view = {.title = "Events",
	.rows = "events",
	.columns = (const struct column[]){
		{.title = "Time", .key = "time", .format = COLUMN_TIME},
		{.title = "Level", .key = "level", .format = COLUMN_STATE},
		{.title = "Event", .key = "text"},
		{0},
	}};
static const struct table_view incidents_view = {.title = "Incidents",
	.rows = "incidents",
	.columns = (const struct column[]){
		{.title = "Time", .key = "at", .format = COLUMN_TIME},
		{.title = "Incident", .key = "text"},
		{.title = "State", .key = "state", .format = COLUMN_NOTE},
		{.title = "headroom incidents", .key = "id", .format = COLUMN_CODE},
		{0},
	}};
static const struct table_view tuners_view = {.title = "Tuners",
	.rows = "tuners",
	.help = tuner_help,
	.columns = (const struct column[]){
		{.title = "Tuner", .key = "name"},
		{.title = "State", .key = "state", .format = COLUMN_STATE},
		{.title = "Mode", .key = "mode"},
		{.title = "Since", .key = "since", .format = COLUMN_TIME},
		{.title = "Why", .key = "why"},
		{0},
	}};
static const struct table_view settings_view = {.title = "Settings",
	.folds = is_settled,
	.folded = "in sync, kept or unsupported",
	.rows = "settings",
	.help = reason_help,
	.columns = (const struct column[]){
		{.title = "Setting", .key = "name"},
		{.title = "State", .key = "state", .format = COLUMN_STATE},
		{.title = "Wanted", .key = "wanted", .format = COLUMN_CODE},
		{.title = "Actual", .key = "actual", .format = COLUMN_CODE},
		{.title = "Original", .key = "original", .format = COLUMN_CODE},
		{.title = "Reason", .key = "reason", .format = COLUMN_NOTE},
		{.title = "Since", .key = "since", .format = COLUMN_TIME},
		{0},
	}};

/*
 * Draws the last hour as a line, the newest minute at the right. Unknown minutes are left out. The
 * scale ends at max, or at the peak if max is 0.
 */
static void put_history(FILE *out, const cJSON *history, double max, const char *unit)
{
	const cJSON *minute;
	char count[AMOUNT_MAX];
	double peak = 0;
	int x = 0;

	cJSON_ArrayForEach (minute, history)
		if (cJSON_IsNumber(minute))
			peak = MAX(peak, minute->valuedouble);
	if (max <= 0)
		max = peak;
	put(out,
		"<svg viewBox=\"0 0 59 20\" preserveAspectRatio=\"none\" role=\"img\"><title>"
		"the last hour: at most %s</title><polyline points=\"",
		grouped_text(peak, unit, count));
	cJSON_ArrayForEach (minute, history) {
		if (cJSON_IsNumber(minute))
			fprintf(out, "%d,%.1f ", x,
				19 - 18 * MIN(minute->valuedouble / MAX(max, 1.0), 1.0));
		x++;
	}
	fputs("\"/></svg>", out);
}

const char *cell_text(const struct column *column, const cJSON *row, char *text, size_t size)
{
	const cJSON *item = column->key ? json_at(row, column->key) : NULL;

	text[0] = '\0';
	if (column->write)
		column->write(row, text, size);
	else if (column->format == COLUMN_SECONDS && cJSON_IsNumber(item))
		latency_text(item->valuedouble, text);
	else if (cJSON_IsString(item))
		copy_text(text, size, item->valuestring);
	return text;
}

static const char *const column_classes[] = {
	[COLUMN_TEXT] = "",
	[COLUMN_CODE] = "code",
	[COLUMN_NOTE] = "dim note",
	[COLUMN_STATE] = "",
	[COLUMN_NUMBER] = "num",
	[COLUMN_TIME] = "dim",
	[COLUMN_SECONDS] = "num",
	[COLUMN_HISTORY] = "",
};

/* The first cell is the name of the row; a click on it shows its help. */
static void put_row(FILE *out, const struct table_view *view, uint32_t blank, const cJSON *row)
{
	const char *name = json_text_at(row, view->columns[0].key);
	const char *help = view->help ? view->help(row) : NULL;
	char text[CELL_MAX];

	fputs("<tr><th scope=\"row\">", out);
	if (help)
		put(out,
			"<a href=\"" OPEN_LINK
			"%s/%s\">%s</a><p class=\"help\" id=\"%s/%s\">%s " CLOSE_LINKS "</p>",
			view->rows, name, name, view->rows, name, help);
	else
		put_time(out, name);
	fputs("</th>", out);
	for (unsigned i = 1; view->columns[i].key || view->columns[i].write; i++) {
		const struct column *column = &view->columns[i];
		const char *word = cell_text(column, row, text, sizeof(text));

		if (blank & 1U << i)
			continue;
		put(out, "<td class=\"%s\" data-title=\"%s\">", column_classes[column->format],
			column->title);
		if (column->format == COLUMN_STATE) {
			word = condition_word(row, word);
			put_badge(out,
				tone_classes[tone_of(
					column->tone ? json_text_at(row, column->tone) : word)],
				word);
		} else if (column->format == COLUMN_NUMBER && view->blanks && view->blanks(row)) {
			fputs("-", out);
		} else if (column->format == COLUMN_NUMBER && !column->write) {
			put(out, "%s", count_text(json_number_at(row, column->key), text));
		} else if (column->format == COLUMN_TIME) {
			put_time(out, word);
		} else if (column->format == COLUMN_HISTORY && json_at(row, column->key)) {
			put_history(out, json_at(row, column->key), 0, "");
		} else {
			put(out, "%s", word);
		}
		fputs("</td>", out);
	}
	fputs("</tr>\n", out);
	if (!view->write_detail || !has_problem(row))
		return;
	/* A row of its own has the lines that `headroom top` prints below the row. */
	fputs("<tr><td class=\"note\" colspan=\"32\">", out);
	for (int i = 0; view->write_detail(row, i, text, sizeof(text)); i++)
		if (text[0])
			put(out, "<div>%s</div>", text);
	fputs("</td></tr>\n", out);
}

static void end_list(FILE *out, const char *end, size_t left_out)
{
	fputs(end, out);
	if (left_out > 0)
		fprintf(out, "<p class=\"dim\">%zu more: see /v1/status.</p>\n", left_out);
}

/* Writes the folded rows, or the others. blank: a bit for each column to leave out. */
static void put_table(
	FILE *out, const struct table_view *view, uint32_t blank, const cJSON *rows, bool folded)
{
	const cJSON *row;
	size_t left_out = 0;

	put(out, "<div class=\"wide\"><table>\n<caption>%s%s%s</caption>\n<thead><tr>", view->title,
		folded ? ": " : "", folded ? view->folded : "");
	for (unsigned i = 0; view->columns[i].key || view->columns[i].write; i++)
		if (!(blank & 1U << i))
			put(out, "<th scope=\"col\" class=\"%s\">%s</th>",
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
	char text[CELL_MAX];
	uint32_t blank = 0;

	cJSON_ArrayForEach (row, rows)
		if (!view->shows || view->shows(row))
			n[view->folds && view->folds(row)]++;
	if (n[0] + n[1] == 0)
		return;
	/* Leave out columns that are empty in all rows. */
	for (unsigned i = 0; view->columns[i].key || view->columns[i].write; i++) {
		const struct column *column = &view->columns[i];
		bool filled = false;

		cJSON_ArrayForEach (row, rows) {
			const cJSON *item = column->key ? json_at(row, column->key) : NULL;

			filled = filled || cJSON_IsNumber(item) || cJSON_IsArray(item) ||
				 cell_text(column, row, text, sizeof(text))[0];
		}
		if (!column->title || !filled)
			blank |= 1U << i;
	}
	put(out, "<h2>%s</h2>\n", view->title);
	if (n[0] > 0)
		put_table(out, view, blank, rows, false);
	if (n[1] > 0) {
		snprintf(text, sizeof(text), "%zu %s", n[1], view->folded);
		put(out,
			"<p><a href=\"" OPEN_LINK
			"%s\">%s</a></p>\n<div class=\"fold\" id=\"%s\">" CLOSE_LINKS "\n",
			view->rows, text, view->rows);
		put_table(out, view, blank, rows, true);
		fputs("</div>\n", out);
	}
}

/* Draws a bar of the used share, and a mark at the peak. Both are of 0..1 or above. */
static void put_track(FILE *out, const char *name, const char *class, double share, double peak)
{
	double percent = MIN(100 * share, 100.0);
	char text[SHARE_MAX];

	put(out, "<div class=\"track\" role=\"meter\" aria-label=\"%s used\"", name);
	fprintf(out,
		" aria-valuemin=\"0\" aria-valuemax=\"100\" aria-valuenow=\"%.0f\""
		" aria-valuetext=\"%s\">"
		"<div class=\"bar %s\" style=\"width:%.1f%%\"></div>"
		"<div class=\"peak\" style=\"left:%.1f%%\" title=\"peak\"></div></div>\n",
		percent, share_text(share, text), class, percent, MIN(100 * peak, 99.5));
}

/* Writes a row of the list in a card. code: text to type, with its place; else a text. */
static void put_fact(FILE *out, const char *name, bool code, const char *text, const char *place)
{
	if (!text[0])
		return;
	put(out, code ? "<dt>%s</dt><dd><code>%s</code>" : "<dt>%s</dt><dd>%s", name, text);
	put(out, place[0] ? " in %s</dd>\n" : "%s</dd>\n", place);
}

static void put_finding(FILE *out, const cJSON *finding)
{
	const char *word = finding_word(finding), *instance = finding_instance(finding);
	const char *since = json_text_at(finding, "since"), *slug = json_text_at(finding, "slug");
	double now = json_number_at(finding, "current/used"),
	       max = json_number_at(finding, "current/max");
	double worst = json_number_at(finding, "used") / MAX(json_number_at(finding, "max"), 1.0);
	char who[FINDING_TEXT_MAX] = "";
	const cJSON *user;

	put(out, "<section class=\"card finding is-%s\"><h3>%s<span>", word, slug);
	put(out, instance[0] ? ", %s " : "%s ", instance);
	put_badge(out, tone_classes[tone_of(word)], word);
	if (since[0]) {
		fputs(" since ", out);
		put_time(out, since);
	}
	put(out, "</span></h3>\n<p>%s</p>\n", json_text_at(finding, "message"));
	if (max > 0)
		put_track(out, slug, tone_classes[tone_of(word)], now / max, worst);
	cJSON_ArrayForEach (user, json_at(finding, "who"))
		text_append(
			who, sizeof(who), "%s%s", who[0] ? "; " : "", json_text_at(user, "text"));
	fputs("<dl>\n", out);
	put_fact(out, "who", false, finding_lacks_user(finding) ? "not known" : who, "");
	put_fact(out, "pressure", false, json_text_at(json_at(finding, "pressure"), "text"), "");
	put_fact(out, "breaks", false, json_text_at(finding, "breaks"), "");
	put_fact(out, "now", true, json_text_at(finding, "now"), "");
	put_fact(
		out, "keep", true, json_text_at(finding, "keep"), json_text_at(finding, "keep_in"));
	put_fact(out, "hint", false, json_text_at(finding, "hint"), "");
	fputs("</dl>\n</section>\n", out);
}

static void put_limit(FILE *out, const cJSON *limit)
{
	double max = json_number_at(limit, "max"), peak = json_number_at(limit, "peak");
	double share = max > 0 ? json_number_at(limit, "used") / max : 0;
	double hits = json_number_at(limit, "hits"), before = json_number_at(limit, "hits_before");
	bool upper = streq(json_text_at(limit, "bound"), "upper");
	const cJSON *full = json_at(limit, "full_in_seconds");
	const char *class = json_text_at(limit, "severity"), *name = json_text_at(limit, "name");
	const cJSON *top = json_at(limit, "top"), *user;
	const char *unit = json_text_at(limit, "unit");
	const bool bytes = unit_is_scaled(unit);
	char a[AMOUNT_MAX], b[AMOUNT_MAX], text[SHARE_MAX];

	put(out, "<section class=\"card\"><div class=\"row\"><h3>%s</h3>", name);
	put(out, "<b class=\"num %s\">%s</b></div>\n", class, share_text(share, text));
	put_track(out, name, class, share, max > 0 ? peak / max : 1);
	put_history(out, json_at(limit, "history"), max, unit);
	put(out, "<p class=\"facts num\"><span>%s%s of %s%s%s</span></p>\n",
		upper ? "at most " : "", grouped_text(json_number_at(limit, "used"), unit, a),
		max > 0 ? grouped_text(max, unit, b) : "unknown", bytes ? "" : " ",
		bytes ? "" : unit);
	put(out, "<p class=\"facts num\"><span>peak %s", grouped_text(peak, unit, a));
	if (peak > max) {
		fputs(" at ", out);
		put_time(out, json_text_at(limit, "peak_at"));
	}
	if (json_at(limit, "peak_top/0"))
		put(out, ", %s of it by %s",
			grouped_text(json_number_at(limit, "peak_top/0/used"), unit, b),
			json_text_at(limit, "peak_top/0/workload/text"));
	put(out, "</span><span>reached %s time%s", count_text(hits - before, a),
		hits - before == 1 ? "" : "s");
	if (before > 0)
		put(out, ", %s since boot", count_text(hits, a));
	fputs("</span>", out);
	if (upper)
		fputs("<span>an upper bound: this node cannot count exactly</span>", out);
	if (cJSON_IsNumber(full)) {
		duration_text(full->valuedouble, a);
		put(out, "<span class=\"warning\">full in %s</span>", a);
	}
	fputs("</p>\n", out);
	if (cJSON_GetArraySize(top) > 0)
		fputs("<ol aria-label=\"largest users\">\n", out);
	cJSON_ArrayForEach (user, top)
		put(out,
			"<li class=\"row\"><span>%s%s%s</span><span class=\"num\">%s</span></li>\n",
			json_text_at(user, "workload/text"), json_at(user, "detail") ? ", " : "",
			json_text_at(user, "detail"),
			grouped_text(json_number_at(user, "used"), unit, a));
	fputs(cJSON_GetArraySize(top) > 0 ? "</ol>\n</section>\n" : "</section>\n", out);
}

/*
 * Text has a contrast of at least 4.5:1 in both colour schemes, and bars and lines of 3:1 (WCAG
 * 2.1, AA). The fragment of the address selects the part that is open.
 */
static const char page_style[] =
	":root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--line:#dfe3e8;--text:#1b2430;"
	"--dim:#5a6675;--ok:#1a7f4b;--warning:#8f5a00;--critical:#c0262d;--track:#e6e9ee;"
	"--ok-bar:#1f8f57;--warning-bar:#b06f00;--critical-bar:#d9383f}"
	"@media(prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2029;--line:#2c3542;"
	"--text:#e4e9f0;--dim:#9aa7b6;--ok:#55c98d;--warning:#f0b44c;--critical:#ff7b80;"
	"--track:#2c3542;--ok-bar:#2aa869;--warning-bar:#e09a1a;--critical-bar:#ef5a60}}"
	"*{box-sizing:border-box}"
	"body{margin:0;background:var(--bg);color:var(--text);"
	"font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",sans-serif}"
	"header,main,footer{max-width:max(1320px,75vw);margin:0 auto;padding:0 20px}"
	"header{display:flex;flex-wrap:wrap;align-items:center;gap:6px 14px;padding-top:28px}"
	"h1{font-size:24px;margin:0;overflow-wrap:anywhere}"
	"h2{font-size:13px;letter-spacing:.06em;text-transform:uppercase;color:var(--dim);"
	"margin:30px 0 10px;font-weight:600}"
	"h3{font-size:16px;margin:0}"
	".sub{color:var(--dim);flex-basis:100%;margin:0;font-size:13px}"
	".badge{display:inline-block;padding:1px 10px;border-radius:99px;border:1px solid;"
	"font-size:13px;font-weight:600;white-space:nowrap}"
	".ok{color:var(--ok)}.warning{color:var(--warning)}.critical{color:var(--critical)}"
	".dim{color:var(--dim)}"
	".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:14px}"
	".card,.wide{background:var(--card);border:1px solid var(--line);border-radius:10px}"
	".card{padding:16px 18px}.finding{border-left-width:4px;padding:12px 16px;margin:8px 0}"
	".finding h3{font-size:15px}.finding h3 span{font-weight:400}.finding p{margin:2px 0;"
	"overflow-wrap:anywhere}.finding .badge{font-size:12px}"
	".is-critical{border-left-color:var(--critical-bar)}"
	".is-warning{border-left-color:var(--warning-bar)}"
	"dl{display:grid;grid-template-columns:56px 1fr;gap:2px 12px;margin:8px 0 0}"
	"dt{color:var(--dim)}dd{margin:0;min-width:0;overflow-wrap:anywhere}"
	"code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"
	"background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:1px 6px;"
	"white-space:pre-wrap;display:inline-block}"
	".wide{overflow-x:auto}"
	".row{display:flex;justify-content:space-between;gap:12px;align-items:baseline}"
	".num{font-variant-numeric:tabular-nums}"
	".track{height:12px;border-radius:6px;background:var(--track);margin:10px 0 8px;"
	"overflow:hidden;position:relative}"
	".bar{height:100%;border-radius:6px;background:var(--ok-bar)}"
	".bar.warning{background:var(--warning-bar)}.bar.critical{background:var(--critical-bar)}"
	".peak{position:absolute;top:0;bottom:0;width:2px;background:var(--dim)}"
	".facts{display:flex;flex-wrap:wrap;gap:2px 16px;margin:0;color:var(--dim);font-size:13px}"
	"ol{margin:10px 0 0;padding:8px 0 0;border-top:1px solid var(--line);list-style:none;"
	"font-size:13px}"
	"table{border-collapse:collapse;width:100%;font-size:14px}"
	"th,td{text-align:left;padding:8px 7px;border-bottom:1px solid var(--line);"
	"vertical-align:top}"
	"tbody tr:last-child>*{border-bottom:0}"
	"thead th{color:var(--dim);font-weight:600;font-size:13px}"
	"tbody th{font-weight:500;overflow-wrap:anywhere}"
	"td{overflow-wrap:break-word}tbody th{white-space:nowrap}"
	"td.num,th.num{text-align:right}td.num{white-space:nowrap}td.note{overflow-wrap:anywhere;min-width:12ch}"
	".help,.fold{display:none;scroll-margin-top:50vh}.help:target,.fold:target{display:block}"
	".fold:has(:target){display:block}"
	"@supports not selector(:has(a)){.fold{display:block}}"
	".help{margin:4px 0 0;white-space:normal;font-weight:400;font-size:13px;color:var(--dim);"
	"max-width:60ch}.fold .wide{margin-top:8px}main>p{margin:8px 14px;font-size:14px}"
	".fold>a{margin:8px 14px;font-size:14px}"
	"th a,main>p a{text-decoration-style:dotted;text-underline-offset:3px}"
	"time,.ago{white-space:nowrap}"
	".wide{position:relative}caption{position:absolute;clip-path:inset(50%);height:1px;"
	"width:1px;overflow:hidden;white-space:nowrap}"
	"svg{display:block;width:100%;height:32px;margin:8px 0}td svg{width:90px;height:20px;"
	"margin:0}polyline{fill:none;stroke:var(--ok-bar);stroke-width:1.500;"
	"vector-effect:non-scaling-stroke}"
	"@media(max-width:640px){thead{display:none}table,tbody,tr,td,tbody th{display:block}"
	"tr{padding:10px 14px;border-bottom:1px solid var(--line)}tr:last-child{border:0}"
	"td,tbody th{border:0;padding:2px 0;white-space:normal}td:empty{display:none}"
	"td.num{text-align:left}td[data-title]::before{content:attr(data-title) \": \";"
	"color:var(--dim);font-size:13px}td[data-title] svg{display:inline-block;"
	"vertical-align:middle}header,main,footer{padding-left:12px;padding-right:12px}"
	".cards{grid-template-columns:1fr}}"
	"td.code{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
	"a{color:inherit}"
	"footer{color:var(--dim);font-size:13px;padding-top:22px;padding-bottom:34px}";

static void put_header(FILE *out, const struct node *node, bool paused)
{
	const char *verdict = verdict_names[node_verdict(node)];
	uint64_t now = realtime_us();
	char started[TIME_TEXT_MAX], up[TIME_TEXT_MAX], at[TIME_TEXT_MAX], change[40];

	fprintf(out,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n%s",
		paused ? "" : "<meta http-equiv=\"refresh\" content=\"5\">\n");
	put(out, "<title>%s: %s - Headroom</title>\n", node->name, verdict);
	fputs("<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg "
	      "xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%232aa869' "
	      "d='M2 9h3v6H2zm4.500-4h3v10h-3zM11 1h3v14h-3z'/%3E%3C/svg%3E\">\n<style>",
		out);
	fputs(page_style, out);
	put(out, "</style>\n</head>\n<body>\n<header>\n<h1>%s</h1>", node->name);
	put(out, "<a class=\"badge %s\" href=\"#conditions-now\">%s</a>", verdict, verdict);
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
		"<time>%s</time>, %s</p>\n</header>\n<main id=\"conditions-now\">\n",
		HEADROOM_VERSION, HEADROOM_COMMIT, up, started, at,
		paused ? "paused: <a href=\"/\">renew every 5 seconds</a>"
		       : "renewed every 5 seconds: <a href=\"/?paused\">pause</a>");
}

void report_page(FILE *out, const struct node *node, bool paused)
{
	/* Anyone who reaches the port may read the page. */
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = report_status(node, false);
	const cJSON *limits = json_at(status, "limits"), *limit, *finding;
	size_t left_out = 0;

	put_header(out, node, paused);
	cJSON_ArrayForEach (finding, json_at(status, "findings"))
		if (ftello(out) > PAGE_ROWS_MAX)
			left_out++;
		else
			put_finding(out, finding);
	end_list(out, "", left_out);
	left_out = 0;
	put_view(out, &conditions_view, status);
	if (node->n_limits > 0)
		fputs("<h2>Limits</h2>\n<div class=\"cards\">\n", out);
	cJSON_ArrayForEach (limit, limits)
		if (ftello(out) > PAGE_ROWS_MAX)
			left_out++;
		else
			put_limit(out, limit);
	if (node->n_limits > 0)
		end_list(out, "</div>\n", left_out);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_ops *ops = node->tuners[i].ops;

		for (const struct table_view *view = ops->tables->view; view; view = view->next)
			put_view(out, view, json_at(status, ops->name));
	}
	put_view(out, &incidents_view, status);
	put_view(out, &events_view, status);
	put_view(out, &tuners_view, status);
	put_view(out, &settings_view, status);
	fputs("</main>\n<footer>Read-only. More: <a href=\"/v1/status\">"
	      "/v1/status</a>, <a href=\"/metrics\">/metrics</a>, <a href=\"/health\">/health</a>, "
	      "<a href=\"/readyz?verbose\">/readyz</a>.</footer>\n</body>\n</html>\n",
		out);
}
