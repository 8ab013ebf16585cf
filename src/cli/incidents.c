/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/task.h"
#include "report/incidents.h"
#include "tuners/table.h"

#define COLUMNS   48 /* the most of a line of sparks */
#define NAME_MIN  22
#define ROWS_MAX  12
#define USERS_MAX 8
#define USER_MIN  30 /* columns of their names */
#define NUMBER    11 /* the width of a column of numbers */

#define DIRECTORY_MAX (PATH_MAX + sizeof(INCIDENTS_DIRECTORY))

/* A thread reads it, because the disk may hang. */
struct incident_question {
	char directory[DIRECTORY_MAX];
	const char *id; /* NULL: the list */
	cJSON *list;
	char *text;
	int r;
};

static int find_directory(const struct cli *cli, char directory[static DIRECTORY_MAX])
{
	struct host host;
	char state[PATH_MAX];
	int r = host_init(&host, cli->core.host_root) ? 0 : -ENAMETOOLONG;

	if (r == 0)
		r = core_directory(&host, CORE_STATE, state);
	if (r == 0)
		snprintf(directory, DIRECTORY_MAX, "%s" INCIDENTS_DIRECTORY, state);
	return r;
}

static void answer_question(void *data, const struct wait *)
{
	struct incident_question *question = data;

	if (access(question->directory, R_OK | X_OK) < 0 && errno != ENOENT)
		question->r = -errno;
	else if (question->id)
		question->r = incident_read(question->directory, question->id, &question->text);
	else
		question->list = incidents_list(question->directory);
}

static int print_list(cJSON *list)
{
	struct screen screen = screen_open();
	const cJSON *row;
	char took[TIME_TEXT_MAX];

	json_make_printable(list);
	cJSON_ArrayForEach (row, json_at(list, "incidents")) {
		const char *state = json_text_at(row, "state");

		duration_text(json_number_at(row, "seconds"), took);
		draw(&screen, COLOR_BOLD, "%s", json_text_at(row, "id"));
		/* A state beside an id as long as the line would wrap within its words. */
		if (screen.column + 2 + text_width(state) + 2 + text_width(took) > screen.width)
			draw(&screen, COLOR_NONE, "\n  ");
		draw(&screen, streq(state, "complete") ? COLOR_FAINT : COLOR_WARNING, "  %s, %s\n",
			state, took);
		draw_paragraph(&screen, 4, json_text_at(row, "text"));
	}
	if (cJSON_GetArraySize(json_at(list, "incidents")) == 0)
		puts("No incidents are recorded.");
	cJSON_ArrayForEach (row, json_at(list, "not_recorded"))
		draw_wrapped(&screen, 2, "%s: %.0f more of %s are not recorded: %s",
			json_text_at(row, "day"), json_number_at(row, "count"),
			json_text_at(row, "object"), json_text_at(row, "why"));
	return EXIT_OK;
}

struct spark {
	const char *name, *unit;
	double least, most, max, first_hits, hits;
	double columns[COLUMNS]; /* the largest use; negative: unknown */
	double last;
};

struct sparks {
	struct spark *rows;
	size_t n, allocated;
	double first, seconds; /* when the incident began and how long it took */
};

/* Stores a use, and the same use until the next one: the file has only changes. */
static void add_use(const struct sparks *all, struct spark *spark, double t, double used)
{
	double share = (t - all->first) / MAX(all->seconds, 1.0);
	int column = (int)(MIN(MAX(share, 0.0), 1.0) * (COLUMNS - 1));

	for (int i = column - 1; i >= 0 && spark->columns[i] < 0; i--)
		spark->columns[i] = spark->last;
	spark->columns[column] = MAX(spark->columns[column], used);
	spark->least = MIN(spark->least, used);
	spark->most = MAX(spark->most, used);
	spark->last = used;
}

