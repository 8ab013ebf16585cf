/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What Docker's daemon.json says, and whether dockerd accepts it. Blocks; nothing writes. */

#include "runtime/driver.h"

#include <cjson/cJSON.h>

#define DOCKER_CONFIG_MAX 262144 /* bytes; more is no daemon.json */

/* config is zeroed, or what the last call for this daemon wrote. No file is no error. */
void docker_config_read(
	const struct runtime_daemon *daemon, const struct wait *wait, struct runtime_files *config);

/*
 * Whether dockerd accepts this text, which is in the file path too (inside the host's root):
 * `dockerd --validate` from 23.0 on, before that by the keys that 20.10 knows. 0; -EBADMSG with
 * why: "PATH:LINE:COLUMN: what"; another -errno when it could not be asked. Terminated text.
 */
int docker_config_check(const struct runtime_daemon *daemon, const char *text, size_t len,
	const char *path, const struct wait *wait, char why[static RUNTIME_WHY_MAX]);

/* For editing a JSON text in place: where the members of its topmost object are. */

#define JSON_WHY_MAX 128

/*
 * 0 with the object, to be deleted, or NULL for a blank text; -EBADMSG with why: "LINE:COLUMN:
 * what". text is terminated.
 */
int json_parse(const char *text, size_t len, cJSON **object, char why[static JSON_WHY_MAX]);

/* Offsets into the text: the key with its quotes, and the value. */
struct json_member {
	size_t key, key_end;
	size_t value, value_end;
};

/* The next member of a text that json_parse() takes, after {0} the first. False at the end. */
bool json_next(const char *text, struct json_member *member);
