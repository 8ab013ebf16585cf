/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/task.h"
#include "report/incidents.h"

#define COLUMNS   48 /* the width of a line of sparks */
#define ROWS_MAX  12
#define USERS_MAX 8

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
		draw(&screen, streq(state, "complete") ? COLOR_FAINT : COLOR_WARNING, "  %s, %s\n",
			state, took);
		draw_paragraph(&screen, 4, json_text_at(row, "text"));
	}
	if (cJSON_GetArraySize(json_at(list, "incidents")) == 0)
		puts("No incidents are recorded.");
	cJSON_ArrayForEach (row, json_at(list, "not_recorded"))
		draw(&screen, COLOR_NONE, "%s: %.0f more of %s are not recorded: %s\n",
			json_text_at(row, "day"), json_number_at(row, "count"),
			json_text_at(row, "object"), json_text_at(row, "why"));
	return EXIT_OK;
}

struct spark {
	const char *name;
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
	const cJSON *max = cJSON_GetArrayItem(row, 1), *hits = cJSON_GetArrayItem(row, 2);
	struct spark *spark = NULL;

	for (size_t i = 0; i < all->n && !spark; i++)
		if (streq(all->rows[i].name, row->string))
			spark = &all->rows[i];
	if (!spark) {
		spark = add_element(&all->rows, &all->n, &all->allocated);
		spark->name = row->string;
		spark->least = 1e300;
		spark->last = -1;
		for (int i = 0; i < COLUMNS; i++)
			spark->columns[i] = -1;
		spark->first_hits = hits ? hits->valuedouble : 0;
	}
	if (max)
		spark->max = max->valuedouble;
	if (hits)
		spark->hits = hits->valuedouble;
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

static void draw_spark(struct screen *screen, const struct spark *spark)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	double top = spark->max > 0 ? spark->max : MAX(spark->most, 1.0);

	draw(screen, COLOR_NONE, "  %-22s ", spark->name);
	for (int i = 0; i < COLUMNS; i++) {
		double share = MIN(spark->columns[i] / top, 1.0);
		enum color color = share >= 0.95  ? COLOR_BAD
				   : share >= 0.8 ? COLOR_WARNING
						  : COLOR_GOOD;

		if (spark->columns[i] < 0)
			draw(screen, COLOR_NONE, " ");
		else
			draw(screen, color, "%s", blocks[(int)(share * 7.99)]);
	}
	draw(screen, COLOR_NONE, "  %.0f to %.0f", spark->least, spark->most);
	if (spark->max > 0)
		draw(screen, COLOR_NONE, " of %.0f", spark->max);
	if (spark->hits > spark->first_hits)
		draw(screen, COLOR_BAD, ", %.0f hits", spark->hits - spark->first_hits);
	draw(screen, COLOR_NONE, "\n");
}

static void draw_sparks(struct screen *screen, const cJSON *lines, const char *object)
{
	struct sparks all = read_sparks(lines);
	int shown = 0;

	draw(screen, COLOR_BOLD, "\nLimits");
	draw(screen, COLOR_FAINT, "  from %.0f s before to %.0f s after\n", -all.first,
		all.seconds + all.first);
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < all.n && shown < ROWS_MAX; i++) {
			const struct spark *spark = &all.rows[i];
			bool concerned = streq(spark->name, object);
			bool moved = spark->most - spark->least >= 0.05 * MAX(spark->max, 1.0) ||
				     spark->hits > spark->first_hits;

			if (concerned != (pass == 0) || !(concerned || moved))
				continue;
			draw_spark(screen, spark);
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

static void draw_users(struct screen *screen, const cJSON *incident, const cJSON *lines)
{
	const cJSON *when[] = {json_at(incident, "before"), json_at(incident, "top"), NULL};
	const cJSON *line, *user;
	int shown = 0;

	cJSON_ArrayForEach (line, lines)
		if (json_at(line, "top"))
			when[2] = json_at(line, "top");
	if (!when[0] && !when[1] && !when[2])
		return;
	draw(screen, COLOR_BOLD, "\nLargest users");
	draw(screen, COLOR_FAINT, "%31s %11s %11s\n", "before", "at", "after");
	for (int i = 1; i < 4; i++) /* those at the trigger first */
		cJSON_ArrayForEach (user, when[i % 3]) {
			const char *name = json_text_at(user, "0"),
				   *detail = json_text_at(user, "2");

			if ((i >= 2 && use_of(when[1], name) >= 0) ||
				(i >= 3 && use_of(when[2], name) >= 0) || shown++ >= USERS_MAX)
				continue;
			draw(screen, COLOR_NONE, "  %-30s", name);
			for (int k = 0; k < 3; k++)
				if (use_of(when[k], name) >= 0)
					draw(screen, COLOR_NONE, " %11.0f", use_of(when[k], name));
				else
					draw(screen, COLOR_FAINT, " %11s", "-");
			draw(screen, COLOR_NONE, "%s%s\n", detail[0] ? "  " : "", detail);
		}
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
	draw(&screen, COLOR_FAINT, "node %s, headroom %s, %s\n", json_text_at(incident, "node"),
		json_text_at(incident, "version"), state);
	draw_sparks(&screen, lines, json_text_at(incident, "limit/name"));
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
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, &(bool){false});
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	const char *address = config_text(config, "http.listen");
	char path[PATH_MAX];
	long status = 0;
	int r = -EACCES;

	snprintf(path, sizeof(path), "/v1/incidents%s%s", id ? "/" : "", id ? id : "");
	if (address[0])
		r = client_call(NULL, address, false, path, &answer, &status);
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

	if (cli->n_names > 1)
		return cli_fail(cli->names[1], "one incident at a time");
	r = ask(cli, &list, &text);
	if (r != EXIT_OK)
		return r;
	if (text)
		return show_one(cli, text);
	if (cli->json)
		return json_put(stdout, steal(list), true) ? EXIT_OK : EXIT_FAILED;
	return print_list(list);
}
