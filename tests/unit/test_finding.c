/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/text.h"
#include "model/node.h"

#define NOON (UINT64_C(1714564800) * USEC_PER_SEC)

static const struct condition_type reached = {
	"LimitReached", SEVERITY_CRITICAL, "It is full.", NULL, .is_recorded = true};
static const struct condition_type near = {"LimitPressure", SEVERITY_WARNING, "Nearly.", NULL};

/* A list of findings on simulated time; news are counted. */
struct fixture {
	struct finding_list list;
	struct proposal proposal;
	struct decide_input input;
	struct finding_clock clock;
	unsigned news[4];
};

static void fixture_make(struct fixture *fixture)
{
	*fixture = (struct fixture){.clock = {1000 * USEC_PER_SEC, NOON, false},
		.input = {.mode = MODE_ENFORCE, .config_file = "/etc/headroom/headroom.yaml"}};
}

static void fixture_clear(struct fixture *fixture)
{
	findings_clear(&fixture->list);
	proposal_clear(&fixture->proposal);
}

#define LIST_TEST(name) TEST_OF(fixture, fixture, fixture_make, fixture_clear, name)

static void count_news(void *userdata, const struct finding *, enum finding_news news)
{
	((struct fixture *)userdata)->news[news]++;
}

/* Ends a poll, and passes so many seconds. */
static void poll_ends(struct fixture *fixture, unsigned seconds)
{
	findings_observe(
		&fixture->list, "limits", &fixture->proposal, &fixture->clock, count_news, fixture);
	proposal_clear(&fixture->proposal);
	findings_sort(&fixture->list);
	fixture->input.findings = fixture->list.findings;
	fixture->input.n_findings = fixture->list.n;
	fixture->clock.mono_us += seconds * USEC_PER_SEC;
	fixture->clock.wall_us += seconds * USEC_PER_SEC;
}

static struct finding *find(
	struct fixture *fixture, const char *slug, uint64_t used, enum finding_phase phase)
{
	struct finding *finding = proposal_finding(
		&fixture->proposal, &fixture->input, &reached, REASON_NONE, slug, NULL, phase);

	if (!finding)
		return NULL;
	finding->unit = "entries";
	finding->use = (struct finding_use){.used = used, .max = 100};
	finding->hold_us = 300 * USEC_PER_SEC;
	finding->knows = WHO_UNKNOWN;
	return finding;
}

static void add_user(struct finding *finding, const char *name, uint64_t used, uint64_t max)
{
	struct limit_user user = {
		.workload = {.kind = WORKLOAD_UNIT}, .used = used, .max = max, .id = used};

	set_text(user.workload.name, name);
	finding_user_add(finding, &user);
}

static const char *text_of(const struct fixture *fixture, char text[static FINDING_TEXT_MAX])
{
	assert_true(fixture->list.n > 0);
	finding_text(&fixture->list.findings[0], text, FINDING_TEXT_MAX);
	return text;
}

LIST_TEST(users_are_ranked_by_the_share_of_their_own_maximum)
{
	char text[FINDING_TEXT_MAX];
	struct finding *finding = find(fixture, "keys", 100, FINDING_HAPPENS);

	add_user(finding, "root", 304, 1000000);
	add_user(finding, "small", 200, 200);
	add_user(finding, "half", 50, 0);
	add_user(finding, "fourth", 1, 0);
	add_user(finding, "none", 0, 0);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.findings[0].n_who, 3);
	assert_string_equal(fixture->list.findings[0].who[0].workload.name, "small");
	assert_string_equal(fixture->list.findings[0].who[1].workload.name, "half");
	assert_string_equal(
		text_of(fixture, text), "keys: 100 of 100 entries; unit small 200 (100 %)");
}

