/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADROOM_FILE_H
#define HEADROOM_FILE_H

/*
 * A file setting is one key of a program's configuration file, or a whole file of ours. It outlives
 * a boot, and so does the record of its original.
 */

#include <headroom/setting.h>

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
	/* EDIT_TOML: tables to try, in this order, until the program has the value; ended by NULL.
	 * Static data. NULL: the target's table alone. */
	const char *const *tables;
	const char *base; /* what a file begins with that does not exist yet; NULL for nothing */
	const char *dump_key; /* VERIFY_CONTAINERD_DUMP: the key's full name in the dump */
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

/* The record of a name, or NULL. */
const struct file_record *file_record_find(
	const struct file_record *records, size_t n, const char *name);

#endif
