/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_EDIT_H
#define APPLY_EDIT_H

/*
 * Changes of configuration files. The order is always the same, each step durable before the next:
 *
 *   edits_make()     what belongs to one file becomes one edit
 *   edits_prepare()  reads, edits, asks the program whether it is content, keeps the original bytes
 *   edits_note()     into the journal, which the caller stores
 *   edits_write()    replaces the files, unless somebody was quicker
 *   edits_settle()   the results, to the plan and the node
 *   activation       see src/apply/reload.h and restart.h
 *
 * Prepare, write and restore may block and touch nothing but the edits: they are for a thread.
 */

#include "apply/edit_text.h"
#include "apply/file.h"
#include "apply/journal.h"
#include "model/node.h"

#include <headroom/plan.h>

/* One file. */
struct edit_file {
	struct file_note note; /* as it was journaled; prepare makes it what is to be journaled */
	bool noted;            /* the journal had it before */
	struct service service;
	struct file_at at;
	struct file_bytes old;
	char *new; /* NULL: the file is taken away */
	size_t new_len;
	char new_hash[HASH_TEXT_MAX];
	bool written;       /* the file was changed */
	int error;          /* 0 or -errno; nothing was written then */
	const char *reason; /* of error: a slug */
	char why[EDIT_WHY_MAX];
};

struct edits {
	struct host host; /* only its root is used */
	int state;        /* the state directory, owned by the journal; -1 for none */
	struct plan plan; /* the changes of these files, and what a restore did */
	struct edit_file *files;
	size_t n, allocated;
	char *kept; /* hashes of the kept bytes that a sweep leaves; NULL: it leaves all */
};

/* Moves the changes of configuration files from a plan to the edits. 0 or -ENOMEM. */
int edits_take(struct plan *plan, struct edits *edits);

/* 0 or -ENOMEM. The journal is only read. */
int edits_make(const struct host *host, const struct journal *journal, struct edits *edits);
void edits_prepare(struct edits *edits);
void edits_sweep(struct edits *edits); /* originals that nothing needs any more */
int edits_note(const struct edits *edits, struct journal *journal);
void edits_write(struct edits *edits);

/*
 * Instead of writing: nothing could be prepared, or not be noted, or (-ESTALE) nobody wants it any
 * more.
 */
void edits_refused(struct edits *edits, int error);

/* Results to the plan's changes, and to the node's settings. config: its checksum. */
void edits_settle(struct edits *edits, struct node *node, uint64_t now_us);

/*
 * Putting back: what tuner (NULL: all) changed, or one file. make and restore fill the plan, finish
 * forgets in the journal what is put back or left; storing is the caller's.
 */
int edits_make_restore(const struct host *host, const struct journal *journal, const char *tuner,
	struct edits *edits);
int edits_add_restore(const struct host *host, const struct journal *journal, const char *path,
	struct edits *edits);
void edits_restore(struct edits *edits);
void edits_finish_restore(const struct edits *edits, struct journal *journal);

void edits_clear(struct edits *edits);

#endif
