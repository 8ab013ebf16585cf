/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/file.h"

#include <sys/xattr.h>

#define PATH "/etc/containerd/config.toml"

#define bytes_of(text) ((struct file_bytes){.bytes = (char *)(text), .len = strlen(text)})

struct bench {
	struct directory root, state_directory;
	struct host host;
	int state;
	struct file_at at;
};

static void bench_make(struct bench *bench)
{
	*bench = (struct bench){0};
	directory_make(&bench->root);
	directory_make(&bench->state_directory);
	assert_true(host_init(&bench->host, bench->root.path));
	bench->state = open(bench->state_directory.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(bench->state >= 0);
	directory_put(&bench->root, "/etc/passwd", "");
	assert_int_equal(file_locate(&bench->host, PATH, &bench->at), 0);
}

static void bench_clear(struct bench *bench)
{
	close(bench->state);
	directory_remove(&bench->root);
	directory_remove(&bench->state_directory);
}

#define BENCH_TEST(name) TEST_OF(bench, bench, bench_make, bench_clear, name)

/* Whatever the umask: others read what lies beside ours. */
BENCH_TEST(a_new_file_has_directories_made_for_it)
{
	struct stat st;
	mode_t mask = umask(0077);

	assert_int_equal(bench->at.missing, 1);
	assert_int_equal(file_put(&bench->at, FILE_HASH_NONE, &bytes_of("a")), 0);
	umask(mask);
	assert_file(&bench->root, PATH, "a");
	assert_int_equal(stat(bench->at.full, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	*strrchr(bench->at.full, '/') = '\0';
	assert_int_equal(stat(bench->at.full, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
}

BENCH_TEST(what_somebody_made_meanwhile_stays)
{
	directory_put(&bench->root, PATH, "theirs");
	assert_int_equal(file_put(&bench->at, FILE_HASH_NONE, &bytes_of("a")), -ESTALE);
	assert_file(&bench->root, PATH, "theirs");
	assert_null(directory_get(&bench->root, PATH FILE_NEW));
}

/* A full disk, a directory that went: neither the trial nor the name that it is swept by. */
BENCH_TEST(a_trial_that_cannot_be_written_leaves_nothing)
{
	char path[PATH_MAX], kept[PATH_MAX];

	directory_path(&bench->root, "/nowhere", bench->at.directory);
	assert_int_equal(
		file_put_trial(bench->state, TRIAL, &bench->at, &bytes_of("a"), path), -ENOENT);
	directory_path(&bench->state_directory, "/files", kept);
	assert_int_equal(rmdir(kept), 0); /* it is empty */
}

BENCH_TEST(what_is_kept_is_for_root_alone)
{
	struct file_bytes secret = bytes_of("secret"), recalled;
	char name[16 + HASH_TEXT_MAX], full[PATH_MAX];
	struct stat st;

	hash_bytes("secret", 6, secret.hash);
	for (int i = 0; i < 2; i++)
		assert_int_equal(file_keep(bench->state, &secret), 0);
	snprintf(name, sizeof(name), "/files/%s", secret.hash);
	directory_path(&bench->state_directory, name, full);
	assert_int_equal(stat(full, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(file_recall(bench->state, secret.hash, &recalled), 0);
	assert_string_equal(recalled.bytes, "secret");
	file_bytes_clear(&recalled);
	/* Altered, they are not given out, and kept afresh. */
	directory_put(&bench->state_directory, name, "secres");
	assert_int_equal(file_recall(bench->state, secret.hash, &recalled), -EBADMSG);
	assert_int_equal(file_keep(bench->state, &secret), 0);
	assert_file(&bench->state_directory, name, "secret");
}

/* A default ACL of the directory: u::rwx u:1234:rwx g::r-x m::rwx o::---. */
static const unsigned char default_acl[] = {2, 0, 0, 0,                          /* version */
	1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 7, 0, 0xd2, 4, 0, 0,           /* owner, 1234 */
	4, 0, 5, 0, 0xff, 0xff, 0xff, 0xff, 16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, /* group, mask */
	32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};

BENCH_TEST(a_replaced_file_keeps_its_metadata_and_takes_no_other)
{
	struct file_bytes old;
	char value[256];
	struct stat st;
	bool acl;

	directory_put(&bench->root, PATH, "password");
	assert_int_equal(file_locate(&bench->host, PATH, &bench->at), 0);
	acl = setxattr(bench->at.directory, "system.posix_acl_default", default_acl,
		      sizeof(default_acl), 0) == 0;
	if (geteuid() == 0 && setxattr(bench->at.full, "security.ima", "\4x", 2, 0) < 0)
		print_message("without security attributes\n");
	assert_int_equal(chmod(bench->at.full, 04640), 0);
	assert_int_equal(file_take(&bench->at, &old), 0);
	assert_int_equal(file_put(&bench->at, old.hash, &bytes_of("passwort")), 0);
	assert_int_equal(stat(bench->at.full, &st), 0);
	assert_int_equal(st.st_mode & 07777, 04640);
	assert_true(getxattr(bench->at.full, "security.ima", value, sizeof(value)) < 0);
	if (acl)
		assert_true(getxattr(bench->at.full, "system.posix_acl_access", value,
				    sizeof(value)) < 0);
	else
		print_message("without ACLs\n");
	file_bytes_clear(&old);
}
