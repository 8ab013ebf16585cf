/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADROOM_VALUE_H
#define HEADROOM_VALUE_H

/*
 * A value is a setting of the running kernel: a sysctl, a switch in sysfs, a threshold of a
 * neighbour table. It lives until the next boot, and so does the record of its original.
 */

#include <headroom/setting.h>

enum value_kind {
	VALUE_FILE,     /* one value in one file of procfs or sysfs */
	VALUE_NEIGHTBL, /* a threshold of a neighbour table: rtnetlink, else /proc/sys */
};

/* Where a value is written. Plain data: it is recorded, so that a restore needs no configuration.
 */
struct value_target {
	enum value_kind kind;
	char path[SETTING_PATH_MAX]; /* below the host's root: "/proc/sys/vm/max_map_count" */
	int family;                  /* VALUE_NEIGHTBL: AF_INET or AF_INET6 */
	int level;                   /* VALUE_NEIGHTBL: 1, 2, 3 of gc_thresh */
};

/*
 * What was recorded before the first write, and since: enough to restore the original, and to tell
 * our own writes from those of others.
 */
struct value_record {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	struct value_target target;
	char original[SETTING_VALUE_MAX]; /* before the first write of this boot */
	char before[SETTING_VALUE_MAX];   /* what was there when wanted was recorded, if ours */
	char wanted[SETTING_VALUE_MAX];   /* the last value that was to be written */
	bool grown;                       /* wanted was reached by growth */
};

/* The record of a name, or NULL. */
const struct value_record *value_record_find(
	const struct value_record *records, size_t n, const char *name);

/* True when actual is neither the original nor anything that was written by us. */
bool value_is_foreign(const struct value_record *record, const char *actual);

/*
 * What the administrator had: the original, or a higher value that someone set since. Written to
 * floor, empty when nothing is recorded and actual is empty. record may be NULL.
 */
void value_floor(const struct value_record *record, const char *actual,
	char floor[static SETTING_VALUE_MAX]);

#endif
