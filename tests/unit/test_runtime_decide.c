/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/runtime/runtime.h"

#include <errno.h>

#define NOW (1000 * USEC_PER_SEC)

struct bench {
	struct runtime_seen seen;
	struct runtime_config config;
	struct runtime_memory memory;
	struct proposal proposal;
	struct file_record records[4];
	size_t n_records;
};

static void plan_key(struct containerd_edit *edit, const char *key, const char *literal)
{
	edit->method = CONTAINERD_IN_PLACE;
	copy_text(edit->path, sizeof(edit->path), "/etc/containerd/config.toml");
	copy_text(edit->table, sizeof(edit->table), "plugins.\"io.containerd.grpc.v1.cri\"");
	copy_text(edit->key, sizeof(edit->key), key);
	copy_text(edit->literal, sizeof(edit->literal), literal);
}

static struct runtime_one *add_runtime(struct bench *bench, enum runtime_kind kind)
{
	struct runtime_one *one = &bench->seen.ones[bench->seen.n++];
	bool docker = kind == RUNTIME_DOCKER;

	one->where = (struct runtime){.name = docker ? "docker" : "containerd",
		.kind = kind,
		.socket = docker ? "/run/docker.sock" : "/run/containerd/containerd.sock",
		.unit = docker ? "docker.service" : "containerd.service",
		.has_socket = true};
	one->answer = RUNTIME_ANSWERS;
	one->since_us = 1;
	one->file_signature = 1;
	copy_text(one->version, sizeof(one->version), "1.6.20");
	copy_text(one->binary, sizeof(one->binary), "/usr/bin/containerd");
	copy_text(one->config_path, sizeof(one->config_path),
		docker ? "/etc/docker/daemon.json" : "/etc/containerd/config.toml");
	copy_text(one->downloads, SETTING_VALUE_MAX, "3");
	copy_text(one->timeout, SETTING_VALUE_MAX, "5m0s");
	plan_key(&one->edits[CONTAINERD_DOWNLOADS], "max_concurrent_downloads", "10");
	plan_key(&one->edits[CONTAINERD_PROGRESS_TIMEOUT], "image_pull_progress_timeout",
		"\"30m0s\"");
	plan_key(&one->edits[CONTAINERD_REGISTRY_DIRECTORY], "config_path",
		"\"/etc/containerd/certs.d\"");
	return one;
}

static int open_bench(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return -1;
	bench->config = (struct runtime_config){
		.downloads = 10, .timeout_us = 30 * 60 * USEC_PER_SEC, .restart = RESTART_NOW};
	bench->seen.now_us = NOW;
	*state = bench;
	return 0;
}

static int close_bench(void **state)
{
	struct bench *bench = *state;

	runtime_memory_clear(&bench->memory);
	proposal_clear(&bench->proposal);
	free(bench);
	return 0;
}

static void decide(struct bench *bench)
{
	struct decide_input input = {
		.files = bench->records, .n_files = bench->n_records, .now_us = NOW};

	proposal_reset(&bench->proposal);
	assert_int_equal(runtime_decide(&bench->seen, &bench->config, &bench->memory, &input,
				 &bench->proposal),
		0);
}

static const struct file_want *want(const struct bench *bench, const char *name)
{
	for (size_t i = 0; i < bench->proposal.n_files; i++)
		if (streq(bench->proposal.files[i].name, name))
			return &bench->proposal.files[i];
	return NULL;
}

static const struct condition_reading *condition(const struct bench *bench, int type)
{
	for (size_t i = 0; i < bench->proposal.n_conditions; i++)
		if (bench->proposal.conditions[i].type == &runtime_conditions[type])
			return &bench->proposal.conditions[i];
	fail_msg("nothing said of %s", runtime_conditions[type].name);
	return NULL;
}

#define DOWNLOADS "containerd.max_concurrent_downloads"

static void a_containerd_with_defaults(void **state)
{
	struct bench *bench = *state;
	const struct file_want *downloads, *timeout;

	add_runtime(bench, RUNTIME_CONTAINERD);
	decide(bench);
	downloads = want(bench, DOWNLOADS);
	timeout = want(bench, "containerd.image_pull_progress_timeout");
	assert_string_equal(downloads->wanted, "10");
	assert_string_equal(downloads->actual, "3");
	assert_string_equal(downloads->on_disk, "");
	assert_string_equal(downloads->edit->text, "10");
	assert_int_equal(downloads->edit->service.activation, ACTIVATE_RESTART);
	assert_int_equal(downloads->edit->service.verifier, VERIFY_CONTAINERD_DUMP);
	assert_int_equal(downloads->edit->service.restart, RESTART_NOW);
	assert_string_equal(timeout->wanted, "30m0s");
	assert_string_equal(timeout->edit->text, "\"30m0s\"");
	assert_null(want(bench, "containerd.config_path"));
	assert_int_equal(condition(bench, RUNTIME_UNREACHABLE)->status, CONDITION_FALSE);
	assert_int_equal(condition(bench, RUNTIME_RESTART_PENDING)->status, CONDITION_FALSE);
}

