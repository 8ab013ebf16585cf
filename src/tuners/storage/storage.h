/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * tuner.c has rows and ops and loads the BPF programs, sense.c reads their counters and sums up,
 * writers.c reads who else writes, disk.c finds out what a disk is, decide.c judges, report.c
 * shows.
 */

#include "workload/cgroup.h"
#include "workload/facts.h"

#include <headroom/bpf/storage.h>
#include <headroom/finding.h>
#include <headroom/tuner.h>

/* ---- disks ---- */

enum storage_kind {
	STORAGE_UNKNOWN,
	STORAGE_LOCAL,
	STORAGE_ROTATING,
	STORAGE_LOOP,
	STORAGE_NETWORK,
	STORAGE_OVERLAY, /* a file system over others: which is not known */
	STORAGE_KINDS,
};

extern const char *const storage_kind_names[STORAGE_KINDS];

#define STORAGE_BELOW_MAX 8

struct storage_disk {
	char name[STORAGE_DISK_NAME_MAX]; /* "nvme0n1"; of a file system without a disk its type */
	enum storage_kind kind;
	char model[48];
	char scheduler[16];
	uint32_t below[STORAGE_BELOW_MAX]; /* the disks that serve it; itself if it is one */
	unsigned n_below;
	bool exists;
	bool memory; /* a file system without a device, in memory: its syncs cost nothing */
};

/* The kernel's number of a device, and back. */
#define STORAGE_NUMBER(device) ((uint32_t)major(device) << 20 | (uint32_t)minor(device))
#define STORAGE_DEVICE(number) makedev((number) >> 20, (number) & 0xfffff)

/*
 * Reads what a device is: a disk, a partition, what dm and md build of these, or the device number
 * of a file system. name is the disk's, if the kernel
 * reported it, else "".
 */
void storage_disk_read(
	const struct host *host, uint32_t number, const char *name, struct storage_disk *disk);

/* Finds the first mount of a device. False: none. */
bool storage_mount_find(const struct host *host, uint32_t number, struct mount *mount);

/* Lists the types of mounted file systems whose syncs need trampolines: "xfs, btrfs", or "". */
void storage_mount_types(const struct host *host, char *text, size_t size);

/* ---- the BPF programs ---- */

struct storage_bpf {
	int ios, syncs, threads; /* maps */
	struct storage_control *control;
	int links[7];                /* -1: not attached */
	int ext4_error, calls_error; /* 0, or -errno: syncs of ext4; the system calls */
};

/* ---- sense.c ---- */

/* Devices with a label of their own in metrics, and histograms; the next one is other. */
#define STORAGE_LABELS 8
#define STORAGE_PAIRS  8

/* A disk, by its name. */
struct storage_label {
	struct storage_disk disk; /* name "": unused */
	uint64_t bytes[STORAGE_DIRECTIONS];
	uint64_t queue_ns;
	double queue_rate; /* smoothed: seconds of waiting requests in a second */
	uint64_t used_us;  /* the last request or sync */
};

/* A number of the kernel: disks and file systems. */
struct storage_device {
	uint32_t number;
	unsigned label; /* STORAGE_LABELS: other */
	struct storage_disk disk;
	uint64_t read_us; /* when disk was read */
	uint64_t used_us;
	char point[SETTING_PATH_MAX]; /* a mount; "": not read */
	bool has_journal;             /* ext4, ext3 or not known; of point */
};

/* Syncs of a process name to a label: a histogram in the metrics. */
struct storage_pair {
	unsigned label;
	char process[STORAGE_NAME_MAX]; /* "": other */
	uint64_t counts[STORAGE_BUCKETS];
	uint64_t ns;
	uint64_t used_us; /* 0: unused */
};

struct storage_io_row {
	struct storage_io_key key;
	struct storage_io last;
	double queue_rate, rate[STORAGE_DIRECTIONS]; /* smoothed: seconds, bytes a second */
	double last_rate;  /* written bytes a second, of about the last ten seconds */
	double first_rate; /* last_rate when a process was first seen to be slow; 0: none is */
	uint64_t changed_us;
	bool seen;
};

/* The slices cover the last five minutes; the newest one is incomplete. */
#define STORAGE_SLICES   11
#define STORAGE_SLICE_US (30 * USEC_PER_SEC)

/* Finer slices cover the last half minute. */
#define STORAGE_FINES   7
#define STORAGE_FINE_US (5 * USEC_PER_SEC)

