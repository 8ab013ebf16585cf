/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A setting is a value that the node should have. There are two kinds: a value of the running
 * kernel and a key of a program's configuration file. This is what both have in common: what
 * `headroom status` shows. A value is text, as the kernel prints it, with the selected
 * word taken out of "always [madvise] never" and runs of white space folded to one space. A value
 * from a file is shown without the quotes of the file's language.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTING_NAME_MAX  128
#define SETTING_VALUE_MAX 128 /* the longest sysctl worth managing is core_pattern */
#define SETTING_PATH_MAX  256
#define SETTING_WHY_MAX   200

/* A tuner's, or the whole agent's, attitude to the node. */
enum mode {
	MODE_ENFORCE,  /* sense, decide, apply */
	MODE_OBSERVE,  /* sense, decide; apply nothing */
	MODE_OFF,      /* not even sense */
	MODE_RELEASED, /* as MODE_OBSERVE, after `headroom restore` and until `headroom apply` */
};

enum setting_state {
	SETTING_IN_SYNC,     /* the value read back is the wanted one */
	SETTING_PENDING,     /* will be written at the next occasion */
	SETTING_DRIFTED,     /* someone else changed it, and on_drift leaves it so */
	SETTING_YIELDED,     /* someone else keeps changing it: left to them */
	SETTING_FAILED,      /* could not be read, recorded or written: see error */
	SETTING_UNSUPPORTED, /* this kernel has no such thing */
	SETTING_OBSERVED,    /* read, never written */
};

/* What is known of a setting, kept from poll to poll. */
struct setting {
	char name[SETTING_NAME_MAX];
	const char *tuner;
	char wanted[SETTING_VALUE_MAX];   /* empty: nothing is wanted */
	char actual[SETTING_VALUE_MAX];   /* in force now; empty: not known */
	char original[SETTING_VALUE_MAX]; /* before our first write; until then, actual */
	enum mode mode;
	enum setting_state state;
	const char *reason;                /* why it is in this state: a slug */
	int error;                         /* -errno behind SETTING_FAILED; of SETTING_UNSUPPORTED
					    * when a file of the configuration asks for it; else 0 */
	char why[SETTING_WHY_MAX];         /* more about error than strerror(3) says; or empty */
	char confirmed[SETTING_VALUE_MAX]; /* as it last was in sync: another value is drift */
	bool drifted;                      /* drift was seen, and nothing written since */
	unsigned rounds;                   /* consecutive times it was set again after drift */
	uint64_t drift_total;              /* times drift was seen */
	uint64_t drift_at_us;              /* when it was last seen, CLOCK_MONOTONIC */
	uint64_t retry_at_us;              /* when to try again what failed or waits */
};

extern const char *const mode_names[];
extern const char *const setting_state_names[];

/*
 * The one place where a setting's state changes. reason is a slug; error and why (may be NULL)
 * belong to SETTING_FAILED; an error also to SETTING_UNSUPPORTED. True when it is in that state for
 * another reason than before.
 */
bool setting_become(struct setting *setting, enum setting_state state, const char *reason,
	int error, const char *why);

/* The value that was read is the wanted one, whatever the mode. */
bool setting_in_sync(const struct setting *setting);

/* True for a value equal to either: numbers by value, anything else by its words. */
bool value_equal(const char *a, const char *b);

/*
 * Compares two values of one or more integers, field by field. Returns 0 and writes order: -1 when
 * no field of a is above b's and one is below, 0 equal, 1 when none is below and one is above, 2
 * when fields go both ways. -EINVAL when one is no list of integers or the lists differ in length.
 */
int value_compare(const char *a, const char *b, int *order);

/* Writes the larger of both, field by field, to out, which may be a or b. -EINVAL as above. */
int value_max(const char *a, const char *b, char out[static SETTING_VALUE_MAX]);

/*
 * A value is a setting of the running kernel: a sysctl, a switch in sysfs, a threshold of a
 * neighbour table. It lives until the next boot, and so does the record of its original.
 */

enum value_kind {
	VALUE_FILE,     /* one value in one file of procfs or sysfs */
	VALUE_NEIGHTBL, /* a threshold of a neighbour table: rtnetlink, else /proc/sys */
};

/* Where a value is written. Plain data, and recorded: a restore needs no configuration. */
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

/* True when actual is neither the original nor anything that was written by us. */
bool value_is_foreign(const struct value_record *record, const char *actual);

