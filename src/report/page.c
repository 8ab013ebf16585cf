/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status page, one HTML document without a script. The parts, in order: texts and badges; the
 * tables, whose columns come from the tuners; the sections that have them; findings; limits; the
 * style sheet and the page. It asks for nothing but the status document, and shows nothing that
 * only root may see.
 */
#include "report/report.h"

#include "base/build.h"
#include "tuners/table.h"

#include <ctype.h>
#include <sys/utsname.h>

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
			const char *entity = entities[(unsigned char)*from];

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
 * memory. A refresh would close it, so these links lead to the paused page.
 */
#define OPEN_LINK  "/?paused#"
#define CLOSE_LINK "<a href=\"#-\" aria-label=\"close %s\">close</a>" /* each has its own name */

static void put_badge(FILE *out, const char *class, const char *text)
{
	put(out, "<span class=\"badge %s\">%s</span>", class, text);
}

/* Cards have the message of a condition that is True. */
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

/* Enforce mode would change a setting that is observed and differs. */
static bool would_change(const cJSON *setting)
{
	return streq(json_text_at(setting, "state"), setting_state_names[SETTING_OBSERVED]) &&
	       !is_settled(setting);
}

static void write_state(const cJSON *setting, char *text, size_t size)
{
	copy_text(text, size,
		would_change(setting) ? STATE_WOULD_CHANGE : json_text_at(setting, "state"));
}

static double change_rank(const cJSON *setting, const void *)
{
	return would_change(setting);
}

static bool is_enforcing(const cJSON *tuner)
{
	return streq(json_text_at(tuner, "state"), "active") &&
	       streq(json_text_at(tuner, "mode"), mode_names[MODE_ENFORCE]);
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
	.rank = 9,
	.rows = "events",
	.columns = (const struct column[]){
		{.title = "Time", .key = "time", .format = COLUMN_TIME},
		{.title = "Level", .key = "level", .format = COLUMN_STATE},
		{.title = "Event", .key = "text"},
		{0},
	}};
static const struct table_view incidents_view = {.title = "Incidents",
	.rank = 6,
	.rows = "incidents",
	.columns = (const struct column[]){
		{.title = "Time", .key = "at", .format = COLUMN_TIME},
		{.title = "Incident", .key = "text"},
		{.title = "State", .key = "state", .format = COLUMN_NOTE},
		{.title = "headroom incidents",
			.key = "id",
			.format = COLUMN_CODE,
			.link = "/v1/incidents/"},
		{0},
	}};
static const struct table_view tuners_view = {.title = "Tuners",
	.rank = 8,
	.folds = is_enforcing,
	.folded = "active",
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
	.rank = 7,
	.folds = is_settled,
	.folded = "in sync, kept or unsupported",
	.rows = "settings",
	.help = reason_help,
	.columns = (const struct column[]){
		{.title = "Setting", .key = "name"},
		{.title = "State", .format = COLUMN_STATE, .write = write_state},
		{.title = "Wanted", .key = "wanted", .format = COLUMN_CODE},
		{.title = "Actual", .key = "actual", .format = COLUMN_CODE},
		{.title = "Original", .key = "original", .format = COLUMN_CODE},
		{.title = "Reason", .key = "reason", .format = COLUMN_NOTE},
		{.title = "Since", .key = "since", .format = COLUMN_TIME},
		{0},
	}};

/* Writes an amount of a history: times are in microseconds. */
static const char *history_text(double value, const char *unit, char text[static AMOUNT_MAX])
{
	if (!streq(unit, "us"))
		return grouped_text(value, unit, text);
	latency_text(value / 1e6, text);
	return text;
}

#define MINUTE_MAX 8

/* Writes the time of a minute before this one: "14:04". Returns text. */
static const char *minute_text(int ago, char text[static MINUTE_MAX])
{
	char time[TIME_TEXT_MAX];

	time_text(realtime_us() - (uint64_t)ago * 60 * USEC_PER_SEC, time);
	snprintf(text, MINUTE_MAX, "%.5s", strchr(time, 'T') + 1);
	return text;
}

/*
 * Draws the last hour as a line, the newest minute at the right, and writes its largest value.
 * Unknown minutes are left out. The scale ends at max, or at the largest value if max is 0.
 */
