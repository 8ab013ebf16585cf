/* SPDX-License-Identifier: Apache-2.0 */

#include "report/recorder.h"

#include "report/http.h"

#include "directory.h"

/* A recorder of a node with two limits and their findings, on simulated time. */

static const struct condition_type reached = {
	"LimitReached", SEVERITY_CRITICAL, "It is full.", NULL};

struct fixture {
	struct directory directory;
	sd_event *event;
	struct recorder *recorder;
	struct limit limits[2];
	struct finding findings[FINDINGS_MAX];
	struct node node;
	uint64_t now;
};

/* Lets the tasks end. */
static void settle(struct fixture *fixture)
{
	while (fixture->recorder->task)
		(void)task_end(&fixture->recorder->task, UINT64_MAX);
}

static void seconds(struct fixture *fixture, unsigned n)
{
	while (n-- > 0) {
		fixture->now += USEC_PER_SEC;
		recorder_tick(fixture->recorder, &fixture->node, NULL, fixture->now);
		settle(fixture);
	}
}

static void fixture_make(struct fixture *fixture)
{
	static const char *const names[] = {"conntrack", "pids"};

	*fixture = (struct fixture){.now = 1000 * USEC_PER_SEC};
	directory_make(&fixture->directory);
	for (int i = 0; i < 2; i++) {
		copy_text(fixture->limits[i].now.name, LIMIT_NAME_MAX, names[i]);
		fixture->limits[i].now.unit = "entries";
		fixture->limits[i].now.max = 100;
	}
	fixture->node = (struct node){.name = "node",
		.limits = fixture->limits,
		.n_limits = 2,
		.findings = {.findings = fixture->findings}};
	assert_true(sd_event_new(&fixture->event) >= 0);
	fixture->recorder = recorder_open(fixture->event, fixture->directory.path, "boot");
	settle(fixture);
	fixture->recorder->start[0] = '\0'; /* most tests do without that incident */
}

static void fixture_remove(struct fixture *fixture)
{
	recorder_close(fixture->recorder, UINT64_MAX);
	sd_event_unref(fixture->event);
	directory_remove(&fixture->directory);
}

/* A finding about a limit, which happens from now on, as often as times says. */
static struct finding *happens(struct fixture *fixture, const char *limit, uint64_t times)
{
	struct finding *finding = fixture->findings;

	while (finding < fixture->findings + fixture->node.findings.n &&
		!streq(finding->slug, limit))
		finding++;
	if (finding == fixture->findings + fixture->node.findings.n) {
		fixture->node.findings.n++;
		*finding = (struct finding){.condition = &reached,
			.severity = SEVERITY_CRITICAL,
			.unit = "entries",
			.happens = "refused",
			.breaks = "It is full.",
			.now = (char *)"headroom top",
			.worst = {.used = 89, .max = 100},
			.tuner = "limits"};
		set_text(finding->slug, limit);
	}
	finding->phase = FINDING_HAPPENS;
	finding->times = times;
	return finding;
}

#define RECORDER_TEST(name) TEST_OF(fixture, fixture, fixture_make, fixture_remove, name)

/* Reads a value of the list of incidents, such as "0/object" of the newest one. */
static const char *listed(const struct fixture *fixture, const char *path, char value[64])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = incidents_list(fixture->directory.path);

	copy_text(value, 64, json_text_at(json_at(list, "incidents"), path));
	return value;
}

static size_t count(const struct fixture *fixture)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = incidents_list(fixture->directory.path);

	return (size_t)cJSON_GetArraySize(json_at(list, "incidents"));
}

RECORDER_TEST(an_incident_has_the_minute_before_and_ends_a_minute_after_the_last_trigger)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	_cleanup_free_ char *text = NULL;
	char id[64], state[64];
	struct finding *finding;
	const cJSON *lines;

	for (unsigned i = 0; i < 90; i++) {
		fixture->limits[0].now.used = i;
		seconds(fixture, 1);
	}
	assert_int_equal(count(fixture), 0);
	finding = happens(fixture, "conntrack", 3);
	seconds(fixture, 1);
	finding->phase = FINDING_OVER;
	seconds(fixture, 29);
	(void)happens(fixture, "conntrack", 5);
	seconds(fixture, 1);
	finding->phase = FINDING_OVER;
	seconds(fixture, 59);
	assert_string_equal(listed(fixture, "0/state", state), "open");
	seconds(fixture, 1);
	assert_string_equal(listed(fixture, "0/state", state), "complete");
	assert_int_equal(
		incident_read(fixture->directory.path, listed(fixture, "0/id", id), &text), 0);
	document = cJSON_Parse(text);
	lines = json_at(document, "lines");
	assert_int_equal((int)json_number_at(lines, "0/t"), -59);
	assert_int_equal((int)json_number_at(lines, "0/rows/conntrack/0"), 31);
	assert_non_null(strstr(text, "\"end\":\"quiet\""));
	assert_non_null(strstr(text, "conntrack: 89 of 100 entries, refused 3 times"));
	assert_non_null(strstr(text, "conntrack: 89 of 100 entries, refused 5 times"));
	assert_non_null(strstr(text, "\"breaks\":\"It is full.\",\"now\":\"headroom top\""));
}

