/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_EDITOR_H
#define APPLY_EDITOR_H

/*
 * Makes the new text of a program's configuration file, and has the program accept it before it
 * replaces anything. Blocks; only trial files beside the real one are written.
 */

#include "apply/edit_text.h"
#include "apply/file.h"
#include "base/wait.h"

#include <headroom/file.h>

/* A file, and the program that reads it. */
struct editor {
	const struct host *host;
	int state; /* the state directory, which remembers trial files */
	const struct service *service;
	const char *path; /* below the host's root */
	const struct file_at *at;
};

/* One key of it. */
struct edit_key {
	const char *const *tables; /* EDIT_TOML: one of these, ended by NULL: tried in this order */
	const char *key;
	const char *literal;  /* as the file spells it; NULL: the key is removed */
	const char *dump_key; /* VERIFY_CONTAINERD_DUMP: its name there */
	const char *table;    /* out: the one of tables that was right; "" for EDIT_JSON */
};

/*
 * The text with all keys in it; old NULL: there is no file, and it begins with base (NULL: with
 * nothing). 0 with new, terminated and freed by the caller. -EINVAL when the program refuses it or
 * would change more than the keys, -EBADMSG or -EEXIST for a text of an unusual shape, another
 * -errno when it could not be tried; all with why, and nothing may be written then.
 */
int edit_make(const struct editor *editor, enum edit_format format, const char *old, size_t len,
	const char *base, struct edit_key *keys, size_t n, const struct wait *wait, char **new,
	size_t *new_len, char why[static EDIT_WHY_MAX]);

/*
 * Whether the program accepts its configuration as it is on disk: before every restart and reload.
 * 0; -EINVAL with its message; another -errno when it could not be asked, with why.
 */
int edit_check(const struct editor *editor, const struct wait *wait, char why[static EDIT_WHY_MAX]);

#endif