static void put_history(FILE *out, const cJSON *history, double max, const char *unit)
{
	char text[3][AMOUNT_MAX], from[MINUTE_MAX], to[MINUTE_MAX], at[MINUTE_MAX];
	const int minutes = cJSON_GetArraySize(history);
	double largest = 0, last = 0;
	int x = 0, n = 0, largest_x = 0;
	const cJSON *minute;

	cJSON_ArrayForEach (minute, history) {
		if (cJSON_IsNumber(minute))
			last = minute->valuedouble, n++;
		if (cJSON_IsNumber(minute) && last >= largest)
			largest = last, largest_x = x;
		x++;
	}
	max = max > 0 ? max : largest;
	put(out,
		"<svg viewBox=\"0 0 59 20\" preserveAspectRatio=\"none\" role=\"img\"><title>"
		"the last hour, %s to %s UTC, on a scale from 0 to %s: at most %s at %s, last %s"
		"</title><polyline points=\"",
		minute_text(minutes - 1, from), minute_text(0, to),
		history_text(max, unit, text[0]), history_text(largest, unit, text[1]),
		minute_text(minutes - 1 - largest_x, at), history_text(last, unit, text[2]));
	x = 0;
	cJSON_ArrayForEach (minute, history) {
		double y = cJSON_IsNumber(minute)
				   ? 19 - 18 * MIN(minute->valuedouble / MAX(max, 1.0), 1.0)
				   : -1;

		if (y >= 0 && n == 1) /* a line needs two points */
			fprintf(out, "%d,%.1f ", x - 1, y);
		if (y >= 0)
			fprintf(out, "%d,%.1f ", x, y);
		x++;
	}
	fputs("\"/></svg>", out);
	if (n > 0)
		put(out, "<small>%s at %s</small>", text[1], at);
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

	if (view->help && !help)
		put(out, "<tr id=\"%s/%s\"><th scope=\"row\">", view->rows, name);
	else
		fputs("<tr><th scope=\"row\">", out);
	if (help)
		put(out,
			"<a href=\"" OPEN_LINK
			"%s/%s\">%s</a><p class=\"help\" id=\"%s/%s\">%s " CLOSE_LINK "</p>",
			view->rows, name, name, view->rows, name, help, name);
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
			put_history(out, json_at(row, column->key), 0,
				column->unit ? column->unit : "");
		} else if (column->link) {
			put(out, "<a href=\"%s%s\">%s</a>", column->link, word, word);
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

/* Begins rows that are shown after a click on the text. `end_fold()` ends them. */
static void begin_fold(FILE *out, const char *id, const char *text)
{
	put(out,
		"<p class=\"more\"><a href=\"" OPEN_LINK "%s\">%s</a></p>\n"
		"<div class=\"fold\" id=\"%s\">" CLOSE_LINK "\n",
		id, text, id, text);
}

static void end_fold(FILE *out)
{
	fputs("</div>\n", out);
}

static bool is_shown(const struct table_view *view, const cJSON *row, bool folded)
{
	return (!view->shows || view->shows(row)) && (view->folds && view->folds(row)) == folded;
}

static size_t count_rows(const struct table_view *view, const cJSON *rows, bool folded)
{
	const cJSON *row;
	size_t n = 0;

	cJSON_ArrayForEach (row, rows)
		n += is_shown(view, row, folded);
	return n;
}

/* Returns a bit for each column that is empty in all of these rows. */
static uint32_t blank_columns(const struct table_view *view, const cJSON *rows, bool folded)
{
	char text[CELL_MAX];
	uint32_t blank = 0;

	for (unsigned i = 0; view->columns[i].key || view->columns[i].write; i++) {
		const struct column *column = &view->columns[i];
		bool filled = false;
		const cJSON *row;

		cJSON_ArrayForEach (row, rows) {
			const cJSON *item = column->key ? json_at(row, column->key) : NULL;

			if (!is_shown(view, row, folded))
				continue;
			filled = filled || cJSON_IsNumber(item) || cJSON_IsArray(item) ||
				 cell_text(column, row, text, sizeof(text))[0];
		}
		if (!column->title || !filled)
			blank |= 1U << i;
	}
	return blank;
}

/* Writes the folded rows, or the others. */
static void put_table(FILE *out, const struct table_view *view, const cJSON *rows, bool folded,
	const char *folded_text)
{
	uint32_t blank = blank_columns(view, rows, folded);
	size_t left_out = 0;
	const cJSON *row;

	put(out,
		"<div class=\"wide\"><table class=\"list\">\n<caption>%s%s%s</caption>\n<thead><tr>",
		view->title, folded ? ": " : "", folded ? folded_text : "");
	for (unsigned i = 0; view->columns[i].key || view->columns[i].write; i++)
		if (!(blank & 1U << i))
			put(out, "<th scope=\"col\" class=\"%s\">%s</th>",
				column_classes[view->columns[i].format], view->columns[i].title);
	fputs("</tr></thead>\n<tbody>\n", out);
	cJSON_ArrayForEach (row, rows) {
		if (!is_shown(view, row, folded))
			continue;
		if (ftello(out) > PAGE_ROWS_MAX)
			left_out++;
		else
			put_row(out, view, blank, row);
	}
	end_list(out, "</tbody>\n</table></div>\n", left_out);
}

/* Writes the rows. A click on folded_text shows the folded rows. */
static void put_rows(FILE *out, const struct table_view *view, const char *fold, const cJSON *rows,
	const char *folded_text)
{
	if (count_rows(view, rows, false) > 0)
		put_table(out, view, rows, false, "");
	if (count_rows(view, rows, true) == 0)
		return;
	begin_fold(out, fold, folded_text);
	put_table(out, view, rows, true, folded_text);
	end_fold(out);
}

/* ---- sections: the tables that the navigation lists ---- */

struct section {
	const struct table_view *view;
	const char *id; /* of its anchor */
	const cJSON *rows;
	size_t n;
};

#define SECTIONS_MAX 32

struct section_list {
	struct section sections[SECTIONS_MAX];
	size_t n;
};

/* Adds a table that has rows, in the order of the ranks. */
static void add_section(struct section_list *list, const struct table_view *view, const char *id,
	const cJSON *document)
{
	struct section section = {.view = view, .id = id, .rows = json_at(document, view->rows)};
	size_t at = list->n;

	section.n = count_rows(view, section.rows, false) + count_rows(view, section.rows, true);
	if (section.n == 0 || list->n == SECTIONS_MAX)
		return;
	for (list->n++; at > 0 && list->sections[at - 1].view->rank > view->rank; at--)
		list->sections[at] = list->sections[at - 1];
	list->sections[at] = section;
}

static void find_sections(struct section_list *list, const struct node *node, const cJSON *status)
{
	static const struct table_view *const views[] = {
		&incidents_view, &settings_view, &tuners_view, &events_view};

	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_ops *ops = node->tuners[i].ops;

		for (const struct table_view *view = ops->tables->view; view; view = view->next)
			add_section(list, view, view == ops->tables->view ? ops->name : view->rows,
				json_at(status, ops->name));
	}
	for (size_t i = 0; i < ARRAY_SIZE(views); i++)
		add_section(list, views[i], views[i]->rows, status);
}

