/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each view of a finding names the same instance, users and cure. The findings differ in all that
 * a view could get wrong: kinds of instances, users, units, ends, hostile names.
 */
#include "test.h"

#include "cli/cli.h"
#include "cli/doctor.h"
#include "report/recorder.h"
#include "report/report.h"

#include "directory.h"
#include "fake_node.h"
#include <headroom/tuner.h>

#define LONG_NAME "a-path-that-is-longer-than-a-line/" /* 34 bytes */
#define VERY_LONG LONG_NAME LONG_NAME LONG_NAME LONG_NAME LONG_NAME
#define EVIL      "e\x1b[2Jv\nil<b>&\"'"

struct row {
	const char *slug;
	enum instance_kind kind;
	uint64_t id;
	const char *name;
	struct workload owner;
	const char *unit, *happens;
	uint64_t used, max, hits;
	enum finding_who knows;
	struct limit_user users[4];
	const char *message, *now, *edit, *keep, *hint;
	bool ends, is_ignored;
	unsigned condition;
};

#define POD(space, pod)  {WORKLOAD_POD, space, pod, "uid"}
#define UNIT(unit)       {WORKLOAD_UNIT, "", unit, ""}
#define USER(who, count) {.workload = who, .used = (count)}

static const struct row rows[] = {
	{"keys", INSTANCE_NODE, .unit = "keys", .used = 200, .max = 200, .hits = 3,
		.users = {USER(POD("a", "b"), 150)}, .keep = "limits: {raise: [keys]}"},
	{"pids/cgroup", INSTANCE_CGROUP, 77, "kubepods/burstable", .unit = "threads", .used = 300,
		.max = 300, .hits = 24, .happens = "refused",
		.users = {USER(POD("shop", "crawler-7"), 295), USER(POD("shop", "cart"), 5)},
		.now = "echo 600 > /sys/fs/cgroup/kubepods/pids.max", .condition = FAKE_OVERFLOW},
	{"pids", INSTANCE_CGROUP, 78, "a/b", POD("named", "late"), .unit = "threads", .used = 9,
		.max = 10, .knows = WHO_UNKNOWN, .hint = "a cgroup of its own"},
	{"inotify/instances", INSTANCE_UID, 1000, "", .unit = "instances", .used = 128, .max = 128,
		.users = {USER(UNIT("watch.service"), 120)}, .ends = true,
		.now = "sysctl -w fs.inotify.max_user_instances=8192"},
	{"conntrack", INSTANCE_NETNS, 4026531840, "host", .unit = "connections", .used = 262144,
		.max = 262144, .hits = 9231, .happens = "refused", .condition = FAKE_OVERFLOW,
		.users = {USER(POD("shop", "crawler-7"), 180000), USER(POD("shop", "c"), 9100),
			USER(UNIT("d.service"), 20), USER(UNIT("e.service"), 10)},
		.now = "sysctl -w net.netfilter.nf_conntrack_max=524288", .ends = true,
		.keep = "limits: {raise: [inotify, conntrack]}"},
	{"mounts", INSTANCE_MNTNS, 4026532000, "", UNIT("job.service"), .unit = "mounts",
		.used = 99000, .max = 100000, .users = {USER(UNIT("job.service"), 98000)}},
	{"files/process", INSTANCE_PROCESS, 79, "java", POD("shop", "api"), .unit = "files",
		.used = 65536, .max = 65536, .users = {USER(POD("shop", "api"), 65536)},
		.now = "prlimit --pid 4711 --nofile=131072:131072", .condition = FAKE_OVERFLOW},
	{"listen", INSTANCE_SOCKET, 80, "port 80", POD("shop", "web"), .unit = "connections",
		.used = 128, .max = 127, .hits = 1, .users = {USER(POD("shop", "web"), 128)}},
	{"syncs-slow", INSTANCE_DEVICE, 0x10300, "nvme0n1", .message = "p99 of 1612 syncs is 41 ms",
		.users = {USER(UNIT("backup.service"), 84)}, .hint = "give etcd a disk of its own"},
	{"would-not-start", INSTANCE_FILE, 0, "/etc/containerd/conf.d/99-nvidia.toml",
		.message = "is version 4, the main file 2", .condition = FAKE_OVERFLOW,
		.edit = "version = 2"},
	{"filesystem/images/bytes", INSTANCE_FILESYSTEM, 2049, "/var/lib/containerd",
		.unit = "bytes", .used = 95000000000, .max = 100000000000,
		.users = {USER(UNIT("containerd.service"), 5000000000)},
		.now = "crictl rmi --prune"},
	{"dns/10.99.14.51", INSTANCE_SERVER, 0, "10.99.14.51", .unit = "queries/s", .used = 300,
		.max = 100, .condition = FAKE_OVERFLOW, .ends = true,
		.users = {USER(POD("shop", "e3"), 300)},
		.hint = "210 of 300 were search-domain expansions: ndots: 1 in the pod's dnsConfig"},
	{"runtime-silent", INSTANCE_RUNTIME, 0, "crio", .message = "does not answer for 3 s",
		.now = "systemctl start crio.service"},
	{"pull-failed", INSTANCE_IMAGE, 0, "registry.example/" VERY_LONG ":1.2@sha256:abc",
		.message = "404 Not Found", .now = "crictl pull 'registry.example/x'"},
	{"pull-slow", INSTANCE_REGISTRY, 0, "docker.io", .message = "3 kB/s", .knows = WHO_UNKNOWN},
	{"vm.max_map_count", INSTANCE_SETTING, 0, "vm.max_map_count",
		.message = "is 1, wanted 2: changed 3 times", .now = "headroom apply --only sysctl",
		.keep = "on_drift: enforce", .is_ignored = true},
	{"agent-restarts", INSTANCE_UNIT, 0, "headroom.service", .message = "restarted 12 times",
		.now = "systemctl reset-failed headroom.service", .condition = FAKE_ADVICE},
	{"tuner-degraded", INSTANCE_TUNER, 0, "thp", .message = "no /sys/kernel/mm: mount it"},
	{"ptys", INSTANCE_NODE, .unit = "pseudoterminals", .used = 4096, .max = 4096,
		.users = {USER(POD("tied", "one"), 2048), USER(POD("tied", "two"), 2048),
			USER(POD("less", "three"), 1)},
		.condition = FAKE_ADVICE},
	{"aio", INSTANCE_CGROUP, 81, EVIL, .unit = "requests", .used = 65535, .max = 65536,
		.users = {USER(POD(EVIL, EVIL), 60000),
			USER(POD(LONG_NAME, LONG_NAME LONG_NAME LONG_NAME), 3),
			{UNIT("own.service"), 9, 10, 0, "process 12 (java)"}},
		.message = EVIL, .hint = EVIL},
};

