/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "workload/cgroups.h"
#include "workload/names.h"

#define POD \
	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_1111_2222_333344445555.slice"
#define UID "1b2c3d4e-0000-1111-2222-333344445555"

/* A directory in place of a cgroup: it has an inode too, which is returned. */
static uint64_t make_cgroup(const struct directory *directory, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	directory_path(directory, path, full);
	assert_int_equal(make_directories(full, 0755), 0);
	assert_int_equal(stat(full, &st), 0);
	return st.st_ino;
}

static struct cgroups *open_below(const struct directory *directory, const struct host *host)
{
	struct cgroups *cgroups =
		cgroups_open(host, open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	assert_non_null(cgroups);
	return cgroups;
}

TEST(a_cgroup_is_a_workload)
{
	static const struct {
		const char *path;
		enum workload_kind kind;
		const char *name;
	} table[] = {
		{POD "/cri-containerd-aa.scope", WORKLOAD_POD, UID},
		{"/system.slice/ssh.service", WORKLOAD_UNIT, "ssh.service"},
		{"/user.slice/user-0.slice/session-3.scope", WORKLOAD_UNIT, "session-3.scope"},
		{"/lxc.payload.web/init.scope", WORKLOAD_LXD, "web"},
		{"/made/by/hand", WORKLOAD_UNIT, "/made/by/hand"},
	};
	_cleanup_directory_ struct directory directory = {0};
	_cleanup_(cleanup_cgroups_close) struct cgroups *cgroups = NULL;
	uint64_t inodes[ARRAY_SIZE(table)];
	struct host host = {0};

	directory_make(&directory);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		inodes[i] = make_cgroup(&directory, table[i].path);
	cgroups = open_below(&directory, &host);
	assert_int_equal(cgroups_find(cgroups, inodes[0]).kind, WORKLOAD_UNIT);
	cgroups_learn(cgroups, inodes, ARRAY_SIZE(table), 1000);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct workload workload = cgroups_find(cgroups, inodes[i]);

		assert_int_equal(workload.kind, table[i].kind);
		assert_string_equal(workload.name, table[i].name);
	}
}

TEST(a_runtime_provides_the_pods_name)
{
	_cleanup_directory_ struct directory directory = {0};
	_cleanup_(cleanup_cgroups_close) struct cgroups *cgroups = NULL;
	_cleanup_(cleanup_names_close) struct names *names = names_open();
	struct name_entry *entry = calloc(1, sizeof(*entry));
	struct host host = {.names = names};
	uint64_t inode;

	assert_non_null(entry);
	directory_make(&directory);
	inode = make_cgroup(&directory, POD);
	entry->workload = (struct workload){WORKLOAD_POD, "shop", "cart-7", UID};
	assert_int_equal(names_replace(names, "test", entry, 1), 0);
	cgroups = open_below(&directory, &host);
	cgroups_learn(cgroups, &inode, 1, 1000);
	assert_string_equal(cgroups_find(cgroups, inode).name, "cart-7");
	assert_string_equal(cgroups_find(cgroups, inode).namespace, "shop");
}

TEST(a_cgroup_that_comes_later_is_found)
{
	_cleanup_directory_ struct directory directory = {0};
	_cleanup_(cleanup_cgroups_close) struct cgroups *cgroups = NULL;
	uint64_t gone = 123456789, later, wanted[3];
	struct host host = {0};

	directory_make(&directory);
	cgroups = open_below(&directory, &host);
	for (uint64_t now = 1; now < 20; now++)
		cgroups_learn(cgroups, &gone, 1, now * 100 * USEC_PER_SEC);
	assert_string_equal(cgroups_find(cgroups, gone).name, "cgroup 123456789");
	later = make_cgroup(&directory, "/system.slice/later.service");
	wanted[0] = wanted[1] = later; /* wanted twice, known once */
	wanted[2] = gone;
	cgroups_learn(cgroups, wanted, 3, 3000 * USEC_PER_SEC);
	assert_string_equal(cgroups_find(cgroups, later).name, "later.service");
}

static void put_stat(const struct directory *directory, unsigned start)
{
	char text[128];

	snprintf(text, sizeof(text),
		"77 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 %u 23", start);
	directory_put(directory, "/proc/77/stat", text);
}

TEST(a_process_counts_until_its_pid_is_reused)
{
	_cleanup_directory_ struct directory directory = {0};
	_cleanup_(cleanup_cgroups_close) struct cgroups *cgroups = NULL;
	struct host host;
	uint64_t inode;

	directory_make(&directory);
	assert_true(host_init(&host, directory.path));
	inode = make_cgroup(&directory, POD);
	directory_put(&directory, POD "/cgroup.procs", "77\n78\n");
	put_stat(&directory, 300);
	cgroups = open_below(&directory, &host);
	assert_int_equal(cgroups_process(cgroups, inode), 0);
	cgroups_learn(cgroups, &inode, 1, USEC_PER_SEC);
	assert_int_equal(cgroups_process(cgroups, inode), 77);
	put_stat(&directory, 400);
	assert_int_equal(cgroups_process(cgroups, inode), 0);
}
