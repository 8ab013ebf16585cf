/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A setting is a value that the node should have. enum setting_kind says where the node keeps it.
 * struct setting is common to all kinds, and `headroom status` shows it.
 * Values are text as the kernel prints it, with white space folded to single spaces; of "always
 * [madvise] never" the value is "madvise". Values from files lack the quotes of the file's syntax.
 */

#include <headroom/reason.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OWNER_MAX          64 /* name of an installation: core_owner() */
#define RECORD_PROGRAM_MAX 32 /* version of a program that wrote records */
#define SETTING_NAME_MAX   128
#define SETTING_VALUE_MAX  128 /* kernel.core_pattern is the longest sysctl worth managing */
#define SETTING_PATH_MAX   256
#define SETTING_WHY_MAX    200

/*
 * Five changes by others within ten minutes are a fight: the next one is left to them. A writer
 * that comes back in hours, such as a program at its start, is corrected each time.
 */
#define FIGHT_ROUNDS  5
#define FIGHT_SECONDS 600

enum setting_kind {
	SETTING_VALUE, /* in the running kernel */
	SETTING_FILE,  /* a key of a configuration file, or a whole file */
	SETTING_PIN,   /* on an image in a runtime, whose driver sets it */
};

/* The mode of a tuner or of the whole agent. */
enum mode {
	MODE_ENFORCE,  /* sense, decide, apply */
	MODE_OBSERVE,  /* sense and decide, apply nothing */
	MODE_OFF,      /* do not sense either */
	MODE_RELEASED, /* like MODE_OBSERVE, from `headroom restore` to `headroom apply` */
};

/* The option on_drift: the reaction to changes by others. */
enum on_drift {
	ON_DRIFT_ENFORCE, /* write again */
	ON_DRIFT_YIELD,   /* leave the setting to the others */
	ON_DRIFT_REPORT,  /* leave the value and report it */
};

enum setting_state {
	SETTING_IN_SYNC,     /* the value read back is the wanted one */
	SETTING_PENDING,     /* to be written */
	SETTING_DRIFTED,     /* changed by others, and on_drift says not to write it again */
	SETTING_YIELDED,     /* others keep changing it: no longer written */
	SETTING_FAILED,      /* could not be read, recorded or written: see error */
	SETTING_UNSUPPORTED, /* missing in this kernel or program */
	SETTING_OBSERVED,    /* read, never written */
};

/* Changes by others. The agent keeps this in the runtime directory, for its next start. */
struct drift {
	char name[SETTING_NAME_MAX];       /* the setting's */
	char wanted[SETTING_VALUE_MAX];    /* as last configured */
	char confirmed[SETTING_VALUE_MAX]; /* when last in sync: any other value is drift */
	uint64_t total;                    /* times drift was seen */
	uint64_t at_us[FIGHT_ROUNDS + 1];  /* CLOCK_MONOTONIC, at total % (FIGHT_ROUNDS + 1) */
	bool seen;                         /* drift was seen and has not ended */
	bool left;                         /* it was a fight, and the value is left to the others */
	bool at_start;                     /* the last time, by its program */
};

/* The option on_removed: what happens to a value that is set and no longer configured. */
enum on_removed {
	ON_REMOVED_KEEP,    /* it stays */
	ON_REMOVED_RESTORE, /* it gets its original, if a configuration file had asked for it */
};

/* The state of a setting, kept from poll to poll. */
struct setting {
	char name[SETTING_NAME_MAX];
	const char *tuner;
	char wanted[SETTING_VALUE_MAX];   /* empty: the value is left alone */
	char actual[SETTING_VALUE_MAX];   /* in force now; empty: unknown */
	char original[SETTING_VALUE_MAX]; /* before our first write; until then, actual */
	enum mode mode;
	enum setting_state state;
	enum reason reason; /* why it is in this state */
	/* SETTING_FAILED: -errno. SETTING_UNSUPPORTED: -errno if a configuration file asks for the
	 * setting. Else 0. */
	int error;
	uint64_t since_us;    /* CLOCK_REALTIME: in this state, retries of a failure included */
	enum reason since_of; /* the reason then */
	char why[SETTING_WHY_MAX]; /* details beyond strerror(-error), or empty */
	struct drift drift;
	bool requested;        /* a configuration file asks for it, not a default or a profile */
	bool configured_anew;  /* not compared since the start, or since a reload */
	uint64_t restarted_us; /* CLOCK_MONOTONIC: its program, by this agent */
	bool restart_due;      /* its program restarts as soon as possible: no transfer begins */
	uint64_t retry_at_us;  /* next attempt after a failure, CLOCK_MONOTONIC */
};

extern const char *const mode_names[];
extern const char *const setting_state_names[];

/*
 * Changes the state. Nothing else may change it. SETTING_FAILED and
 * SETTING_UNSUPPORTED take error, SETTING_FAILED also why, which may be NULL. Returns whether state
 * or reason changed.
 */
