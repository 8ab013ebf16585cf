/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_FILES_H
#define APPLY_FILES_H

/*
 * What the journal knows of a configuration file that was changed: enough to give its original
 * bytes back, or, after someone else has changed it too, to take out no more than is ours. The
 * bytes themselves lie in the state directory, below files/, under the name of their hash. They
 * outlive a boot.
 */

#include "base/cleanup.h"
#include "base/hash.h"

#include <headroom/file.h>

#define FILE_HASH_NONE "none" /* in place of a hash: there is no such file */

/* A key of ours; texts are in the file's language, NULL: it is not there. EDIT_OWN has none. */
struct file_key {
	char name[SETTING_NAME_MAX]; /* the setting's, whose record has the place */
	char table[FILE_TABLE_MAX];
	char key[FILE_KEY_MAX];
	char *original; /* before our first write */
	char *before;   /* what stood there when target was noted: the original, or ours */
	char *target;
};

struct file_note {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	char tuner[32];
	enum edit_format format;
	struct service service;
	unsigned directories;         /* how many directories above it were made for it */
	char original[HASH_TEXT_MAX]; /* of the bytes to put back, which files/ has */
	/* Of what we wrote, and were about to write when this was noted. */
	char ours[2][HASH_TEXT_MAX];
	struct file_key *keys;
	size_t n_keys, keys_allocated;
};

/* out is written on success only, and cleared by its owner. 0 or -ENOMEM. */
int file_note_copy(const struct file_note *note, struct file_note *out);
void file_note_clear(struct file_note *note);

/* The key of a setting, or NULL. */
struct file_key *file_note_key(const struct file_note *note, const char *name);

/* The same, made when there is none. NULL without memory. */
struct file_key *file_note_add_key(
	struct file_note *note, const char *name, const struct place *place);

/* Puts a copy of text, which may be NULL, in the place of another. 0 or -ENOMEM. */
int replace_text(char **slot, const char *text);

/* True for two equal texts, or none twice. */
bool same_text(const char *a, const char *b);

bool file_note_equal(const struct file_note *a, const struct file_note *b);

/* True when a file of this hash was written by us. */
bool file_note_is_ours(const struct file_note *note, const char *hash);

#endif