static void a_default_only_raises(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_CONTAINERD);

	copy_text(one->downloads, SETTING_VALUE_MAX, "20");
	copy_text(one->on_disk_downloads, SETTING_VALUE_MAX, "20");
	decide(bench);
	assert_string_equal(want(bench, DOWNLOADS)->wanted, "");
	assert_string_equal(want(bench, DOWNLOADS)->reason, "administrator-higher");
	bench->config.downloads_exact = true;
	decide(bench);
	assert_string_equal(want(bench, DOWNLOADS)->wanted, "10");
}

/* What we wrote is no floor: a lower configuration is taken although more is in force. */
static void the_original_is_the_floor(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_CONTAINERD);
	struct file_record *record = &bench->records[bench->n_records++];

	copy_text(one->downloads, SETTING_VALUE_MAX, "16");
	copy_text(one->on_disk_downloads, SETTING_VALUE_MAX, "16");
	copy_text(record->name, sizeof(record->name), DOWNLOADS);
	copy_text(record->original, SETTING_VALUE_MAX, "3");
	copy_text(record->wanted, SETTING_VALUE_MAX, "16");
	decide(bench);
	assert_string_equal(want(bench, DOWNLOADS)->wanted, "10");
}

static void what_is_written_and_not_in_force_is_pending(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_CONTAINERD);
	const struct condition_reading *pending;

	copy_text(one->on_disk_downloads, SETTING_VALUE_MAX, "10");
	decide(bench);
	pending = condition(bench, RUNTIME_RESTART_PENDING);
	assert_int_equal(pending->status, CONDITION_TRUE);
	assert_non_null(strstr(pending->message, "containerd.service"));
	copy_text(one->downloads, SETTING_VALUE_MAX, "10");
	decide(bench);
	assert_int_equal(condition(bench, RUNTIME_RESTART_PENDING)->status, CONDITION_FALSE);
}

static void nothing_is_wanted_of_what_is_broken_or_silent(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_CONTAINERD);

	one->file_error = -EBADMSG;
	decide(bench);
	assert_string_equal(want(bench, DOWNLOADS)->wanted, "");
	assert_string_equal(want(bench, DOWNLOADS)->reason, "file-unusable");
	one->file_error = 0;
	one->binary[0] = '\0';
	decide(bench);
	assert_string_equal(want(bench, DOWNLOADS)->wanted, "");
	assert_string_equal(want(bench, DOWNLOADS)->reason, "process-not-seen");
	one->answer = RUNTIME_SILENT;
	copy_text(one->why, sizeof(one->why), "UNAVAILABLE: Connection refused");
	decide(bench);
	assert_string_equal(want(bench, DOWNLOADS)->wanted, "");
	assert_int_equal(condition(bench, RUNTIME_UNREACHABLE)->status, CONDITION_TRUE);
	one->where.has_socket = false;
	decide(bench);
	assert_int_equal(condition(bench, RUNTIME_UNREACHABLE)->status, CONDITION_FALSE);
	one->answered_once = true;
	decide(bench);
	assert_int_equal(condition(bench, RUNTIME_UNREACHABLE)->status, CONDITION_TRUE);
}

static void a_version_without_the_key(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_CONTAINERD);

	one->edits[CONTAINERD_PROGRESS_TIMEOUT].method = CONTAINERD_UNSUPPORTED;
	decide(bench);
	assert_int_equal(want(bench, "containerd.image_pull_progress_timeout")->error, -ENOENT);
	assert_int_equal(want(bench, DOWNLOADS)->error, 0);
}

static void several_of_a_kind_have_names_of_their_own(void **state)
{
	struct bench *bench = *state;

	add_runtime(bench, RUNTIME_CONTAINERD)->where.name = "k3s";
	bench->seen.ones[0].where.managed_by = RUNTIME_OF_K8S;
	add_runtime(bench, RUNTIME_CONTAINERD);
	bench->seen.ones[1].where.managed_by = RUNTIME_OF_NODE;
	decide(bench);
	assert_non_null(want(bench, DOWNLOADS));
	assert_non_null(want(bench, "k3s.max_concurrent_downloads"));
	assert_int_equal(
		want(bench, "k3s.max_concurrent_downloads")->edit->service.restart, RESTART_NEVER);
}

static void docker_reloads(void **state)
{
	struct bench *bench = *state;
	const struct file_want *downloads;

	add_runtime(bench, RUNTIME_DOCKER)->pid = 42;
	decide(bench);
	downloads = want(bench, "docker.max-concurrent-downloads");
	assert_int_equal(downloads->target.format, EDIT_JSON);
	assert_string_equal(downloads->target.path, "/etc/docker/daemon.json");
	assert_int_equal(downloads->edit->service.activation, ACTIVATE_RELOAD);
	assert_int_equal(downloads->edit->service.pid, 42);
}

