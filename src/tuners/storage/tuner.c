/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"
#include "tuners/table.h"

#include "kernel/bpf.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <linux/capability.h>

#include "storage.skel.h"

static const char *check_process(const char *text)
{
	return strchr(text, '/')
		       ? "is a path: write the name of the process, as ps -o comm shows it"
		       : NULL;
}

static const struct config_option process_items[] = {{.name = "",
							     .type = OPTION_TEXT,
							     .min = 1,
							     .max = STORAGE_NAME_MAX - 1,
							     .check = check_process,
							     .pattern = "^[^/]+$",
							     .help = "The name of a process."},
	{0}};

const struct config_option storage_options[] = {
	MODE_OPTION("storage"),
	{"storage.processes", OPTION_LIST, .max = STORAGE_PROCESSES_MAX, .items = process_items,
		.def = "[etcd, k3s-server, k8s-dqlite, lxd]",
		.help = "Names of processes that wait for their disk: they have a latency of their "
			"own, and StorageSlow and StorageUnsuited are about them. A name has at "
			"most 15 characters, as ps -o comm shows it."},
	{"storage.sync_p99", OPTION_DURATION, .min = 1000, .max = 5 * USEC_PER_SEC, .def = "10ms",
		.help = "StorageSlow is True if one in a hundred syncs of a listed process takes "
			"longer. etcd asks for 10 ms. While such a process on the disk of the images is "
			"slower than this now, no pull of images.pull begins and the load of an archive "
			"pauses, for ten minutes at most in all."},
	{"storage.bound_writeback", OPTION_BOOL, .def = "false",
		.help = "Set vm.dirty_bytes to 16 MiB and vm.dirty_background_bytes to 8 MiB, with "
			"the records and the mode of the tuner sysctl, unless the section sysctl has "
			"them. Beside a buffered writer on a cloud volume of 60 MB/s, this lowered the "
			"p99 of etcd's syncs from 3.6 s to 0.4 s; a limit for the writer (io.max) "
			"lowered it to 51 ms. All programs then write less at once, so other work may "
			"be slower."},
	{0},
};

const struct condition_type storage_conditions[] = {
	[STORAGE_SLOW] = {"StorageSlow", SEVERITY_CRITICAL,
		"The disk is too slow for a process that waits for its syncs, such as etcd. In five "
		"minutes with at least 100 syncs, p99 was above storage.sync_p99 (advice) or 100 ms, "
		"etcd's heartbeat (warning), or a sync took over 1 s, its election timeout "
		"(critical). A process that starves syncs seldom: it is slow, too, if it spent half of "
		"the last 30 s in syncs that took longer than storage.sync_p99 on average. A sync that "
		"has not ended counts. The message names who holds the disk's queue.",
		REASON_LIST(REASON_SYNCS_FAST, REASON_SYNCS_SLOW, REASON_SYNCS_OVER_ELECTION,
			REASON_SYNCS_UNKNOWN)},
	[STORAGE_UNSUITED] = {"StorageUnsuited", SEVERITY_ADVICE,
		"A process that waits for its syncs, such as etcd, or the images of a container "
		"runtime are on a network disk, a network file system, a loop device, an overlay "
		"or a rotating disk. A local SSD is many times faster.",
		REASON_LIST(REASON_DISKS_SUITED, REASON_DISK_UNSUITED, REASON_IMAGES_UNSUITED,
			REASON_SYNCS_UNKNOWN)},
	{0},
};

static const struct metric_row metric_rows[] = {
	{"headroom_storage_sync_latency_seconds", METRIC_HISTOGRAM, "seconds",
		"Time of fsync, fdatasync and the like, by the disk of the file system. Process other "
		"is the sum of all processes that storage.processes does not list, and of kernel "
		"workers that sync for an unknown process (libaio).",
		{"device", "process"}},
	{"headroom_storage_io_bytes_total", METRIC_COUNTER, "bytes",
		"Bytes of completed requests, as the disk sees them. Idle disks are left out; "
		"device other is the sum of all but eight.",
		{"device", "direction"}},
	{"headroom_storage_queue_seconds_total", METRIC_COUNTER, "seconds",
		"Sum of the times that requests waited, from their start to their completion.",
		{"device"}},
	{"headroom_storage_device_info", METRIC_GAUGE, NULL,
		"The kind of the disk: network, local, loop, rotating, overlay or unknown.",
		{"device", "kind", "model", "scheduler"}},
	{"headroom_storage_lost_total", METRIC_COUNTER, NULL,
		"Requests and syncs that were not counted because a table was full.", {"what"}},
	{0},
};