static void find_row(struct proposal *proposal, const struct decide_input *input,
	const struct row *row, bool later)
{
	struct instance instance = {.kind = row->kind, .id = row->id, .owner = row->owner};
	struct finding *finding;

	copy_text(instance.name, sizeof(instance.name), row->name ? row->name : "");
	finding = proposal_finding(proposal, input, &fake_conditions[row->condition], REASON_NONE,
		row->slug, &instance, later && row->ends ? FINDING_OVER : FINDING_HAPPENS);
	assert_non_null(finding);
	finding->unit = row->unit;
	finding->happens = row->happens;
	finding->counts_hits = true;
	finding->hold_us = 300 * USEC_PER_SEC;
	finding->knows = row->knows;
	finding->breaks = "programs fail";
	/* Later less is used, by others: the views show the worst moment. */
	finding->use = (struct finding_use){
		later ? row->used / 4 : row->used, row->max, later ? 0 : row->hits};
	for (size_t i = 0; i < ARRAY_SIZE(row->users); i++)
		finding_user_add(
			finding, later ? &(struct limit_user){.workload = UNIT("innocent.service"),
						 .used = row->used / 4}
				       : &row->users[i]);
	finding_message(finding, "%s", row->message ? row->message : "");
	if (row->now)
		finding_now(finding, "%s", row->now);
	if (row->edit)
		finding_edit(finding, row->name, 7, "%s", row->edit);
	if (row->keep)
		finding_keep(finding, input, "sysctl", "%s", row->keep);
	if (row->hint)
		finding_hint(finding, "%s", row->hint);
}

