/* SPDX-License-Identifier: Apache-2.0 */
#include "edit_fixture.h"

#include "base/log.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* As an administrator may have written it. */
static const char original[] = "# ours, do not touch\r\n"
			       "version = 2\n"
			       "\n"
			       "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
			       "  max_concurrent_downloads = 3 # as always\n"
			       "  sandbox_image = \"registry.k8s.io/pause:3.6\"\n"
			       "\n"
			       "[debug]\n\tlevel='info'\n";

static const char edited[] = "# ours, do not touch\r\n"
			     "version = 2\n"
			     "\n"
			     "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
			     "  max_concurrent_downloads = 10 # as always\n"
			     "  sandbox_image = \"registry.k8s.io/pause:3.6\"\n"
			     "\n"
			     "[debug]\n\tlevel='info'\n";

/* With max_concurrent_downloads at 10. */
static void apply_downloads(struct edit_bench *bench)
{
	plan_downloads(bench, "3", "10");
	assert_int_equal(edit_apply(bench), 0);
}

static void apply_downloads_again(struct edit_bench *bench)
{
	plan_downloads(bench, "10", "12");
	assert_int_equal(edit_apply(bench), 0);
}

static void expect_forgotten(const struct edit_bench *bench)
{
	assert_int_equal(bench->journal->n_files, 0);
	assert_int_equal(bench->journal->n_records, 0);
}

static void one_key_changes_and_comes_back(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	const struct record *record;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	apply_downloads(&bench);
	assert_file(&bench.root, CONFIG_TOML, edited);
	assert_string_equal(bench.edits.plan.changes[0].actual, "10");
	assert_int_equal(bench.journal->n_records, 1);
	record = &bench.journal->records[0];
	assert_string_equal(record->original, "3");
	assert_string_equal(record->on_disk, "3");
	assert_string_equal(record->target, "10");
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML, original);
	assert_string_equal(bench.edits.plan.changes[0].reason, "original");
	expect_forgotten(&bench);
}

static void what_belongs_to_one_file_is_one_edit(void **state)
{
	const struct place place = {.kind = PLACE_EDIT,
		.path = CONFIG_TOML,
		.format = EDIT_TOML,
		.table = CRI,
		.key = "image_pull_progress_timeout"};
	const struct file_edit edit = {.text = "\"30m0s\""};
	_cleanup_edit_bench_ struct edit_bench bench;
	_cleanup_free_ char *text = NULL;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	plan_downloads(&bench, "3", "10");
	plan_edit(&bench, "containerd.image_pull_progress_timeout", &place, "", "30m0s", &edit);
	assert_int_equal(edit_apply(&bench), 0);
	assert_int_equal(bench.edits.n, 1);
	assert_int_equal(bench.journal->n_files, 1);
	assert_int_equal(bench.journal->files[0].n_keys, 2);
	text = directory_get(&bench.root, CONFIG_TOML);
	assert_non_null(strstr(text, "max_concurrent_downloads = 10"));
	assert_non_null(strstr(text, "image_pull_progress_timeout = \"30m0s\""));
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML, original);
}

static void a_missing_file_is_made_and_removed(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	_cleanup_free_ char *text = NULL;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, "/etc/passwd", "");
	plan_downloads(&bench, "", "10");
	assert_int_equal(edit_apply(&bench), 0);
	text = directory_get(&bench.root, CONFIG_TOML);
	assert_true(starts_with(text, "version = 2\n"));
	assert_non_null(strstr(text, "max_concurrent_downloads = 10"));
	assert_int_equal(bench.journal->files[0].directories, 1);
	edit_restore(&bench);
	assert_no_file(&bench.root, "/etc/containerd");
	assert_file(&bench.root, "/etc/passwd", "");
}

