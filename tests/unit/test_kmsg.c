/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/text.h"
#include "kernel/kmsg.h"

/* Opens a reader: any file will do, because the tests pass records themselves. */
static struct kmsg *open_reader(const struct directory *directory)
{
	struct kmsg *kmsg = NULL;

	directory_put(directory, "/dev/kmsg", "6,0,0,-;Linux version\n");
	assert_int_equal(kmsg_open(&directory->host, KMSG_ALL, 0, &kmsg), 0);
	return kmsg;
}

TEST(records_have_a_level_a_sequence_and_a_time)
{
	struct kmsg_record record;

	assert_true(kmsg_parse_record(
		"4,339,728736222,-,caller=T12;a;b\n SUBSYSTEM=block\n DEVICE=b8:0\n", &record));
	assert_int_equal(record.level, 4);
	assert_int_equal(record.sequence, 339);
	assert_int_equal(record.time_us, 728736222);
	assert_true(record.of_kernel);
	assert_string_equal(record.text, "a;b");
	assert_true(kmsg_parse_record("14,7,5,c;by a program\033[31m", &record));
	assert_false(record.of_kernel);
	assert_true(text_is_printable(record.text));
	assert_false(kmsg_parse_record("", &record));
	assert_false(kmsg_parse_record("6,1,2,- no text", &record));
	assert_false(kmsg_parse_record("x,1,2,-;text", &record));
}

TEST(lines_of_syslog_may_lack_the_time)
{
	static const struct {
		const char *line, *text;
		uint64_t time_us;
		bool of_kernel;
	} cases[] = {
		{"<6>[    1.200001] EXT4-fs (vda): mounted", "EXT4-fs (vda): mounted", 1200001,
			true},
		{"<3>[12345.678901][  T99] x: [y] z", "x: [y] z", 12345678901, true},
		{"<5>no time", "no time", 0, true},
		{"<30>[    0.000000] systemd[1]: hello", "systemd[1]: hello", 0, false},
	};
	struct kmsg_record record;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(kmsg_parse_line(cases[i].line, &record));
		assert_string_equal(record.text, cases[i].text);
		assert_int_equal(record.time_us, cases[i].time_us);
		assert_int_equal(record.of_kernel, cases[i].of_kernel);
	}
	assert_false(kmsg_parse_line("", &record));
	assert_false(kmsg_parse_line("text", &record));
}

DIRECTORY_TEST(faults_have_a_class_and_a_subject)
{
	static const struct {
		const char *text;
		enum kmsg_class class; /* KMSG_CLASSES: no fault */
		const char *subject;
		pid_t pid;
	} cases[] = {
		{"Out of memory: Killed process 4242 (java) total-vm:9kB, anon-rss:8kB", KMSG_OOM,
			"java", 4242},
		{"Memory cgroup out of memory: Killed process 7 (a) (b) total-vm:1kB", KMSG_OOM,
			"a) (b", 7},
		{"INFO: task kworker/u8:2:1234 blocked for more than 120 seconds.", KMSG_HUNG_TASK,
			"kworker/u8:2", 1234},
		{"INFO: task tar:9 blocked in I/O wait for more than 241 seconds.", KMSG_HUNG_TASK,
			"tar", 9},
		{"I/O error, dev sdb, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1 prio "
		 "class 2",
			KMSG_IO_ERROR, "sdb", 0},
		{"blk_update_request: critical medium error, dev nvme1n1, sector 8 op 0x1:(WRITE)",
			KMSG_IO_ERROR, "nvme1n1", 0},
		{"Buffer I/O error on dev dm-3, logical block 0, async page read", KMSG_IO_ERROR,
			"dm-3", 0},
		{"nvme nvme0: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 1 timeout, aborting",
			KMSG_IO_ERROR, "nvme0", 0},
		{"EXT4-fs error (device vdb1): ext4_lookup:1: inode #2: comm ls: bad",
			KMSG_IO_ERROR, "vdb1", 0},
		{"EXT4-fs (vdb1): Remounting filesystem read-only", KMSG_READ_ONLY, "vdb1", 0},
		{"XFS (dm-0): Filesystem has been shut down due to log error (0x2).",
			KMSG_READ_ONLY, "dm-0", 0},
		{"XFS (sdc1): metadata I/O error in \"xfs_da\" at daddr 0x40 len 8 error 5",
			KMSG_IO_ERROR, "sdc1", 0},
		{"BTRFS info (device sdd: state E): forced readonly", KMSG_READ_ONLY, "sdd", 0},
		{"BTRFS error (device sdd): bdev /dev/sdd errs: wr 1, rd 0", KMSG_IO_ERROR, "sdd",
			0},
		/* Ordinary life. */
		{"I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0", KMSG_CLASSES, "", 0},
		{"Buffer I/O error on dev sr0, logical block 0", KMSG_CLASSES, "", 0},
		{"critical target error, dev sda, sector 8 op 0x3:(DISCARD) flags 0x800",
			KMSG_CLASSES, "", 0},
		{"I/O error, dev sda, sector 8 op 0x9:(WRITE_ZEROES) flags 0x0", KMSG_CLASSES, "",
			0},
		{"EXT4-fs (sda1): re-mounted 1234 ro. Quota mode: none.", KMSG_CLASSES, "", 0},
		{"EXT4-fs (loop0): unmounting filesystem 1234.", KMSG_CLASSES, "", 0},
		{"XFS (sda1): User initiated shutdown received.", KMSG_CLASSES, "", 0},
		{"INFO: task tar:9 is fine", KMSG_CLASSES, "", 0},
		{"process_api (1): drop_caches: 10", KMSG_CLASSES, "", 0},
	};
	_cleanup_(cleanup_kmsg_close) struct kmsg *kmsg = open_reader(directory);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kmsg_record record = {.of_kernel = true};
		struct kmsg_fault fault;

		set_text(record.text, cases[i].text);
		print_message("%s\n", record.text);
		assert_int_equal(
			kmsg_classify(kmsg, &record, &fault), cases[i].class != KMSG_CLASSES);
		if (cases[i].class == KMSG_CLASSES)
			continue;
		assert_int_equal(fault.class, cases[i].class);
		assert_string_equal(fault.subject, cases[i].subject);
		assert_int_equal(fault.pid, cases[i].pid);
		record.of_kernel = false; /* anyone may write that */
		assert_false(kmsg_classify(kmsg, &record, &fault));
	}
}

