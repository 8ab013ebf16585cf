/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DAEMON_JSON_H
#define RUNTIME_DAEMON_JSON_H

/* What Docker's daemon.json says, and whether dockerd accepts it. Blocks; nothing writes. */

#include "base/child.h"
#include "base/text.h"
#include "base/wait.h"
#include "runtime/discover.h"

#include <stdint.h>

#define DOCKER_CONFIG_MAX  262144 /* bytes; more is no daemon.json */
#define DOCKER_WHY_MAX     320
#define DOCKER_MIRRORS_MAX 2048

struct docker_config {
	int error; /* 0 or -errno, with why: "PATH:LINE:COLUMN: what: cure" */
	char why[DOCKER_WHY_MAX];
	uint64_t changed_us;      /* CLOCK_REALTIME of the file; 0: there is none */
	char hash[HASH_TEXT_MAX]; /* of the file and the daemon: an equal one saves the check */
	char downloads[SETTING_VALUE_MAX]; /* max-concurrent-downloads; empty: not there */
	char mirrors[DOCKER_MIRRORS_MAX];  /* registry-mirrors, by spaces */
	bool has_mirrors;                  /* the key is there, be it an empty list */
};

/* config is zeroed, or what the last call for this daemon wrote. No file is no error. */
void docker_config_read(
	const struct runtime_daemon *daemon, const struct wait *wait, struct docker_config *config);

/*
 * Whether dockerd accepts this text, which is in the file path too (inside the host's root):
 * `dockerd --validate` from 23.0 on, before that by the keys that 20.10 knows. 0; -EBADMSG with
 * why: "PATH:LINE:COLUMN: what"; another -errno when it could not be asked. Terminated text.
 */
int docker_config_check(const struct runtime_daemon *daemon, const char *text, size_t len,
	const char *path, const struct wait *wait, char why[static DOCKER_WHY_MAX]);

/*
 * Where the members of a JSON text's topmost object are, for editing one in place: what cJSON
 * cannot tell; it judges what is inside of values.
 */

/* Offsets into the text: the key with its quotes, and the value. */
struct json_member {
	size_t key, key_end;
	size_t value, value_end;
};

struct json_scan {
	const char *text;
	size_t len, at;
	size_t open, close; /* the object's braces, once they were passed */
	size_t n;           /* members so far */
	char why[128];      /* of -EBADMSG: "LINE:COLUMN: what" */
};

/* 1 with the next member, 0 at the end of the text or in a blank one, -EBADMSG for any other. */
int json_next(struct json_scan *scan, struct json_member *member);

#endif
