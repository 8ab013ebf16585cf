/* SPDX-License-Identifier: Apache-2.0 */
#include "config/suggest.h"

#include "base/util.h"
#include "config/text.h"

#include <stdlib.h>

#define WORD_MAX 32 /* longer words are not compared */

/* How many letters to insert, drop, change or swap with their neighbour to make b of a. */
static unsigned distance(const char *a, const char *b)
{
	unsigned char cost[WORD_MAX + 1][WORD_MAX + 1];
	size_t rows = strlen(a), columns = strlen(b);

	for (size_t i = 0; i <= rows; i++)
		cost[i][0] = (unsigned char)i;
	for (size_t j = 0; j <= columns; j++)
		cost[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= rows; i++) {
		for (size_t j = 1; j <= columns; j++) {
			unsigned best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

			best = MIN(best, cost[i - 1][j] + 1U);
			best = MIN(best, cost[i][j - 1] + 1U);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MIN(best, cost[i - 2][j - 2] + 1U);
			cost[i][j] = (unsigned char)best;
		}
	}
	return cost[rows][columns];
}

/* Close enough to be a slip: two letters, but never half of the word. */
bool suggest_is_slip(const char *key, const char *word, unsigned *apart)
{
	size_t len = strlen(word);

	if (len > WORD_MAX || strlen(key) > WORD_MAX)
		return false;
	*apart = distance(key, word);
	return *apart <= 2 && *apart * 2 < len;
}

/* The part of a row's name that is a key of the section; empty when the row is elsewhere. */
static void key_in_section(
	const char *option, const char *section, char key[static OPTION_NAME_MAX])
{
	size_t len = strlen(section);
	const char *start = option;

	key[0] = '\0';
	if (len > 0) {
		if (!option_is_below(option, section) || option[len] == '\0')
			return;
		start += len + 1;
	}
	copy_text(key, OPTION_NAME_MAX, start);
	key[strcspn(key, ".")] = '\0';
}

/* A function that gets each different key of a section once, in the order of the tables. */
typedef void (*visit_key)(const char *key, void *userdata);

static void for_each_key(const struct config_option *const *tables, const char *section,
	visit_key visit, void *userdata)
{
	char key[OPTION_NAME_MAX], last[OPTION_NAME_MAX] = "";

	for (; *tables; tables++) {
		for (const struct config_option *option = *tables; option->name; option++) {
			key_in_section(option->name, section, key);
			if (key[0] == '\0' || streq(key, last))
				continue;
			visit(key, userdata);
			copy_text(last, sizeof(last), key);
		}
	}
}

struct nearest {
	const char *key;
	unsigned apart;
	char word[OPTION_NAME_MAX];
};

static void visit_nearest(const char *key, void *userdata)
{
	struct nearest *nearest = userdata;
	unsigned apart;

	if (!suggest_is_slip(nearest->key, key, &apart) ||
		(nearest->word[0] && apart >= nearest->apart))
		return;
	nearest->apart = apart;
	copy_text(nearest->word, sizeof(nearest->word), key);
}

struct listing {
	char *buffer;
	size_t size;
	bool begun;
};

static void visit_listing(const char *key, void *userdata)
{
	struct listing *listing = userdata;

	if (listing->begun)
		text_append(listing->buffer, listing->size, ", ");
	text_append(listing->buffer, listing->size, key);
	listing->begun = true;
}

/* A row elsewhere whose last part is key. */
static const char *same_key_elsewhere(const struct config_option *const *tables, const char *key)
{
	for (; *tables; tables++) {
		for (const struct config_option *option = *tables; option->name; option++) {
			const char *dot = strrchr(option->name, '.');

			if (dot && streq(dot + 1, key))
				return option->name;
		}
	}
	return NULL;
}

void suggest_key(const struct config_option *const *tables, const char *section, const char *key,
	char *buffer, size_t size)
{
	struct nearest nearest = {.key = key};
	struct listing listing = {.buffer = buffer, .size = size};
	const char *elsewhere = same_key_elsewhere(tables, key);

	for_each_key(tables, section, visit_nearest, &nearest);
	if (nearest.word[0] || elsewhere) {
		text_append(buffer, size, "did you mean ");
		text_append(buffer, size, nearest.word[0] ? nearest.word : elsewhere);
		text_append(buffer, size, "?");
		return;
	}
	text_append(buffer, size, "known here are ");
	for_each_key(tables, section, visit_listing, &listing);
}
