/* SPDX-License-Identifier: Apache-2.0 */
#include "config/option.h"

#include "base/text.h"

/* How many letters to insert, drop, change or swap with their neighbour to make b of a. */
static unsigned distance(const char *a, const char *b)
{
	unsigned char cost[SUGGEST_WORD_MAX + 1][SUGGEST_WORD_MAX + 1];
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

void suggest_offer(struct suggestion *suggestion, const char *typed, const char *word)
{
	size_t len = strlen(word);
	unsigned apart;

	if (len > SUGGEST_WORD_MAX || strlen(typed) > SUGGEST_WORD_MAX)
		return;
	apart = distance(typed, word);
	/* Close enough to be a slip: two letters, but never half of the word. */
	if (apart > 2 || apart * 2 >= len || (suggestion->word[0] && apart >= suggestion->apart))
		return;
	copy_text(suggestion->word, sizeof(suggestion->word), word);
	suggestion->apart = apart;
}

void suggest_key(const struct config_option *const *tables, const char *section, const char *key,
	char *buffer, size_t size)
{
	char word[OPTION_NAME_MAX], last[OPTION_NAME_MAX] = "", known[512] = "known here are ";
	size_t skip = section[0] ? strlen(section) + 1 : 0;
	struct suggestion nearest = {0};
	const char *elsewhere = NULL;

	for (; *tables; tables++) {
		for (const struct config_option *option = *tables; option->name; option++) {
			const char *dot = strrchr(option->name, '.');

			if (!elsewhere && dot && streq(dot + 1, key))
				elsewhere = option->name;
			if (section[0] && (!option_is_below(option->name, section) ||
						  strlen(option->name) < skip))
				continue;
			copy_text(word, sizeof(word), option->name + skip);
			word[strcspn(word, ".")] = '\0';
			if (streq(word, last))
				continue;
			text_append(known, sizeof(known), "%s%s", last[0] ? ", " : "", word);
			copy_text(last, sizeof(last), word);
			suggest_offer(&nearest, key, word);
		}
	}
	if (nearest.word[0] || elsewhere)
		text_append(buffer, size, "did you mean %s?",
			nearest.word[0] ? nearest.word : elsewhere);
	else
		text_append(buffer, size, "%s", known);
}