static void add_row(struct sparks *all, const cJSON *row, double t)
{
	const cJSON *max = json_at(row, "1"), *hits = json_at(row, "2");
	struct spark *spark = NULL;

	if (!row->string)
		return;
	for (size_t i = 0; i < all->n && !spark; i++)
		if (streq(all->rows[i].name, row->string))
			spark = &all->rows[i];
	if (!spark) {
		spark = add_element(&all->rows, &all->n, &all->allocated);
		spark->name = row->string;
		spark->unit = "";
		spark->least = 1e300;
		spark->last = -1;
		for (int i = 0; i < COLUMNS; i++)
			spark->columns[i] = -1;
		spark->first_hits = json_number_at(hits, "");
	}
	if (max)
		spark->max = json_number_at(max, "");
	if (hits)
		spark->hits = json_number_at(hits, "");
	add_use(all, spark, t, json_number_at(row, "0"));
}

static struct sparks read_sparks(const cJSON *lines)
{
	struct sparks all = {0};
	const cJSON *line, *row;
	bool begun = false;

	cJSON_ArrayForEach (line, lines) {
		double t = json_number_at(line, "t");

		if (json_at(line, "rows") && !begun)
			all.first = t;
		begun = begun || json_at(line, "rows");
		all.seconds = MAX(all.seconds, t - all.first);
	}
	cJSON_ArrayForEach (line, lines)
		cJSON_ArrayForEach (row, json_at(line, "rows"))
			add_row(&all, row, json_number_at(line, "t"));
	for (size_t i = 0; i < all.n; i++)
		for (int k = COLUMNS - 1; k >= 0 && all.rows[i].columns[k] < 0; k--)
			all.rows[i].columns[k] = all.rows[i].last;
	return all;
}

/* Returns the largest use of the seconds in a column of a narrow screen. */
static double use_in(const struct spark *spark, int column, int columns)
{
	double used = -1;

	for (int i = column * COLUMNS / columns; i < (column + 1) * COLUMNS / columns; i++)
		used = MAX(used, spark->columns[i]);
	return used;
}

/* The numbers stand beside the line, or below it. */
static void draw_numbers(struct screen *screen, int indent, const struct spark *spark)
{
	char least[AMOUNT_MAX], most[AMOUNT_MAX], max[AMOUNT_MAX], text[3 * AMOUNT_MAX + 64];

	snprintf(text, sizeof(text), "%s to %s", bare_amount_text(spark->least, spark->unit, least),
		bare_amount_text(spark->most, spark->unit, most));
	if (spark->max > 0)
		text_append(text, sizeof(text), " of %s",
			bare_amount_text(spark->max, spark->unit, max));
	if (spark->hits > spark->first_hits)
		text_append(text, sizeof(text), ", %.0f hits", spark->hits - spark->first_hits);
	if (screen->column + 2 + text_width(text) > screen->width)
		draw(screen, COLOR_NONE, "\n%*s", indent - 2, "");
	draw(screen, COLOR_NONE, "  ");
	draw_wrapped(screen, indent, "%s", text);
}

static void draw_spark(struct screen *screen, const struct spark *spark, int name_width)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	double top = spark->max > 0 ? spark->max : MAX(spark->most, 1.0);
	int columns = MAX(MIN(screen->width - name_width - 3, COLUMNS), COLUMNS / 4);

	draw(screen, COLOR_NONE, "  %-*s ", name_width, spark->name);
	for (int i = 0; i < columns; i++) {
		double used = use_in(spark, i, columns), share = MIN(used / top, 1.0);
		enum color color = share >= 0.95  ? COLOR_BAD
				   : share >= 0.8 ? COLOR_WARNING
						  : COLOR_GOOD;

		if (used < 0)
			draw(screen, COLOR_NONE, " ");
		else
			draw(screen, color, "%s", blocks[(int)(share * 7.99)]);
	}
	draw_numbers(screen, name_width + 3, spark);
}