static void a_directory_with_something_else_in_it_stays(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	plan_own(&bench, "/etc/containerd/certs.d/docker.io/hosts.toml", "a mirror", "# ours\n");
	assert_int_equal(edit_apply(&bench), 0);
	assert_int_equal(bench.journal->files[0].directories, 4);
	directory_put(&bench.root, "/etc/containerd/certs.d/ca.pem", "someone's");
	edit_restore(&bench);
	assert_no_file(&bench.root, "/etc/containerd/certs.d/docker.io");
	assert_file(&bench.root, "/etc/containerd/certs.d/ca.pem", "someone's");
}

static void docker_has_json(void **state)
{
	static const char json[] = "{\n    \"live-restore\": true,\n    \"x\":  1}";
	_cleanup_edit_bench_ struct edit_bench bench;
	_cleanup_free_ char *text = NULL;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, DAEMON_JSON, json);
	plan_docker(&bench, "", "10");
	assert_int_equal(edit_apply(&bench), 0);
	text = directory_get(&bench.root, DAEMON_JSON);
	assert_non_null(strstr(text, "\"max-concurrent-downloads\": 10"));
	assert_true(starts_with(text, "{\n    \"live-restore\": true,\n    \"x\":  1"));
	edit_restore(&bench);
	assert_file(&bench.root, DAEMON_JSON, json);
}

static void a_file_of_our_own_comes_changes_and_goes(void **state)
{
	static const char path[] = "/etc/containerd/certs.d/docker.io/hosts.toml";
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	plan_own(&bench, path, "two mirrors", "# ours: a b\n");
	assert_int_equal(edit_apply(&bench), 0);
	plan_own(&bench, path, "one mirror", "# ours: b\n");
	assert_int_equal(edit_apply(&bench), 0);
	assert_file(&bench.root, path, "# ours: b\n");
	plan_own(&bench, path, "no mirror", NULL);
	assert_int_equal(edit_apply(&bench), 0);
	assert_no_file(&bench.root, path);
	plan_own(&bench, path, "one mirror", "# ours: b\n");
	assert_int_equal(edit_apply(&bench), 0);
	edit_restore(&bench);
	assert_no_file(&bench.root, "/etc");
	expect_forgotten(&bench);
}

static void a_file_of_our_own_that_someone_changed_is_left(void **state)
{
	static const char path[] = "/etc/containerd/certs.d/docker.io/hosts.toml";
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	plan_own(&bench, path, "one mirror", "# ours: b\n");
	assert_int_equal(edit_apply(&bench), 0);
	directory_put(&bench.root, path, "# mine now\n");
	edit_restore(&bench);
	assert_file(&bench.root, path, "# mine now\n");
	assert_true(bench.edits.plan.changes[0].left);
	assert_string_equal(bench.edits.plan.changes[0].reason, "changed-since");
	expect_forgotten(&bench);
}

/* What somebody else made of the file after us, and what a restore then leaves. */
static const struct {
	const char *what;
	const char *found, *left;
	bool key_left;
} since[] = {
	{"another key: theirs stays, ours goes back",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  "
		"max_concurrent_downloads = 10\n  enable_selinux = true\n",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  "
		"max_concurrent_downloads = 3\n  enable_selinux = true\n",
		false},
	{"our key: left as they want it",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  "
		"max_concurrent_downloads = 20\n",
		"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  "
		"max_concurrent_downloads = 20\n",
		true},
	{"without our key: nothing of ours is there", "version = 2\n", "version = 2\n", true},
	{"broken: left", "version = = 2\n", "version = = 2\n", false},
	{"removed: left", NULL, NULL, true},
};

static void restore_takes_out_only_what_is_ours(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(since); i++) {
		_cleanup_edit_bench_ struct edit_bench bench;

		print_message("%s\n", since[i].what);
		edit_bench_make(&bench);
		directory_put(&bench.root, CONFIG_TOML, original);
		apply_downloads(&bench);
		if (since[i].found)
			directory_put(&bench.root, CONFIG_TOML, since[i].found);
		else
			directory_delete(&bench.root, CONFIG_TOML);
		edit_restore(&bench);
		if (since[i].left)
			assert_file(&bench.root, CONFIG_TOML, since[i].left);
		else
			assert_no_file(&bench.root, CONFIG_TOML);
		assert_int_equal(bench.edits.plan.changes[0].left, since[i].key_left);
	}
}