LIST_TEST(the_users_of_the_worst_moment_stay)
{
	char text[FINDING_TEXT_MAX];

	/* Users are known a little later. */
	(void)find(fixture, "ptys", 99, FINDING_HAPPENS);
	poll_ends(fixture, 2);
	assert_non_null(strstr(text_of(fixture, text), "by whom is not known"));
	add_user(find(fixture, "ptys", 99, FINDING_HAPPENS), "culprit", 90, 0);
	poll_ends(fixture, 60);
	/* As much, and less, of others. */
	add_user(find(fixture, "ptys", 99, FINDING_HAPPENS), "innocent", 90, 0);
	poll_ends(fixture, 1);
	add_user(find(fixture, "ptys", 40, FINDING_OVER), "innocent", 40, 0);
	poll_ends(fixture, 20);
	add_user(find(fixture, "ptys", 40, FINDING_OVER), "innocent", 40, 0);
	poll_ends(fixture, 1);
	assert_string_equal(text_of(fixture, text),
		"ptys: 99 of 100 entries, until 12:01 UTC; now 40; unit culprit 90 (90 %)");
	/* More is another moment. */
	add_user(find(fixture, "ptys", 100, FINDING_HAPPENS), "second", 60, 0);
	poll_ends(fixture, 1);
	assert_string_equal(
		text_of(fixture, text), "ptys: 100 of 100 entries; unit second 60 (60 %)");
	assert_int_equal(fixture->news[FINDING_BEGAN], 1);
}

LIST_TEST(an_unknown_user_is_named_while_nearly_as_much_is_used)
{
	(void)find(fixture, "aio", 100, FINDING_HAPPENS);
	poll_ends(fixture, 30);
	add_user(find(fixture, "aio", 40, FINDING_LASTS), "innocent", 40, 0);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.findings[0].n_who, 0);
	add_user(find(fixture, "aio", 97, FINDING_HAPPENS), "culprit", 90, 0);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.findings[0].worst.used, 100);
	assert_string_equal(fixture->list.findings[0].who[0].workload.name, "culprit");
}

/* The log has said that they are not known. */
LIST_TEST(users_that_are_counted_later_are_news_once)
{
	(void)find(fixture, "inotify/watches", 100, FINDING_HAPPENS);
	poll_ends(fixture, 2);
	assert_int_equal(fixture->news[FINDING_NAMED], 0);
	for (int i = 0; i < 3; i++) {
		add_user(find(fixture, "inotify/watches", 100, FINDING_HAPPENS), "late", 80 + i, 0);
		poll_ends(fixture, 1);
	}
	assert_int_equal(fixture->news[FINDING_BEGAN], 1);
	assert_int_equal(fixture->news[FINDING_NAMED], 1);
	add_user(find(fixture, "known", 100, FINDING_HAPPENS), "at once", 80, 0);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->news[FINDING_NAMED], 1);
}

/* A pod may be known as a namespace first, then by its id, and then by its name. */
LIST_TEST(each_better_name_of_the_first_user_is_news)
{
	static const struct workload known[] = {
		{.kind = WORKLOAD_NETNS, .name = "4026532384", .id = "4026532384"},
		{.kind = WORKLOAD_POD, .name = "6adcf856", .id = "6adcf856-abe3"},
		{.kind = WORKLOAD_POD, .namespace = "shop", .name = "api", .id = "6adcf856-abe3"},
	};

	(void)find(fixture, "neighbor/ipv4", 100, FINDING_HAPPENS);
	poll_ends(fixture, 1);
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(known); i++) {
		struct limit_user user = {.workload = known[i / 2], .used = 90};

		finding_user_add(find(fixture, "neighbor/ipv4", 100, FINDING_HAPPENS), &user);
		poll_ends(fixture, 1);
		assert_int_equal(fixture->news[FINDING_NAMED], i / 2 + 1);
	}
	assert_int_equal(fixture->news[FINDING_BEGAN], 1);
}

LIST_TEST(unknown_users_are_named_after_the_maximum_was_raised)
{
	struct finding *finding;

	(void)find(fixture, "keys", 100, FINDING_HAPPENS);
	poll_ends(fixture, 3);
	for (unsigned used = 40; used <= 100; used += 60) {
		finding = find(fixture, "keys", used, FINDING_OVER);
		finding->use.max = 8192;
		add_user(finding, used < 100 ? "innocent" : "culprit", used, 0);
		poll_ends(fixture, 1);
	}
	assert_int_equal(fixture->list.findings[0].worst.max, 100);
	assert_string_equal(fixture->list.findings[0].who[0].workload.name, "culprit");
	assert_int_equal(fixture->news[FINDING_NAMED], 1);
}