/* A share of the time in which the process syncs: sums may exceed it, of several threads. */
#define STORAGE_NOW_US (30 * USEC_PER_SEC)

/* Syncs of one row over time. */
struct storage_window {
	uint32_t slices[STORAGE_SLICES][STORAGE_BUCKETS];
	uint64_t took_us[STORAGE_SLICES];
	uint64_t slice; /* number of the newest: time / STORAGE_SLICE_US */
	struct storage_second {
		uint64_t number; /* CLOCK_MONOTONIC */
		uint32_t syncs;
		uint32_t worst_us;
	} seconds[60];
	uint32_t worst_us[STORAGE_SLICES];
	struct storage_fine {
		uint64_t number; /* time / STORAGE_FINE_US */
		uint64_t took_us;
		uint32_t counts[STORAGE_BUCKETS];
	} fines[STORAGE_FINES];
	/* Syncs that have not ended, and already took longer than storage.sync_p99: as at the last
	 * reading, by the time that they took so far. */
	struct storage_open {
		uint32_t counts[STORAGE_BUCKETS];
		uint64_t took_us, took_now_us; /* the second: within STORAGE_NOW_US */
		uint64_t worst_us;
	} open;
	struct history history; /* the worst syncs, in microseconds */
};

struct storage_sync_row {
	struct storage_sync_key key;
	struct storage_sync last;
	struct storage_window *window;   /* NULL: other rows have all windows; owned */
	struct storage_writers *writers; /* while the process is slow; else NULL; owned */
	double rate;                     /* smoothed syncs a second */
	uint64_t syncs;                  /* since the row exists */
	uint64_t changed_us;
	bool seen;
};

/* The syncs of the last five minutes. */
struct storage_summary {
	__u64 counts[STORAGE_BUCKETS];
	uint64_t syncs, took_us, worst_us;
	uint64_t recent_us; /* the longest sync of the last ten seconds */
	uint64_t busiest;   /* syncs in the busiest second of the last minute */
	double p50, p99;    /* seconds; 0 without syncs */
	/* The same for STORAGE_NOW_US, and for the last 10 to 15 seconds. */
	uint64_t now_syncs, now_took_us;
	uint64_t last_syncs;
	double last_p99; /* seconds */
};

/* etcd's election timeout. */
#define STORAGE_ELECTION_NS UINT64_C(1000000000)

uint64_t storage_slower_than(const struct storage_summary *summary, uint64_t ns);

/* Returns whether the process was slow within the last five minutes. */
bool storage_is_slow(const struct storage_summary *summary, uint64_t sync_p99_us);

/* Returns whether the process waits for its disk most of the time, and long each time. */
bool storage_is_starved(const struct storage_summary *summary, uint64_t sync_p99_us);

/* Returns whether it is slow now, and not only within the last five minutes. */
bool storage_is_over(const struct storage_summary *summary, uint64_t sync_p99_us);

/* ---- writers.c: who could be limited ---- */

/* A workload that writes more than this share of the bytes is named. */
#define STORAGE_MUCH    0.1
#define STORAGE_WRITERS 9

/* Why no limit is advised for a writer. */
enum storage_held {
	HELD_NOT,
	HELD_HOST,      /* the kernel, the root, or a cgroup that is not known or takes no limit */
	HELD_OWN,       /* a listed process is in it or below it */
	HELD_ESSENTIAL, /* the node needs it */
};

struct storage_writer {
	struct workload workload;
	char path[SETTING_PATH_MAX]; /* of its cgroup, below the root of cgroup2; "": not known */
	bool is_unit;                /* of the node's systemd */
	double share;                /* of the bytes written to the disk, 0..1 */
	/* Bytes a second to each disk: now, and when the process was first slow. */
	double rate, first;
	uint64_t bytes, writes; /* of its cgroup in io.stat */
	double size;            /* mean bytes of a write between two readings; 0: not known */
	uint64_t backlog;       /* bytes that wait to be written */
	uint64_t limit;         /* of the written bytes a second, in force; 0: none */
	enum storage_held held;
};

/* The writers to the disks of a slow process, the largest first. */
struct storage_writers {
	uint64_t at_us; /* when they were read */
	unsigned readings;
	struct {
		uint32_t number;
		char name[STORAGE_DISK_NAME_MAX]; /* below /dev */
	} disks[STORAGE_BELOW_MAX];
	unsigned n_disks;
	bool has_swap;                /* on these disks */
	char mount[SETTING_PATH_MAX]; /* of cgroup2, on the host */
	struct storage_writer list[STORAGE_WRITERS];
	unsigned n;
};