static void add_mirror(struct bench *bench, const char *registry, const char *url)
{
	struct runtime_mirror *mirror = &bench->config.mirrors[bench->config.n_mirrors];

	copy_text(mirror->registry, sizeof(mirror->registry), registry);
	copy_text(mirror->url, sizeof(mirror->url), url);
	bench->seen.mirror_states[bench->config.n_mirrors++] = MIRROR_UP;
}

static void dockers_mirrors_keep_those_of_others(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_DOCKER);
	const struct file_want *mirrors;

	copy_text(one->on_disk_mirrors, SETTING_VALUE_MAX, "https://theirs.example/");
	copy_text(one->mirrors, SETTING_VALUE_MAX, "https://theirs.example");
	decide(bench);
	assert_null(want(bench, "docker.registry-mirrors"));
	add_mirror(bench, "docker.io", "http://127.0.0.1:5000");
	add_mirror(bench, "quay.io", "http://127.0.0.1:5001");
	decide(bench);
	mirrors = want(bench, "docker.registry-mirrors");
	assert_string_equal(mirrors->wanted, "http://127.0.0.1:5000 https://theirs.example");
	assert_string_equal(mirrors->actual, "https://theirs.example");
	assert_non_null(strstr(mirrors->edit->text, "\"http://127.0.0.1:5000\""));
}

static void a_mirror_that_is_down_is_taken_out(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_DOCKER);
	struct file_record *record = &bench->records[bench->n_records++];

	copy_text(record->name, sizeof(record->name), "docker.registry-mirrors");
	copy_text(record->wanted, SETTING_VALUE_MAX, "http://127.0.0.1:5000");
	copy_text(one->on_disk_mirrors, SETTING_VALUE_MAX, "http://127.0.0.1:5000");
	copy_text(one->mirrors, SETTING_VALUE_MAX, "http://127.0.0.1:5000");
	one->mirrors_in_file = true;
	add_mirror(bench, "docker.io", "http://127.0.0.1:5000");
	bench->seen.mirror_states[0] = MIRROR_UNKNOWN;
	decide(bench);
	assert_null(want(bench, "docker.registry-mirrors"));
	bench->seen.mirror_states[0] = MIRROR_DOWN;
	decide(bench);
	assert_string_equal(want(bench, "docker.registry-mirrors")->wanted, "none");
	/* dockerd would keep them without the key. */
	assert_string_equal(want(bench, "docker.registry-mirrors")->edit->text, "[]");
	one->mirrors_in_file = false;
	one->on_disk_mirrors[0] = '\0';
	decide(bench);
	assert_string_equal(want(bench, "docker.registry-mirrors")->on_disk, "");
	one->mirrors_in_file = true;
	/* The same once it is out of the configuration. */
	bench->config.n_mirrors = 0;
	decide(bench);
	assert_string_equal(want(bench, "docker.registry-mirrors")->wanted, "none");
}

static void the_directory_of_mirrors_is_set_where_none_is(void **state)
{
	struct bench *bench = *state;
	struct runtime_one *one = add_runtime(bench, RUNTIME_CONTAINERD);

	add_mirror(bench, "docker.io", "http://127.0.0.1:5000");
	decide(bench);
	assert_string_equal(
		want(bench, "containerd.config_path")->wanted, "/etc/containerd/certs.d");
	copy_text(one->directory, SETTING_VALUE_MAX, "/etc/certs");
	decide(bench);
	assert_null(want(bench, "containerd.config_path"));
}

static void the_image_store_is_full_with_hysteresis(void **state)
{
	struct bench *bench = *state;
	struct runtime_store *store = &add_runtime(bench, RUNTIME_CONTAINERD)->store;
	static const struct {
		uint64_t used;
		enum condition_status status;
	} steps[] = {{840, CONDITION_FALSE}, {860, CONDITION_TRUE}, {820, CONDITION_TRUE},
		{790, CONDITION_FALSE}, {840, CONDITION_FALSE}};

	store->known = true;
	store->size = 1000;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		store->used = steps[i].used;
		decide(bench);
		assert_int_equal(condition(bench, IMAGE_STORE_FULL)->status, steps[i].status);
		assert_int_equal(bench->proposal.limits[0].used, steps[i].used);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bench, close_bench)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_containerd_with_defaults),
		TEST(a_default_only_raises),
		TEST(the_original_is_the_floor),
		TEST(what_is_written_and_not_in_force_is_pending),
		TEST(nothing_is_wanted_of_what_is_broken_or_silent),
		TEST(a_version_without_the_key),
		TEST(several_of_a_kind_have_names_of_their_own),
		TEST(docker_reloads),
		TEST(dockers_mirrors_keep_those_of_others),
		TEST(a_mirror_that_is_down_is_taken_out),
		TEST(the_directory_of_mirrors_is_set_where_none_is),
		TEST(the_image_store_is_full_with_hysteresis),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