LIST_TEST(users_of_an_earlier_pass_give_way_to_larger_ones_while_it_lasts)
{
	add_user(find(fixture, "pids", 100, FINDING_HAPPENS), "bystander", 6, 0);
	poll_ends(fixture, 15);
	add_user(find(fixture, "pids", 100, FINDING_HAPPENS), "culprit", 90, 0);
	poll_ends(fixture, 1);
	assert_string_equal(fixture->list.findings[0].who[0].workload.name, "culprit");
}

LIST_TEST(users_of_the_first_moment_give_way_to_larger_ones_of_the_next_seconds)
{
	add_user(find(fixture, "neighbor/ipv4", 100, FINDING_HAPPENS), "bystander", 1, 0);
	poll_ends(fixture, 1);
	add_user(find(fixture, "neighbor/ipv4", 99, FINDING_HAPPENS), "culprit", 90, 0);
	poll_ends(fixture, 10);
	assert_string_equal(fixture->list.findings[0].who[0].workload.name, "culprit");
	add_user(find(fixture, "neighbor/ipv4", 99, FINDING_HAPPENS), "later", 95, 0);
	poll_ends(fixture, 1);
	assert_string_equal(fixture->list.findings[0].who[0].workload.name, "culprit");
}

LIST_TEST(users_counted_before_the_worst_moment_give_way_to_those_of_the_next_pass)
{
	static const struct {
		const char *name;
		unsigned used, pass_s; /* the pass began so many seconds after the first poll */
	} polls[] = {{"gone", 95, 0}, {"culprit", 94, 10}, {"later", 94, 20}};
	uint64_t begin = fixture->clock.mono_us;

	fixture->clock.mono_us += 5 * USEC_PER_SEC;
	for (size_t i = 0; i < ARRAY_SIZE(polls); i++) {
		struct finding *finding = find(fixture, "pids", polls[i].used, FINDING_HAPPENS);

		add_user(finding, polls[i].name, 80, 0);
		finding->who_us = begin + polls[i].pass_s * USEC_PER_SEC;
		poll_ends(fixture, 10);
	}
	assert_string_equal(fixture->list.findings[0].who[0].workload.name, "culprit");
}

LIST_TEST(the_owner_of_a_namespace_is_named_as_soon_as_it_is_known)
{
	static const struct {
		const char *name;
		unsigned used;
	} polls[] = {{"4026533241", 95}, {"another", 40}, {"owner", 93}};

	for (size_t i = 0; i < ARRAY_SIZE(polls); i++) {
		struct finding *finding = find(fixture, "neighbor/ipv4", 100, FINDING_HAPPENS);

		finding->use.used -= i;
		add_user(finding, polls[i].name, polls[i].used, 0);
		if (i == 0) {
			finding->who[0].workload.kind = WORKLOAD_NETNS;
			set_text(finding->who[0].workload.id, polls[i].name);
		}
		poll_ends(fixture, 5);
		assert_string_equal(
			fixture->list.findings[0].who[0].workload.name, polls[i == 1 ? 0 : i].name);
	}
	assert_int_equal(fixture->news[FINDING_NAMED], 1);
}

/* A finding of the namespace with this inode, whose owner is a pod. */
static struct finding *find_in_namespace(
	struct fixture *fixture, const char *pod, uint64_t used, enum finding_phase phase)
{
	struct instance instance = {.kind = INSTANCE_NETNS,
		.id = 4026532177,
		.name = "10.0.0.2 to 10.0.0.1 port 80",
		.owner = {.kind = WORKLOAD_POD, .namespace = "shop"}};
	struct limit_user user = {.used = used};
	struct finding *finding;

	set_text(instance.owner.name, pod);
	snprintf(instance.owner.id, sizeof(instance.owner.id), "uid of %s", pod);
	user.workload = instance.owner;
	finding = proposal_finding(&fixture->proposal, &fixture->input, &reached, REASON_NONE,
		"ports", &instance, phase);
	if (!finding)
		return NULL;
	finding->unit = "ports";
	finding->use = (struct finding_use){.used = used, .max = 100};
	finding->hold_us = 300 * USEC_PER_SEC;
	finding_now(finding, "nsenter into %s", pod);
	finding_user_add(finding, &user);
	return finding;
}

