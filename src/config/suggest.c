/* SPDX-License-Identifier: Apache-2.0 */
#include "config/suggest.h"

#include "base/util.h"
#include "config/text.h"

#include <limits.h>

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
	char word[OPTION_NAME_MAX], last[OPTION_NAME_MAX] = "", nearest[OPTION_NAME_MAX] = "";
	char known[512] = "known here are ";
	const char *elsewhere = same_key_elsewhere(tables, key);
	unsigned best = UINT_MAX, apart;

	for (const struct config_option *const *table = tables; *table; table++) {
		for (const struct config_option *option = *table; option->name; option++) {
			key_in_section(option->name, section, word);
			if (word[0] == '\0' || streq(word, last))
				continue;
			text_append(known, sizeof(known), "%s%s", last[0] ? ", " : "", word);
			copy_text(last, sizeof(last), word);
			if (suggest_is_slip(key, word, &apart) && apart < best) {
				best = apart;
				copy_text(nearest, sizeof(nearest), word);
			}
		}
	}
	if (nearest[0] || elsewhere)
		text_append(buffer, size, "did you mean %s?", nearest[0] ? nearest : elsewhere);
	else
		text_append(buffer, size, "%s", known);
}