bool setting_become(struct setting *setting, enum setting_state state, enum reason reason,
	int error, const char *why);

/* Returns true when the value read is the wanted one, in any mode. */
bool setting_in_sync(const struct setting *setting);

/* Compares word by word, integers by their value. */
bool value_equal(const char *a, const char *b);

/*
 * A word that does not mean its number, such as 0, -1 or "unlimited" for no bound. The first row
 * with the word counts; a row without a word ends the table. "-" stands for all negative numbers.
 */
struct meaning {
	const char *word;
	uint64_t number;
	unsigned since; /* major version of the program; 0: every version */
};

#define NO_BOUND UINT64_MAX

/* Returns the rows for this version of the program. NULL: none. */
const struct meaning *meanings_since(const struct meaning *meanings, unsigned version);

/* Reads a number with its meaning. Returns 0, or -EINVAL for a negative one or other text. */
int number_meant(const struct meaning *meanings, const char *word, uint64_t *number);

/*
 * Compares two lists of integers, with their meanings, field by field. Returns 0 and sets *order to
 * 0 when all fields are equal, -1 when some fields of a are smaller and none is larger, 1 in the
 * opposite case, and 2 when some are smaller and some larger. -EINVAL for other text and for lists
 * of different length.
 */
int value_compare(const struct meaning *meanings, const char *a, const char *b, int *order);

/* Writes the larger of each field to out, which may be a or b. Returns 0, or -EINVAL as above. */
int value_max(const struct meaning *meanings, const char *a, const char *b,
	char out[static SETTING_VALUE_MAX]);

/*
 * A value is a setting of the running kernel: a sysctl, a switch in sysfs or a threshold of a
 * neighbour table. The value and the record of its original last until the next boot.
 */

enum value_kind {
	VALUE_FILE,     /* one value in one file of procfs or sysfs */
	VALUE_NEIGHTBL, /* a threshold of a neighbour table: rtnetlink, else /proc/sys */
};

/* Where a value is written. It is part of the record, so that restore needs no configuration. */
struct value_target {
	enum value_kind kind;
	char path[SETTING_PATH_MAX]; /* below the host's root: "/proc/sys/vm/max_map_count" */
	int family;                  /* VALUE_NEIGHTBL: AF_INET or AF_INET6 */
	int level;                   /* VALUE_NEIGHTBL: 1, 2, 3 of gc_thresh */
};

/*
 * The record of a value, made before its first write and updated before each later one. It serves
 * to restore the original and to detect writes by others.
 */
struct value_record {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	struct value_target target;
	char original[SETTING_VALUE_MAX]; /* before the first write of this boot */
	char before[SETTING_VALUE_MAX];   /* ours too: the last value that was read back */
	char wanted[SETTING_VALUE_MAX];   /* the value of the last write, done or intended */
	char chosen[SETTING_VALUE_MAX];   /* the last value of others that we replaced; or empty */
	bool grown;                       /* growth chose wanted, not the configuration */
	/* A configuration file asked for it at the last poll that wanted it; not a default or a
	 * profile. */
	bool configured;
};

/* Returns true when actual is neither the original nor a value that we wrote. */
bool value_is_foreign(const struct value_record *record, const char *actual);

/*
 * Returns the administrator's value: the one that others chose last, else the original. record may
 * be NULL.
 */
const char *value_of_node(const struct value_record *record, const char *actual);

/* Writes the larger of the administrator's value and the original to floor. */
void value_floor(const struct meaning *meanings, const struct value_record *record,
	const char *actual, char floor[static SETTING_VALUE_MAX]);

/* The sources of a value of a setting. */
struct choice {
	const char *ours;   /* the value of the configuration, or our default */
	enum reason reason; /* why ours */
	bool configured;    /* ours is in a configuration file, or in a profile that one names */
	bool exact;         /* ours holds although the node has more */
	const char *node;   /* the administrator's value; NULL: none */
	enum reason chosen; /* why node is an explicit choice that ours would undo; or none */
	const struct meaning *meanings; /* of the setting; NULL: numbers mean themselves */
};

/*
 * Writes the value to set, and returns the reason. The configuration beats an explicit choice on
 * the node, which beats our default. The larger of two numbers wins if a setting is only raised.
 */
enum reason value_choose(const struct choice *choice, char wanted[static SETTING_VALUE_MAX]);

/*
 * A pin keeps an image from the kubelet's garbage collection. The runtime's driver sets it.
 */

#define PINNED     "pinned"
#define NOT_PINNED "not pinned"

struct pin_target {
	char image[SETTING_PATH_MAX];
	char driver[16];  /* name of a struct runtime_driver */
	char socket[108]; /* the runtime's, below the host's root */
};

/* The durable record of an image that was not pinned before. */
struct pin_record {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	struct pin_target target;
};
