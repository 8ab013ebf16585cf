/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADROOM_SETTING_H
#define HEADROOM_SETTING_H

/*
 * A setting is a value that the node should have: a sysctl, a switch in sysfs, a threshold of a
 * kernel table, a key of a program's configuration file. Its value is text, as the kernel prints
 * it, with the selected word taken out of "always [madvise] never" and runs of white space folded
 * to one space. A value from a file is shown without the quotes of the file's language.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTING_NAME_MAX  128
#define SETTING_VALUE_MAX 128 /* the longest sysctl worth managing is core_pattern */
#define SETTING_PATH_MAX  256
#define SETTING_WHY_MAX   200
#define FILE_TABLE_MAX    128
#define FILE_KEY_MAX      64

/* A tuner's, or the whole agent's, attitude to the node. */
enum mode {
	MODE_ENFORCE, /* sense, decide, apply */
	MODE_OBSERVE, /* sense, decide; apply nothing */
	MODE_OFF,     /* not even sense */
};

enum setting_state {
	SETTING_IN_SYNC,     /* the value read back is the wanted one */
	SETTING_PENDING,     /* will be written at the next occasion */
	SETTING_DRIFTED,     /* someone else changed it, and on_drift leaves it so */
	SETTING_YIELDED,     /* someone else keeps changing it: left to them */
	SETTING_FAILED,      /* could not be read, journaled or written: see error */
	SETTING_UNSUPPORTED, /* this kernel has no such thing */
	SETTING_OBSERVED,    /* looked at, never written */
};

/* How a place is read and written: see src/apply/writer.h and src/apply/edit.h. */
enum place_kind {
	PLACE_FILE,     /* one value in one file of procfs or sysfs */
	PLACE_NEIGHTBL, /* a threshold of a neighbour table: rtnetlink, else /proc/sys */
	PLACE_EDIT,     /* a value in a program's configuration file, which outlives a boot */
};

/* Where a setting lives. Plain data: it is journaled, so that a restore needs no configuration. */
struct place {
	enum place_kind kind;
	char path[SETTING_PATH_MAX]; /* below the host's root: "/proc/sys/vm/max_map_count" */
	int family;                  /* PLACE_NEIGHTBL: AF_INET or AF_INET6 */
	int level;                   /* PLACE_NEIGHTBL: 1, 2, 3 of gc_thresh */
	unsigned format;             /* PLACE_EDIT: enum edit_format */
	char table[FILE_TABLE_MAX];  /* EDIT_TOML: plugins."io.containerd.grpc.v1.cri"; else "" */
	char key[FILE_KEY_MAX];      /* EDIT_TOML, EDIT_JSON: max_concurrent_downloads */
};

struct file_edit;

/*
 * Values that may be written in a hurry, before a disk could say that they were: they are journaled
 * in advance, with the original. Whole numbers as text.
 */
#define LADDER_RUNGS_MAX 12

struct ladder {
	char rungs[LADDER_RUNGS_MAX][24];
	unsigned n;
};

/*
 * What was recorded before the first write, and since: enough to put the original back and to tell
 * our own writes from everybody else's. Owned and made durable by the journal.
 */
struct record {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	struct place place;
	char original[SETTING_VALUE_MAX]; /* before the first write of this boot */
	char before[SETTING_VALUE_MAX];   /* what stood there when target was journaled */
	char target[SETTING_VALUE_MAX];   /* the last value that was meant to be written */
	struct ladder ahead; /* values that may have been written since without a note */
	/*
	 * PLACE_EDIT: original is the value that was in force before our first write, on_disk what
	 * stood in the file then (empty: nothing); before and target are of the file too.
	 */
	char on_disk[SETTING_VALUE_MAX];
	uint32_t given_up; /* checksum of the configuration under which it broke; 0 for none */
};

/* A value that a tuner wants, as its decide() states it. wanted is empty for "leave it alone". */
struct want {
	char name[SETTING_NAME_MAX];
	struct place place;
	char actual[SETTING_VALUE_MAX]; /* PLACE_EDIT: what is in force now; empty: not known */
	char wanted[SETTING_VALUE_MAX];
	int error;           /* 0, or -errno of reading it: -ENOENT means unsupported */
	const char *reason;  /* a slug of src/model/reason.c */
	struct ladder ahead; /* what it may become in a hurry; empty for nothing */
	/*
	 * PLACE_EDIT: what stands in the file for the next start, in the form of wanted; empty for
	 * nothing there. For EDIT_OWN it must equal wanted exactly when the file is edit->text.
	 */
	char on_disk[SETTING_VALUE_MAX];
	const struct file_edit *edit; /* PLACE_EDIT, when wanted is not empty; else NULL */
};

/* A setting's whole story, kept from tick to tick. */
struct setting {
	struct want want;
	const char *tuner;
	char original[SETTING_VALUE_MAX]; /* before our first write; what stands there, until then
					   */
	enum mode mode;
	enum setting_state state;
	const char *reason;                /* why it is in this state: a slug */
	int error;                         /* -errno behind SETTING_FAILED, 0 otherwise */
	char why[SETTING_WHY_MAX];         /* more about error than strerror(3) says; or empty */
	char confirmed[SETTING_VALUE_MAX]; /* as it last stood in sync: another value is drift */
	bool drifted;                      /* drift was seen, and nothing written since */
	unsigned rounds;                   /* consecutive times it was put back after drift */
	uint64_t drift_total;              /* times drift was seen */
	uint64_t drift_at_us;              /* when it was last seen, CLOCK_MONOTONIC */
	uint64_t retry_at_us;              /* SETTING_FAILED: when to try again */
};

const char *mode_name(enum mode mode);
const char *setting_state_name(enum setting_state state);

/* True for a value equal to either: numbers by value, anything else by its words. */
bool value_equal(const char *a, const char *b);

/* True when value is one of the rungs. */
bool ladder_has(const struct ladder *ladder, const char *value);

/* True when every rung of part is one of whole. */
bool ladder_covers(const struct ladder *whole, const struct ladder *part);

/* Adds a rung; without room it is left out. */
void ladder_add(struct ladder *ladder, const char *value);

/*
 * Compares two values of one or more integers, field by field. Returns 0 and writes order: -1 when
 * no field of a is above b's and one is below, 0 equal, 1 when none is below and one is above, 2
 * when fields go both ways. -EINVAL when one is no list of integers or the lists differ in length.
 */
int value_compare(const char *a, const char *b, int *order);

/* Writes the larger of both, field by field, to out, which may be a or b. -EINVAL as above. */
int value_max(const char *a, const char *b, char out[static SETTING_VALUE_MAX]);

/*
 * True when actual (PLACE_EDIT: what stands in the file) is neither the original nor anything that
 * was written by us.
 */
bool record_is_foreign(const struct record *record, const char *actual);

/* The record of a name, or NULL. */
const struct record *record_find(const struct record *records, size_t n, const char *name);

/*
 * What the administrator had: the original, or a higher value that someone set since. Written to
 * floor, empty when nothing is recorded and actual is empty. record may be NULL.
 */
void record_floor(
	const struct record *record, const char *actual, char floor[static SETTING_VALUE_MAX]);

#endif
