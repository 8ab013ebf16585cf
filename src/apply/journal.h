/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_JOURNAL_H
#define APPLY_JOURNAL_H

/*
 * The journal of original values: journal.json in the state directory, and journal.json.1, one
 * generation older. It is made durable before the first write to the node, and it alone is enough
 * to restore: no configuration, no tuner, no running agent is needed.
 *
 * Whoever adds an original stores twice, so that both generations hold it: either file may be lost
 * or torn afterwards and nothing is forgotten.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apply/answer.h"
#include "apply/files.h"
#include "base/cleanup.h"

#include <headroom/plan.h>
#include <headroom/setting.h>

#define JOURNAL_RELEASED_MAX 16
#define JOURNAL_RESTARTS_MAX 8
#define JOURNAL_FILE_MAX     (4 * 1024 * 1024)

/* A journal that could not be read. While it is there, original bytes of files are not swept. */
#define JOURNAL_BAD "journal.json.bad"

/* A tuner whose originals were put back: it only observes while the configuration stays. */
struct journal_release {
	char tuner[32];
	uint32_t config;
};

/* A unit that was restarted. While it is open, nobody has seen what came of it. */
struct journal_restart {
	char unit[64];
	uint64_t at_s; /* when it was last tried: CLOCK_REALTIME, seconds since the epoch */
	bool open;
	enum answer_level answered; /* how much of it did before */
	uint32_t config;            /* checksum of the configuration that wanted it */
};

struct journal {
	int dir; /* the state directory; -1 when it does not exist and nothing may be written */
	char boot[64];   /* /proc/sys/kernel/random/boot_id */
	uint32_t config; /* checksum of the configuration last applied */
	struct record *records;
	size_t n_records, records_allocated;
	struct file_note *files; /* configuration files that were changed */
	size_t n_files, files_allocated;
	struct journal_release released[JOURNAL_RELEASED_MAX];
	size_t n_released;
	struct journal_restart restarts[JOURNAL_RESTARTS_MAX];
	size_t n_restarts;
	bool dirty;     /* differs from what is on disk */
	bool added;     /* holds an original that is not on disk: store twice */
	char note[256]; /* what was odd about loading it; empty when nothing was */
	bool lost;      /* neither generation could be read: older originals are lost */
};

/*
 * Loads the journal of a state directory. Records of another boot are dropped, but for those of
 * configuration files: procfs and sysfs start afresh; boot is empty when it is not known. Restarts
 * stay: a boot starts the unit with the same file. A torn
 * file is passed over for the older one; after two torn files the journal starts empty, with lost
 * and note set. create is for the one writer: make the directory, keep torn files as
 * *.bad, and put the older generation in the place of a torn one. 0 with *ret (journal_close
 * releases), or -errno of the directory or of a journal that this process may not read; -EPROTO for
 * one of a newer version, which alone knows what is to be put back: it stays as it is.
 */
int journal_open(const char *directory, const char *boot, bool create, struct journal **ret);
void journal_close(struct journal *journal);

/* What an error of journal_open() means, for people. */
const char *journal_describe(int error);
DEFINE_CLEANUP(struct journal, journal_close)

/*
 * Notes a plan: an original for each setting that has none, and the value about to be written.
 * Nothing is stored. 0 or -ENOMEM.
 */
int journal_note(struct journal *journal, const struct plan *plan);

/*
 * Notes what was read back where the kernel rounds or limits what is written: it is ours to put
 * back. In a fight it may be someone else's, and is not noted.
 */
void journal_note_actual(struct journal *journal, const struct plan *plan);

/* Remembers which configuration is being applied: a release for another one ends with that. */
void journal_set_config(struct journal *journal, uint32_t checksum);

void journal_forget(struct journal *journal, const char *name);

/* The note of a file, or NULL. It moves with the next journal_note_file(). */
const struct file_note *journal_file(const struct journal *journal, const char *path);

/*
 * Notes what is about to become of a file, in the place of an older note. Nothing is stored. 0 or
 * -ENOMEM, with the older note unchanged.
 */
int journal_note_file(struct journal *journal, const struct file_note *note);

/* Forgets a file, and the records of its settings that are in no other. */
void journal_forget_file(struct journal *journal, const char *path);

/*
 * A setting that broke its program under the current configuration is not tried again under it:
 * apply_plan() is not asked for it, until journal_try_again() for its tuner (NULL: for all).
 */
void journal_give_up(struct journal *journal, const char *name, uint32_t config);
void journal_try_again(struct journal *journal, const char *tuner);

/* A tuner that was restored observes until its configuration changes or apply is asked for. */
void journal_release(struct journal *journal, const char *tuner);
void journal_unrelease(struct journal *journal, const char *tuner);
bool journal_is_released(const struct journal *journal, const char *tuner, uint32_t config);

/* journal_restart.c: the last restart of a unit, or NULL. It moves with the next one that begins.
 */
const struct journal_restart *journal_find_restart(const struct journal *journal, const char *unit);

/*
 * Notes that a unit is about to be restarted, in the place of what is known of it or, without room,
 * of the one longest ago. To be in both generations before it is asked for; a restore forgets
 * neither this nor its end. 0; -EINVAL without a unit, -ENOSPC when all are open.
 */
int journal_begin_restart(struct journal *journal, const struct journal_restart *restart);

/* What came of it was seen, or it was not asked for after all. */
void journal_end_restart(struct journal *journal, const char *unit);

/*
 * A copy of what would be stored, to go back to when storing fails: what was never durable must not
 * count as an original. journal_take_back takes the copy's content over. NULL without memory.
 */
struct journal *journal_copy(const struct journal *journal);
void journal_take_back(struct journal *journal, struct journal *copy);

/* The journal as text, which the caller frees. 0 or -ENOMEM. */
int journal_print(const struct journal *journal, char **text);

/* Stores a text durably, at every moment leaving a whole journal behind. May block. 0 or -errno. */
int journal_store_text(int dir, const char *text, bool twice);

/* Prints and stores, when dirty; for those who may block. 0 or -errno. */
int journal_store(struct journal *journal);

/* Reads a journal's text. -EBADMSG for a wrong checksum or form, -EPROTO for a newer schema. */
int journal_parse(struct journal *journal, const char *text);

#endif