DIRECTORY_TEST(a_new_mount_ends_the_faults_of_a_file_system)
{
	static const char *const lines[] = {
		"EXT4-fs (dm-0): mounted filesystem 12-34 r/w with ordered data mode.",
		"EXT4-fs (dm-0): mounted filesystem with ordered data mode. Opts: (null)",
		"EXT4-fs (dm-0): re-mounted 12-34 r/w. Quota mode: none.",
		"XFS (dm-0): Ending clean mount",
		"XFS (dm-0): Ending recovery (logdev: internal)",
		"BTRFS info (device dm-0): first mount of filesystem 12-34",
		"F2FS-fs (dm-0): Mounted with checkpoint version = 5",
	};
	_cleanup_(cleanup_kmsg_close) struct kmsg *kmsg = open_reader(directory);

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct kmsg_record record = {.of_kernel = true};
		struct kmsg_fault fault;

		set_text(record.text, lines[i]);
		print_message("%s\n", record.text);
		assert_true(kmsg_classify(kmsg, &record, &fault));
		assert_true(fault.is_over);
		assert_int_equal(fault.class, KMSG_READ_ONLY);
		assert_string_equal(fault.subject, "dm-0");
	}
}

DIRECTORY_TEST(a_kill_has_the_cgroup_that_was_full)
{
	static const char *const before[] = {"memory: usage 20480kB, limit 20480kB, failcnt 45",
		"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
		"oom_memcg=/a/b,task_memcg=/a/b/c,task=x,y=1,pid=12,uid=0"};
	_cleanup_(cleanup_kmsg_close) struct kmsg *kmsg = open_reader(directory);
	struct kmsg_record record = {.of_kernel = true};
	struct kmsg_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		set_text(record.text, before[i]);
		assert_false(kmsg_classify(kmsg, &record, &fault));
	}
	set_text(record.text, "Memory cgroup out of memory: Killed process 12 (x) total-vm:1kB");
	assert_true(kmsg_classify(kmsg, &record, &fault));
	assert_true(fault.in_cgroup);
	assert_string_equal(fault.full, "/a/b");
	assert_string_equal(fault.cgroup, "/a/b/c");
	assert_int_equal(fault.limit, 20480 * 1024);
	/* Details of another process do not count. */
	set_text(record.text, "Memory cgroup out of memory: Killed process 13 (x) total-vm:1kB");
	assert_true(kmsg_classify(kmsg, &record, &fault));
	assert_string_equal(fault.full, "");
	set_text(record.text, "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,"
			      "mems_allowed=0,global_oom,task_memcg=/d,task=x,pid=14,uid=0");
	assert_false(kmsg_classify(kmsg, &record, &fault));
	set_text(record.text, "Out of memory: Killed process 14 (x) total-vm:1kB");
	assert_true(kmsg_classify(kmsg, &record, &fault));
	assert_false(fault.in_cgroup);
	assert_string_equal(fault.cgroup, "/d");
	assert_int_equal(fault.limit, 0);
}

DIRECTORY_TEST(the_rate_leaves_the_rest_for_the_next_second)
{
	_cleanup_(cleanup_kmsg_close) struct kmsg *kmsg = NULL;
	char path[PATH_MAX];
	struct kmsg_record record;
	uint64_t second = 5 * USEC_PER_SEC;

	/* A socket for packets has one record for each read, as the device. */
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	directory_put(directory, "/dev/kmsg", "");
	assert_int_equal(kmsg_open(&directory->host, 41, 2, &kmsg), 0);
	assert_int_equal(dup2(fds[0], kmsg_fd(kmsg)), kmsg_fd(kmsg));
	for (int i = 40; i < 47; i++) {
		if (i == 44)
			continue; /* overwritten */
		snprintf(path, sizeof(path), "6,%d,%d,-;line %d\n", i, i, i);
		assert_int_equal(send(fds[1], path, strlen(path), 0), strlen(path));
	}
	assert_int_equal(kmsg_next(kmsg, second, &record), 1);
	assert_int_equal(record.sequence, 42);
	assert_int_equal(kmsg_next(kmsg, second + 1, &record), 1);
	assert_int_equal(kmsg_next(kmsg, second + 2, &record), 0);
	assert_int_equal(kmsg_lost(kmsg), 0);
	assert_int_equal(kmsg_next(kmsg, second + USEC_PER_SEC, &record), 1);
	assert_int_equal(record.sequence, 45);
	assert_int_equal(kmsg_lost(kmsg), 1);
	assert_int_equal(kmsg_next(kmsg, second + USEC_PER_SEC, &record), 1);
	assert_int_equal(kmsg_next(kmsg, second + 2 * USEC_PER_SEC, &record), 0);
	close(fds[0]);
	close(fds[1]);
}
