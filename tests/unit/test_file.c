/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

DIRECTORY_TEST(bytes_are_read_unchanged_up_to_a_limit)
{
	static const size_t lengths[] = {0, 1, 3, 10000};
	struct path f = directory_at(directory, "/f");
	char data[10000] = "a\0b";

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		_cleanup_free_ char *text = NULL;
		char *untouched = NULL;
		size_t len = 1;

		directory_put_bytes(directory, "/f", data, lengths[i]);
		assert_int_equal(read_file(f.text, lengths[i], &text, &len), 0);
		assert_int_equal(len, lengths[i]);
		assert_memory_equal(text, data, len);
		assert_int_equal(text[len], '\0');
		if (len > 0)
			assert_int_equal(read_file(f.text, len - 1, &untouched, NULL), -EFBIG);
		assert_null(untouched);
	}
}

DIRECTORY_TEST(only_regular_files_are_read)
{
	_cleanup_free_ char *status = NULL;
	struct path fifo = directory_at(directory, "/fifo");
	char *text = NULL;

	assert_int_equal(read_file(fifo.text, 100, &text, NULL), -ENOENT);
	assert_int_equal(mkfifo(fifo.text, 0600), 0);
	assert_int_equal(read_file(fifo.text, 100, &text, NULL), -EINVAL);
	assert_int_equal(read_file(directory->path, 100, &text, NULL), -EISDIR);
	assert_int_equal(read_file("/dev/zero", 100, &text, NULL), -EINVAL);
	assert_null(text);
	/* The files of procfs have size 0. */
	assert_int_equal(read_file("/proc/self/status", 65536, &status, NULL), 0);
	assert_true(starts_with(status, "Name:"));
}

DIRECTORY_TEST(a_file_is_replaced_atomically_or_kept)
{
	_cleanup_close_ int dir = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int kept = -1;
	char old[8] = "", name[NAME_MAX + 1] = "";

	assert_int_equal(replace_file(dir, "f", "old", 3, true), 0);
	assert_file(directory, "/f", "old");
	kept = open(directory_at(directory, "/f").text, O_RDONLY | O_CLOEXEC);
	directory_put(directory, "/f.new", "of a killed writer");
	assert_int_equal(replace_file(dir, "f", "new", 3, true), 0);
	assert_file(directory, "/f", "new");
	/* A process that has the old file open still reads it. */
	assert_int_equal(read(kept, old, sizeof(old)), 3);
	assert_string_equal(old, "old");
	assert_null(directory_get(directory, "/f.new"));

	memset(name, 'x', NAME_MAX);
	assert_int_equal(replace_file(dir, name, "new", 3, true), -ENAMETOOLONG);
	assert_int_equal(replace_file(-1, "f", "new", 3, true), -EBADF);
	/* A directory cannot be replaced, and the new file is removed. */
	directory_put(directory, "/g/inside", "old");
	assert_int_equal(replace_file(dir, "g", "new", 3, true), -EISDIR);
	assert_file(directory, "/g/inside", "old");
	assert_int_equal(access(directory_at(directory, "/g.new").text, F_OK), -1);
	/* The writer does not follow links. */
	directory_put(directory, "/precious", "precious");
	directory_link(directory, "/f.new", directory_at(directory, "/precious").text);
	assert_int_equal(replace_file(dir, "f", "new", 3, true), -ELOOP);
	assert_file(directory, "/precious", "precious");
}

DIRECTORY_TEST(links_are_resolved_below_the_root)
{
	/* ".." does not lead out of the root. */
	static const char *const names[] = {
		"/opt/file", "/link/file", "/../../link/../opt/file", "/relative"};
	const char *root = directory->path;
	char full[PATH_MAX] = "as it was";

	directory_put(directory, "/opt/file", "");
	directory_link(directory, "/link", "/opt");
	directory_link(directory, "/relative", "../../opt/file");
	directory_link(directory, "/out", "/etc/passwd");
	assert_int_equal(path_in_root(root, "/none", full), -ENOENT);
	assert_int_equal(path_in_root(root, "/out", full), -ENOENT);
	assert_int_equal(path_in_root("", "/none-of-this-name", full), -ENOENT);
	assert_string_equal(full, "as it was");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(path_in_root(root, names[i], full), 0);
		assert_string_equal(full, directory_at(directory, "/opt/file").text);
	}
	assert_int_equal(path_in_root("", directory_at(directory, "/opt/file").text, full), 0);
	assert_string_equal(full, directory_at(directory, "/opt/file").text);
}

/* A container uses /proc/PID/root for the root of the host. Names of the kernel lack this prefix.
 */
TEST(paths_are_cleaned_below_their_root)
{
	static const struct {
		const char *path, *clean;
		bool inside;
	} cases[] = {{"/a/b", "/a/b", true}, {"//a/./b/", "/a/b", true}, {"/a/../b", "/b", true},
		{"/a/..", "/", true}, {"/", "/", true}, {"/../a", "/a", false},
		{"/a/../../b", "/b", false}, {"/..a/...", "/..a/...", true}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char path[32];

		strcpy(path, cases[i].path);
		assert_int_equal(path_clean(path), cases[i].inside);
		assert_string_equal(path, cases[i].clean);
	}
}

TEST(the_root_of_another_mount_namespace_keeps_its_prefix)
{
	char root[64], full[PATH_MAX], expected[PATH_MAX];
	struct stat st;
	int fds[2];
	pid_t pid;
	char ready;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		bool made = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && unshare(CLONE_NEWNS) == 0 &&
			    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			    mount("none", "/srv", "tmpfs", 0, NULL) == 0 &&
			    close(open("/srv/theirs", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0;

		(void)!write(fds[1], made ? "y" : "n", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(fds[0], &ready, 1), 1);
	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	snprintf(expected, sizeof(expected), "%s/srv/theirs", root);
	/* In a chroot the kernel adds the prefix of the chroot. */
	if (ready == 'y' && readlink(root, full, sizeof(full)) == 1) {
		assert_int_equal(stat(expected, &st), 0);
		assert_int_equal(path_in_root(root, "/srv/theirs", full), 0);
		assert_string_equal(full, expected);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
}

/* RestrictSUIDSGID=yes makes openat2() fail with ENOSYS. Opens files below two roots. */
static int open_without_openat2(const char *own, const char *other)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};
	char full[PATH_MAX];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return 2;
	if (locate_in_root("", own, 0, full) < 0 || !streq(full, own))
		return 3;
	if (locate_in_root("", "/none-of-this-name", 0, full) != -ENOENT)
		return 4;
	/* A link could lead out of another root. */
	return locate_in_root(other, "/opt/file", 0, full) == -ENOSYS ? 0 : 5;
}

DIRECTORY_TEST(the_own_root_does_not_need_openat2)
{
	char real[PATH_MAX];
	int status;
	pid_t pid;

	directory_put(directory, "/opt/file", "");
	assert_non_null(realpath(directory_at(directory, "/opt/file").text, real));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(open_without_openat2(real, directory->path));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

DIRECTORY_TEST(missing_directories_are_made)
{
	struct path made = directory_at(directory, "/a/b//c/");
	struct stat st;

	assert_int_equal(make_directories(made.text, 0700), 0);
	assert_int_equal(make_directories(made.text, 0700), 0);
	assert_int_equal(stat(made.text, &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	directory_put(directory, "/file", "");
	assert_int_equal(make_directories(directory_at(directory, "/file/d").text, 0700), -ENOTDIR);
	assert_int_equal(make_directories("", 0700), -ENOENT);
}
