/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/files.h"

#include "base/util.h"

#include <errno.h>

int replace_text(char **slot, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

bool same_text(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

void file_note_clear(struct file_note *note)
{
	for (size_t i = 0; i < note->n_keys; i++) {
		free(note->keys[i].original);
		free(note->keys[i].before);
		free(note->keys[i].target);
	}
	free(note->keys);
	*note = (struct file_note){0};
}

static int copy_key(const struct file_key *key, struct file_key *out)
{
	*out = *key;
	out->original = out->before = out->target = NULL;
	if (replace_text(&out->original, key->original) < 0 ||
		replace_text(&out->before, key->before) < 0 ||
		replace_text(&out->target, key->target) < 0)
		return -ENOMEM;
	return 0;
}

int file_note_copy(const struct file_note *note, struct file_note *out)
{
	struct file_note copy = *note;

	copy.n_keys = 0;
	copy.keys_allocated = note->n_keys;
	copy.keys = calloc(MAX(note->n_keys, 1), sizeof(*copy.keys));
	if (!copy.keys)
		return -ENOMEM;
	for (size_t i = 0; i < note->n_keys; i++) {
		copy.n_keys++;
		if (copy_key(&note->keys[i], &copy.keys[i]) < 0) {
			file_note_clear(&copy);
			return -ENOMEM;
		}
	}
	*out = copy;
	return 0;
}

struct file_key *file_note_key(const struct file_note *note, const char *name)
{
	for (size_t i = 0; i < note->n_keys; i++)
		if (streq(note->keys[i].name, name))
			return &note->keys[i];
	return NULL;
}

struct file_key *file_note_add_key(
	struct file_note *note, const char *name, const struct place *place)
{
	struct file_key *key;

	if (grow_array(&note->keys, note->n_keys, &note->keys_allocated, sizeof(*note->keys)) < 0)
		return NULL;
	key = &note->keys[note->n_keys++];
	copy_text(key->name, sizeof(key->name), name);
	copy_text(key->table, sizeof(key->table), place->table);
	copy_text(key->key, sizeof(key->key), place->key);
	return key;
}

static bool same_key(const struct file_key *a, const struct file_key *b)
{
	return streq(a->name, b->name) && streq(a->table, b->table) && streq(a->key, b->key) &&
	       same_text(a->original, b->original) && same_text(a->before, b->before) &&
	       same_text(a->target, b->target);
}

static bool same_service(const struct service *a, const struct service *b)
{
	return a->activation == b->activation && a->restart == b->restart &&
	       streq(a->unit, b->unit) && streq(a->socket, b->socket) &&
	       streq(a->config, b->config) && streq(a->pid_file, b->pid_file);
}

bool file_note_equal(const struct file_note *a, const struct file_note *b)
{
	if (!streq(a->path, b->path) || !streq(a->tuner, b->tuner) || a->format != b->format ||
		a->directories != b->directories || !streq(a->original, b->original) ||
		!streq(a->ours[0], b->ours[0]) || !streq(a->ours[1], b->ours[1]) ||
		!same_service(&a->service, &b->service) || a->n_keys != b->n_keys)
		return false;
	for (size_t i = 0; i < a->n_keys; i++)
		if (!same_key(&a->keys[i], &b->keys[i]))
			return false;
	return true;
}

bool file_note_is_ours(const struct file_note *note, const char *hash)
{
	return streq(note->ours[0], hash) || streq(note->ours[1], hash);
}