static const struct capability_row capabilities[] = {
	{CAPABILITY(CAP_BPF), CAPABILITY_TO_RUN, NULL,
		"loads the programs that count requests and syncs, and reads their counters"},
	{CAPABILITY(CAP_PERFMON), CAPABILITY_TO_OPEN, NULL,
		"attaches these programs to the kernel"},
	{0},
};

static void *storage_open(const struct host *host, struct facts *facts, struct sd_event *)
{
	struct storage *storage = must(calloc(1, sizeof(*storage)));

	storage->host = host;
	storage->facts = facts;
	for (size_t i = 0; i < STORAGE_LABELS + 1; i++)
		storage->labels[i].disk.kind = STORAGE_UNKNOWN;
	return storage;
}

/* The kernel compares the names from the next sync on. */
static void pass_processes(const struct storage *storage)
{
	if (storage->bpf)
		memcpy(storage->bpf->control->processes, storage->processes,
			sizeof(storage->processes));
}

static void storage_configure(void *self, const struct config *config)
{
	struct storage *storage = self;

	memset(storage->processes, 0, sizeof(storage->processes));
	for (size_t i = 0; i < config_list(config, "storage.processes"); i++)
		copy_text(storage->processes[i], STORAGE_NAME_MAX,
			config_item(config, "storage.processes", i, ""));
	storage->sync_p99_us = config_duration(config, "storage.sync_p99");
	pass_processes(storage);
}

/* ---- the BPF programs. The skeleton is closed: only descriptors stay ---- */

DEFINE_CLEANUP(struct storage_bpf_object, storage_bpf_object__destroy)

/* The order of storage_bpf.links. */
enum program { IO_COMPLETE, EXT4_ENTER, EXT4_EXIT, CALLS, PROGRAMS = CALLS + 4 };

static void list_programs(
	const struct storage_bpf_object *object, struct bpf_program *programs[static PROGRAMS])
{
	struct bpf_program *list[PROGRAMS] = {object->progs.io_complete, object->progs.ext4_enter,
		object->progs.ext4_exit, object->progs.fsync_enter, object->progs.fsync_exit,
		object->progs.fdatasync_enter, object->progs.fdatasync_exit};

	memcpy(programs, list, sizeof(list));
}

/* Returns 0 or -errno, and the object only if it was loaded. */
static int open_object(bool calls, struct storage_bpf_object **ret)
{
	_cleanup_(cleanup_storage_bpf_object__destroy) struct storage_bpf_object *object =
		storage_bpf_object__open();
	struct bpf_program *programs[PROGRAMS];
	int r = object ? 0 : -errno;

	if (object)
		list_programs(object, programs);
	for (int i = CALLS; i < PROGRAMS && r == 0; i++) {
#ifdef __aarch64__
		r = bpf_program__set_attach_target(programs[i], 0,
			i < CALLS + 2 ? "__arm64_sys_fsync" : "__arm64_sys_fdatasync");
#endif
		(void)bpf_program__set_autoload(programs[i], calls);
	}
	if (r == 0)
		r = storage_bpf_object__load(object);
	if (r == 0)
		*ret = steal(object);
	return r;
}

/* Attaches the programs from first to end, or none. */
static int attach_programs(
	struct storage_bpf *bpf, struct bpf_program *const *programs, int first, int end)
{
	int r = 0;

	for (int i = first; i < end && r == 0; i++) {
		struct bpf_link *link = bpf_program__attach(programs[i]);

		r = link ? 0 : -errno;
		if (link)
			bpf->links[i] = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 0);
		bpf_link__destroy(link);
	}
	for (int i = first; i < end && r < 0; i++)
		if (bpf->links[i] >= 0)
			close(steal_fd(&bpf->links[i]));
	return r;
}

