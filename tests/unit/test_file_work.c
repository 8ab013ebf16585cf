/* SPDX-License-Identifier: Apache-2.0 */
#include "file_fixture.h"

#include <sys/prctl.h>

/* A file of an administrator. */
#define FILE_WITH(downloads, level)                                \
	"# ours, do not touch\r\nversion = 2\n\n[" CRI "]\n"       \
	"  max_concurrent_downloads = " downloads " # as always\n" \
	"  sandbox_image = \"registry.k8s.io/pause:3.6\"\n\n"      \
	"[debug]\n\tlevel='" level "'\n"

static const char original[] = FILE_WITH("3", "info");

static mode_t mode_of(const struct directory *directory, const char *name)
{
	char full[PATH_MAX];
	struct stat st;

	directory_path(directory, name, full);
	assert_int_equal(stat(full, &st), 0);
	return st.st_mode & 0777;
}

FIXTURE_TEST(a_missing_file_is_made_with_its_directories_and_removed)
{
	_cleanup_free_ char *text = NULL;
	mode_t mask = umask(0077);

	directory_put(&fixture->root, "/etc/passwd", "");
	apply_downloads(fixture, "", "10");
	text = directory_get(&fixture->root, CONFIG_TOML);
	assert_true(starts_with(text, "version = 2\n"));
	/* The umask does not matter: others read the files beside ours. */
	umask(mask);
	assert_int_equal(mode_of(&fixture->root, CONFIG_TOML), 0644);
	assert_int_equal(mode_of(&fixture->root, "/etc/containerd"), 0755);
	restore_all(fixture);
	assert_no_file(&fixture->root, "/etc/containerd");
	assert_file(&fixture->root, "/etc/passwd", "");
	/* A directory stays if it has another file by then. */
	change_hosts(fixture, "a mirror", "# ours\n");
	assert_int_equal(run_job(fixture, FILE_APPLY), 0);
	directory_put(&fixture->root, "/etc/containerd/certs.d/ca.pem", "someone's");
	restore_all(fixture);
	assert_no_file(&fixture->root, "/etc/containerd/certs.d/docker.io");
	assert_file(&fixture->root, "/etc/containerd/certs.d/ca.pem", "someone's");
}

FIXTURE_TEST(a_removed_journal_is_written_again_before_the_next_edit)
{
	for (int i = 0; i < 3; i++) { /* someone else writes the same file again */
		directory_put(&fixture->root, CONFIG_TOML, original);
		if (i > 0)
			directory_delete(&fixture->state, "/journal.json");
		apply_downloads(fixture, "3", "10");
	}
	fixture_reopen(fixture);
	restore_all(fixture);
	assert_file(&fixture->root, CONFIG_TOML, original);
}

/* A process that was killed during a restore has left this record. */
FIXTURE_TEST(a_restore_that_goes_on_and_is_refused_keeps_the_original)
{
	const char *obstacle = CONFIG_TOML FILE_NEW "/file";

	directory_put(&fixture->root, CONFIG_TOML, original);
	apply_downloads(fixture, "3", "10");
	fixture->job.journal->files[0].restoring = true;
	directory_put(&fixture->root, obstacle, "");
	plan_clear(&fixture->job.plan);
	assert_int_equal(run_job(fixture, FILE_RESTORE), -EEXIST);
	directory_delete(&fixture->root, obstacle);
	assert_int_equal(rmdir(directory_at(&fixture->root, CONFIG_TOML FILE_NEW).text), 0);
	fixture_reopen(fixture);
	restore_all(fixture);
	assert_file(&fixture->root, CONFIG_TOML, original);
}

FIXTURE_TEST(a_file_of_our_own_is_written_and_removed)
{
	static const char *const texts[] = {"# ours: a b\n", "# ours: b\n", NULL, "# ours: b\n"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		change_hosts(fixture, texts[i] ? texts[i] : "none", texts[i]);
		assert_int_equal(run_job(fixture, FILE_APPLY), 0);
		if (texts[i])
			assert_file(&fixture->root, HOSTS, texts[i]);
		else
			assert_no_file(&fixture->root, HOSTS);
	}
	restore_all(fixture);
	assert_no_file(&fixture->root, "/etc");
	assert_forgotten(fixture);
	/* If someone else changed it, it is theirs and stays. */
	change_hosts(fixture, "a mirror", "# ours\n");
	assert_int_equal(run_job(fixture, FILE_APPLY), 0);
	directory_put(&fixture->root, HOSTS, "# mine now\n");
	assert_true(restore_all(fixture)->left);
	assert_file(&fixture->root, HOSTS, "# mine now\n");
	assert_forgotten(fixture);
}

/*
 * Someone else changes the file after our edit. A restore removes our keys and nothing else. If we
 * edit the file again, a restore brings their values back.
 */
