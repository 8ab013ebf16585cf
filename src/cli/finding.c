/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A finding in text: as a paragraph with its cure for doctor and status, and as a row for top. All
 * its texts are the document's.
 */
#include "cli/cli.h"

#include "report/report.h"

#define FIELD_WIDTH 7

/*
 * Draws text to type. Its lines are whole, so that they can be copied; a live screen, which cuts
 * its lines, wraps them.
 */
static void draw_typed(struct screen *screen, int indent, const char *name, const char *text)
{
	for (const char *next; *text; text = next) {
		size_t blanks = strspn(text, " "), len = strcspn(text, "\n");

		next = text + len + (text[len] == '\n');
		draw(screen, COLOR_FAINT, "%*s%-*s ", indent, "", FIELD_WIDTH, name);
		draw(screen, COLOR_NONE, "%*s", (int)blanks, "");
		if (screen->live)
			draw_wrapped(screen, indent + FIELD_WIDTH + 1, "%.*s", (int)(len - blanks),
				text + blanks);
		else
			draw(screen, COLOR_NONE, "%.*s\n", (int)(len - blanks), text + blanks);
		name = "";
	}
}

/* The file stands beside a single line, and below several. */
static void draw_keep(struct screen *screen, int indent, const char *keep, const char *in)
{
	_cleanup_free_ char *text = NULL;

	must_do(asprintf(&text, "%s%s%s", keep,
			!keep[0] || !in[0]   ? ""
			: strchr(keep, '\n') ? "\nin "
					     : "  in ",
			keep[0] ? in : "") >= 0);
	draw_typed(screen, indent, "keep", text);
}

void draw_finding_cure(struct screen *screen, int indent, const cJSON *finding)
{
	char who[1024] = "";
	const cJSON *user;

	cJSON_ArrayForEach (user, json_at(finding, "who"))
		text_append(
			who, sizeof(who), "%s%s", who[0] ? "; " : "", json_text_at(user, "text"));
	draw_field(screen, COLOR_FAINT, indent, FIELD_WIDTH, "who",
		finding_lacks_user(finding) ? "not known" : who);
	draw_field(screen, COLOR_FAINT, indent, FIELD_WIDTH, "pressure",
		json_text_at(json_at(finding, "pressure"), "text"));
	draw_field(
		screen, COLOR_FAINT, indent, FIELD_WIDTH, "since", json_text_at(finding, "since"));
	draw_field(screen, COLOR_FAINT, indent, FIELD_WIDTH, "breaks",
		json_text_at(finding, "breaks"));
	draw_typed(screen, indent, "now", json_text_at(finding, "now"));
	draw_keep(screen, indent, json_text_at(finding, "keep"), json_text_at(finding, "keep_in"));
	draw_field(screen, COLOR_FAINT, indent, FIELD_WIDTH, "hint", json_text_at(finding, "hint"));
}

void draw_finding(struct screen *screen, int indent, const char *word, const cJSON *finding)
{
	const char *instance = finding_instance(finding);

	draw(screen, COLOR_NONE, "%*s", indent, "");
	draw(screen, color_of(word), "%-9s ", word);
	draw(screen, COLOR_BOLD, "%s", json_text_at(finding, "slug"));
	draw(screen, COLOR_NONE, "  ");
	draw_wrapped(screen, indent + 10, "%s%s%s", instance, instance[0] ? ": " : "",
		json_text_at(finding, "message"));
	/* Ignored findings need no action; the message of an unknown check says why. */
	if (tone_of(word) != TONE_FAINT || streq(word, severity_names[SEVERITY_ADVICE]))
		draw_finding_cure(screen, indent + 2, finding);
}

/* Writes "262144/262144", or the message of a finding without numbers. */
static void write_use(const cJSON *finding, char *text, size_t size)
{
	const cJSON *used = json_at(finding, "used"), *max = json_at(finding, "max");
	const char *unit = json_text_at(finding, "unit");
	char amount[AMOUNT_MAX];

	if (!cJSON_IsNumber(used)) {
		copy_text(text, size, json_text_at(finding, "message"));
		return;
	}
	copy_text(text, size, bare_amount_text(used->valuedouble, unit, amount));
	if (cJSON_IsNumber(max))
		text_append(text, size, "/%s", bare_amount_text(max->valuedouble, unit, amount));
}

