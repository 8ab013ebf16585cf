/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "tuners/storage/storage.h"

#include <math.h>

/* At this time slice 40 is the newest, second 1229 the present one. */
#define NOW_US (UINT64_C(1229) * USEC_PER_SEC)

TEST(a_latency_at_a_bound_belongs_below_it)
{
	assert_int_equal(storage_bucket(0), 0);
	for (__u32 i = 0; i < STORAGE_BUCKETS - 1; i++) {
		assert_int_equal(storage_bucket(storage_bounds[i]), i);
		assert_int_equal(storage_bucket(storage_bounds[i] + 1), i + 1);
	}
	assert_int_equal(storage_bucket(UINT64_MAX), STORAGE_BUCKETS - 1);
}

TEST(percentiles_of_five_minutes_lie_within_their_bucket)
{
	struct storage_window window = {.slice = NOW_US / STORAGE_SLICE_US};
	struct storage_summary summary = {0};

	/* 98 syncs of 0.5 to 1 ms, two of 20 to 50 ms, in the oldest and the newest slice. */
	window.slices[(window.slice - (STORAGE_SLICES - 1)) % STORAGE_SLICES][3] = 98;
	window.slices[window.slice % STORAGE_SLICES][8] = 2;
	window.took_us[window.slice % STORAGE_SLICES] = 60000;
	storage_summarize(&window, NOW_US, &summary);
	assert_int_equal(summary.syncs, 100);
	assert_int_equal(summary.took_us, 60000);
	assert_true(fabs(summary.p50 - (0.0005 + 0.0005 * 50 / 98)) < 1e-9);
	assert_true(fabs(summary.p99 - (0.020 + 0.030 / 2)) < 1e-9);
	/* Half a minute later the first slice is too old. */
	summary = (struct storage_summary){0};
	storage_summarize(&window, NOW_US + STORAGE_SLICE_US, &summary);
	assert_int_equal(summary.syncs, 2);
	summary = (struct storage_summary){0};
	storage_summarize(&window, NOW_US + STORAGE_SLICES * STORAGE_SLICE_US, &summary);
	assert_int_equal(summary.syncs, 0);
	assert_true(summary.p99 == 0);
}

TEST(the_longest_sync_is_of_the_same_minutes_as_p99_and_no_shorter)
{
	struct storage_window window = {.slice = NOW_US / STORAGE_SLICE_US};
	struct storage_summary summary = {0};

	window.seconds[0] = (struct storage_second){1229, 10, 700};
	window.seconds[1] = (struct storage_second){1170, 90, 300};   /* 59 s ago */
	window.seconds[2] = (struct storage_second){1169, 500, 9000}; /* 60 s ago */
	storage_summarize(&window, NOW_US, &summary);
	assert_int_equal(summary.busiest, 90);
	assert_int_equal(summary.recent_us, 700);
	/* All are in a bucket that reaches to 50 ms. */
	window.slices[NOW_US / STORAGE_SLICE_US % STORAGE_SLICES][5] = 100;
	window.worst_us[NOW_US / STORAGE_SLICE_US % STORAGE_SLICES] = 9000;
	summary = (struct storage_summary){0};
	storage_summarize(&window, NOW_US, &summary);
	assert_int_equal(summary.worst_us, 9000);
	assert_true(summary.p99 <= 0.009);
}

TEST(the_workload_with_most_of_the_queue_is_named_over_all_disks_below)
{
	static struct storage storage;
	static struct storage_window window = {.slice = NOW_US / STORAGE_SLICE_US};
	static struct storage_device device = {.number = 9,
		.disk = {.name = "md0", .below = {1, 2}, .n_below = 2, .exists = true}};
	static struct storage_sync_row sync = {
		.key = {.cgroup = 7, .device = 9, .process = "etcd"}, .window = &window};
	static struct storage_io_row ios[] = {
		{.key = {.cgroup = 7, .disk = 1}, .queue_rate = 0.3},
		{.key = {.cgroup = 1, .disk = 1}, .queue_rate = 0.2, .rate = {0, 1e6}},
		{.key = {.cgroup = 1, .disk = 2}, .queue_rate = 0.2, .rate = {0, 2e6}},
		{.key = {.cgroup = 8, .disk = 3}, .queue_rate = 9}, /* not below md0 */
	};
	static struct host host;
	struct facts facts = {.cgroups = cgroups_open(&host, NULL)};

	window.slices[window.slice % STORAGE_SLICES][11] = 100;
	snprintf(device.point, sizeof(device.point), "/var/lib/etcd");
	sync.last.database = 4096;
	sync.last.pid = 12;
	storage = (struct storage){.host = &host,
		.facts = &facts,
		.attributed = true,
		.devices = &device,
		.n_devices = 1,
		.ios = ios,
		.n_ios = ARRAY_SIZE(ios),
		.syncs = &sync,
		.n_syncs = 1};
	storage_processes_list(&storage, NOW_US);
	assert_int_equal(storage.n_seen, 1);
	assert_string_equal(storage.seen[0].holders[0].workload.name, "host");
	assert_true(fabs(storage.seen[0].holders[0].share - 4.0 / 7) < 1e-9);
	assert_true(fabs(storage.seen[0].holders[0].rate - 3e6) < 1);
	/* The tuner passes these on. */
	assert_string_equal(facts.disks.synced[0].path, "/var/lib/etcd");
	assert_int_equal(facts.disks.databases[0].pid, 12);
	storage_processes_list(&storage, NOW_US);
	assert_int_equal(facts.disks.n_synced, 1);
	assert_int_equal(facts.disks.n_databases, 1);
	cgroups_close(facts.cgroups);
}

TEST(without_bpf_the_tuner_says_why)
{
	_cleanup_free_ struct storage *storage = must(calloc(1, sizeof(*storage)));
	_cleanup_free_ struct proposal *proposal = must(calloc(1, sizeof(*proposal)));

	set_text(storage->why, "BPF: not permitted");
	storage_decide(storage, &(struct decide_input){0}, NULL, proposal);
	assert_string_equal(proposal->why, "BPF: not permitted");
	proposal_clear(proposal);
}
