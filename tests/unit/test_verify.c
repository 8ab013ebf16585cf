/* SPDX-License-Identifier: Apache-2.0 */
#include "edit_fixture.h"

#include "apply/verify.h"
#include "base/log.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

/*
 * A made-up containerd, to which a configuration is what it prints; and the real one where it is
 * installed. The root of the host is / here, for a program has to be run: paths are whole.
 */

#define REAL     "/usr/bin/containerd"
#define DUMP_KEY "plugins.\"io.containerd.grpc.v1.cri\".max_concurrent_downloads"

static const char prints_it[] = "#!/bin/sh\nexec cat \"$2\"\n";
static const char old_text[] = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
			       "max_concurrent_downloads = 3\n";

/* A change of max_concurrent_downloads to 10, with this program as containerd. */
static struct change *plan_verified(struct edit_bench *bench, const char *binary, const char *key)
{
	struct change *change = plan_downloads(bench, "3", "10");
	struct service *service = &change->edit->service;
	char path[PATH_MAX];

	service->verifier = VERIFY_CONTAINERD_DUMP;
	copy_text(service->binary, sizeof(service->binary), binary);
	free((char *)change->edit->dump_key);
	change->edit->dump_key = strdup(key);
	directory_path(&bench->root, CONFIG_TOML, path);
	assert_true(copy_text(change->place.path, sizeof(change->place.path), path));
	assert_true(host_init(&bench->host, ""));
	return change;
}

static void make_program(
	const struct edit_bench *bench, const char *script, char binary[static PATH_MAX])
{
	directory_put(&bench->root, "/containerd", script);
	directory_path(&bench->root, "/containerd", binary);
	assert_int_equal(chmod(binary, 0755), 0);
}

static const struct {
	const char *what;
	const char *script, *key;
	int error;
	const char *why;
} cases[] = {
	{"only our key differs", prints_it, DUMP_KEY, 0, NULL},
	{"another key differs", prints_it, "other", -EINVAL, "more than was asked for"},
	{"the new one is refused",
		"#!/bin/sh\nif grep -q 'downloads = 10' \"$2\"; then echo oh no >&2; exit 1; fi\n",
		DUMP_KEY, -EINVAL, "oh no"},
	{"even the old one is", "#!/bin/sh\nexit 1\n", DUMP_KEY, -EINVAL, "without a word"},
	{"what it says is no TOML", "#!/bin/sh\necho '= ='\n", DUMP_KEY, -EBADMSG, NULL},
	{"it is not there", NULL, DUMP_KEY, -ENOENT, "could not be run"},
};

static void only_our_keys_may_differ(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_edit_bench_ struct edit_bench bench;
		char binary[PATH_MAX] = "/nonexistent";
		int r;

		print_message("%s\n", cases[i].what);
		edit_bench_make(&bench);
		directory_put(&bench.root, CONFIG_TOML, old_text);
		if (cases[i].script)
			make_program(&bench, cases[i].script, binary);
		plan_verified(&bench, binary, cases[i].key);
		r = edit_apply(&bench);
		assert_int_equal(r, cases[i].error);
		assert_no_file(&bench.root, CONFIG_TOML FILE_NEW);
		if (r == 0)
			continue;
		assert_file(&bench.root, CONFIG_TOML, old_text);
		assert_string_equal(bench.edits.files[0].reason, "verify-refused");
		if (cases[i].why && !strstr(bench.edits.plan.changes[0].why, cases[i].why))
			fail_msg("%s", bench.edits.plan.changes[0].why);
		assert_int_equal(bench.journal->n_files, 0);
	}
}

static void need_real(void)
{
	if (access(REAL, X_OK) < 0) {
		print_message("no " REAL ": install the package containerd\n");
		skip();
	}
}

static void the_real_one_is_content(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;

	(void)state;
	need_real();
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, old_text);
	plan_verified(&bench, REAL, DUMP_KEY);
	assert_int_equal(edit_apply(&bench), 0);
	/* A file that is made is compared with what it begins with. */
	directory_delete(&bench.root, CONFIG_TOML);
	plan_verified(&bench, REAL, DUMP_KEY);
	assert_int_equal(edit_apply(&bench), 0);
}