/* They changed the file between two writes of ours: theirs is what a restore gives back. */
static void an_edit_of_others_becomes_the_original(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	_cleanup_free_ char *text = NULL;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	apply_downloads(&bench);
	text = directory_get(&bench.root, CONFIG_TOML);
	memcpy(strstr(text, "'info'"), "'warn'", 6);
	directory_put(&bench.root, CONFIG_TOML, text);
	plan_downloads(&bench, "10", "12");
	assert_int_equal(edit_apply(&bench), 0);
	edit_restore(&bench);
	free(text);
	text = strdup(original);
	memcpy(strstr(text, "'info'"), "'warn'", 6);
	assert_file(&bench.root, CONFIG_TOML, text);
	expect_forgotten(&bench);
}

/* They set our key, or took it out, and we set it again, as on_drift asks: it was theirs. */
static void a_value_of_others_becomes_the_original(void **state)
{
#define CRI_FILE "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  "
	static const char *const theirs[] = {CRI_FILE "max_concurrent_downloads = 5\n",
		CRI_FILE "sandbox_image = \"x\"\n", "version = 2\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
		_cleanup_edit_bench_ struct edit_bench bench;
		_cleanup_free_ char *text = NULL;

		edit_bench_make(&bench);
		directory_put(&bench.root, CONFIG_TOML, original);
		apply_downloads(&bench);
		directory_put(&bench.root, CONFIG_TOML, theirs[i]);
		apply_downloads(&bench);
		apply_downloads_again(&bench);
		text = directory_get(&bench.root, CONFIG_TOML);
		assert_non_null(strstr(text, "max_concurrent_downloads = 12"));
		edit_restore(&bench);
		assert_file(&bench.root, CONFIG_TOML, theirs[i]);
	}
}

static void nobody_is_overwritten_who_was_quicker(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	plan_downloads(&bench, "3", "10");
	edit_prepare(&bench);
	directory_put(&bench.root, CONFIG_TOML, "version = 2 # theirs\n");
	edits_write(&bench.edits);
	assert_int_equal(bench.edits.files[0].error, -ESTALE);
	assert_file(&bench.root, CONFIG_TOML, "version = 2 # theirs\n");
	assert_no_file(&bench.root, CONFIG_TOML FILE_NEW);
}

static void killed_between_the_note_and_the_write(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	plan_downloads(&bench, "3", "10");
	edit_prepare(&bench);
	edit_bench_open(&bench, "boot-1");
	directory_put(&bench.root, CONFIG_TOML FILE_NEW, "half of it");
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML, original);
	assert_no_file(&bench.root, CONFIG_TOML FILE_NEW);
	expect_forgotten(&bench);
}

/* Noted twice, written once: the file is still ours. */
static void killed_before_the_second_write(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	apply_downloads(&bench);
	for (int i = 0; i < 3; i++) {
		char wanted[8];

		snprintf(wanted, sizeof(wanted), "%d", 12 + i);
		plan_downloads(&bench, "10", wanted);
		edit_prepare(&bench);
		edit_bench_open(&bench, "boot-1");
	}
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML, original);
}

static void a_files_original_outlives_a_boot(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	apply_downloads(&bench);
	edit_bench_open(&bench, "boot-2");
	assert_int_equal(bench.journal->n_records, 1);
	assert_int_equal(bench.journal->n_files, 1);
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML, original);
}

static void kept_bytes_are_checked_and_swept(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	char name[16 + HASH_TEXT_MAX];

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	apply_downloads(&bench);
	snprintf(name, sizeof(name), "/files/%s", bench.journal->files[0].original);
	assert_file(&bench.state, name, original);
	directory_put(&bench.state, "/files/0123", "of nobody");
	file_sweep(bench.journal->dir, bench.journal->files[0].original);
	assert_no_file(&bench.state, "/files/0123");
	/* Spoilt, they are not what goes back: then only our key does, in its place. */
	directory_put(&bench.state, name, "spoilt");
	edit_restore(&bench);
	assert_file(&bench.root, CONFIG_TOML, original);
}

