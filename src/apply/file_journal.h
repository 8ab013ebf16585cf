/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * journal.json in the state directory records the changed configuration files. It is durable before
 * the first write to a file, and it alone is enough to restore: no configuration, no tuner and no
 * running agent is needed. The original bytes of files are beside it, in files/ (src/apply/file.h).
 * It also records the restarts of programs, so that the next process finishes what a killed one
 * began, and which tuners are released.
 *
 * It is replaced by write_file_atomic(), so a crash or a full disk leaves the old journal or the
 * new one. A damaged journal, or a missing one while files/ holds originals, is refused and left
 * as it is: until an administrator decides, no file is written and no original is removed.
 */

#include "base/text.h"

#include <headroom/setting.h>

#define JOURNAL_KEYS_MAX     8 /* of one file */
#define JOURNAL_RELEASED_MAX 16
#define JOURNAL_UNITS_MAX    16
#define JOURNAL_TRIED_MAX    8
#define JOURNAL_FILE_MAX     (4 * 1024 * 1024)

struct file_note {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	char tuner[32];
	enum edit_format format;
	struct service service;
	unsigned directories; /* how many directories above it were made for it */
	/* Hashes of bytes that files/ has: to restore; and what we wrote, or were about to write
	 * when this was noted. */
	char original[HASH_TEXT_MAX];
	char ours[2][HASH_TEXT_MAX];
	struct file_record keys[JOURNAL_KEYS_MAX]; /* its settings */
	size_t n_keys;
};

/* A tuner whose originals were restored: it only observes until apply is asked for. */
struct release {
	char tuner[32];
	uint64_t since_s; /* CLOCK_REALTIME */
};

struct release_list {
	struct release tuners[JOURNAL_RELEASED_MAX];
	size_t n;
};

/* A setting and a value that a restart was to bring. */
struct tried {
	char name[SETTING_NAME_MAX], value[SETTING_VALUE_MAX];
	bool last; /* in the last restart: what is undone when it fails */
};

/* The last restart of a unit. While it is open, nobody has seen what came of it. */
struct unit_mark {
	char unit[64];
	uint64_t at_s; /* CLOCK_REALTIME */
	bool open;
	unsigned answered; /* how much of it answered before: enum cri_answers */
	struct tried tried[JOURNAL_TRIED_MAX]; /* not tried again */
	size_t n_tried;
};

struct file_journal {
	int dir;                 /* the state directory; -1 when there is none */
	struct file_note *files; /* the newest last */
	size_t n_files, files_allocated;
	struct pin_record *pins;
	size_t n_pins, pins_allocated;
	struct release_list released;
	struct unit_mark units[JOURNAL_UNITS_MAX];
	size_t n_units;
	char *stored; /* the text on disk; NULL when that is unknown or there is none */
};

/*
 * Loads the journal of a state directory; without a file it starts empty. create is for the one
 * writer and makes the directory. 0 with *ret; -EBADMSG for a damaged journal; -ENODATA for a
 * missing one while files/ holds originals; -EPROTO for one of a newer version; another -errno.
 */
int file_journal_open(const char *directory, bool create, struct file_journal **ret);
void file_journal_close(struct file_journal *journal);
DEFINE_CLEANUP(struct file_journal, file_journal_close)

/* The meaning and the cure of an error of file_journal_open(), for messages. */
const char *file_journal_describe(int error);

/* Stores the journal durably if it differs from the text on disk. 0 or -errno. */
int file_journal_store(struct file_journal *journal);

/* All settings that are recorded, for the caller to free. */
struct file_record *file_journal_snapshot(const struct file_journal *journal, size_t *n);

/*
 * Replaces an older note of its path, and moves notes in memory. The next store writes the file
 * even if nothing changed: someone may have removed it.
 */
void file_journal_put(struct file_journal *journal, const struct file_note *note);
void file_journal_forget(struct file_journal *journal, const char *path);

/* A tuner is released from now on, or not any more. */
void release_set(struct release_list *list, const char *tuner, bool released);

/* Forgets that a setting was tried, and that its program did not come back. */
void file_journal_try_again(struct file_journal *journal, const char *name);

/* True when a file of this hash was written by us. */
bool note_is_ours(const struct file_note *note, const char *hash);
