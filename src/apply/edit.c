/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/edit.h"

#include "apply/apply.h"
#include "apply/reconcile.h"
#include "apply/verify.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>

#define DUMP_KEYS_MAX 16
#define DUMP_KEY_MAX  (FILE_TABLE_MAX + FILE_KEY_MAX + 1)

static void clear_file(struct edit_file *file)
{
	file_note_clear(&file->note);
	file_bytes_clear(&file->old);
	free(steal(file->new));
}

void edits_clear(struct edits *edits)
{
	for (size_t i = 0; i < edits->n; i++)
		clear_file(&edits->files[i]);
	free(edits->files);
	free(edits->kept);
	plan_clear(&edits->plan);
	*edits = (struct edits){.state = -1};
}

int edits_take(struct plan *plan, struct edits *edits)
{
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i], *moved;

		moved = change->place.kind == PLACE_EDIT && r == 0 ? plan_add(&edits->plan) : NULL;
		if (moved) {
			*moved = *change;
			continue;
		}
		if (change->place.kind == PLACE_EDIT)
			r = -ENOMEM;
		plan->changes[kept++] = *change;
	}
	plan->n = kept;
	return r;
}

static struct edit_file *find_file(const struct edits *edits, const char *path)
{
	for (size_t i = 0; i < edits->n; i++)
		if (streq(edits->files[i].note.path, path))
			return &edits->files[i];
	return NULL;
}

static int add_file(struct edits *edits, const struct journal *journal, const struct change *change)
{
	const struct file_note *note = journal_file(journal, change->place.path);
	struct edit_file *file;

	if (grow_array(&edits->files, edits->n, &edits->allocated, sizeof(*edits->files)) < 0)
		return -ENOMEM;
	file = &edits->files[edits->n];
	if (note && file_note_copy(note, &file->note) < 0)
		return -ENOMEM;
	edits->n++;
	file->noted = note;
	copy_text(file->note.path, sizeof(file->note.path), change->place.path);
	copy_text(file->note.tuner, sizeof(file->note.tuner), change->tuner);
	file->note.format = change->place.format;
	file->note.service = file->service = change->edit->service;
	return 0;
}

