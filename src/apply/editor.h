/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the new text of a program's configuration file, and has the program accept it before it
 * replaces anything.
 */

#include "apply/file.h"
#include "base/wait.h"

#include <headroom/plan.h>

/*
 * One key of a terminated text, EDIT_TOML or EDIT_JSON; every other byte stays. Pure. 0, else
 * nothing is changed: -EBADMSG for a text that is not of its language, -EEXIST for a shape that is
 * not edited, both with why: "LINE:COLUMN: what".
 */

#define EDIT_WHY_MAX 320

/* literal is as the text spells it, NULL without such a key; freed by the caller. */
int edit_get(enum edit_format format, const struct file_bytes *text, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX]);

/* literal NULL removes the key; removing what was added gives the text from before. */
int edit_set(enum edit_format format, struct file_bytes *text, const char *table, const char *key,
	const char *literal, char why[static EDIT_WHY_MAX]);

void text_copy(struct file_bytes *text, const char *bytes, size_t len);

/* A file, and the program that reads it. What follows blocks, and writes but trial files. */
struct editor {
	const struct host *host;
	int state; /* the state directory, which remembers trial files */
	const struct service *service;
	const char *path; /* below the host's root */
	const struct file_at *at;
	const struct wait *wait;
};

/*
 * Puts all changes, which are of one file, into its text; without bytes there is no file yet. The
 * target's table becomes the one that was right. On success the text is new, with its hash. -EINVAL
 * when the program refuses it or would change more than the keys, -EBADMSG or -EEXIST for a text of
 * an unusual shape, another -errno when it could not be tried; all with why, and nothing may be
 * written then.
 */
int edit_make(const struct editor *editor, struct change *const *changes, size_t n,
	struct file_bytes *text, char why[static EDIT_WHY_MAX]);

/*
 * Whether the program accepts its configuration as it is on disk: before every restart and reload.
 * 0, also for a service without a main file; -EINVAL with its message; another -errno when it could
 * not be asked, with why.
 */
int edit_check(const struct host *host, const struct service *service, const struct wait *wait,
	char why[static EDIT_WHY_MAX]);
