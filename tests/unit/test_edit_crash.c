/* SPDX-License-Identifier: Apache-2.0 */
#include "edit_fixture.h"
#include "kill.h"

#include "base/log.h"
#include "base/toml.h"
#include "runtime/docker_config.h"

/*
 * A process that writes, changes and restores configuration files is killed, again and again.
 * Whatever it was doing: each file is whole and valid, and a restore gives the original bytes.
 */

#define ROUNDS 200

static const char toml[] = "version = 2 # 1\n"
			   "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
			   "\tmax_concurrent_downloads=3\n"
			   "[metrics]\naddress = \"\"\n";
static const char json[] = "{\n  \"live-restore\": true\n}\n";
static const char hosts[] = "/etc/containerd/certs.d/docker.io/hosts.toml";

static bool apply(struct edit_bench *bench, const char *on_disk, const char *wanted)
{
	bool good;

	plan_downloads(bench, on_disk, wanted);
	plan_docker(bench, on_disk, wanted);
	plan_own(bench, hosts, wanted, wanted);
	good = edit_apply(bench) == 0;
	for (size_t i = 0; i < bench->edits.n; i++)
		good = good && bench->edits.files[i].error == 0;
	return good;
}

/* What the last life left may stand there already: then there is nothing to do. */
static bool run_life(void *userdata)
{
	struct edit_bench *bench = userdata;

	edit_bench_open(bench, "boot-1");
	edit_restore(bench);
	if (!apply(bench, "3", "10") || !apply(bench, "10", "12"))
		return false;
	edit_restore(bench);
	return apply(bench, "3", "12");
}

static void expect_valid(const struct edit_bench *bench, int round)
{
	_cleanup_free_ char *toml_now = directory_get(&bench->root, CONFIG_TOML);
	_cleanup_free_ char *json_now = directory_get(&bench->root, DAEMON_JSON);
	_cleanup_free_ char *hosts_now = directory_get(&bench->root, hosts);
	_cleanup_free_ char *value = NULL;

	if (!toml_now || !strstr(toml_now, "address = \"\"\n") ||
		toml_check(toml_now, strlen(toml_now), NULL) < 0)
		fail_msg("round %d: %s", round, toml_now);
	if (!json_now || !strstr(json_now, "\"live-restore\": true") ||
		docker_config_get(json_now, strlen(json_now), "live-restore", &value, NULL) < 0)
		fail_msg("round %d: %s", round, json_now);
	if (hosts_now && !streq(hosts_now, "10") && !streq(hosts_now, "12"))
		fail_msg("round %d: %s", round, hosts_now);
}

static void restore_all(struct edit_bench *bench)
{
	edit_bench_open(bench, "boot-1");
	edit_restore(bench);
	for (size_t i = 0; i < bench->edits.plan.n; i++) {
		assert_int_equal(bench->edits.plan.changes[i].error, 0);
		assert_false(bench->edits.plan.changes[i].left);
	}
	assert_file(&bench->root, CONFIG_TOML, toml);
	assert_file(&bench->root, DAEMON_JSON, json);
	assert_no_file(&bench->root, hosts);
	assert_no_file(&bench->root, CONFIG_TOML FILE_NEW);
	assert_no_file(&bench->root, DAEMON_JSON FILE_NEW);
}

static void restore_after_any_death(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	bool traced = can_trace(), ended;
	uint64_t seed = 20240502, whole_life;
	int ends = 0;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, toml);
	directory_put(&bench.root, DAEMON_JSON, json);
	whole_life = live_until(run_life, &bench, traced, traced ? UINT64_MAX : 30000, &ended);
	for (int round = 0; round < ROUNDS; round++) {
		live_until(run_life, &bench, traced, next_random(&seed) % (whole_life + 1), &ended);
		ends += ended;
		expect_valid(&bench, round);
		/* Sometimes another life is cut short before anybody restores. */
		if (next_random(&seed) % 3)
			restore_all(&bench);
	}
	restore_all(&bench);
	print_message("%d of %d lives came to their end, of %d %s\n", ends, ROUNDS, (int)whole_life,
		traced ? "stops" : "microseconds");
	assert_true(ends < ROUNDS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(restore_after_any_death)};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