static void no_news(void *, const struct finding *, enum finding_news)
{
}

struct views {
	struct fake_node fake;
	cJSON *status; /* as a command has it */
};

static void views_make(struct views *views)
{
	struct finding_list *list = &views->fake.node.findings;
	const struct tuner_ops sysctl = {.name = "sysctl"};
	const struct tuner_status observes = {.ops = &sysctl, .held_by = HELD_BY_MODE};
	/* In a pod, keep has three lines. */
	struct decide_input input = {.tuners = &observes, .n_tuners = 1};
	struct finding_clock clock = {
		1000 * USEC_PER_SEC, UINT64_C(1714564800) * USEC_PER_SEC, false};

	assert_int_equal(ARRAY_SIZE(rows), 20);
	fake_node_make(&views->fake);
	for (unsigned later = 0; later < 2; later++) {
		struct proposal proposal = {0};

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			find_row(&proposal, &input, &rows[i], later);
		findings_observe(list, "neighbor", &proposal, &clock, no_news, NULL);
		proposal_clear(&proposal);
		input.findings = list->findings;
		input.n_findings = list->n;
		clock.mono_us += 60 * USEC_PER_SEC;
		clock.wall_us += 60 * USEC_PER_SEC;
	}
	assert_int_equal(list->n, ARRAY_SIZE(rows));
	for (size_t i = 0; i < list->n; i++)
		list->findings[i].ignored = rows[i].is_ignored;
	findings_sort(list);
	for (size_t i = 0; i < FAKE_CONDITIONS; i++) {
		struct condition *condition = &views->fake.conditions[i];

		condition->message = NULL;
		findings_judge(list,
			&(struct condition_reading){
				.type = condition->type, .reason = REASON_ALL_ACTIVE},
			condition);
	}
	views->status = report_status(&views->fake.node, false);
	json_make_lines_printable(views->status, "keep");
}

static void views_clear(struct views *views)
{
	cJSON_Delete(views->status);
	findings_clear(&views->fake.node.findings);
	for (size_t i = 0; i < FAKE_CONDITIONS; i++)
		free(views->fake.conditions[i].message);
}

#define VIEWS_TEST(name) TEST_OF(views, views, views_make, views_clear, name)

/* ---- what a view must have ---- */

static void make_raw(const char *text, char *out, size_t size)
{
	copy_text(out, size, text);
}

static void make_printable(const char *text, char *out, size_t size)
{
	copy_text(out, size, text);
	text_make_printable(out);
}

static void make_html(const char *text, char *out, size_t size)
{
	static const char *const entities[256] = {['&'] = "&amp;",
		['<'] = "&lt;",
		['>'] = "&gt;",
		['"'] = "&quot;",
		['\''] = "&#39;",
		['\33'] = "?"};

	out[0] = '\0';
	for (; *text; text++)
		if (entities[(unsigned char)*text])
			text_append(out, size, "%s", entities[(unsigned char)*text]);
		else
			text_append(out, size, "%c", *text);
}

typedef void make_fn(const char *text, char *out, size_t size);

static void assert_has(const char *view, const char *text, make_fn *make)
{
	char made[4096];

	make(text, made, sizeof(made));
	if (!strstr(view, made))
		fail_msg("no '%s' in:\n%s", made, view);
}

static void assert_instance(const char *view, const struct finding *finding, make_fn *make)
{
	char text[FINDING_TEXT_MAX];

	assert_has(view, finding->slug, make);
	instance_describe(&finding->instance, text, sizeof(text));
	assert_has(view, text, make);
	assert_null(strstr(view, "innocent"));
}

static void assert_users(const char *view, const struct finding *finding, make_fn *make)
{
	char text[FINDING_TEXT_MAX];

	for (unsigned i = 0; i < finding->n_who; i++) {
		finding_describe_user(finding, i, text, sizeof(text));
		assert_has(view, text, make);
	}
	assert_int_equal(strstr(view, "not known") != NULL, finding->knows == WHO_UNKNOWN);
}