/* The limit of the incident comes first; others must have changed. */
static bool is_drawn(const struct spark *spark, const char *object, bool first)
{
	bool is_object = streq(spark->name, object);
	bool moved = spark->most - spark->least >= 0.05 * MAX(spark->max, 1.0) ||
		     spark->hits > spark->first_hits;

	return is_object == first && (is_object || moved);
}

static void draw_sparks(struct screen *screen, const cJSON *lines, const cJSON *limit)
{
	const char *object = json_text_at(limit, "name");
	struct sparks all = read_sparks(lines);
	int shown = 0, width = NAME_MIN;

	draw(screen, COLOR_BOLD, "\nLimits");
	draw(screen, COLOR_FAINT, "  from %.0f s before to %.0f s after\n", -all.first,
		all.seconds + all.first);
	for (size_t i = 0; i < all.n; i++) {
		struct spark *spark = &all.rows[i];
		const struct limit_row *row = limit_row_find(spark->name);

		spark->unit = streq(spark->name, object) ? json_text_at(limit, "unit")
			      : row                      ? row->unit
							 : "";
		if (is_drawn(spark, object, true) || is_drawn(spark, object, false))
			width = MAX(width, text_width(spark->name));
	}
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < all.n && shown < ROWS_MAX; i++)
			if (is_drawn(&all.rows[i], object, pass == 0)) {
				draw_spark(screen, &all.rows[i], width);
				shown++;
			}
	if (shown == 0)
		draw(screen, COLOR_NONE, "  none changed by 5 %% or was reached\n");
	free(all.rows);
}

static double use_of(const cJSON *users, const char *name)
{
	const cJSON *user;

	cJSON_ArrayForEach (user, users)
		if (streq(json_text_at(user, "0"), name))
			return json_number_at(user, "1");
	return -1;
}

/* The lists of users before, at and after the trigger. */
struct users {
	const cJSON *when[3];
	const cJSON *rows[USERS_MAX]; /* each user once, those at the trigger first */
	int n, width;                 /* of the names */
};

static struct users read_users(const cJSON *incident, const cJSON *lines)
{
	struct users users = {
		.when = {json_at(incident, "before"), json_at(incident, "top")}, .width = USER_MIN};
	const cJSON *line, *user;

	cJSON_ArrayForEach (line, lines)
		if (json_at(line, "top"))
			users.when[2] = json_at(line, "top");
	for (int i = 1; i < 4; i++)
		cJSON_ArrayForEach (user, users.when[i % 3]) {
			const char *name = json_text_at(user, "0");

			if ((i >= 2 && use_of(users.when[1], name) >= 0) ||
				(i >= 3 && use_of(users.when[2], name) >= 0) ||
				users.n == USERS_MAX)
				continue;
			users.rows[users.n++] = user;
			users.width = MAX(users.width, text_width(name));
		}
	return users;
}

/* A name that is too long for its column, and a detail that does not fit, have lines of their own.
 */
static void draw_user(
	struct screen *screen, const struct users *users, const cJSON *user, const char *unit)
{
	const char *name = json_text_at(user, "0"), *detail = json_text_at(user, "2");
	char amount[AMOUNT_MAX];

	draw(screen, COLOR_NONE, "  ");
	if (text_width(name) > users->width) {
		draw_wrapped(screen, 2, "%s", name);
		draw(screen, COLOR_NONE, "%*s", 2 + users->width, "");
	} else {
		draw(screen, COLOR_NONE, "%s%*s", name, users->width - text_width(name), "");
	}
	for (int i = 0; i < 3; i++) {
		double used = use_of(users->when[i], name);

		draw(screen, used >= 0 ? COLOR_NONE : COLOR_FAINT, " %*s", NUMBER,
			used >= 0 ? bare_amount_text(used, unit, amount) : "-");
	}
	if (detail[0] && screen->column + 2 + text_width(detail) > screen->width)
		draw(screen, COLOR_NONE, "\n  ");
	if (detail[0])
		draw(screen, COLOR_NONE, "  ");
	draw_wrapped(screen, 4, "%s", detail);
}