static void put_section(FILE *out, const struct section *section)
{
	const struct table_view *view = section->view;
	char text[CELL_MAX], fold[CELL_MAX];

	snprintf(text, sizeof(text), "%zu %s", count_rows(view, section->rows, true),
		view->folded ? view->folded : "");
	snprintf(fold, sizeof(fold), "%s%s", streq(section->id, view->rows) ? "other-" : "",
		view->rows);
	put(out, "<section id=\"%s\"><h2>%s</h2>\n", section->id, view->title);
	put_rows(out, view, fold, section->rows, text);
	fputs("</section>\n", out);
}

/* ---- findings ---- */

/* Writes a row of the list in a card. code: text to type, with its place; else a text. */
static void put_fact(FILE *out, const char *name, bool code, const char *text, const char *place)
{
	if (!text[0])
		return;
	put(out, code ? "<dt>%s</dt><dd><code>%s</code>" : "<dt>%s</dt><dd>%s", name, text);
	put(out, place[0] ? " in %s</dd>\n" : "%s</dd>\n", place);
}

/* Writes "A; B": the texts of these members of an array, each with the amount if it has a unit. */
static void users_text(
	const cJSON *users, const char *member, const char *unit, char *text, size_t size)
{
	char amount[AMOUNT_MAX];
	const cJSON *user;

	cJSON_ArrayForEach (user, users) {
		const char *detail = unit ? json_text_at(user, "detail") : "";

		text_append(text, size, "%s%s%s%s", text[0] ? "; " : "", json_text_at(user, member),
			detail[0] ? ", " : "", detail);
		if (unit)
			text_append(text, size, " %s",
				grouped_text(json_number_at(user, "used"), unit, amount));
	}
}

