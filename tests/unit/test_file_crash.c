/* SPDX-License-Identifier: Apache-2.0 */
#include "file_fixture.h"
#include "kill.h"

#include "apply/editor.h"

#define text_of(text) (&(struct file_bytes){.bytes = (text), .len = strlen(text)})

/*
 * A process that writes, changes and restores configuration files is killed, again and again.
 * Whatever it was doing: each file is whole and valid, and a restore gives the original bytes.
 */

#define ROUNDS 100

static const char toml[] = "version = 2 # 1\n"
			   "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
			   "\tmax_concurrent_downloads=3\n"
			   "[metrics]\naddress = \"\"\n";
static const char json[] = "{\n  \"live-restore\": true\n}\n";

/* What the last life left may be there already: then there is nothing to do. */
static bool apply(struct file_fixture *fixture, const char *on_disk, const char *wanted)
{
	bool good = true;

	plan_reset(&fixture->job.plan);
	change_downloads(fixture, on_disk, wanted);
	change_docker(fixture, on_disk, wanted);
	change_hosts(fixture, wanted, wanted);
	run_job(fixture, FILE_APPLY);
	for (size_t i = 0; i < fixture->job.plan.n; i++)
		good = good && fixture->job.plan.changes[i].error == 0;
	return good;
}

static bool run_life(void *userdata)
{
	struct file_fixture *fixture = userdata;

	fixture_reopen(fixture);
	restore_all(fixture);
	if (!apply(fixture, "3", "10") || !apply(fixture, "10", "12"))
		return false;
	restore_all(fixture);
	return apply(fixture, "3", "12");
}

static void expect_valid(const struct file_fixture *fixture, int round)
{
	_cleanup_free_ char *toml_now = directory_get(&fixture->root, CONFIG_TOML);
	_cleanup_free_ char *json_now = directory_get(&fixture->root, DAEMON_JSON);
	_cleanup_free_ char *hosts_now = directory_get(&fixture->root, HOSTS);
	_cleanup_free_ char *value = NULL, *address = NULL;
	char why[EDIT_WHY_MAX];

	if (!toml_now || !strstr(toml_now, "address = \"\"\n") ||
		edit_languages[EDIT_TOML].get(
			text_of(toml_now), "metrics", "address", &address, why) < 0)
		fail_msg("round %d: %s", round, toml_now);
	if (!json_now || !strstr(json_now, "\"live-restore\": true") ||
		edit_languages[EDIT_JSON].get(text_of(json_now), "", "live-restore", &value, why) <
			0)
		fail_msg("round %d: %s", round, json_now);
	if (hosts_now && !streq(hosts_now, "10") && !streq(hosts_now, "12"))
		fail_msg("round %d: %s", round, hosts_now);
}

static void expect_restored(struct file_fixture *fixture)
{
	fixture_reopen(fixture);
	restore_all(fixture);
	for (size_t i = 0; i < fixture->job.plan.n; i++) {
		assert_int_equal(fixture->job.plan.changes[i].error, 0);
		assert_false(fixture->job.plan.changes[i].left);
	}
	assert_file(&fixture->root, CONFIG_TOML, toml);
	assert_file(&fixture->root, DAEMON_JSON, json);
	assert_no_file(&fixture->root, HOSTS);
	assert_no_file(&fixture->root, CONFIG_TOML FILE_NEW);
	assert_no_file(&fixture->root, DAEMON_JSON FILE_NEW);
}

FIXTURE_TEST(restore_after_any_death)
{
	bool traced = can_trace(), ended;
	uint64_t seed = 20240502, whole_life;
	int ends = 0;

	directory_put(&fixture->root, CONFIG_TOML, toml);
	directory_put(&fixture->root, DAEMON_JSON, json);
	whole_life = live_until(run_life, fixture, traced, traced ? UINT64_MAX : 30000, &ended);
	for (int round = 0; round < ROUNDS; round++) {
		live_until(
			run_life, fixture, traced, next_random(&seed) % (whole_life + 1), &ended);
		ends += ended;
		expect_valid(fixture, round);
		/* Sometimes another life is cut short before anybody restores. */
		if (next_random(&seed) % 3)
			expect_restored(fixture);
	}
	expect_restored(fixture);
	print_message("%d of %d lives came to their end, of %d %s\n", ends, ROUNDS, (int)whole_life,
		traced ? "stops" : "microseconds");
	assert_true(ends < ROUNDS / 2);
}