/* Each line of the cure stands alone, and whole. */
static void assert_cure(const char *view, const struct finding *finding, make_fn *make)
{
	_cleanup_free_ char *keep = finding->keep ? strdup(finding->keep) : NULL;
	char *rest = keep;

	assert_has(view, finding->now ? finding->now : "", make);
	assert_has(view, finding->hint ? finding->hint : "", make);
	assert_has(view, finding->keep_in ? finding->keep_in : "", make);
	for (char *line = keep ? strtok_r(keep, "\n", &rest) : NULL; line;
		line = strtok_r(NULL, "\n", &rest))
		assert_has(view, line, make);
}

/* ---- the views ---- */

#define FOR_EACH(views, finding)                                                   \
	for (const struct finding *finding = (views)->fake.node.findings.findings; \
		finding < (views)->fake.node.findings.findings + ARRAY_SIZE(rows); finding++)

static const cJSON *with_id(const cJSON *list, const struct finding *finding)
{
	char id[FINDING_ID_MAX];
	const cJSON *item;

	finding_id(finding, id);
	text_make_printable(id);
	cJSON_ArrayForEach (item, list)
		if (streq(json_text_at(item, "id"), id))
			return item;
	fail_msg("no finding %s", id);
	return NULL;
}

static void assert_json(const cJSON *list, const struct finding *finding)
{
	const cJSON *item = with_id(list, finding);
	char text[FINDING_TEXT_MAX];

	assert_string_equal(json_text_at(item, "slug"), finding->slug);
	assert_string_equal(
		json_text_at(item, "instance/kind"), instance_kind_names[finding->instance.kind]);
	make_printable(finding->instance.name, text, sizeof(text));
	assert_string_equal(json_text_at(item, "instance/name"), text);
	assert_int_equal(cJSON_GetArraySize(json_at(item, "who")), finding->n_who);
	for (unsigned i = 0; i < finding->n_who; i++) {
		const cJSON *user = cJSON_GetArrayItem(json_at(item, "who"), (int)i);

		finding_describe_user(finding, i, text, sizeof(text));
		text_make_printable(text);
		assert_string_equal(json_text_at(user, "text"), text);
	}
	assert_string_equal(json_text_at(item, "now"), finding->now ? finding->now : "");
	assert_string_equal(json_text_at(item, "keep"), finding->keep ? finding->keep : "");
	assert_string_equal(json_text_at(item, "hint"), finding->hint ? finding->hint : "");
	assert_int_equal(cJSON_IsTrue(json_at(item, "ignored")), finding->ignored);
}

VIEWS_TEST(status_health_and_doctor_have_the_same_findings_in_the_same_order)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *health = report_health(&views->fake.node);
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	const cJSON *status = json_at(views->status, "findings"), *item;
	struct doctor doctor;
	int i = 0;

	doctor_begin(&doctor, views->status);
	document = doctor_finish(&doctor);
	json_make_lines_printable(health, "keep");
	FOR_EACH(views, finding)
	{
		assert_json(status, finding);
		assert_json(json_at(health, "findings"), finding);
		assert_json(json_at(document, "checks"), finding);
	}
	/* doctor puts the ignored finding before the advice. */
	cJSON_ArrayForEach (item, json_at(document, "checks")) {
		if (!json_at(item, "id"))
			continue;
		if (streq(json_text_at(item, "status"), "ignored"))
			assert_string_equal(json_text_at(item, "slug"), "vm.max_map_count");
		else
			assert_string_equal(json_text_at(item, "id"),
				json_text_at(cJSON_GetArrayItem(status, i++), "id"));
	}
	assert_int_equal(i, ARRAY_SIZE(rows) - 1);
	assert_int_equal(json_number_at(document, "counts/critical"), 5);
	assert_int_equal(json_number_at(document, "counts/advice"), 2);
	assert_int_equal(json_number_at(document, "counts/ignored"), 1);
	assert_string_equal(json_text_at(health, "status"), "critical");
}

static char *drawn(const cJSON *finding, bool row, int width)
{
	struct screen screen = {.width = width, .height = INT_MAX, .keep = INT_MAX};
	char *text = NULL;
	size_t len;

	screen.out = open_memstream(&text, &len);
	assert_non_null(screen.out);
	if (row)
		draw_finding_row(&screen, finding);
	else
		draw_finding(&screen, 0, finding_word(finding), finding);
	fclose(screen.out);
	return text;
}

