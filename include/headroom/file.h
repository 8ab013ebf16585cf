/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file setting is one key of a daemon's configuration file, or a whole file of ours. The file
 * and the record of its original survive a reboot.
 */

#include <headroom/daemon.h>

#define FILE_TABLE_MAX 128
#define FILE_KEY_MAX   64
#define FILE_HASH_MAX  65     /* HASH_TEXT_MAX */
#define FILE_HASH_NONE "none" /* the hash of a missing file */

enum edit_format {
	EDIT_TOML, /* one key of one table; every other byte stays */
	EDIT_JSON, /* one key of the root object; every other byte stays */
	EDIT_OWN,  /* the whole file is ours */
};

/* How far a change has come. advance() in file_transaction.c alone sets it from there on. */
enum file_state {
	FILE_WANTED,    /* the file has another value */
	FILE_VERIFIED,  /* the daemon accepts the new text */
	FILE_RECORDED,  /* the journal has what a restore needs */
	FILE_WRITTEN,   /* the file has the value: the daemon has to read it */
	FILE_ACTIVATED, /* the daemon was restarted */
	FILE_CONFIRMED, /* in force */
	FILE_RESTORING, /* the file has its original: the daemon has to read it */
};

/* In memory only: the part of a want or a change that only file settings have. */
struct file_change {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	enum edit_format format;
	char table[FILE_TABLE_MAX]; /* EDIT_TOML: plugins."io.containerd.grpc.v1.cri"; else "" */
	char key[FILE_KEY_MAX];     /* EDIT_TOML, EDIT_JSON: max_concurrent_downloads */
	/*
	 * The value in the file now, which is in force after the daemon's next start; empty:
	 * absent. With EDIT_OWN it equals wanted if and only if the file is `text`.
	 */
	char on_disk[SETTING_VALUE_MAX];
	char judged[FILE_HASH_MAX]; /* EDIT_OWN: the hash of the file then; empty: not known */
	/*
	 * EDIT_OWN: the whole new text. EDIT_TOML, EDIT_JSON: the value in the file's syntax, such
	 * as 10, "30m0s" with its quotes, or ["a", "b"]. NULL removes the key (EDIT_OWN: the file).
	 * Owned.
	 */
	char *text;
	/* For a driver with dump(): tables to try in this order until the dump has the value;
	 * static and ended by NULL. */
	const char *const *tables;
	/* The text that precedes the edit in a new file; static, or NULL. */
	const char *base;
	char dump_key[200]; /* the key's full name in the driver's dump */
	enum activation activation;
	enum restart_policy restart;
	struct daemon daemon; /* the daemon that reads the file */
	enum file_state state;
};

/* Durable, in the journal: a file setting, recorded before its first write and before each. */
struct key_record {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	char table[FILE_TABLE_MAX]; /* this and key as in struct file_change */
	char key[FILE_KEY_MAX];
	char in_force_originally[SETTING_VALUE_MAX]; /* before our first write */
	char on_disk_originally[SETTING_VALUE_MAX];  /* in the file then; empty: absent */
	char value_before[SETTING_VALUE_MAX];        /* in the file when wanted was recorded */
	char wanted[SETTING_VALUE_MAX];
	char failed[SETTING_VALUE_MAX]; /* a value with which the daemon did not start again */
	char path[SETTING_PATH_MAX];    /* of its file; only in copies */
};