int edits_make(const struct host *host, const struct journal *journal, struct edits *edits)
{
	edits->host = *host;
	edits->state = journal->dir;
	for (size_t i = 0; i < edits->plan.n; i++) {
		const struct change *change = &edits->plan.changes[i];

		if (!find_file(edits, change->place.path) && add_file(edits, journal, change) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The changes that go into a file, one after the other: the one after *i, or NULL. */
static struct change *next_of(const struct edits *edits, const struct edit_file *file, size_t *i)
{
	for (; *i < edits->plan.n; (*i)++) {
		struct change *change = &edits->plan.changes[*i];

		if (!change->activate_only && streq(change->place.path, file->note.path)) {
			(*i)++;
			return change;
		}
	}
	return NULL;
}

static int set(char **text, size_t *len, enum edit_format format, const struct place *place,
	const char *literal, char *why)
{
	char *edited;
	int r = edit_text_set(
		format, *text, *len, place->table, place->key, literal, &edited, len, why);

	if (r < 0)
		return r;
	free(*text);
	*text = edited;
	return 0;
}

/* What stands in the file at this key; NULL for nothing, or for a file that is ours whole. */
static int standing(
	const struct edit_file *file, const struct place *place, char **literal, char *why)
{
	*literal = NULL;
	if (file->note.format == EDIT_OWN || !file->old.bytes)
		return 0;
	return edit_text_get(file->note.format, file->old.bytes, file->old.len, place->table,
		place->key, literal, why);
}

/*
 * What a crash between this note and the write leaves is ours, so it becomes before; what somebody
 * else put there is not: that is what a restore gives back from now on.
 */
static int note_key(struct edit_file *file, const struct change *change, char *why)
{
	struct file_key *key = file_note_key(&file->note, change->name);
	_cleanup_free_ char *literal = NULL;
	bool ours;
	int r = standing(file, &change->place, &literal, why);

	if (r < 0)
		return r;
	if (!key) {
		key = file_note_add_key(&file->note, change->name, &change->place);
		if (!key)
			return -ENOMEM;
	}
	/* Another generation of the program has it elsewhere. */
	copy_text(key->table, sizeof(key->table), change->place.table);
	copy_text(key->key, sizeof(key->key), change->place.key);
	ours = same_text(literal, key->target) || same_text(literal, key->before);
	if (!ours && replace_text(&key->original, literal) < 0)
		return -ENOMEM;
	if (replace_text(&key->before, ours ? literal : key->original) < 0)
		return -ENOMEM;
	return file->note.format == EDIT_OWN ? 0 : replace_text(&key->target, change->edit->text);
}

/* The file with everything of the plan in it. */
static int compose(const struct edits *edits, struct edit_file *file)
{
	const struct change *change;
	_cleanup_free_ char *text = NULL;
	size_t len = file->old.len;
	int r = 0;

	if (file->old.bytes)
		text = copy_bytes(file->old.bytes, len);
	for (size_t i = 0; r == 0 && (change = next_of(edits, file, &i));) {
		const char *base = change->edit->base ? change->edit->base : "";

		r = note_key(file, change, file->why);
		if (r < 0)
			break;
		if (!text || file->note.format == EDIT_OWN) {
			free(text);
			base = file->note.format == EDIT_OWN ? change->edit->text : base;
			text = base ? copy_bytes(base, strlen(base)) : NULL;
			len = base ? strlen(base) : 0;
			r = base && !text ? -ENOMEM : 0;
		}
		if (r == 0 && file->note.format != EDIT_OWN)
			r = set(&text, &len, file->note.format, &change->place, change->edit->text,
				file->why);
	}
	if (r < 0)
		return r;
	file->new = steal(text);
	file->new_len = len;
	copy_text(file->new_hash, sizeof(file->new_hash), FILE_HASH_NONE);
	if (file->new)
		hash_bytes(file->new, len, file->new_hash);
	return 0;
}

/* Someone else's file, with what is ours in it as it was before us: what a restore gives back. */
static int keep_without_ours(const struct edits *edits, struct edit_file *file)
{
	_cleanup_free_ char *text = copy_bytes(file->old.bytes, file->old.len);
	size_t len = file->old.len;
	int r = text ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < file->note.n_keys; i++) {
		const struct file_key *key = &file->note.keys[i];
		struct place place = {0};

		copy_text(place.table, sizeof(place.table), key->table);
		copy_text(place.key, sizeof(place.key), key->key);
		r = set(&text, &len, file->note.format, &place, key->original, file->why);
	}
	if (r < 0)
		return r;
	hash_bytes(text, len, file->note.original);
	return file_keep(edits->state, file->note.original, text, len);
}

/*
 * The bytes that a restore puts back are those before our first write; once somebody else has
 * changed the file, those of theirs.
 */
static int keep_original(const struct edits *edits, struct edit_file *file)
{
	struct file_note *note = &file->note;
	bool foreign = file->noted && !streq(file->old.hash, note->original) &&
		       !file_note_is_ours(note, file->old.hash);

	if (!file->noted || streq(file->old.hash, note->original) ||
		(foreign && !file->old.bytes)) {
		copy_text(note->original, sizeof(note->original), file->old.hash);
		return file->old.bytes ? file_keep(edits->state, note->original, file->old.bytes,
						 file->old.len)
				       : 0;
	}
	return foreign && note->format != EDIT_OWN ? keep_without_ours(edits, file) : 0;
}

/* What may differ in the dump: the keys of these changes. */
static size_t dump_keys(const struct edits *edits, const struct edit_file *file,
	char joined[][DUMP_KEY_MAX], const char *keys[])
{
	const struct change *change;
	size_t n = 0;

	for (size_t i = 0; n < DUMP_KEYS_MAX && (change = next_of(edits, file, &i)); n++) {
		const struct place *place = &change->place;

		snprintf(joined[n], DUMP_KEY_MAX, "%s%s%s", place->table,
			place->table[0] ? "." : "", place->key);
		keys[n] = change->edit->dump_key && change->edit->dump_key[0]
				  ? change->edit->dump_key
				  : joined[n];
	}
	return n;
}

static int verify(const struct edits *edits, struct edit_file *file)
{
	char joined[DUMP_KEYS_MAX][DUMP_KEY_MAX];
	const char *keys[DUMP_KEYS_MAX];
	size_t i = 0;
	const struct change *change = next_of(edits, file, &i);
	struct trial trial = {.host = &edits->host,
		.state = edits->state,
		.service = &file->service,
		.path = file->note.path,
		.at = &file->at,
		.old = &file->old,
		.base = change->edit->base,
		.text = file->new,
		.len = file->new_len,
		.dump_keys = keys};

	if (!file->new)
		return 0;
	trial.n_dump_keys = dump_keys(edits, file, joined, keys);
	return verify_text(&trial, file->why);
}

static void fail(struct edit_file *file, const char *reason, int error)
{
	file->reason = reason;
	file->error = error;
}

static void prepare(const struct edits *edits, struct edit_file *file)
{
	struct file_note *note = &file->note;
	int r = file_locate(&edits->host, note->path, &file->at);

	if (r == 0)
		r = file_take(&file->at, &file->old);
	if (r < 0) {
		fail(file, "unreadable", r);
		return;
	}
	r = compose(edits, file);
	if (r == 0 && streq(file->new_hash, file->old.hash)) {
		/* Somebody was quicker, or the tuner reads it otherwise: it must not be activated
		 * again and again. */
		fail(file, "not-taken", -ERANGE);
		return;
	}
	if (r == 0)
		r = verify(edits, file);
	if (r < 0) {
		bool refused = file->why[0] || r == -EINVAL || r == -EBADMSG;

		fail(file, refused ? "verify-refused" : "write-refused", r);
		return;
	}
	r = keep_original(edits, file);
	if (r < 0) {
		fail(file, "not-recorded", r);
		return;
	}
	copy_text(note->ours[0], HASH_TEXT_MAX,
		file_note_is_ours(note, file->old.hash) ? file->old.hash : "");
	copy_text(note->ours[1], HASH_TEXT_MAX, file->new_hash);
	note->directories = MAX(note->directories, file->new ? file->at.missing : 0);
}

void edits_sweep(struct edits *edits)
{
	if (edits->kept)
		file_sweep(edits->state, edits->kept);
}

void edits_prepare(struct edits *edits)
{
	edits_sweep(edits);
	for (size_t i = 0; i < edits->n; i++) {
		size_t first = 0;

		if (next_of(edits, &edits->files[i], &first))
			prepare(edits, &edits->files[i]);
	}
}

/* Prepared, and different from what stands there. */
static bool is_to_be_written(const struct edit_file *file)
{
	return file->error == 0 && file->new_hash[0] && !streq(file->new_hash, file->old.hash);
}

int edits_note(const struct edits *edits, struct journal *journal)
{
	for (size_t i = 0; i < edits->n; i++) {
		const struct edit_file *file = &edits->files[i];
		const struct change *change;

		if (!is_to_be_written(file))
			continue;
		if (journal_note_file(journal, &file->note) < 0)
			return -ENOMEM;
		for (size_t c = 0; (change = next_of(edits, file, &c));) {
			struct plan one = {.changes = (struct change *)change, .n = 1};

			if (journal_note(journal, &one) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

void edits_refused(struct edits *edits, int error)
{
	for (size_t i = 0; i < edits->n; i++) {
		struct edit_file *file = &edits->files[i];

		if (file->error < 0)
			continue;
		if (error == -ESTALE)
			copy_text(file->why, sizeof(file->why),
				"the configuration has changed meanwhile");
		fail(file, "not-recorded", error);
	}
}

void edits_write(struct edits *edits)
{
	for (size_t i = 0; i < edits->n; i++) {
		struct edit_file *file = &edits->files[i];
		int r;

		if (!is_to_be_written(file))
			continue;
		r = file_put(&file->at, file->old.hash, file->new, file->new_len);
		file->written = r == 0;
		if (r == -ESTALE)
			copy_text(file->why, sizeof(file->why),
				"someone else is changing the file just now: try again");
		if (r < 0)
			fail(file, "write-refused", r);
	}
}

static void follow(struct setting *setting, const struct change *change, const char *reason,
	const struct edit_file *file, uint64_t now)
{
	bool in_force = value_equal(change->actual, setting->want.wanted);

	/* Somebody was quicker: the next look sees what is there, and what is wanted, by now. */
	if (file->error == -ESTALE)
		return;
	if (file->error < 0) {
		setting_fail(setting, reason, file->error, change->why,
			now + (streq(reason, "verify-refused") ? RETRY_REFUSED_US : RETRY_FILE_US));
		return;
	}
	copy_text(setting->want.on_disk, SETTING_VALUE_MAX, change->new);
	copy_text(setting->confirmed, SETTING_VALUE_MAX, change->new);
	copy_text(setting->want.actual, SETTING_VALUE_MAX, change->actual);
	setting->drifted = false;
	setting->retry_at_us = 0;
	setting->error = 0;
	setting->state = in_force ? SETTING_IN_SYNC : SETTING_PENDING;
	setting->reason = in_force ? "in-sync" : waiting_reason(&file->service);
}

void edits_settle(struct edits *edits, struct node *node, uint64_t now)
{
	for (size_t i = 0; i < edits->n; i++) {
		const struct edit_file *file = &edits->files[i];
		struct change *change;

		for (size_t c = 0; (change = next_of(edits, file, &c));) {
			struct setting *setting = node_setting(node, change->name);
			bool at_once = file->service.activation == ACTIVATE_NOTHING;

			change->error = file->error;
			(void)replace_text(&change->why, file->why[0] ? file->why : NULL);
			copy_text(change->actual, SETTING_VALUE_MAX,
				at_once && file->error == 0 ? change->new : change->old);
			if (file->error == 0)
				log_info(change->name, "%s -> %s in %s (%s)",
					change->on_disk[0] ? change->on_disk : "nothing",
					change->new, file->note.path, change->reason);
			if (setting && value_equal(setting->want.wanted, change->new))
				follow(setting, change, file->reason, file, now);
		}
	}
}
