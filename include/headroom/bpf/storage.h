/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/*
 * The maps that bpf/storage.bpf.c shares with user space. Counters never fall. Times are
 * CLOCK_MONOTONIC in nanoseconds, a device is (major << 20) | minor.
 */

#include <linux/types.h>

#define STORAGE_ROWS_MAX      4096 /* in each map */
#define STORAGE_PROCESSES_MAX 16   /* names of processes whose syncs have rows of their own */
#define STORAGE_NAME_MAX      16   /* a process name: TASK_COMM_LEN */
#define STORAGE_DISK_NAME_MAX 32   /* DISK_NAME_LEN */

/* Bucket i counts the latencies up to bound i, the last one all others. A power of two. */
#define STORAGE_BUCKETS 16

static const __u64 storage_bounds[STORAGE_BUCKETS - 1] = {100000, 200000, 500000, 1000000, 2000000,
	5000000, 10000000, 20000000, 50000000, 100000000, 200000000, 500000000, 1000000000,
	2000000000, 5000000000};

/* Binary search: the number of bounds that the latency exceeds. */
static inline __attribute__((always_inline)) __u32 storage_bucket(__u64 ns)
{
	__u32 bucket = 0;

	for (__u32 step = STORAGE_BUCKETS / 2; step; step /= 2)
		if (ns > storage_bounds[bucket + step - 1])
			bucket += step;
	return bucket;
}

/* The letters of etcd's database, "db", as a number. */
#define STORAGE_DATABASE 0x6264

enum storage_direction {
	STORAGE_READ,
	STORAGE_WRITE,
	STORAGE_DIRECTIONS,
};

/* Requests of a cgroup to a disk: the map ios. */
struct storage_io_key {
	__u64 cgroup; /* 0: the kernel's own requests */
	__u32 disk;
	__u32 unused;
};

struct storage_io {
	__u64 bytes[STORAGE_DIRECTIONS];
	__u64 requests[STORAGE_DIRECTIONS];
	__u64 queue_ns; /* sum of the times from the request's start to its completion */
	char name[STORAGE_DISK_NAME_MAX]; /* the disk's: some have no number in sysfs */
};

/* Calls of fsync(2) and the like: the map syncs. */
struct storage_sync_key {
	__u64 cgroup; /* in cgroup2 */
	__u32 device; /* the file system's */
	__u32 unused;
	char process[STORAGE_NAME_MAX]; /* a listed name, or empty for all others */
};

/* The seconds whose longest sync is kept: user space reads them within this time. */
#define STORAGE_SECONDS 4

struct storage_sync {
	__u64 ns; /* sum */
	/* At second % STORAGE_SECONDS: the second in the upper half, the longest sync in units of
	 * 1,024 ns in the lower. */
	__u64 worst[STORAGE_SECONDS];
	__u64 database;                /* size of its etcd database; 0: it synced none */
	__u32 pid;                     /* the last process, in the first pid namespace */
	__u32 counts[STORAGE_BUCKETS]; /* they wrap around */
};

/* A sync under way, by bpf_get_current_pid_tgid(): the map threads. */
struct storage_start {
	__u64 ns;
	__u64 file;   /* the kernel's struct file */
	__u64 cgroup; /* in cgroup2 */
	__u32 device; /* the file system's */
	__u32 listed; /* its process is storage_control.processes[listed - 1]; 0: another one */
#define STORAGE_KWORKER (STORAGE_PROCESSES_MAX + 1)
};

/* A page that user space maps. */
struct storage_control {
	__u64 processes[STORAGE_PROCESSES_MAX][2]; /* listed names, zero-padded */
	__u64 lost_ios, lost_syncs;                /* without a row, because the map was full */
	__u64 lost_threads;                        /* syncs whose start was not kept */
};

_Static_assert(sizeof(struct storage_io_key) == 16, "a key without padding");
_Static_assert(sizeof(struct storage_sync_key) == 32, "a key without padding");