/* The kernel gives the inode of a removed namespace to the next one. */
LIST_TEST(a_finding_of_a_namespace_whose_inode_is_reused_begins_anew)
{
	const struct finding *finding;

	(void)find_in_namespace(fixture, "a", 100, FINDING_HAPPENS);
	poll_ends(fixture, 20);
	/* The first pod has ended; the second one uses little, and then less than the first did. */
	assert_null(find_in_namespace(fixture, "b", 10, FINDING_OVER));
	(void)find_in_namespace(fixture, "b", 75, FINDING_LASTS);
	poll_ends(fixture, 20);
	finding = &fixture->list.findings[0];
	assert_int_equal(fixture->list.n, 1);
	assert_string_equal(finding->instance.owner.name, "a");
	assert_null(finding->now);
	(void)find_in_namespace(fixture, "b", 85, FINDING_HAPPENS);
	poll_ends(fixture, 1);
	finding = &fixture->list.findings[0];
	assert_int_equal(fixture->list.n, 1);
	assert_string_equal(finding->instance.owner.name, "b");
	assert_string_equal(finding->who[0].workload.name, "b");
	assert_string_equal(finding->now, "nsenter into b");
	assert_int_equal(finding->worst.used, 85);
	assert_int_equal(finding->since_us, fixture->clock.wall_us - USEC_PER_SEC);
	assert_int_equal(fixture->news[FINDING_BEGAN], 2);
	assert_int_equal(fixture->news[FINDING_ENDED], 1);
}

LIST_TEST(a_namespace_whose_owner_gets_its_name_is_the_same)
{
	struct finding *finding = find_in_namespace(fixture, "a", 100, FINDING_HAPPENS);

	finding->instance.owner = (struct workload){0};
	poll_ends(fixture, 1);
	finding = find_in_namespace(fixture, "a", 100, FINDING_HAPPENS);
	finding->instance.owner.name[0] = '\0';
	poll_ends(fixture, 1);
	(void)find_in_namespace(fixture, "a", 100, FINDING_HAPPENS);
	poll_ends(fixture, 1);
	assert_string_equal(fixture->list.findings[0].instance.owner.name, "a");
	assert_int_equal(fixture->news[FINDING_BEGAN], 1);
}

LIST_TEST(ties_are_named_together)
{
	char text[FINDING_TEXT_MAX];
	struct finding *finding = find(fixture, "pids", 100, FINDING_HAPPENS);

	add_user(finding, "a", 50, 0);
	add_user(finding, "b", 50, 0);
	poll_ends(fixture, 1);
	assert_string_equal(text_of(fixture, text),
		"pids: 100 of 100 entries; unit a 50 (50 %); unit b 50 (50 %)");
}

LIST_TEST(a_finding_without_a_reading_keeps_its_worst_moment_and_loses_its_cure)
{
	struct finding *finding = find(fixture, "pids/cgroup", 100, FINDING_HAPPENS);

	add_user(finding, "gone", 100, 0);
	finding_now(finding, "echo 200 > pids.max");
	finding_keep(finding, &fixture->input, "sysctl", "limits: {raise: [pids]}");
	poll_ends(fixture, 200);
	poll_ends(fixture, 50);
	assert_int_equal(fixture->list.n, 1);
	finding = &fixture->list.findings[0];
	assert_true(finding->is_over);
	assert_null(finding->now);
	assert_null(finding->keep);
	assert_string_equal(finding->hint, "it has ended");
	assert_string_equal(finding->who[0].workload.name, "gone");
	poll_ends(fixture, 100);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.n, 0);
	assert_int_equal(fixture->news[FINDING_ENDED], 1);
}

LIST_TEST(what_comes_and_goes_every_second_does_not_end_each_time)
{
	for (int i = 0; i < 10; i++) {
		find(fixture, "softnet", 10, FINDING_HAPPENS)->use.hits = 7;
		poll_ends(fixture, 1);
		(void)find(fixture, "softnet", 0, FINDING_OVER);
		poll_ends(fixture, 1);
		assert_false(fixture->list.findings[0].is_over);
	}
	assert_int_equal(fixture->list.findings[0].times, 70);
	assert_int_equal(fixture->news[FINDING_BEGAN], 1);
}

