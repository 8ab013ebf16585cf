/* SPDX-License-Identifier: Apache-2.0 */
#include "file_fixture.h"

#include <sys/xattr.h>

#define bytes_of(text) ((struct file_bytes){.bytes = (char *)(text), .len = strlen(text)})

static struct file_bytes read_config(const struct file_fixture *fixture)
{
	struct file_bytes file;

	assert_int_equal(file_read(&fixture->job.host, CONFIG_TOML, &file), 0);
	return file;
}

FIXTURE_TEST(a_file_that_others_created_meanwhile_stays)
{
	const struct file_bytes old = read_config(fixture);

	directory_put(&fixture->root, CONFIG_TOML, "theirs");
	assert_int_equal(file_put(&old, &bytes_of("a")), -ESTALE);
	assert_file(&fixture->root, CONFIG_TOML, "theirs");
	assert_null(directory_get(&fixture->root, CONFIG_TOML FILE_NEW));
}

/* The directory is missing: neither the trial file nor its name in the state directory stays. */
FIXTURE_TEST(a_trial_that_cannot_be_written_leaves_nothing)
{
	char path[PATH_MAX];
	struct file_bytes real = read_config(fixture);

	directory_path(&fixture->root, "/nowhere", real.directory);
	assert_int_equal(file_put_trial(fixture->job.journal->dir, TRIAL, &fixture->job.host, &real,
				 &bytes_of("a"), path),
		-ENOENT);
	assert_int_equal(rmdir(directory_at(&fixture->state, "/files").text), 0); /* it is empty */
}

/* The default ACL of the directory: u::rwx u:1234:rwx g::r-x m::rwx o::---. */
static const unsigned char default_acl[] = {2, 0, 0, 0,                          /* version */
	1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 7, 0, 0xd2, 4, 0, 0,           /* owner, 1234 */
	4, 0, 5, 0, 0xff, 0xff, 0xff, 0xff, 16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, /* group, mask */
	32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};

FIXTURE_TEST(a_replaced_file_keeps_exactly_its_metadata)
{
	struct file_bytes old;
	char value[256];
	struct stat st;
	bool acl, attributes;

	directory_put(&fixture->root, CONFIG_TOML, "password");
	old = read_config(fixture);
	file_bytes_clear(&old);
	acl = setxattr(old.directory, "system.posix_acl_default", default_acl, sizeof(default_acl),
		      0) == 0;
	if (geteuid() == 0 && setxattr(old.full, "security.ima", "\4x", 2, 0) < 0)
		print_message("without security attributes\n");
	attributes = setxattr(old.full, "user.note", "ours", 4, 0) == 0;
	assert_int_equal(chmod(old.full, 04640), 0);
	assert_int_equal(file_put(&old, &bytes_of("passwort")), 0);
	if (attributes)
		assert_int_equal(getxattr(old.full, "user.note", value, sizeof(value)), 4);
	else
		print_message("without user attributes\n");
	assert_int_equal(stat(old.full, &st), 0);
	assert_int_equal(st.st_mode & 07777, 04640);
	assert_true(getxattr(old.full, "security.ima", value, sizeof(value)) < 0);
	if (acl)
		assert_true(
			getxattr(old.full, "system.posix_acl_access", value, sizeof(value)) < 0);
	else
		print_message("without ACLs\n");
}