/*
 * What the administrator had: the original, or a higher value that someone set since. Written to
 * floor, empty when nothing is recorded and actual is empty. record may be NULL.
 */
void value_floor(const struct value_record *record, const char *actual,
	char floor[static SETTING_VALUE_MAX]);

/*
 * A file setting is one key of a program's configuration file, or a whole file of ours. It outlives
 * a boot, and so does the record of its original.
 */

#define FILE_TABLE_MAX 128
#define FILE_KEY_MAX   64

enum edit_format {
	EDIT_TOML, /* one key of one table; every other byte stays */
	EDIT_JSON, /* one key of the topmost object; order and unknown keys stay */
	EDIT_OWN,  /* the whole file is ours */
	EDIT_PIN,  /* no file: an image of the service, which has the text PINNED or none */
};

#define PINNED     "pinned"
#define NOT_PINNED "not pinned"

/* Where a file setting is written. */
struct file_target {
	char path[SETTING_PATH_MAX]; /* below the host's root; EDIT_PIN: the image's name */
	enum edit_format format;
	char table[FILE_TABLE_MAX]; /* EDIT_TOML: plugins."io.containerd.grpc.v1.cri"; else "" */
	char key[FILE_KEY_MAX];     /* EDIT_TOML, EDIT_JSON: max_concurrent_downloads */
};

/* What makes a changed file take effect. */
enum activation {
	ACTIVATE_NOTHING, /* it is read when it is used, or at the next start */
	ACTIVATE_RELOAD,  /* SIGHUP */
	ACTIVATE_RESTART, /* a restart of the unit, by policy */
};

enum restart_policy {
	RESTART_NEVER,
	RESTART_WHEN_IDLE, /* no pull in flight, and one try an hour */
	RESTART_NOW,
};

/* What must accept a new file before it replaces the old one. */
enum verifier {
	VERIFY_NOTHING,
	VERIFY_CONTAINERD_DUMP, /* `containerd config dump` of old and new: only our keys differ */
	VERIFY_DOCKERD, /* no key that this version does not know; `dockerd --validate` from 23.0 */
};

/*
 * The program that a file belongs to: plain data, recorded, so that a restore can make the old
 * file take effect too. Paths are below the host's root; what is not known is empty.
 */
struct service {
	enum activation activation;
	enum restart_policy restart;
	enum verifier verifier;
	char unit[64];                 /* "containerd.service"; without it nothing is restarted */
	char socket[108];              /* where it must answer again after a restart or reload */
	char binary[SETTING_PATH_MAX]; /* the running daemon's program, for the verifier */
	char version[32];              /* of the running daemon: "20.10.24+dfsg1" */
	char config[SETTING_PATH_MAX]; /* its main file, which the edited one may be a drop-in of */
	char directory[SETTING_PATH_MAX]; /* its working directory: relative imports begin there */
	char program[16];                 /* ACTIVATE_RELOAD: what its process must be called */
	char pid_file[128];               /* ACTIVATE_RELOAD: "/run/docker.pid" */
	int pid;   /* of the daemon, as this process sees it; 0: by pid_file */
	bool busy; /* just now: a pull is in flight */
};

/* How a file becomes as wanted. */
struct file_edit {
	/*
	 * EDIT_OWN, EDIT_PIN: the whole. EDIT_TOML and EDIT_JSON: the value in the file's language,
	 * as in: 10, "30m0s" with its quotes, ["a", "b"]. NULL: the key, or for EDIT_OWN the file,
	 * is removed.
	 */
	const char *text;
	/* VERIFY_CONTAINERD_DUMP: tables to try, in this order, until the program has the value;
	 * static data, ended by NULL. */
	const char *const *tables;
	/* What a file begins with that does not exist yet; static, NULL for nothing. */
	const char *base;
	char dump_key[200]; /* VERIFY_CONTAINERD_DUMP: the key's full name in the dump */
	struct service service;
};

/* What is recorded durably of a file setting before it is first written, and since. */
struct file_record {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	struct file_target target;
	char original[SETTING_VALUE_MAX]; /* in force before our first write */
	char on_disk[SETTING_VALUE_MAX];  /* in the file then; empty: nothing */
	char before[SETTING_VALUE_MAX];   /* in the file when wanted was recorded */
	char wanted[SETTING_VALUE_MAX];
	char failed[SETTING_VALUE_MAX]; /* wanted, and the program did not come back with it */
};