LIST_TEST(hysteresis_neither_begins_nor_ends_a_finding)
{
	assert_null(find(fixture, "mounts", 75, FINDING_OVER)); /* it is not open */
	(void)find(fixture, "mounts", 75, FINDING_LASTS);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.n, 0);
	(void)find(fixture, "mounts", 85, FINDING_HAPPENS);
	poll_ends(fixture, 400);
	(void)find(fixture, "mounts", 75, FINDING_LASTS);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.n, 1);
	assert_false(fixture->list.findings[0].is_over);
	/* A single poll has no history. */
	findings_clear(&fixture->list);
	fixture->input.n_findings = 0;
	fixture->clock.is_single = true;
	(void)find(fixture, "mounts", 75, FINDING_LASTS);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.n, 1);
	assert_int_equal(fixture->list.findings[0].since_us, 0);
}

LIST_TEST(what_is_worse_than_before_begins_anew)
{
	find(fixture, "ptys", 85, FINDING_HAPPENS)->condition = &near;
	poll_ends(fixture, 1);
	(void)find(fixture, "ptys", 100, FINDING_HAPPENS);
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.n, 1);
	assert_ptr_equal(fixture->list.findings[0].condition, &reached);
	assert_int_equal(fixture->news[FINDING_BEGAN], 2);
}

static bool name_all(void *, uint64_t id, struct workload *workload)
{
	if (id != 7)
		return false;
	*workload = (struct workload){.kind = WORKLOAD_POD, .namespace = "shop", .name = "api"};
	return true;
}

LIST_TEST(a_name_that_is_found_later_is_news_once)
{
	char text[FINDING_TEXT_MAX];

	add_user(find(fixture, "pids", 100, FINDING_HAPPENS), "cgroup 7", 7, 0);
	poll_ends(fixture, 1);
	findings_name(&fixture->list, name_all, count_news, fixture);
	findings_name(&fixture->list, name_all, count_news, fixture);
	assert_int_equal(fixture->news[FINDING_NAMED], 1);
	assert_non_null(strstr(text_of(fixture, text), "; pod shop/api 7 (7 %)"));
}

LIST_TEST(a_condition_is_true_if_a_finding_is_not_ignored)
{
	const struct condition_reading fine = {.type = &reached, .reason = REASON_WITHIN_LIMIT};
	struct condition condition = {.type = &reached};

	assert_false(findings_judge(&fixture->list, &fine, &condition));
	assert_string_equal(condition.slug, "within-limit");
	(void)find(fixture, "conntrack", 100, FINDING_HAPPENS);
	find(fixture, "ptys", 90, FINDING_HAPPENS)->severity = SEVERITY_WARNING;
	poll_ends(fixture, 1);
	assert_true(findings_judge(&fixture->list, &fine, &condition));
	assert_int_equal(condition.status, CONDITION_TRUE);
	assert_string_equal(condition.slug, "conntrack");
	assert_true(starts_with(condition.message, "conntrack: 100 of 100 entries"));
	fixture->list.findings[0].ignored = true;
	findings_sort(&fixture->list);
	assert_false(findings_judge(&fixture->list, &fine, &condition));
	assert_int_equal(condition.severity, SEVERITY_WARNING);
	assert_true(starts_with(condition.message, "ptys: "));
	fixture->list.findings[0].ignored = fixture->list.findings[1].ignored = true;
	assert_true(findings_judge(&fixture->list, &fine, &condition));
	assert_string_equal(condition.slug, "ignored");
	free(condition.message);
}

LIST_TEST(a_message_is_cut_between_findings)
{
	const struct condition_reading fine = {.type = &reached, .reason = REASON_WITHIN_LIMIT};
	struct condition condition = {.type = &reached};

	for (int i = 0; i < 10; i++) {
		char slug[FINDING_SLUG_MAX];

		snprintf(slug, sizeof(slug), "row-%d-%0100d", i, i);
		finding_message(find(fixture, slug, 100, FINDING_HAPPENS), "%0100d", i);
	}
	poll_ends(fixture, 1);
	(void)findings_judge(&fixture->list, &fine, &condition);
	assert_true(strlen(condition.message) < 1064);
	assert_non_null(strstr(condition.message, "by whom is not known; and 7 others"));
	free(condition.message);
}