static void draw_users(struct screen *screen, const cJSON *incident, const cJSON *lines)
{
	static const char heading[] = "Largest users";
	struct users users = read_users(incident, lines);
	const int room = screen->width - 2 - 3 * (NUMBER + 1);

	if (!users.when[0] && !users.when[1] && !users.when[2])
		return;
	users.width = MAX(MIN(users.width, room), USER_MIN / 2);
	draw(screen, COLOR_BOLD, "\n%s", heading);
	draw(screen, COLOR_FAINT, "%*s%*s %*s %*s\n",
		MAX(3 + users.width - (int)strlen(heading), 1), "", NUMBER, "before", NUMBER, "at",
		NUMBER, "after");
	for (int i = 0; i < users.n; i++)
		draw_user(screen, &users, users.rows[i], json_text_at(incident, "limit/unit"));
}

static int by_time(const void *a, const void *b)
{
	double x = json_number_at(*(const cJSON *const *)a, "t");
	double y = json_number_at(*(const cJSON *const *)b, "t");

	return (x > y) - (x < y);
}

static void draw_timeline(struct screen *screen, const cJSON *lines)
{
	size_t n = 0, allocated = 0;
	const cJSON **events = NULL, *line;

	cJSON_ArrayForEach (line, lines)
		if (json_at(line, "event") || json_at(line, "started") ||
			json_at(line, "trigger") || json_at(line, "end"))
			*add_element(&events, &n, &allocated) = line;
	if (n > 0)
		qsort(events, n, sizeof(*events), by_time);
	draw(screen, COLOR_BOLD, "\nTimeline\n");
	for (size_t i = 0; i < n; i++) {
		const char *level = json_text_at(events[i], "level");
		const char *started = json_text_at(events[i], "started");
		const char *text = json_text_at(events[i], "event");

		draw(screen, COLOR_NONE, "  %+5.0f s  ", json_number_at(events[i], "t"));
		if (started[0])
			draw_wrapped(screen, 11, "%s started", started);
		else if (json_at(events[i], "end") &&
			 !streq(json_text_at(events[i], "end"), "cut-short"))
			draw_wrapped(screen, 11, "the record ends: %s%s",
				json_text_at(events[i], "end"),
				cJSON_IsTrue(json_at(events[i], "lasts")) ? "; the problem lasts"
									  : "");
		else if (text[0])
			draw_wrapped(screen, 11, "%s%s%s", streq(level, "info") ? "" : level,
				streq(level, "info") ? "" : ": ", text);
		else
			draw_wrapped(screen, 11, "%s", json_text_at(events[i], "text"));
	}
	free(events);
}

/* Draws text to type. Its lines are whole, so that they can be copied. */
static void draw_typed_lines(struct screen *screen, const char *heading, const char *text)
{
	if (!text[0])
		return;
	draw(screen, COLOR_BOLD, "\n%s\n", heading);
	for (size_t len; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		draw(screen, COLOR_NONE, "  %.*s\n", (int)len, text);
	}
}

static void draw_cure(struct screen *screen, const cJSON *incident)
{
	/* Files of older versions have no finding. */
	bool has_finding = json_at(incident, "finding") != NULL;
	const char *hint = json_text_at(incident, "finding/hint");

	draw_typed_lines(screen, "What to type",
		json_text_at(incident, has_finding ? "finding/now" : "now"));
	draw_typed_lines(screen, "To keep it", json_text_at(incident, "finding/keep"));
	if (hint[0])
		draw(screen, COLOR_BOLD, "\nHint\n");
	draw_paragraph(screen, 2, hint);
}