RECORDER_TEST(hits_within_a_minute_are_one_incident_and_later_ones_another)
{
	struct finding *finding;

	for (unsigned i = 1; i <= 8; i++) {
		finding = happens(fixture, "conntrack", i);
		seconds(fixture, 1);
		finding->phase = FINDING_OVER;
		seconds(fixture, 9);
	}
	assert_int_equal(count(fixture), 1);
	seconds(fixture, 70);
	usleep(1100 * 1000); /* ids have whole seconds of the real clock */
	(void)happens(fixture, "conntrack", 9);
	seconds(fixture, 1);
	assert_int_equal(count(fixture), 2);
}

RECORDER_TEST(an_incident_takes_ten_minutes_at_most)
{
	char state[64];

	for (unsigned i = 1; i <= 600; i++) {
		(void)happens(fixture, "conntrack", i);
		seconds(fixture, 1);
	}
	assert_string_equal(listed(fixture, "0/state", state), "open");
	(void)happens(fixture, "conntrack", 601);
	seconds(fixture, 1);
	assert_string_equal(listed(fixture, "0/state", state), "complete");
	seconds(fixture, 30);
	assert_int_equal(count(fixture), 1);
}

/* Reads the last line of the newest incident. */
static bool newest_lasts(const struct fixture *fixture)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	_cleanup_free_ char *text = NULL;
	const cJSON *lines, *last;
	char id[64];

	assert_int_equal(
		incident_read(fixture->directory.path, listed(fixture, "0/id", id), &text), 0);
	document = cJSON_Parse(text);
	lines = json_at(document, "lines");
	last = cJSON_GetArrayItem(lines, cJSON_GetArraySize(lines) - 1);
	assert_non_null(json_at(last, "end"));
	return cJSON_IsTrue(json_at(last, "lasts"));
}

RECORDER_TEST(another_incident_begins_an_hour_later_while_hits_go_on)
{
	struct finding *finding = NULL;

	for (unsigned i = 1; i <= 3600; i++) {
		finding = happens(fixture, "conntrack", i);
		seconds(fixture, 1);
	}
	assert_int_equal(count(fixture), 1);
	assert_true(newest_lasts(fixture));
	usleep(1100 * 1000); /* ids have whole seconds of the real clock */
	finding->times++;
	seconds(fixture, 1);
	assert_int_equal(count(fixture), 2);
	finding->phase = FINDING_OVER;
	seconds(fixture, 61);
	assert_false(newest_lasts(fixture));
	usleep(1100 * 1000);
	/* What lasts without hits is in the status: it is recorded once. */
	finding->phase = FINDING_HAPPENS;
	seconds(fixture, 7300);
	assert_int_equal(count(fixture), 3);
}

RECORDER_TEST(ninety_nine_percent_begins_an_incident_once)
{
	char value[64];

	struct finding *finding = happens(fixture, "pids", 0);

	finding->severity = SEVERITY_WARNING;
	finding->worst.used = 98;
	seconds(fixture, 2);
	assert_int_equal(count(fixture), 0);
	finding->worst.used = 99;
	seconds(fixture, 200);
	assert_int_equal(count(fixture), 1);
	assert_string_equal(listed(fixture, "0/object", value), "pids");
	assert_string_equal(listed(fixture, "0/trigger", value), "near-full");
}

RECORDER_TEST(each_instance_has_an_incident_of_its_own)
{
	struct finding *finding = happens(fixture, "inotify/instances", 0);
	char value[64];

	finding->instance = (struct instance){.kind = INSTANCE_UID, .id = 1000};
	seconds(fixture, 5);
	assert_int_equal(count(fixture), 1);
	assert_string_equal(listed(fixture, "0/object", value), "inotify/instances@uid:1000");
	assert_non_null(strstr(listed(fixture, "0/id", value), "Z-inotify-instances-uid-1000"));
	finding->instance.id = 1001;
	seconds(fixture, 5);
	assert_int_equal(count(fixture), 2);
}