/* Each rise once: what comes and goes between two severities would fill the log. */
LIST_TEST(a_rise_of_the_severity_is_news_once)
{
	static const enum severity polls[] = {SEVERITY_ADVICE, SEVERITY_WARNING, SEVERITY_ADVICE,
		SEVERITY_WARNING, SEVERITY_CRITICAL, SEVERITY_WARNING, SEVERITY_CRITICAL};
	static const unsigned rises[] = {0, 1, 1, 1, 2, 2, 2};

	for (size_t i = 0; i < ARRAY_SIZE(polls); i++) {
		find(fixture, "syncs-slow", 100, FINDING_HAPPENS)->severity = polls[i];
		poll_ends(fixture, 1);
		assert_int_equal(fixture->news[FINDING_ROSE], rises[i]);
		assert_int_equal(fixture->list.findings[0].severity, polls[i]);
	}
	assert_int_equal(fixture->news[FINDING_BEGAN], 1);
	/* After its end it begins anew. */
	poll_ends(fixture, 1000);
	poll_ends(fixture, 1);
	find(fixture, "syncs-slow", 100, FINDING_HAPPENS)->severity = SEVERITY_WARNING;
	poll_ends(fixture, 1);
	find(fixture, "syncs-slow", 100, FINDING_HAPPENS)->severity = SEVERITY_CRITICAL;
	poll_ends(fixture, 1);
	assert_int_equal(fixture->news[FINDING_BEGAN], 2);
	assert_int_equal(fixture->news[FINDING_ROSE], 3);
}

LIST_TEST(a_long_text_is_cut_between_words_and_keeps_its_numbers)
{
	static const char words[] = "größer als die Datei ";
	struct finding *finding = find(fixture, "aio", 90, FINDING_HAPPENS);
	char message[3000] = "", text[FINDING_TEXT_MAX], *cut;

	while (strlen(message) + sizeof(words) < sizeof(message))
		strcat(message, words);
	finding->unit = "requests";
	finding_message(finding, "%s", message);
	poll_ends(fixture, 1);
	find(fixture, "aio", 40, FINDING_HAPPENS)->unit = "requests";
	finding_message(&fixture->proposal.findings[0], "%s", message);
	poll_ends(fixture, 1);
	finding_text(&fixture->list.findings[0], text, sizeof(text));
	cut = strstr(text, "…; now 40");
	assert_non_null(cut);
	*cut = '\0';
	cut = strrchr(text, ' ') + 1;
	assert_true(strstr(words, cut) && strchr(" ", strstr(words, cut)[strlen(cut)]));
	/* Whatever the size, the text is whole words. */
	for (size_t size = 40; size < 600; size++) {
		finding_text(&fixture->list.findings[0], text, size);
		assert_true(strlen(text) < size);
		assert_string_equal(text + strlen(text) - strlen("…"), "…");
		text[strlen(text) - 3] = '\0';
		cut = strrchr(text, ' ') + 1;
		assert_true(strstr("aio: 90 of 100 requests: größer als die Datei ; now 40", cut));
	}
}

LIST_TEST(more_findings_than_fit_are_counted)
{
	for (int i = 0; i < FINDINGS_A_TUNER + 5; i++) {
		char slug[FINDING_SLUG_MAX];

		snprintf(slug, sizeof(slug), "row-%d", i);
		(void)find(fixture, slug, 100, FINDING_HAPPENS);
	}
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.n, FINDINGS_A_TUNER);
	assert_int_equal(fixture->list.n_left_out, 5);
}

LIST_TEST(a_full_list_gives_a_place_to_what_is_worse)
{
	char slug[FINDING_SLUG_MAX];

	/* They are over, and held. */
	for (int poll = 0; poll < 2; poll++) {
		for (int i = 0; i < FINDINGS_A_TUNER; i++) {
			snprintf(slug, sizeof(slug), "row-%d-%d", poll, i);
			find(fixture, slug, 90, FINDING_HAPPENS)->severity = SEVERITY_WARNING;
		}
		poll_ends(fixture, 1);
	}
	assert_int_equal(fixture->list.n, FINDINGS_MAX);
	(void)find(fixture, "conntrack", 100, FINDING_HAPPENS);
	find(fixture, "aio", 1, FINDING_HAPPENS)->severity = SEVERITY_ADVICE;
	poll_ends(fixture, 1);
	assert_int_equal(fixture->list.n, FINDINGS_MAX);
	assert_string_equal(fixture->list.findings[0].slug, "conntrack");
	assert_null(finding_find(&fixture->input, "aio", NULL));
	assert_int_equal(fixture->list.n_left_out, 2);
}