VIEWS_TEST(a_paragraph_of_doctor_and_status_has_instance_users_and_cure)
{
	FOR_EACH(views, finding)
	{
		const cJSON *item = with_id(json_at(views->status, "findings"), finding);
		_cleanup_free_ char *text = drawn(item, false, INT_MAX);

		assert_instance(text, finding, make_printable);
		assert_has(text, finding_word(item), make_raw);
		if (finding->ignored) {
			assert_null(strstr(text, finding->now)); /* it needs no action */
			continue;
		}
		assert_users(text, finding, make_printable);
		assert_cure(text, finding, make_printable);
		assert_null(strchr(text, '\x1b'));
	}
}

VIEWS_TEST(configuration_has_its_lines_and_its_place)
{
	const cJSON *item = finding_of(views->status, "conntrack");
	_cleanup_free_ char *text = drawn(item, false, INT_MAX);

	assert_non_null(strstr(text, "  keep    config:\n"
				     "            mode: enforce\n"
				     "            limits: {raise: [inotify, conntrack]}\n"
				     "          in the values of the chart\n"));
	assert_non_null(
		strstr(text, "conntrack  host: 262144 of 262144 connections, refused 9231 times, "
			     "until 12:00 UTC; now 65536\n"));
}

VIEWS_TEST(a_row_of_top_has_instance_and_first_users)
{
	FOR_EACH(views, finding)
	{
		const cJSON *item = with_id(json_at(views->status, "findings"), finding);
		_cleanup_free_ char *text = drawn(item, true, INT_MAX);
		char user[WORKLOAD_TEXT_MAX];

		assert_instance(text, finding, make_printable);
		assert_int_equal(strstr(text, "not known") != NULL, finding->knows == WHO_UNKNOWN);
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		if (finding->n_who == 0)
			continue;
		workload_describe(&finding->who[0].workload, user, sizeof(user));
		assert_has(text, user, make_printable);
	}
	_cleanup_free_ char *text = drawn(finding_of(views->status, "conntrack"), true, INT_MAX);
	assert_string_equal(text, "  critical conntrack  host  262144/262144  9231 refused  until "
				  "12:00  pod shop/crawler-7 69 %\n");
	_cleanup_free_ char *tied = drawn(finding_of(views->status, "ptys"), true, INT_MAX);
	assert_non_null(strstr(tied, "  4096/4096  pod tied/one 50 %; pod tied/two 50 %\n"));
	_cleanup_free_ char *bytes =
		drawn(finding_of(views->status, "filesystem/images/bytes"), true, INT_MAX);
	assert_non_null(strstr(bytes, "  95.0 GB/100.0 GB  unit containerd.service 5 %\n"));
}

VIEWS_TEST(a_user_in_json_has_kind_namespace_and_name)
{
	const cJSON *who = json_at(finding_of(views->status, "conntrack"), "who");
	const cJSON *first = json_at(cJSON_GetArrayItem(who, 0), "workload");

	assert_string_equal(json_text_at(first, "kind"), "pod");
	assert_string_equal(json_text_at(first, "namespace"), "shop");
	assert_string_equal(json_text_at(first, "name"), "crawler-7");
}

VIEWS_TEST(a_card_of_the_page_has_instance_users_and_cure)
{
	_cleanup_free_ char *page = NULL;
	size_t len;
	FILE *out = open_memstream(&page, &len);
	char *card;

	report_page(out, &views->fake.node, false);
	fclose(out);
	card = strstr(page, "<section class=\"card finding");
	FOR_EACH(views, finding)
	{
		char *next;

		assert_non_null(card);
		next = strstr(card, "</section>");
		assert_non_null(next);
		_cleanup_free_ char *text = strndup(card, (size_t)(next - card));
		assert_instance(text, finding, make_html);
		assert_users(text, finding, make_html);
		assert_cure(text, finding, make_html);
		assert_null(strstr(text, "<b>"));
		card = strstr(next, "<section class=\"card finding");
	}
	assert_null(card);
}