TEST(restore_removes_only_our_keys_from_a_file_changed_by_others)
{
#define SECTION "[" CRI "]\n"
	static const struct {
		const char *what, *found, *left;
		bool key_left;
		int error;
		const char *again; /* the value of our key before we edit the file again */
	} cases[] = {
		{"another key", SECTION "max_concurrent_downloads = 10\nenable_selinux = true\n",
			SECTION "max_concurrent_downloads = 3\nenable_selinux = true\n", false, 0,
			NULL},
		{"our key", SECTION "max_concurrent_downloads = 20\n",
			SECTION "max_concurrent_downloads = 20\n", true, 0, NULL},
		{"without our key", "version = 2\n", "version = 2\n", true, 0, NULL},
		{"broken", "version = = 2\n", "version = = 2\n", false, -EBADMSG, NULL},
		{"removed", NULL, NULL, true, 0, NULL},
		{"our key, again", FILE_WITH("5", "info"), FILE_WITH("5", "info"), false, 0, "5"},
		{"without our key, again", SECTION "x = \"x\"\n", SECTION "x = \"x\"\n", false, 0,
			""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct file_fixture fixture;
		_cleanup_free_ char *text = NULL;
		const struct change *change;

		print_message("%s\n", cases[i].what);
		fixture_make(&fixture);
		directory_put(&fixture.root, CONFIG_TOML, original);
		apply_downloads(&fixture, "3", "10");
		if (cases[i].found)
			directory_put(&fixture.root, CONFIG_TOML, cases[i].found);
		else
			directory_delete(&fixture.root, CONFIG_TOML);
		if (cases[i].again) {
			apply_downloads(&fixture, cases[i].again, "11");
			apply_downloads(&fixture, "11", "12");
			text = directory_get(&fixture.root, CONFIG_TOML);
			assert_non_null(strstr(text, "max_concurrent_downloads = 12"));
		}
		change = restore_all(&fixture);
		if (cases[i].left)
			assert_file(&fixture.root, CONFIG_TOML, cases[i].left);
		else
			assert_no_file(&fixture.root, CONFIG_TOML);
		assert_int_equal(change->left, cases[i].key_left);
		assert_int_equal(change->error, cases[i].error);
		assert_int_equal(fixture.job.journal->n_files, cases[i].error < 0);
	}
}

/* An upgraded runtime reads drop-ins: a restore has to restore both files. */
FIXTURE_TEST(a_setting_that_moved_is_restored_in_both_files)
{
	static const char drop_in[] = "/etc/containerd/conf.d/99-headroom.toml";
	struct change *change;

	directory_put(&fixture->root, CONFIG_TOML, original);
	apply_downloads(fixture, "3", "10");
	change = change_downloads(fixture, "", "10");
	copy_text(change->file->path, SETTING_PATH_MAX, drop_in);
	copy_text(change->old, SETTING_VALUE_MAX, "10");
	assert_int_equal(run_job(fixture, FILE_APPLY), 0);
	assert_int_equal(fixture->n_records, 1);
	assert_string_equal(fixture->records[0].in_force_originally, "3");
	assert_string_equal(fixture->job.journal->files[1].path, drop_in);
	directory_put(&fixture->root, CONFIG_TOML, "what is [ this");
	change = (struct change *)restore_all(fixture);
	assert_int_equal(fixture->job.plan.n, 2);
	assert_int_equal(change[0].error, -EBADMSG);
	assert_int_equal(change[1].error, 0);
	assert_no_file(&fixture->root, drop_in);
	directory_put(&fixture->root, CONFIG_TOML, FILE_WITH("10", "warn"));
	restore_all(fixture);
	assert_file(&fixture->root, CONFIG_TOML, FILE_WITH("3", "warn"));
	assert_forgotten(fixture);
}

FIXTURE_TEST(a_link_is_followed_on_the_host)
{
	struct path link = directory_at(&fixture->root, CONFIG_TOML);
	struct stat st;

	directory_put(&fixture->root, "/etc/containerd/x", "");
	directory_link(&fixture->root, CONFIG_TOML, "/opt/real.toml");
	/* Nothing is created at the target of a dangling link. */
	change_downloads(fixture, "3", "10");
	assert_int_equal(run_job(fixture, FILE_APPLY), -ELOOP);
	assert_non_null(strstr(fixture->job.plan.changes[0].why, "symbolic link"));
	assert_no_file(&fixture->root, "/opt/real.toml");
	assert_forgotten(fixture);
	directory_put(&fixture->root, "/opt/real.toml", original);
	apply_downloads(fixture, "3", "10");
	assert_file(&fixture->root, "/opt/real.toml", FILE_WITH("10", "info"));
	assert_int_equal(lstat(link.text, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	restore_all(fixture);
	assert_file(&fixture->root, "/opt/real.toml", original);
}

/* test_runtime_faults.py of the root tests has broken files. */
FIXTURE_TEST(a_failed_edit_leaves_the_file_and_has_a_reason)
{
	const struct change *change;

	/* The file has the wanted value already, so that an edit has no effect. */
	directory_put(&fixture->root, DAEMON_JSON, "{\"max-concurrent-downloads\": 10}");
	change = change_docker(fixture, "", "10");
	assert_int_equal(run_job(fixture, FILE_APPLY), -ERANGE);
	assert_int_equal(change->reason, REASON_NOT_TAKEN);
	/* The original cannot be stored. */
	directory_put(&fixture->state, "/files", "not a directory");
	directory_put(&fixture->root, CONFIG_TOML, original);
	change = change_downloads(fixture, "3", "10");
	assert_true(run_job(fixture, FILE_APPLY) < 0);
	assert_int_equal(change->reason, REASON_NOT_RECORDED);
	assert_true(change->retry_us <= now_us() + FILE_RETRY_US);
	/* The file is broken: a retry soon would not help. */
	directory_put(&fixture->root, CONFIG_TOML, "[plugins");
	change = change_downloads(fixture, "3", "10");
	assert_true(run_job(fixture, FILE_APPLY) < 0);
	assert_int_equal(change->reason, REASON_VERIFY_REFUSED);
	assert_true(change->retry_us > now_us() + FILE_RETRY_US);
	directory_put(&fixture->root, CONFIG_TOML, original);
	/* The configuration changed while it was prepared. */
	directory_delete(&fixture->state, "/files");
	fixture->job.stale = true;
	change = change_downloads(fixture, "3", "10");
	assert_int_equal(run_job(fixture, FILE_APPLY), -ESTALE);
	assert_file(&fixture->root, CONFIG_TOML, original);
}

/* The record would not have their bytes. */
FIXTURE_TEST(a_file_of_ours_that_others_replaced_is_not_removed)
{
	static const char ours[] = "ours\n";
	struct change *change;

	change_hosts(fixture, "http://mirror", ours);
	assert_int_equal(run_job(fixture, FILE_APPLY), 0);
	assert_file(&fixture->root, HOSTS, ours);
	change = change_hosts(fixture, "none", NULL);
	hash_bytes(ours, strlen(ours), change->file->judged);
	directory_put(&fixture->root, HOSTS, "theirs\n");
	assert_int_equal(run_job(fixture, FILE_APPLY), -ESTALE);
	assert_file(&fixture->root, HOSTS, "theirs\n");
}

FIXTURE_TEST(stored_originals_are_verified_and_unused_ones_removed)
{
	_cleanup_free_ char *text = NULL;
	char name[16 + HASH_TEXT_MAX];

	directory_put(&fixture->root, CONFIG_TOML, original);
	apply_downloads(fixture, "3", "10");
	snprintf(name, sizeof(name), "/files/%s", fixture->job.journal->files[0].original);
	assert_file(&fixture->state, name, original);
	assert_int_equal(mode_of(&fixture->state, name), 0600); /* there may be secrets in it */
	directory_put(&fixture->state, "/files/0123", "unused");
	run_job(fixture, FILE_RESUME);
	assert_no_file(&fixture->state, "/files/0123");
	/* Damaged bytes are not restored: our key goes, and each restore reports it. */
	directory_put(&fixture->state, name, "altered");
	assert_int_equal(restore_all(fixture)->error, -EBADMSG);
	assert_non_null(strstr(fixture->job.plan.changes[0].why, "are lost"));
	assert_int_equal(restore_all(fixture)->error, -EBADMSG);
	text = directory_get(&fixture->root, CONFIG_TOML);
	assert_null(strstr(text, "max_concurrent_downloads"));
	assert_non_null(strstr(text, "sandbox_image"));
}

/* taken: the process gets the signal, so that the tuner waits longer for its effect. */
static void expect_reload(struct file_fixture *fixture, pid_t pid, bool taken)
{
	_cleanup_free_ char *text = NULL;
	struct change *change;

	must(asprintf(&text, "%d %d", pid, taken) < 0 ? NULL : text);
	change = change_hosts(fixture, text, text);
	change->file->activation = ACTIVATE_RELOAD;
	change->file->daemon = (struct daemon){.driver = "docker", .pid = pid};
	assert_int_equal(run_job(fixture, FILE_APPLY), 0);
	assert_int_equal(change->held, REASON_RELOAD_PENDING);
	assert_int_equal(change->retry_us > now_us() + FILE_RETRY_US, taken);
}

FIXTURE_TEST(a_reload_goes_to_the_named_program_alone)
{
	int status;
	pid_t child;

	for (int named = 0; named < 2; named++) {
		child = fork();
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			signal(SIGHUP, SIG_DFL);
			if (named)
				prctl(PR_SET_NAME, "dockerd");
			raise(SIGSTOP);
			pause();
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, WUNTRACED), child);
		kill(child, SIGCONT);
		expect_reload(fixture, child, named);
		if (!named)
			kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(WTERMSIG(status), named ? SIGHUP : SIGKILL);
	}
	expect_reload(fixture, child, false);
}