static void the_real_one_refuses(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	struct change *change;

	(void)state;
	need_real();
	edit_bench_make(&bench);
	directory_put(&bench.root, CONFIG_TOML, "version = 2\nroot = \"/x\"\n");
	change = plan_verified(&bench, REAL, "root");
	copy_text(change->place.table, sizeof(change->place.table), "");
	copy_text(change->place.key, sizeof(change->place.key), "oom_score");
	assert_int_equal(edit_apply(&bench), -EINVAL);
	assert_non_null(strstr(bench.edits.plan.changes[0].why, "oom_score"));
	change = plan_verified(&bench, REAL, "grpc");
	copy_text(change->place.table, sizeof(change->place.table), "");
	copy_text(change->place.key, sizeof(change->place.key), "grpc"); /* a table there */
	assert_int_equal(edit_apply(&bench), -EINVAL);
	assert_file(&bench.root, CONFIG_TOML, "version = 2\nroot = \"/x\"\n");
}

/* The section of the main file would lose its other keys: that is what 1.6 makes of a drop-in. */
static void a_drop_in_that_resets_a_section_is_refused(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	char main_path[PATH_MAX], drop_in[PATH_MAX], text[3 * PATH_MAX];
	struct change *change;

	(void)state;
	need_real();
	edit_bench_make(&bench);
	directory_path(&bench.root, CONFIG_TOML, main_path);
	directory_path(&bench.root, "/etc/containerd/conf.d/99-headroom.toml", drop_in);
	snprintf(text, sizeof(text),
		"version = 2\nimports = [\"%s/etc/containerd/conf.d/*.toml\"]\n"
		"[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"x/pause:1\"\n",
		bench.root.path);
	directory_put(&bench.root, CONFIG_TOML, text);
	change = plan_verified(&bench, REAL, DUMP_KEY);
	copy_text(change->place.path, sizeof(change->place.path), drop_in);
	copy_text(change->edit->service.config, sizeof(change->edit->service.config), main_path);
	assert_int_equal(edit_apply(&bench), -EINVAL);
	assert_non_null(strstr(bench.edits.plan.changes[0].why, "sandbox_image"));
	assert_no_file(&bench.root, "/etc/containerd/conf.d");
	assert_no_file(&bench.root, CONFIG_TOML FILE_NEW);
}

/* As in a pod, where the host is mounted below a directory: its containerd sees the host's paths.
 */
static void in_the_hosts_root(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	_cleanup_directory_ struct directory mounted;
	struct change *change;

	(void)state;
	need_real();
	edit_bench_make(&bench);
	directory_make(&mounted);
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0) {
		print_message("not root\n");
		skip();
	}
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("/", mounted.path, NULL, MS_BIND, NULL), 0);
	directory_put(&bench.root, CONFIG_TOML, old_text);
	change = plan_verified(&bench, REAL, DUMP_KEY);
	assert_true(host_init(&bench.host, mounted.path));
	assert_true(starts_with(change->place.path, "/tmp/"));
	if (edit_apply(&bench) < 0)
		fail_msg("%s", bench.edits.plan.changes[0].why);
	assert_int_equal(umount2(mounted.path, MNT_DETACH), 0);
}

static void docker_keys_are_checked(void **state)
{
	_cleanup_edit_bench_ struct edit_bench bench;
	struct change *change;

	(void)state;
	edit_bench_make(&bench);
	directory_put(&bench.root, DAEMON_JSON, "{\"debgu\": true}\n");
	change = plan_docker(&bench, "", "10");
	change->edit->service.verifier = VERIFY_DOCKERD;
	copy_text(change->edit->service.version, 32, "20.10.24+dfsg1");
	assert_int_equal(edit_apply(&bench), -EINVAL);
	assert_non_null(strstr(bench.edits.plan.changes[0].why, "debgu"));
	assert_file(&bench.root, DAEMON_JSON, "{\"debgu\": true}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_our_keys_may_differ),
		cmocka_unit_test(the_real_one_is_content), cmocka_unit_test(the_real_one_refuses),
		cmocka_unit_test(a_drop_in_that_resets_a_section_is_refused),
		cmocka_unit_test(docker_keys_are_checked),
		cmocka_unit_test(in_the_hosts_root), /* last: it leaves the mount namespace */
	};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