struct storage_sync_row;
struct storage_process;
struct storage;

/* Reads row->writers if they are due; frees them when the process is no longer slow. */
void storage_writers_read(struct storage *storage, struct storage_sync_row *row,
	const struct storage_process *process, uint64_t now_us);
void storage_writers_forget(struct storage *storage, struct storage_sync_row *row);

#define STORAGE_HOLDERS 3

/* A listed process and its device: the input of decide(). */
struct storage_process {
	char name[STORAGE_NAME_MAX];
	struct workload workload;
	struct storage_disk disk;
	struct storage_summary summary;
	/* Those that hold the queue of the device, the largest first. */
	struct storage_holder {
		struct workload workload;
		uint64_t cgroup;    /* one of its cgroups */
		double share, rate; /* 0..1; bytes written a second */
	} holders[STORAGE_HOLDERS];
	unsigned n_holders;
	bool shares_journal; /* its file system is ext4, whose journal others may fill, or not known
			      */
	const struct storage_writers *writers; /* NULL: not known */
	/* While it is slow: of the node, and of its cgroup. */
	struct pressure node_pressure, pressure;
};

/* A directory of images, as its runtime's tuner found it. */
struct storage_images {
	char path[SETTING_PATH_MAX];
	dev_t device;
	struct storage_disk disk;
};

#define STORAGE_PROCESSES_SHOWN 16
#define STORAGE_IMAGES          4

struct storage {
	const struct host *host;
	struct facts *facts;
	char processes[STORAGE_PROCESSES_MAX][STORAGE_NAME_MAX];
	uint64_t sync_p99_us;
	struct storage_bpf *bpf; /* NULL: not loaded, and why */
	char why[TUNER_WHY_MAX];
	char unseen[64];                  /* types of file systems without counted syncs */
	char uncounted[STORAGE_NAME_MAX]; /* a listed process that runs on this node; if unseen */
	bool attributed;                  /* the io controller tells cgroups apart */
	bool is_v1;                       /* it is that of cgroup v1 */
	bool has_iocost;                  /* the kernel shares a disk by weights: io.cost */
	struct storage_device *devices;
	size_t n_devices, devices_allocated;
	struct storage_label labels[STORAGE_LABELS + 1]; /* the last: other */
	struct storage_pair pairs[STORAGE_PAIRS + 1];    /* the last: other, other */
	struct storage_io_row *ios;
	size_t n_ios, ios_allocated;
	struct storage_sync_row *syncs;
	size_t n_syncs, syncs_allocated;
	struct element_index ios_index, syncs_index;
	unsigned n_windows;
	uint64_t read_us, facts_us; /* last reading of the counters, of the facts */
	struct storage_process seen[STORAGE_PROCESSES_SHOWN];
	struct storage_images images[STORAGE_IMAGES];
	struct storage_images store; /* into which images are loaded; its path is not used */
	unsigned n_seen, n_images;
};

void storage_sense(void *self, uint64_t now_us);

/* Sums up the syncs and the holders of the listed processes. */
void storage_processes_list(struct storage *storage, uint64_t now_us);

void storage_summarize(
	const struct storage_window *window, uint64_t now_us, struct storage_summary *summary);

/* ---- users ---- */

/* A workload on a device; or a listed process of the host's cgroup, whose requests are not known.
 */
struct storage_user {
	struct workload workload;
	char process[STORAGE_NAME_MAX]; /* "": the workload */
	unsigned label;
	double queue_rate, rate[STORAGE_DIRECTIONS], sync_rate;
	double share; /* its part of the device's queue, 0..1 */
	uint64_t queue_ns, bytes[STORAGE_DIRECTIONS], requests[STORAGE_DIRECTIONS], syncs;
	struct storage_summary summary;
	struct history history; /* the longest syncs, in microseconds */
};

#define STORAGE_USERS 64

/* Lists the largest users, those with the largest share of a queue first. The caller frees it. */
struct storage_user *storage_users(const struct storage *storage, unsigned *n);

/* ---- the ops ---- */

struct cJSON;

void storage_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
struct cJSON *storage_document(const void *self, const void *memory, bool trusted);
void storage_metrics(const void *self, const void *memory, struct metric_sink *sink);

extern const struct condition_type storage_conditions[];
enum { STORAGE_SLOW, STORAGE_UNSUITED };

extern const struct table_view storage_view;
