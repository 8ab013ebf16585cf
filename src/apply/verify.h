/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_VERIFY_H
#define APPLY_VERIFY_H

#include "apply/edit_text.h"
#include "apply/file.h"

/* A new configuration text, to be tried before it stands anywhere. */
struct trial {
	const struct host *host;
	int state; /* the state directory */
	const struct service *service;
	const char *path; /* below the host's root */
	const struct file_at *at;
	const struct file_bytes *old;
	const char *base; /* what counts as the old text of a file that does not exist; or NULL */
	const char *text;
	size_t len;
	const char *const *dump_keys; /* what may differ in the dump */
	size_t n_dump_keys;
};

/*
 * Asks the program that the file belongs to. 0 when it is content; -EINVAL when it is not, with
 * why; another -errno, with why, when it could not be asked: both mean that nothing is written.
 * Blocks for 20 s at most.
 */
int verify_text(const struct trial *trial, char why[static EDIT_WHY_MAX]);

#endif