/* Links a condition to its entry in the documents; documents "": there is no address. */
static void put_condition_name(FILE *out, const char *documents, const char *condition)
{
	char *anchor;

	if (!documents[0]) {
		put(out, "%s", condition);
		return;
	}
	anchor = must(strdup(condition));
	for (char *at = anchor; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	put(out, "<a href=\"%s/deploy/TROUBLESHOOTING.md#%s\">%s</a>", documents, anchor,
		condition);
	free(anchor);
}

/* The first card of a condition has its anchor, and the link to its documents. */
static void put_finding(FILE *out, const cJSON *finding, const char *documents, bool is_first)
{
	const char *word = finding_word(finding), *instance = finding_instance(finding);
	const char *since = json_text_at(finding, "since");
	const char *condition = json_text_at(finding, "condition");
	char who[FINDING_TEXT_MAX] = "";

	put(out, "<section class=\"card finding is-%s\" id=\"findings/%s\">", word,
		json_text_at(finding, "id"));
	if (is_first)
		put(out, "<i id=\"conditions/%s\"></i>", condition);
	put(out, "<h3>%s", json_text_at(finding, "slug"));
	put(out, instance[0] ? ", %s" : "%s", instance);
	put(out, "<span><b class=\"%s\">%s</b>, ", tone_classes[tone_of(word)], word);
	put_condition_name(out, is_first ? documents : "", condition);
	if (since[0]) {
		fputs(", since ", out);
		put_time(out, since);
	}
	put(out, "</span></h3>\n<p>%s</p>\n", json_text_at(finding, "message"));
	users_text(json_at(finding, "who"), "text", NULL, who, sizeof(who));
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

/*
 * Writes the cards, and removes their conditions from the document. The other conditions are
 * Unknown, or need no action.
 */
static void put_findings(FILE *out, const cJSON *findings, cJSON *conditions, const char *documents)
{
	const cJSON *finding;
	size_t left_out = 0;

	cJSON_ArrayForEach (finding, findings) {
		cJSON *condition;
		bool is_first = false;

		if (ftello(out) > PAGE_ROWS_MAX) {
			left_out++;
			continue;
		}
		cJSON_ArrayForEach (condition, conditions)
			if (streq(json_text_at(condition, "type"),
				    json_text_at(finding, "condition")) &&
				streq(json_text_at(condition, "status"),
					condition_status_names[CONDITION_TRUE])) {
				cJSON_Delete(cJSON_DetachItemViaPointer(conditions, condition));
				is_first = true;
				break;
			}
		put_finding(out, finding, documents, is_first);
	}
	end_list(out, "", left_out);
}

static void put_conditions(FILE *out, const cJSON *conditions)
{
	const cJSON *condition;
	char text[CELL_MAX];
	size_t fine = 0, absent = 0;

	cJSON_ArrayForEach (condition, conditions) {
		if (condition_is_listed(condition))
			continue;
		absent += condition_is_absent(condition);
		fine += !condition_is_absent(condition);
	}
	snprintf(text, sizeof(text), "%zu %s fine", fine, fine == 1 ? "check is" : "checks are");
	if (absent > 0)
		text_append(text, sizeof(text), ", %zu %s not apply", absent,
			absent == 1 ? "does" : "do");
	put_rows(out, &conditions_view, conditions_view.rows, conditions, text);
}

/* ---- limits ---- */

/* Limits below this share without a problem are folded. */
#define FOLDED_SHARE 0.05

static double used_share(const cJSON *limit)
{
	return json_number_at(limit, "used") / MAX(json_number_at(limit, "max"), 1.0);
}

/* Without a maximum, a share is not known. */
static bool is_roomy(const cJSON *limit)
{
	const double used = json_number_at(limit, "used");
	const bool has_max = json_number_at(limit, "max") > 0;

	return !has_problem(limit) && (has_max ? used_share(limit) < FOLDED_SHARE : used == 0);
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
		"<div class=\"bar %s\" style=\"width:%.1f%%\"></div>",
		percent, share_text(share, text), class, percent);
	fprintf(out,
		"<div class=\"peak\" style=\"left:%.1f%%\"></div>"
		"<span class=\"hidden\">peak %s</span></div>",
		MIN(100 * peak, 99.0), share_text(peak, text));
}

/* Writes users of a limit as users_text() does, after a text and a colon. */
static void append_users(const cJSON *users, const char *unit, char *text, size_t size)
{
	char list[4 * FINDING_TEXT_MAX] = "";

	users_text(users, "workload/text", unit, list, sizeof(list));
	text_append(text, size, "%s%s", list[0] && text[0] ? ": " : "", list);
}

/* Writes the details, which the row has no room for. */
static void put_limit_detail(FILE *out, const cJSON *limit)
{
	const char *name = json_text_at(limit, "name"), *unit = json_text_at(limit, "unit");
	const double hits = json_number_at(limit, "hits"),
		     before = json_number_at(limit, "hits_before");
	const struct limit_row *row = limit_row_find(name);
	char text[4 * FINDING_TEXT_MAX], amount[AMOUNT_MAX];

	put(out,
		"<tr class=\"more\"><td colspan=\"6\"><div class=\"help\" id=\"limits/%s\">%s " CLOSE_LINK
		"<dl>",
		name, row ? row->help : "", name);
	if (json_number_at(limit, "max") > 0)
		put_fact(out, "use", false,
			use_text(json_number_at(limit, "used"), json_number_at(limit, "max"), unit,
				text),
			"");
	text[0] = '\0';
	append_users(json_at(limit, "top"), unit, text, sizeof(text));
	put_fact(out, "users", false, text, "");
	snprintf(text, sizeof(text), "%s at %s",
		grouped_text(json_number_at(limit, "peak"), unit, amount),
		json_text_at(limit, "peak_at"));
	append_users(json_at(limit, "peak_top"), unit, text, sizeof(text));
	put_fact(out, "peak", false, text, "");
	snprintf(text, sizeof(text), "%s time%s", count_text(hits - before, amount),
		hits - before == 1 ? "" : "s");
	if (before > 0)
		text_append(text, sizeof(text), ", %s since boot", count_text(hits, amount));
	put_fact(out, "reached", false, text, "");
	put_fact(out, "breaks", false, row && row->breaks ? row->breaks : "", "");
	if (streq(json_text_at(limit, "bound"), "upper"))
		put_fact(out, "counted", false, "an upper bound: this node cannot count exactly",
			"");
	fputs("</dl></div></td></tr>\n", out);
}

/* "262 144 of 262 144 connections", and below it when it is full and how often it was reached. */
static void put_amount(FILE *out, const cJSON *limit)
{
	const double max = json_number_at(limit, "max");
	const double hits = json_number_at(limit, "hits") - json_number_at(limit, "hits_before");
	const char *unit = json_text_at(limit, "unit");
	const cJSON *full = json_at(limit, "full_in_seconds");
	char a[AMOUNT_MAX], b[AMOUNT_MAX];

	put(out, "<td class=\"num\">%s%s%s%s",
		streq(json_text_at(limit, "bound"), "upper") ? "at most " : "",
		grouped_text(json_number_at(limit, "used"), unit, a), max > 0 ? " of " : "",
		max > 0 ? grouped_text(max, unit, b) : "");
	if (!unit_is_scaled(unit))
		put(out, " <small>%s</small>", unit);
	if (cJSON_IsNumber(full)) {
		duration_text(full->valuedouble, a);
		put(out, "<div class=\"warning\">full in %s</div>", a);
	}
	if (hits > 0)
		put(out, "<div class=\"dim\">reached %s time%s</div>", count_text(hits, a),
			hits == 1 ? "" : "s");
	fputs("</td>", out);
}

static void put_limit(FILE *out, const cJSON *limit)
{
	const double max = json_number_at(limit, "max"), share = used_share(limit);
	const char *name = json_text_at(limit, "name"), *unit = json_text_at(limit, "unit");
	const char *class = json_text_at(limit, "severity");
	const cJSON *user = json_at(limit, "top/0");
	char text[AMOUNT_MAX];

	put(out,
		"<tr><th scope=\"row\"><a href=\"" OPEN_LINK
		"limits/%s\">%s</a></th><td class=\"num %s\">%s</td><td>",
		name, name, class, max > 0 ? share_text(share, text) : "-");
	if (max > 0)
		put_track(out, name, class, share, json_number_at(limit, "peak") / max);
	else
		fputs("no maximum is known", out);
	fputs("</td>", out);
	put_amount(out, limit);
	fputs("<td>", out);
	put_history(out, json_at(limit, "history"), max, unit);
	put(out, "</td><td class=\"who\">%s%s%s", user ? json_text_at(user, "workload/text") : "-",
		json_text_at(user, "detail")[0] ? ", " : "", json_text_at(user, "detail"));
	if (user)
		put(out, " <small>%s</small>",
			grouped_text(json_number_at(user, "used"), unit, text));
	fputs("</td></tr>\n", out);
	put_limit_detail(out, limit);
}

static void put_limit_table(FILE *out, const cJSON *limits, bool roomy, const char *caption)
{
	const cJSON *limit;
	size_t left_out = 0;

	put(out,
		"<div class=\"wide\"><table class=\"limits\">\n<caption>%s</caption>\n<thead><tr>"
		"<th scope=\"col\">limit</th><th scope=\"col\" class=\"num\">use</th>"
		"<th scope=\"col\">now, and peak</th><th scope=\"col\" class=\"num\">amount</th>"
		"<th scope=\"col\">last hour</th><th scope=\"col\" class=\"who\">largest user</th>"
		"</tr></thead>\n<tbody>\n",
		caption);
	cJSON_ArrayForEach (limit, limits)
		if (is_roomy(limit) == roomy && ftello(out) > PAGE_ROWS_MAX)
			left_out++;
		else if (is_roomy(limit) == roomy)
			put_limit(out, limit);
	end_list(out, "</tbody>\n</table></div>\n", left_out);
}

/* Ranks the problems first, and then the limits by their share. */
static double limit_rank(const cJSON *limit, const void *)
{
	const enum tone tone = tone_of(json_text_at(limit, "severity"));

	return (tone == TONE_BAD              ? 2000
		       : tone == TONE_WARNING ? 1000
					      : 0) +
	       (json_number_at(limit, "max") > 0 ? MIN(used_share(limit), 999.0) : 0);
}

static void put_limits(FILE *out, cJSON *limits)
{
	const int n = cJSON_GetArraySize(limits);
	const cJSON *limit;
	char text[CELL_MAX];
	int n_roomy = 0;

	if (n == 0)
		return;
	json_sort(limits, limit_rank, NULL);
	cJSON_ArrayForEach (limit, limits)
		n_roomy += is_roomy(limit);
	fputs("<section id=\"limits\"><h2>Limits</h2>\n", out);
	if (n_roomy < n)
		put_limit_table(out, limits, false, "Limits");
	if (n_roomy > 0) {
		snprintf(text, sizeof(text), "%d limit%s below %.0f %%", n_roomy,
			n_roomy == 1 ? "" : "s", 100 * FOLDED_SHARE);
		begin_fold(out, "other-limits", text);
		put_limit_table(out, limits, true, text);
		end_fold(out);
	}
	fputs("</section>\n", out);
}

/* ---- the page ---- */

/*
 * Text has a contrast of at least 4.5:1 in both colour schemes, and bars and lines of 3:1 (WCAG
 * 2.1, AA). The fragment of the address selects the part that is open.
 */
static const char page_style[] =
	":root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--line:#e3e6eb;--text:#1c2430;"
	"--dim:#5a6675;--ok:#1a7f4b;--warning:#8f5a00;--critical:#b3261e;--track:#dfe3e9;"
	"--ok-bar:#1a7f4b;--warning-bar:#96660a;--critical-bar:#b3261e;--accent:#2458b8}"
	"@media(prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2029;--line:#2b333f;"
	"--text:#e6eaf0;--dim:#9aa6b5;--ok:#4cc38a;--warning:#e2b04a;--critical:#ff7b72;"
	"--track:#2b333f;--ok-bar:#4cc38a;--warning-bar:#e2b04a;--critical-bar:#ff7b72;"
	"--accent:#7fb0ff}}"
	"*{box-sizing:border-box}"
	"body{margin:0;background:var(--bg);color:var(--text);font:14px/1.5 system-ui,sans-serif}"
	"header,nav,main,footer{max-width:max(1180px,75vw);margin:0 auto;padding:0 20px}"
	"header{display:flex;gap:4px 12px;align-items:center;flex-wrap:wrap;padding-top:24px}"
	"h1{font-size:22px;margin:0;overflow-wrap:anywhere}h2{font-size:15px;margin:28px 0 8px}"
	"h3{font-size:15px;margin:0;overflow-wrap:anywhere}"
	".sub{color:var(--dim);flex-basis:100%;margin:0}"
	"a{color:inherit;text-decoration-color:var(--dim);text-underline-offset:3px}"
	"small{color:var(--dim);font-size:12px}"
	".verdict{border-radius:99px;padding:2px 12px;font-weight:600;color:var(--card);"
	"text-decoration:none}"
	".verdict.ok{background:var(--ok)}.verdict.warning{background:var(--warning)}"
	".verdict.critical{background:var(--critical)}"
	".badge{font-weight:600;white-space:nowrap}"
	".ok{color:var(--ok)}.warning{color:var(--warning)}.critical{color:var(--critical)}"
	".dim{color:var(--dim)}.num.warning,.num.critical{font-weight:700}.num.ok{color:inherit}"
	".verdict.ok,.verdict.warning,.verdict.critical{color:var(--card)}"
	"nav ul{display:flex;gap:0 16px;flex-wrap:wrap;margin:10px 0 0;padding:0;list-style:none;"
	"border-bottom:1px solid var(--line)}nav li a{display:block;text-decoration:none;"
	"color:var(--dim);padding:6px 0}nav b{color:var(--text)}"
	".card,.wide,.more{background:var(--card);border:1px solid var(--line);border-radius:8px}"
	".card{border-left-width:4px;border-left-color:var(--dim);padding:12px 16px;margin:8px 0}"
	".card h3>span{font-weight:400;color:var(--dim);margin-left:10px}.card b{font-weight:400}"
	".card p{margin:2px 0;overflow-wrap:anywhere}"
	".is-critical{border-left-color:var(--critical-bar)}"
	".is-warning{border-left-color:var(--warning-bar)}"
	"dl{display:grid;grid-template-columns:68px 1fr;gap:2px 12px;margin:8px 0 0}"
	"dt{color:var(--dim)}dd{margin:0;min-width:0;overflow-wrap:anywhere}"
	"code,td.code{font:13px/1.5 ui-monospace,monospace}"
	"code{background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:1px 6px;"
	"white-space:pre-wrap;display:inline-block}"
	".wide{overflow-x:auto;position:relative}"
	"table{border-collapse:collapse;width:100%}"
	"th,td{text-align:left;padding:8px 5px;border-top:1px solid var(--line);"
	"vertical-align:top;font-weight:400}"
	"thead th{border:0;color:var(--dim);font-size:12px;vertical-align:bottom}"
	"tbody th{white-space:nowrap}td{overflow-wrap:break-word}"
	"th:first-child,.more td,td[colspan]{padding-left:12px}"
	".num{font-variant-numeric:tabular-nums}td.num,th.num{text-align:right}"
	"td.num{white-space:nowrap}td.note{overflow-wrap:anywhere;min-width:12ch}"
	".limits td,.limits th{padding:8px 10px;vertical-align:middle}.limits tbody th{font-weight:600}"
	".limits .more td{padding:0 10px;border:0}.limits td.who{overflow-wrap:anywhere;min-width:210px}"
	".track{position:relative;width:150px;height:8px;border-radius:4px;background:var(--track)}"
	".bar{height:100%;border-radius:4px;background:var(--ok-bar)}"
	".bar.warning{background:var(--warning-bar)}.bar.critical{background:var(--critical-bar)}"
	".peak{position:absolute;top:-3px;width:2px;height:14px;background:var(--text)}"
	"svg{display:block;width:120px;height:22px}.list svg{width:80px}td>small{white-space:nowrap}"
	"polyline{fill:none;stroke:var(--accent);stroke-width:1.5;vector-effect:non-scaling-stroke}"
	".more{margin:8px 0 0;padding:8px 12px}tr.more{background:none;border:0}"
	".more>a{text-decoration:none;color:var(--dim)}.more>a::before{content:\"\\25b8  \"}"
	".help,.fold{display:none;scroll-margin-top:50vh}.help:target,.fold:target{display:block}"
	".fold:has(:target){display:block}"
	"@supports not selector(:has(a)){.fold{display:block}}"
	".help{margin:4px 0 8px;white-space:normal;font-weight:400;font-size:13px;"
	"color:var(--dim)}th .help{max-width:60ch}.fold>a{display:inline-block;margin:8px 12px}"
	"tr:target,.card:target{outline:2px solid var(--accent)}"
	"time,.ago{white-space:nowrap}"
	"caption,.hidden{position:absolute;clip-path:inset(50%);height:1px;width:1px;"
	"overflow:hidden;white-space:nowrap}"
	".skip{position:absolute;left:-999px}.skip:focus{left:8px;top:4px;background:var(--card);"
	"padding:4px 8px}"
	"footer{color:var(--dim);padding-top:22px;padding-bottom:40px}footer p{margin:0 0 4px}"
	"@media(max-width:720px){header,nav,main,footer{padding-left:12px;padding-right:12px}"
	".card h3>span{display:block;margin:0}"
	".list thead{display:none}.list,.list tbody,.list tr,.list td,.list tbody th{display:block}"
	".list tr{padding:8px 12px;border-top:1px solid var(--line)}.list tr:first-child{border:0}"
	".list td,.list tbody th{border:0;padding:2px 0;white-space:normal;overflow-wrap:anywhere}"
	".list td:empty{display:none}.list td.num{text-align:left}"
	".list td[data-title]::before{content:attr(data-title) \": \";color:var(--dim)}"
	".list td[data-title] svg{display:inline-block;vertical-align:middle;margin-right:6px}"
	".limits tr>:nth-child(n+4){display:none}.limits .track{width:60px}"
	".limits td,.limits th{padding:8px 6px}.limits tbody th{white-space:normal;width:99%;"
	"overflow-wrap:anywhere}}";

/* Writes "2 critical, 3 warnings", or "ok". */
static void verdict_text(const struct node *node, char *text, size_t size)
{
	size_t n[SEVERITY_CRITICAL + 1] = {0};

	text[0] = '\0';
	for (size_t i = 0; i < node->findings.n; i++)
		n[node->findings.findings[i].severity] += !node->findings.findings[i].ignored;
	for (int severity = SEVERITY_CRITICAL; severity >= SEVERITY_WARNING; severity--)
		if (n[severity] > 0)
			text_append(text, size, "%s%zu %s%s", text[0] ? ", " : "", n[severity],
				severity_names[severity],
				severity == SEVERITY_WARNING && n[severity] > 1 ? "s" : "");
	if (!text[0])
		copy_text(text, size, verdict_names[node_verdict(node)]);
}

/* The icon has the colour of the verdict. */
static void put_head(FILE *out, const struct node *node, bool paused, const char *verdict)
{
	static const char *const colours[] = {[VERDICT_OK] = "1f8f57",
		[VERDICT_WARNING] = "c98500",
		[VERDICT_CRITICAL] = "d9383f"};

	fprintf(out,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n%s",
		paused ? "" : "<meta http-equiv=\"refresh\" content=\"5\">\n");
	put(out, "<title>%s: %s - Headroom</title>\n", node->name, verdict);
	fprintf(out,
		"<link rel=\"icon\" href=\"data:image/svg+xml,%%3Csvg "
		"xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%%3E%%3Cpath fill='%%23%s' "
		"d='M2 9h3v6H2zm4.5-4h3v10h-3zM11 1h3v14h-3z'/%%3E%%3C/svg%%3E\">\n<style>%s"
		"</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#now\">Skip to the findings</a>\n",
		colours[node_verdict(node)], page_style);
}

static void put_header(FILE *out, const struct node *node, bool paused)
{
	const uint64_t now = realtime_us();
	char verdict[64], running[TIME_TEXT_MAX], at[TIME_TEXT_MAX], change[40];
	struct utsname kernel;

	verdict_text(node, verdict, sizeof(verdict));
	put_head(out, node, paused, verdict);
	put(out, "<header>\n<h1>%s</h1><a class=\"verdict %s\" href=\"#now\">%s</a>", node->name,
		verdict_names[node_verdict(node)], verdict);
	if (!node->applied)
		put_badge(out, "dim", "not applied yet");
	if (node_would_change(node) > 0) {
		snprintf(change, sizeof(change), "%zu would change", node_would_change(node));
		put(out, "<a class=\"badge warning\" href=\"#settings\">%s</a>", change);
	}
	uname(&kernel);
	time_text(now, at);
	duration_text(now > node->started_us ? (double)(now - node->started_us) / USEC_PER_SEC : 0,
		running);
	put(out,
		"\n<p class=\"sub\">Headroom %s (%s) on %s %s, running for %s. Seen at "
		"<time>%s</time>, ",
		HEADROOM_VERSION, HEADROOM_COMMIT, kernel.sysname, kernel.release, running, at);
	fputs(paused ? "paused: <a href=\"/\">renew every 5 seconds</a></p>\n</header>\n"
		     : "renewed every 5 seconds: <a href=\"/?paused\">pause</a></p>\n</header>\n",
		out);
}

static void put_navigation(FILE *out, size_t n_limits, const struct section_list *list)
{
	fputs("<nav aria-label=\"Sections\"><ul><li><a href=\"#now\"><b>Now</b></a></li>", out);
	if (n_limits > 0)
		fprintf(out, "<li><a href=\"#limits\">Limits %zu</a></li>", n_limits);
	for (size_t i = 0; i < list->n; i++) {
		const struct section *section = &list->sections[i];
		char n[24];

		snprintf(n, sizeof(n), "%zu", section->n);
		put(out, "<li><a href=\"#%s\">%s %s</a></li>", section->id, section->view->title,
			n);
	}
	fputs("</ul></nav>\n", out);
}

static void put_footer(FILE *out, const char *documents)
{
	static const char *const files[] = {
		"README.md", "deploy/TROUBLESHOOTING.md", "deploy/MONITORING.md"};

	fputs("<footer><p>Read-only. More: <a href=\"/v1/status\">"
	      "/v1/status</a>, <a href=\"/v1/incidents\">/v1/incidents</a>, <a href=\"/metrics\">"
	      "/metrics</a>, <a href=\"/health\">/health</a>, "
	      "<a href=\"/readyz?verbose\">/readyz</a>.</p>\n<p>Documents of " HEADROOM_VERSION
	      ": ",
		out);
	for (size_t i = 0; i < ARRAY_SIZE(files) && documents[0]; i++)
		put(out, "<a href=\"%s/%s\">%s</a>, ", documents, files[i], files[i]);
	fputs("headroom(8), headroom-limits(7), headroom-metrics(7), headroom-images(7), "
	      "headroom.yaml(5), headroom explain NAME.</p></footer>\n</body>\n</html>\n",
		out);
}

void report_page(FILE *out, const struct node *node, bool paused)
{
	const char *documents = node->config ? config_text(node->config, "http.documents") : "";
	/* Anyone who reaches the port may read the page. */
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = report_status(node, false);
	struct section_list sections = {0};

	json_sort(cJSON_GetObjectItem(status, "settings"), change_rank, NULL);
	find_sections(&sections, node, status);
	put_header(out, node, paused);
	put_navigation(out, node->n_limits, &sections);
	fputs("<main id=\"now\" tabindex=\"-1\">\n", out);
	put_findings(out, json_at(status, "findings"), cJSON_GetObjectItem(status, "conditions"),
		documents);
	put_conditions(out, json_at(status, "conditions"));
	put_limits(out, cJSON_GetObjectItem(status, "limits"));
	for (size_t i = 0; i < sections.n; i++)
		put_section(out, &sections.sections[i]);
	fputs("</main>\n", out);
	put_footer(out, documents);
}