LIST_TEST(texts_have_no_secrets_and_no_controls)
{
	struct finding *finding = find(fixture, "pull-failed", 1, FINDING_HAPPENS);

	finding_message(finding, "GET https://bob:s3cret@registry.example/v2/?sig=abc\x1b[2J");
	finding_hint(finding, "curl https://bob:s3cret@registry.example/");
	assert_null(strstr(finding->message, "s3cret"));
	assert_null(strstr(finding->message, "sig=abc"));
	assert_null(strchr(finding->message, '\x1b'));
	assert_null(strstr(finding->hint, "s3cret"));
}

LIST_TEST(configuration_is_for_where_the_agent_has_its_own)
{
	struct finding *finding = find(fixture, "keys", 1, FINDING_HAPPENS);

	finding_keep(finding, &fixture->input, "sysctl", "limits: {raise: [%s]}", "keys");
	assert_string_equal(finding->keep, "limits: {raise: [keys]}");
	assert_string_equal(finding->keep_in, "/etc/headroom/headroom.yaml");
	fixture->input.config_file = NULL;
	finding_keep(finding, &fixture->input, "sysctl", "limits: {raise: [%s]}", "keys");
	assert_string_equal(finding->keep, "config:\n  limits: {raise: [keys]}");
	assert_string_equal(finding->keep_in, "the values of the chart");
}

/* What the advice needs to take effect, in a file and in the values of a chart. */
LIST_TEST(configuration_makes_a_tuner_write_that_only_observes)
{
	static const struct {
		unsigned held_by; /* the tuner sysctl */
		const char *line, *file, *chart, *hint;
	} cases[] = {
		{HELD_BY_MODE, "limits: {raise: [keys]}", "mode: enforce\nlimits: {raise: [keys]}",
			"config:\n  mode: enforce\n  limits: {raise: [keys]}", "look"},
		{HELD_BY_OWN_MODE, "limits: {raise: [keys]}",
			"sysctl: {mode: enforce}\nlimits: {raise: [keys]}",
			"config:\n  sysctl: {mode: enforce}\n  limits: {raise: [keys]}", "look"},
		{HELD_BY_OWN_MODE, "sysctl: {vm.max_map_count: 9}",
			"sysctl: {mode: enforce, vm.max_map_count: 9}",
			"config:\n  sysctl: {mode: enforce, vm.max_map_count: 9}", "look"},
		{HELD_BY_OPTION, "sysctl: {vm.max_map_count: 9}", "sysctl: {vm.max_map_count: 9}",
			"config:\n  sysctl: {vm.max_map_count: 9}",
			"look; start the agent without --observe"},
		{HELD_BY_OPTION | HELD_BY_MODE, "sysctl: {vm.max_map_count: 9}",
			"mode: enforce\nsysctl: {vm.max_map_count: 9}",
			"config:\n  mode: enforce\n  sysctl: {vm.max_map_count: 9}",
			"look; start the agent without --observe"},
		{HELD_BY_RELEASE, "sysctl: {vm.max_map_count: 9}", "sysctl: {vm.max_map_count: 9}",
			"config:\n  sysctl: {vm.max_map_count: 9}",
			"look; headroom apply ends the release"},
	};
	const struct tuner_ops others = {.name = "thp"}, sysctl = {.name = "sysctl"};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (unsigned later = 0; later < 2; later++) {
			const struct tuner_status tuners[] = {
				{.ops = &others, .held_by = HELD_BY_OWN_MODE | HELD_BY_OPTION},
				{.ops = &sysctl, .held_by = cases[i].held_by}};
			struct finding finding = {0};

			fixture->input.tuners = tuners;
			fixture->input.n_tuners = ARRAY_SIZE(tuners);
			fixture->input.config_file = later ? NULL : "/etc/headroom/headroom.yaml";
			if (!later)
				finding_hint(&finding, "look");
			finding_keep(&finding, &fixture->input, "sysctl", "%s", cases[i].line);
			if (later)
				finding_hint(&finding, "look");
			assert_string_equal(finding.keep, later ? cases[i].chart : cases[i].file);
			assert_string_equal(finding.hint, cases[i].hint);
			finding_release(&finding);
		}
}