static int load_object(struct storage_bpf *bpf)
{
	_cleanup_(cleanup_storage_bpf_object__destroy) struct storage_bpf_object *object = NULL;
	struct bpf_program *programs[PROGRAMS];
	int r;

	bpf->calls_error = open_object(true, &object);
	r = bpf->calls_error < 0 ? open_object(false, &object) : 0;
	if (r < 0)
		return r;
	bpf->ios = fcntl(bpf_map__fd(object->maps.headroom_ios), F_DUPFD_CLOEXEC, 0);
	bpf->syncs = fcntl(bpf_map__fd(object->maps.headroom_syncs), F_DUPFD_CLOEXEC, 0);
	bpf->threads = fcntl(bpf_map__fd(object->maps.headroom_threads), F_DUPFD_CLOEXEC, 0);
	bpf->control = mmap(NULL, sizeof(*bpf->control), PROT_READ | PROT_WRITE, MAP_SHARED,
		bpf_map__fd(object->maps.bss), 0);
	if (bpf->ios < 0 || bpf->syncs < 0 || bpf->threads < 0 || bpf->control == MAP_FAILED)
		return -errno;
	list_programs(object, programs);
	r = attach_programs(bpf, programs, IO_COMPLETE, EXT4_ENTER);
	bpf->ext4_error = attach_programs(bpf, programs, EXT4_ENTER, CALLS);
	if (bpf->calls_error == 0)
		bpf->calls_error = attach_programs(bpf, programs, CALLS, PROGRAMS);
	return r;
}

static void unload_programs(void *programs)
{
	struct storage_bpf *bpf = programs;

	if (!bpf)
		return;
	for (int i = 0; i < PROGRAMS; i++)
		cleanup_close(&bpf->links[i]);
	cleanup_close(&bpf->ios);
	cleanup_close(&bpf->syncs);
	cleanup_close(&bpf->threads);
	if (bpf->control != MAP_FAILED)
		munmap(bpf->control, sizeof(*bpf->control));
	free(bpf);
}

static int load_programs(const struct host *, void **programs, char[static TUNER_WHY_MAX])
{
	struct storage_bpf *bpf = must(malloc(sizeof(*bpf)));
	int r;

	*bpf = (struct storage_bpf){.ios = -1, .syncs = -1, .threads = -1, .control = MAP_FAILED};
	memset(bpf->links, 0xff, sizeof(bpf->links));
	r = load_object(bpf);
	if (r < 0)
		unload_programs(steal(bpf));
	*programs = bpf;
	return r;
}

static void adopt_programs(void *self, void *programs, const char *why)
{
	struct storage *storage = self;

	storage->bpf = programs;
	set_text(storage->why, why);
	pass_processes(storage);
}

static const struct bpf_ops storage_programs = {
	.load = load_programs, .adopt = adopt_programs, .unload = unload_programs};

/* ---- the ops ---- */

static void storage_close(void *self, void *)
{
	struct storage *storage = self;

	storage->facts->disks.n_synced = storage->facts->disks.n_databases = 0;
	storage->facts->disks.slow = (struct node_slow){0};
	unload_programs(storage->bpf);
	for (size_t i = 0; i < storage->n_syncs; i++) {
		free(storage->syncs[i].window);
		free(storage->syncs[i].writers);
	}
	free(storage->devices);
	free(storage->ios);
	free(storage->syncs);
	free(storage->ios_index.positions);
	free(storage->syncs_index.positions);
	free(storage);
}

static const struct help_entry entries[] = {
	MEMBER("attributed", "Whether the io controller of cgroups tells workloads apart."),
	MEMBER("busiest_second", "Syncs in the busiest second of the last minute."),
	MEMBER("model", "The name that a disk gives itself."),
	MEMBER("queue_share",
		"A workload's share of the time that requests spent in the disk's queue."),
	MEMBER("read_bytes", "Bytes read since the start of the agent."),
	MEMBER("read_bytes_per_second", "Bytes read in a second."),
	MEMBER("read_requests", "Requests to read since the start of the agent."),
	MEMBER("scheduler", "The I/O scheduler of a disk, as queue/scheduler in /sys/block."),
	MEMBER("syncs_per_second", "Calls of fsync and similar in a second."),
	MEMBER("window_syncs", "Syncs of the last five minutes: p50, p99 and worst are of these."),
	MEMBER("write_bytes", "Bytes written since the start of the agent."),
	MEMBER("write_bytes_per_second", "Bytes written in a second."),
	MEMBER("write_requests", "Requests to write since the start of the agent."),
	{0},
};

const struct tuner_tables storage_tables = {
	.summary = "Measures the syncs of etcd and the like as they feel them, counts requests to "
		   "disks by workload, and names who holds the queue; it sets nothing.",
	.entries = entries,
	.conditions = storage_conditions,
	.metric_rows = metric_rows,
	.capabilities = capabilities,
	.view = &storage_view,
};

const struct tuner_ops storage_tuner = {
	.name = "storage",
	.tables = &storage_tables,
	.open = storage_open,
	.configure = storage_configure,
	.sense = storage_sense,
	.bpf = &storage_programs,
	.decide = storage_decide,
	.document = storage_document,
	.metrics = storage_metrics,
	.close = storage_close,
};
