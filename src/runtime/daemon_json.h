/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads Docker's daemon.json and asks dockerd to validate it. Blocks. */

#include "runtime/driver.h"

#include <cjson/cJSON.h>

/* config is zeroed or the result of the last call for this daemon. A missing file is valid. */
void docker_config_read(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, struct runtime_files *config);

/*
 * Whether dockerd accepts a terminated text, which is also in the file path, inside the host's
 * root. Asks `dockerd --validate`, which 23.0 brought; for 20.10, compares with the keys that it
 * knows. 0; -EBADMSG with why: "PATH:LINE:COLUMN: what"; another -errno if dockerd did not run.
 */
int docker_config_check(const struct host *host, const struct daemon *daemon, const char *text,
	size_t len, const char *path, const struct wait *wait, char why[static RUNTIME_WHY_MAX]);

/* ---- members of the top-level object, for edits in place ---- */

#define JSON_WHY_MAX 128

/*
 * Parses a terminated text. 0 with the object, which the caller deletes, or NULL for a blank text;
 * -EBADMSG with why: "LINE:COLUMN: what".
 */
int json_parse(const char *text, size_t len, cJSON **object, char why[static JSON_WHY_MAX]);

/* Offsets into the text. key includes the quotes. */
struct json_member {
	size_t key, key_end;
	size_t value, value_end;
};

/* Moves to the next member; {0} precedes the first one. text is valid for json_parse(). */
bool json_next(const char *text, struct json_member *member);