RECORDER_TEST(a_name_that_is_found_later_is_in_the_file)
{
	struct limit_user user = {
		.workload = {.kind = WORKLOAD_UNIT, .name = "cgroup 77"}, .used = 80, .id = 77};
	struct finding *finding = happens(fixture, "conntrack", 1);
	_cleanup_free_ char *text = NULL;
	char id[64];

	finding->who = &user;
	finding->n_who = 1;
	finding->knows = WHO_KNOWN;
	seconds(fixture, 2);
	user.workload = (struct workload){.kind = WORKLOAD_POD, .namespace = "shop", .name = "api"};
	seconds(fixture, 70);
	assert_int_equal(
		incident_read(fixture->directory.path, listed(fixture, "0/id", id), &text), 0);
	assert_non_null(strstr(text, "cgroup 77"));
	assert_non_null(strstr(text, "entries, refused 1 time; pod shop/api 80 (80 %)"));
}

/* Number of the findings of a cgroup each happens now, caused by one workload. */
static void flood(struct fixture *fixture, unsigned number, struct limit_user *cause)
{
	for (unsigned i = 0; i < number; i++) {
		struct finding *finding = &fixture->findings[fixture->node.findings.n++];

		*finding = (struct finding){.slug = "pids",
			.condition = &reached,
			.severity = SEVERITY_CRITICAL,
			.phase = FINDING_HAPPENS,
			.instance = {.kind = INSTANCE_CGROUP, .id = fixture->node.findings.n},
			.unit = "pids",
			.worst = {.used = 100, .max = 100},
			.times = 1,
			.tuner = "limits"};
		if (cause) {
			finding->who = cause;
			finding->n_who = 1;
			finding->knows = WHO_KNOWN;
		}
	}
}

static size_t count_in_state(const struct fixture *fixture, const char *state)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = incidents_list(fixture->directory.path);
	const cJSON *row;
	size_t n = 0;

	cJSON_ArrayForEach (row, json_at(list, "incidents"))
		n += streq(json_text_at(row, "state"), state);
	return n;
}

RECORDER_TEST(a_flood_of_one_user_keeps_no_other_out)
{
	struct limit_user units[3] = {
		{.workload = {.kind = WORKLOAD_UNIT, .name = "user@1000.service"}, .used = 9},
		{.workload = {.kind = WORKLOAD_UID, .name = "1000"}, .used = 9},
		{.workload = {.kind = WORKLOAD_UNIT,
			 .name = "session-3.scope",
			 .id = "user-1000.slice"},
			.used = 9}};
	struct limit_user other = {
		.workload = {.kind = WORKLOAD_POD, .namespace = "shop", .name = "api"}, .used = 9};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	_cleanup_free_ char *text = NULL;
	struct finding *finding;
	char id[64];

	seconds(fixture, 70);
	for (unsigned i = 0; i < ARRAY_SIZE(units); i++)
		flood(fixture, 5, &units[i]);
	seconds(fixture, 5);
	assert_int_equal(count_in_state(fixture, "open"), OPEN_MAX);
	finding = happens(fixture, "conntrack", 1);
	finding->who = &other;
	finding->n_who = 1;
	finding->knows = WHO_KNOWN;
	usleep(1100 * 1000); /* ids have whole seconds of the real clock */
	seconds(fixture, 2);
	assert_string_equal(listed(fixture, "0/object", id), "conntrack");
	assert_string_equal(listed(fixture, "0/state", id), "open");
	assert_int_equal(count_in_state(fixture, "open"), OPEN_MAX);
	assert_int_equal(count(fixture), OPEN_MAX + 1);
	assert_int_equal(
		incident_read(fixture->directory.path, listed(fixture, "0/id", id), &text), 0);
	document = cJSON_Parse(text);
	assert_int_equal((int)json_number_at(document, "lines/0/t"), -59);
	/* More of the flood end neither this one nor each other. */
	flood(fixture, 20, &units[0]);
	seconds(fixture, 2);
	assert_string_equal(listed(fixture, "0/state", id), "open");
	assert_int_equal(count(fixture), OPEN_MAX + 1);
}

RECORDER_TEST(the_ninth_cause_is_recorded_too)
{
	struct limit_user users[OPEN_MAX + 1];

	for (unsigned i = 0; i < ARRAY_SIZE(users); i++) {
		users[i] = (struct limit_user){.workload = {.kind = WORKLOAD_UID}, .used = 9};
		snprintf(users[i].workload.name, sizeof(users[i].workload.name), "%u", i);
		flood(fixture, 1, &users[i]);
		seconds(fixture, 1);
	}
	seconds(fixture, 1);
	assert_int_equal(count(fixture), OPEN_MAX + 1);
	assert_int_equal(count_in_state(fixture, "open"), OPEN_MAX);
	assert_int_equal(count_in_state(fixture, "complete"), 1);
}