VIEWS_TEST(a_condition_has_whole_findings_and_the_number_of_the_others)
{
	const struct condition *condition = &views->fake.conditions[FAKE_OVERFLOW];
	const struct finding *worst = &views->fake.node.findings.findings[0];
	char text[FINDING_TEXT_MAX], line[STATUS_LINE_MAX];

	assert_ptr_equal(worst->condition, condition->type);
	finding_text(worst, text, sizeof(text));
	assert_instance(text, worst, make_raw);
	assert_true(starts_with(condition->message, text));
	assert_true(strlen(condition->message) < 1064);
	report_line(&views->fake.node, line);
	assert_non_null(strstr(line, worst->slug));
	assert_non_null(strstr(line, " more; "));
	assert_null(strchr(line, '\n'));
}

VIEWS_TEST(a_series_has_the_slug_and_the_first_user)
{
	_cleanup_free_ char *metrics = NULL;
	size_t len;
	FILE *out = open_memstream(&metrics, &len);

	report_metrics(out, &views->fake.node, false);
	fclose(out);
	FOR_EACH(views, finding)
	{
		const struct workload *who =
			finding->n_who > 0 ? &finding->who[0].workload : &finding->instance.owner;
		bool is_known = finding->n_who > 0 || who->kind != WORKLOAD_HOST;
		char series[1024];

		if (strchr(who->name, '\n'))
			continue; /* the format escapes it: test_exposition.c */
		snprintf(series, sizeof(series),
			"\nheadroom_finding{condition=\"%s\",object=\"%s\",severity=\"%s\",kind=\"%s\","
			"namespace=\"%s\",name=\"%s\"} 1\n",
			finding->condition->name, finding->slug, severity_names[finding->severity],
			is_known ? workload_kind_names[who->kind] : "", who->namespace,
			is_known ? workload_name(who) : "");
		assert_int_equal(strstr(metrics, series) != NULL, !finding->ignored);
	}
}

/* Records one finding, and returns the file. */
static char *recorded(struct views *views, const struct finding *finding)
{
	struct node *node = &views->fake.node;
	struct finding_list all = node->findings;
	struct finding one = *finding;
	struct directory directory;
	struct recorder *recorder;
	char *document = NULL;
	char id[INCIDENT_ID_MAX];
	sd_event *event = NULL;

	one.phase = FINDING_HAPPENS;
	one.is_recorded = true;
	node->findings = (struct finding_list){.findings = &one, .n = 1};
	directory_make(&directory);
	assert_true(sd_event_new(&event) >= 0);
	recorder = recorder_open(event, directory.path, "boot");
	while (recorder->task)
		(void)task_end(&recorder->task, UINT64_MAX);
	recorder->start[0] = '\0';
	recorder_tick(recorder, node, NULL, 2000 * USEC_PER_SEC);
	recorder_close(recorder, UINT64_MAX);
	sd_event_unref(event);
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = incidents_list(directory.path);
	copy_text(id, sizeof(id), json_text_at(list, "incidents/0/id"));
	assert_int_equal(incident_read(directory.path, id, &document), 0);
	directory_remove(&directory);
	node->findings = all;
	return document;
}

VIEWS_TEST(an_incident_has_the_finding_and_its_text)
{
	FOR_EACH(views, finding)
	{
		_cleanup_free_ char *text = finding->ignored ? NULL : recorded(views, finding);
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = text ? cJSON_Parse(text) : NULL;
		char line[FINDING_TEXT_MAX], id[FINDING_ID_MAX];
		const cJSON *incident = json_at(document, "incident");

		if (!text)
			continue;
		finding_id(finding, id);
		text_make_printable(id);
		assert_true(starts_with(id, json_text_at(incident, "object")));
		assert_string_equal(json_text_at(incident, "finding/slug"), finding->slug);
		finding_text(finding, line, sizeof(line));
		text_make_printable(line);
		assert_string_equal(json_text_at(incident, "text"), line);
		assert_int_equal(
			cJSON_GetArraySize(json_at(incident, "finding/who")), finding->n_who);
		assert_string_equal(json_text_at(incident, "now"), finding->now    ? finding->now
								   : finding->hint ? finding->hint
										   : "");
	}
}