static int print_one(cJSON *document)
{
	const cJSON *incident = json_at(document, "incident"), *lines = json_at(document, "lines");
	const cJSON *last = cJSON_GetArrayItem(lines, cJSON_GetArraySize(lines) - 1);
	const char *state = json_text_at(document, "state");
	struct screen screen = screen_open();
	const char *text = json_text_at(last, "text");

	json_make_lines_printable(document, "keep");
	if (!json_at(last, "end") || !streq(state, "complete"))
		text = json_text_at(incident, "text");
	draw(&screen, COLOR_BOLD, "%s  ", json_text_at(incident, "at"));
	draw_wrapped(&screen, 22, "%s", text);
	draw_wrapped(&screen, 2, "node %s, headroom %s, %s", json_text_at(incident, "node"),
		json_text_at(incident, "version"), state);
	draw_sparks(&screen, lines, json_at(incident, "limit"));
	draw_users(&screen, incident, lines);
	draw_timeline(&screen, lines);
	if (json_text_at(incident, "breaks")[0]) {
		draw(&screen, COLOR_BOLD, "\nWhat breaks\n");
		draw_paragraph(&screen, 2, json_text_at(incident, "breaks"));
	}
	draw_cure(&screen, incident);
	return EXIT_OK;
}

static int show_one(const struct cli *cli, const char *text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;

	if (cli->json) {
		fputs(text, stdout);
		return EXIT_OK;
	}
	document = cJSON_Parse(text);
	return document ? print_one(document)
			: cli_fail(cli->names[0], "a line of the file is damaged: see --json");
}

/* Who may not read the state directory asks the agent, as any reader of its page does. */
static int ask_agent(const struct cli *cli, const char *id, cJSON **list, char **text)
{
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, &faulty);
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	const char *address = config_text(config, "http.listen");
	char path[PATH_MAX];
	long status = 0;
	int r = -EACCES;

	snprintf(path, sizeof(path), "/v1/incidents%s%s", id ? "/" : "", id ? id : "");
	if (address[0])
		r = client_call(NULL, address, false, path, &answer, &status);
	if ((r < 0 || !answer) && faulty)
		cli_print_faults(cli);
	if (r < 0 || !answer)
		return -EACCES;
	if (status != 200)
		return status == 404 ? -ENOENT : -EACCES;
	if (id)
		*text = must(cJSON_Print(answer));
	else
		*list = steal(answer);
	return 0;
}

/* Reads the list or one incident. Returns an exit status, after a message. */
static int ask(const struct cli *cli, cJSON **list, char **text)
{
	struct incident_question *question = must(calloc(1, sizeof(*question)));
	const char *id = cli->n_names > 0 ? cli->names[0] : NULL;
	struct task *task = NULL;
	int r = find_directory(cli, question->directory);

	question->id = id;
	if (r == 0)
		r = task_start(&task, NULL,
			&(struct task){answer_question, NULL, question, NULL, UINT64_MAX});
	if (!task_end(&task, now_us() + INCIDENTS_READ_US)) /* the thread keeps the memory */
		return cli_fail(question->directory,
			"its disk does not answer: findmnt -T shows the file system");
	if (r == 0)
		r = question->r;
	*list = question->list;
	*text = question->text;
	free(question);
	if (r == -EACCES)
		r = ask_agent(cli, id, list, text);
	if (id && (r == -ENOENT || r == -EINVAL))
		return cli_fail(id, "no such incident: headroom incidents lists them");
	if (r < 0)
		return cli_fail(id ? id : "incidents", "%s: %s", strerror(-r),
			r == -EACCES   ? "only root may read the state directory, and no agent "
					 "answers at http.listen"
			: r == -ENODEV ? "the state directory of the host is not mounted here"
				       : "the state directory cannot be read");
	return EXIT_OK;
}

int cli_incidents(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	r = ask(cli, &list, &text);
	if (r != EXIT_OK)
		return r;
	if (text)
		return show_one(cli, text);
	if (cli->json)
		return json_put(stdout, steal(list), true) ? EXIT_OK : EXIT_FAILED;
	return print_list(list);
}