RECORDER_TEST(a_cause_that_has_enough_today_ends_no_incident)
{
	struct limit_user often = {.workload = {.kind = WORKLOAD_UID, .name = "1000"}, .used = 9};
	struct limit_user users[OPEN_MAX];

	for (unsigned i = 0; i < INCIDENTS_A_DAY; i++) {
		flood(fixture, 1, &often);
		seconds(fixture, 1);
		fixture->findings[i].phase = FINDING_OVER;
		seconds(fixture, 60);
	}
	assert_int_equal(count_in_state(fixture, "complete"), INCIDENTS_A_DAY);
	for (unsigned i = 0; i < ARRAY_SIZE(users); i++) {
		users[i] = (struct limit_user){.workload = {.kind = WORKLOAD_UID}, .used = 9};
		snprintf(users[i].workload.name, sizeof(users[i].workload.name), "%u", i);
		flood(fixture, 1, &users[i]);
		seconds(fixture, 1);
	}
	flood(fixture, 5, &often);
	seconds(fixture, 5);
	assert_int_equal(count_in_state(fixture, "open"), OPEN_MAX);
	assert_int_equal(count(fixture), INCIDENTS_A_DAY + OPEN_MAX);
}

RECORDER_TEST(lines_of_configuration_stay_lines)
{
	_cleanup_free_ char *text = NULL;
	char id[64];

	happens(fixture, "conntrack", 1)->keep = (char *)"mode: enforce\nthp: {defrag: \x1b}";
	seconds(fixture, 1);
	assert_int_equal(
		incident_read(fixture->directory.path, listed(fixture, "0/id", id), &text), 0);
	assert_non_null(strstr(text, "mode: enforce\\nthp: {defrag: ?}"));
}

RECORDER_TEST(a_finding_that_is_milder_or_ignored_is_not_recorded)
{
	happens(fixture, "pids", 0)->severity = SEVERITY_WARNING;
	happens(fixture, "conntrack", 1)->ignored = true;
	seconds(fixture, 5);
	assert_int_equal(count(fixture), 0);
	happens(fixture, "pids", 0)->is_recorded = true;
	seconds(fixture, 1);
	assert_int_equal(count(fixture), 1);
}

RECORDER_TEST(a_file_that_cannot_be_written_is_closed_when_it_can)
{
	char part[PATH_MAX], state[64], name[80];

	(void)happens(fixture, "conntrack", 1);
	seconds(fixture, 5);
	snprintf(name, sizeof(name), "/%s.jsonl.part", listed(fixture, "0/id", state));
	directory_path(&fixture->directory, name, part);
	assert_int_equal(truncate(part, INCIDENT_BYTES_MAX - 10), 0);
	seconds(fixture, 5);
	assert_int_not_equal(access(part, F_OK), 0);
	assert_null(fixture->recorder->task);
}

RECORDER_TEST(a_stop_long_after_the_last_incident_is_marked)
{
	char how[INCIDENTS_START_MAX];

	seconds(fixture, 3);
	assert_null(fixture->recorder->task);
	assert_true(sd_event_exit(fixture->event, 0) >= 0);
	assert_true(sd_event_loop(fixture->event) >= 0);
	recorder_close(steal(fixture->recorder), UINT64_MAX);
	assert_int_equal(incidents_mark_start(fixture->directory.path, "boot", how), 0);
	assert_string_equal(how, "after a stop");
}

RECORDER_TEST(an_idle_recorder_has_no_thread)
{
	(void)happens(fixture, "conntrack", 1);
	fixture->now += USEC_PER_SEC;
	recorder_tick(fixture->recorder, &fixture->node, NULL, fixture->now);
	assert_non_null(fixture->recorder->task);
	settle(fixture);
	seconds(fixture, 65);
	fixture->now += USEC_PER_SEC;
	recorder_tick(fixture->recorder, &fixture->node, NULL, fixture->now);
	assert_null(fixture->recorder->task);
}

RECORDER_TEST(a_client_does_not_wait_for_a_tick_while_an_incident_is_written)
{
	struct http_connection *gone = must(calloc(1, sizeof(*gone))); /* the reply frees it */

	(void)happens(fixture, "conntrack", 1);
	fixture->now += USEC_PER_SEC;
	recorder_tick(fixture->recorder, &fixture->node, NULL, fixture->now);
	assert_non_null(fixture->recorder->task);
	recorder_read(fixture->recorder, NULL, gone);
	while (fixture->recorder->task)
		assert_true(sd_event_run(fixture->event, 10 * USEC_PER_SEC) > 0);
	assert_null(fixture->recorder->waiting);
}