/* Writes "pod shop/crawler-7 69 %", and then the others that use as much, at most max in all. */
static void write_users(const cJSON *finding, int max, char *text, size_t size)
{
	int n = MIN(finding_first_users(finding), max);

	copy_text(text, size, finding_lacks_user(finding) ? "who is not known" : "");
	for (int i = 0; i < n; i++) {
		const cJSON *user = cJSON_GetArrayItem(json_at(finding, "who"), i);
		const cJSON *share = json_at(user, "share");
		const char *detail = json_text_at(user, "detail");
		char percent[SHARE_MAX] = "";

		if (cJSON_IsNumber(share))
			share_text(share->valuedouble, percent);
		text_append(text, size, "%s%s%s%s%s%s", i > 0 ? "; " : "",
			json_text_at(user, "workload/text"), detail[0] ? ", " : "", detail,
			percent[0] ? " " : "", percent);
	}
}

/* Columns of a live row for the instance, for the users, and for a message. */
#define INSTANCE_MAX 24
#define USERS_MIN    30
#define MESSAGE_MIN  12

/* Draws a text beside the others or, if that leaves less than least columns, on the next line. */
static void draw_part(struct screen *screen, const char *text, int least, int max)
{
	char brief[1024];

	if (!text[0])
		return;
	least = MIN(least, text_width(text));
	if (screen->column + 2 + least > screen->width)
		draw_further(screen, LIVE_INDENT);
	else
		draw(screen, COLOR_NONE, "  ");
	if (max < INT_MAX) /* figures are not shortened */
		text = shorten(
			text, MIN(max, screen->width - screen->column), brief, sizeof(brief));
	draw(screen, COLOR_NONE, "%s", text);
}

/* One line if the figures fit: names and the message are shortened. The first user has room. */
static void draw_brief(struct screen *screen, const cJSON *finding, const char *text)
{
	const bool has_figures = cJSON_IsNumber(json_at(finding, "used"));
	char users[1024];
	int room;

	draw_part(screen, finding_instance(finding), INSTANCE_MAX, INSTANCE_MAX);
	write_users(finding, INT_MAX, users, sizeof(users));
	room = screen->width - screen->column - 2 -
	       (users[0] ? 2 + MIN(text_width(users), USERS_MIN) : 0);
	draw_part(screen, text, has_figures ? INT_MAX : MESSAGE_MIN,
		has_figures ? INT_MAX : MAX(room, MESSAGE_MIN));
	if (screen->column + 2 + text_width(users) > screen->width)
		write_users(finding, 1, users, sizeof(users));
	draw_part(screen, users, USERS_MIN, screen->width);
	draw(screen, COLOR_NONE, "\n");
}

void draw_finding_row(struct screen *screen, const cJSON *finding)
{
	const char *word = finding_word(finding), *until = json_text_at(finding, "until");
	const char *instance = finding_instance(finding);
	double times = json_number_at(finding, "times");
	char text[1024], users[1024];

	draw(screen, COLOR_NONE, "  ");
	draw(screen, color_of(word), "%-9s", word);
	draw(screen, COLOR_BOLD, "%s", json_text_at(finding, "slug"));
	write_use(finding, text, sizeof(text));
	if (times > 0)
		text_append(
			text, sizeof(text), "  %.0f %s", times, json_text_at(finding, "happens"));
	if (strlen(until) > 16)
		text_append(text, sizeof(text), "  until %.5s", until + 11);
	write_users(finding, INT_MAX, users, sizeof(users));
	if (screen->live)
		draw_brief(screen, finding, text);
	else
		draw_wrapped(screen, 6, "  %s%s%s%s%s", instance, instance[0] ? "  " : "", text,
			users[0] ? "  " : "", users);
}