static void owner_and_mode_stay(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	char full[PATH_MAX], label[8] = "";
	bool labelled; /* not every file system of tests has them */
	struct stat st;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, original);
	directory_path(&bench.root, CONFIG_TOML, full);
	assert_int_equal(chmod(full, 0640), 0);
	labelled = setxattr(full, "user.label", "kept", 4, 0) == 0;
	if (geteuid() == 0)
		assert_int_equal(chown(full, 1234, 2345), 0);
	apply_downloads(&bench);
	assert_int_equal(stat(full, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	if (geteuid() == 0) {
		assert_int_equal(st.st_uid, 1234);
		assert_int_equal(st.st_gid, 2345);
	}
	edit_restore(&bench);
	assert_int_equal(stat(full, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	if (labelled) {
		assert_int_equal(getxattr(full, "user.label", label, sizeof(label)), 4);
		assert_string_equal(label, "kept");
	} else {
		print_message("without extended attributes\n");
	}
}

/* The link is the host's: its target lies below the host's root. */
static void a_link_is_followed_on_the_host(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	char link[PATH_MAX], target[16];

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, "/opt/real.toml", original);
	directory_put(&bench.root, "/etc/containerd/x", "");
	directory_path(&bench.root, CONFIG_TOML, link);
	assert_int_equal(symlink("/opt/real.toml", link), 0);
	apply_downloads(&bench);
	assert_file(&bench.root, "/opt/real.toml", edited);
	assert_int_equal(readlink(link, target, sizeof(target)), 14);
	edit_restore(&bench);
	assert_file(&bench.root, "/opt/real.toml", original);
}

static void a_link_to_nothing_is_left(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	char link[PATH_MAX];

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, "/etc/containerd/x", "");
	directory_path(&bench.root, CONFIG_TOML, link);
	assert_int_equal(symlink("/opt/none.toml", link), 0);
	plan_downloads(&bench, "3", "10");
	assert_int_equal(edit_apply(&bench), -ELOOP);
	assert_no_file(&bench.root, "/opt/none.toml");
	assert_int_equal(bench.journal->n_files, 0);
}

static void a_broken_file_is_not_touched(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, DAEMON_JSON, "{\"a\": }");
	plan_docker(&bench, "", "10");
	assert_int_equal(edit_apply(&bench), -EBADMSG);
	assert_string_equal(bench.edits.files[0].reason, "verify-refused");
	assert_non_null(strstr(bench.edits.plan.changes[0].why, "1:7: "));
	assert_file(&bench.root, DAEMON_JSON, "{\"a\": }");
	assert_int_equal(bench.journal->n_files, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_key_changes_and_comes_back),
		cmocka_unit_test(what_belongs_to_one_file_is_one_edit),
		cmocka_unit_test(a_missing_file_is_made_and_removed),
		cmocka_unit_test(a_directory_with_something_else_in_it_stays),
		cmocka_unit_test(docker_has_json),
		cmocka_unit_test(a_file_of_our_own_comes_changes_and_goes),
		cmocka_unit_test(a_file_of_our_own_that_someone_changed_is_left),
		cmocka_unit_test(restore_takes_out_only_what_is_ours),
		cmocka_unit_test(an_edit_of_others_becomes_the_original),
		cmocka_unit_test(a_value_of_others_becomes_the_original),
		cmocka_unit_test(nobody_is_overwritten_who_was_quicker),
		cmocka_unit_test(killed_between_the_note_and_the_write),
		cmocka_unit_test(killed_before_the_second_write),
		cmocka_unit_test(a_files_original_outlives_a_boot),
		cmocka_unit_test(kept_bytes_are_checked_and_swept),
		cmocka_unit_test(owner_and_mode_stay),
		cmocka_unit_test(a_link_is_followed_on_the_host),
		cmocka_unit_test(a_link_to_nothing_is_left),
		cmocka_unit_test(a_broken_file_is_not_touched),
	};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
