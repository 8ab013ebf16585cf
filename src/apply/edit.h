/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the new text of a daemon's configuration file. Its program must accept the text before it
 * replaces the file.
 */

#include "apply/file.h"
#include "base/wait.h"

#include <headroom/plan.h>

/*
 * These edit one key of a terminated text, EDIT_TOML or EDIT_JSON, and keep every other byte. 0;
 * -EBADMSG for a syntax error or -EEXIST for an unsupported form, with why: "LINE:COLUMN: what". On
 * an error the text is unchanged.
 */

#define EDIT_WHY_MAX 320

/* literal is the value in the file's syntax, or NULL without the key; the caller frees it. */
int edit_get(enum edit_format format, const struct file_bytes *text, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX]);

/* literal NULL removes the key. Adding and removing a key restores the original text. */
int edit_set(enum edit_format format, struct file_bytes *text, const char *table, const char *key,
	const char *literal, char why[static EDIT_WHY_MAX]);

void text_copy(struct file_bytes *text, const char *bytes, size_t len);

/* A file and the program that reads it. The functions below block and write only trial files. */
struct editor {
	const struct host *host;
	int state; /* the state directory, for trial files */
	const struct daemon *daemon;
	const char *path;              /* below the host's root */
	const struct file_bytes *real; /* the file, located */
	const struct wait *wait;
};

/*
 * Replaces the text of a file, NULL for a new file, by one with all changes, and sets its hash. The
 * first table of edit.tables that the program accepts becomes the target's. -EINVAL when the
 * program refuses the text or other keys would change; -EBADMSG or -EEXIST as above; -ESTALE if
 * others have set another value since the changes were judged; another -errno when the program
 * could not be asked; all with why.
 */
int edit_make(const struct editor *editor, struct change *const *changes, size_t n,
	struct file_bytes *text, char why[static EDIT_WHY_MAX]);

/* Returns whether a dump of the program has the value of a change. value: gets the dump's. */
bool edit_dump_has(
	const char *dump, const struct file_change *change, char value[static SETTING_VALUE_MAX]);

/*
 * Checks before a restart or reload that the program accepts its configuration on disk. 0, also for
 * a daemon without a main file; -EINVAL with its message; another -errno, with why.
 */
int edit_check(const struct host *host, const struct daemon *daemon, const struct wait *wait,
	char why[static EDIT_WHY_MAX]);
