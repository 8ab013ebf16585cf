/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the kernel's log, and finds the lines that report a fault. The source is /dev/kmsg. A
 * container may not open this device even with CAP_SYSLOG, so syslog(2) is the second source. Both
 * need CAP_SYSLOG while kernel.dmesg_restrict is 1.
 */

#include <sys/types.h>

#include "base/util.h"
#include "kernel/host.h"

#define KMSG_TEXT_MAX   1024
#define KMSG_NAME_MAX   64
#define KMSG_CGROUP_MAX 512

/* A line of the log. Its text is printable; a longer one is truncated. */
struct kmsg_record {
	uint64_t sequence; /* grows; records of one syslog(2) microsecond share one */
	uint64_t time_us;  /* CLOCK_MONOTONIC, nearly; 0: not known */
	unsigned level;    /* 0 (emergency) to 7 (debug) */
	bool of_kernel;    /* false: a program wrote it to /dev/kmsg */
	char text[KMSG_TEXT_MAX];
};

/* Takes the slug and the meaning. */
#define KMSG_CLASSES_LIST(X)                                                          \
	X(OOM, "oom", "the kernel killed a process, because memory was used up")      \
	X(HUNG_TASK, "hung-task", "a task waits for a disk or server without an end") \
	X(IO_ERROR, "io-error", "a disk or file system failed to read or write")      \
	X(READ_ONLY, "read-only", "a file system stopped writing after an error")

#define KMSG_CLASS(name, slug, meaning) KMSG_##name,
enum kmsg_class { KMSG_CLASSES_LIST(KMSG_CLASS) KMSG_CLASSES };
#undef KMSG_CLASS

struct kmsg_class_row {
	const char *slug, *meaning;
};

extern const struct kmsg_class_row kmsg_classes[KMSG_CLASSES];

/* A fault that a record reports. Unknown texts are empty. */
struct kmsg_fault {
	enum kmsg_class class;
	char subject[KMSG_NAME_MAX]; /* the comm of a process, or a device */
	pid_t pid;                   /* 0: not a process */
	bool is_over;                /* no new fault: the subject's faults of this class are over */

	/* KMSG_OOM: lines before have these, unless the kernel suppressed some. */
	bool in_cgroup;               /* the memory of a cgroup was used up, not the node's */
	char cgroup[KMSG_CGROUP_MAX]; /* of the process */
	char full[KMSG_CGROUP_MAX];   /* the cgroup that was full */
	uint64_t limit;               /* its maximum in bytes; 0: not known */
};

struct kmsg;

#define KMSG_ALL 0          /* from the oldest record that the kernel has */
#define KMSG_NEW UINT64_MAX /* only records that do not exist yet */

/*
 * Opens the log behind the record with the sequence `after`. rate: the most lines that kmsg_next()
 * returns in a second; 0: no limit. Returns 0, or -errno: -EPERM without CAP_SYSLOG.
 */
int kmsg_open(const struct host *host, uint64_t after, unsigned rate, struct kmsg **ret);
void kmsg_close(struct kmsg *kmsg);
DEFINE_CLEANUP(struct kmsg, kmsg_close)

/* A descriptor to poll for new records, or -1: ask once a second. */
int kmsg_fd(const struct kmsg *kmsg);

/*
 * Reads the next record without waiting. now_us is CLOCK_MONOTONIC. Returns 1, 0 without a new
 * record or if it would exceed the rate, or -errno. Records above the rate stay in the kernel's
 * buffer. kmsg_lost() counts the records that it overwrote.
 */
int kmsg_next(struct kmsg *kmsg, uint64_t now_us, struct kmsg_record *record);
uint64_t kmsg_lost(const struct kmsg *kmsg);

/*
 * Returns whether the record reports a fault or the end of one. Takes all records in their order,
 * because the details of a killed process are in lines before. Lines that programs have written
 * never count.
 */
bool kmsg_classify(struct kmsg *kmsg, const struct kmsg_record *record, struct kmsg_fault *fault);

/* Parses a record of /dev/kmsg, or a line of syslog(2) without its end. False for another text. */
bool kmsg_parse_record(const char *text, struct kmsg_record *record);
bool kmsg_parse_line(const char *text, struct kmsg_record *record);
