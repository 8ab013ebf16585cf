/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/setting.h>

#include "base/text.h"

/* Holds 64-bit integers of either sign: kernel.shmmax is unsigned. */
typedef __int128 wide;

#define BLANKS " \t\n\v\f\r"

const char *const mode_names[] = {
	[MODE_ENFORCE] = "enforce",
	[MODE_OBSERVE] = "observe",
	[MODE_OFF] = "off",
	[MODE_RELEASED] = "released",
};

const char *const setting_state_names[] = {
	[SETTING_IN_SYNC] = "in-sync",
	[SETTING_PENDING] = "pending",
	[SETTING_DRIFTED] = "drifted",
	[SETTING_YIELDED] = "yielded",
	[SETTING_FAILED] = "failed",
	[SETTING_UNSUPPORTED] = "unsupported",
	[SETTING_OBSERVED] = "observed",
};

bool setting_become(struct setting *setting, enum setting_state state, enum reason reason,
	int error, const char *why)
{
	bool news = setting->state != state || setting->reason != reason;

	/* A retry that fails again changes nothing. */
	if (!(setting->state == SETTING_FAILED && state == SETTING_PENDING) &&
		setting->since_of != reason) {
		setting->since_of = reason;
		setting->since_us = realtime_us();
	}
	setting->state = state;
	setting->reason = reason;
	setting->error = error;
	copy_public(setting->why, SETTING_WHY_MAX, why ? why : "");
	return news;
}

bool setting_in_sync(const struct setting *setting)
{
	return setting->wanted[0] && setting->actual[0] &&
	       value_equal(setting->actual, setting->wanted);
}

/* Copies the next word and returns the text after it, or NULL at the end of the text. */
static const char *next_word(const char *text, char word[static SETTING_VALUE_MAX])
{
	size_t n;

	text += strspn(text, BLANKS);
	n = MIN(strcspn(text, BLANKS), (size_t)SETTING_VALUE_MAX - 1);
	memcpy(word, text, n);
	word[n] = '\0';
	return n > 0 ? text + n : NULL;
}

const struct meaning *meanings_since(const struct meaning *meanings, unsigned version)
{
	while (meanings && meanings->word && meanings->since > version)
		meanings++;
	return meanings;
}

static int parse_number(const struct meaning *meanings, const char *word, wide *number)
{
	bool negative = word[0] == '-';
	uint64_t magnitude = 0;
	int r = parse_count(word + negative, &magnitude);

	for (; meanings && meanings->word; meanings++)
		if (streq(meanings->word, word) ||
			(r == 0 && negative && streq(meanings->word, "-"))) {
			*number = (wide)meanings->number;
			return 0;
		}
	*number = negative ? -(wide)magnitude : (wide)magnitude;
	return r;
}

int number_meant(const struct meaning *meanings, const char *word, uint64_t *number)
{
	wide parsed;

	if (parse_number(meanings, word, &parsed) < 0 || parsed < 0)
		return -EINVAL;
	*number = (uint64_t)parsed;
	return 0;
}

int value_compare(const struct meaning *meanings, const char *a, const char *b, int *order)
{
	char word_a[SETTING_VALUE_MAX], word_b[SETTING_VALUE_MAX];
	bool below = false, above = false;

	for (size_t fields = 0;; fields++) {
		wide x, y;

		a = next_word(a, word_a);
		b = next_word(b, word_b);
		if (!a && !b && fields > 0)
			break;
		if (!a || !b || parse_number(meanings, word_a, &x) < 0 ||
			parse_number(meanings, word_b, &y) < 0)
			return -EINVAL;
		below = below || x < y;
		above = above || x > y;
	}
	*order = below && above ? 2 : above - below;
	return 0;
}

bool value_equal(const char *a, const char *b)
{
	char word_a[SETTING_VALUE_MAX], word_b[SETTING_VALUE_MAX];
	int order;

	if (value_compare(NULL, a, b, &order) == 0)
		return order == 0;
	for (;;) {
		a = next_word(a, word_a);
		b = next_word(b, word_b);
		if (!a || !b)
			return !a && !b;
		if (!streq(word_a, word_b))
			return false;
	}
}

int value_max(const struct meaning *meanings, const char *a, const char *b,
	char out[static SETTING_VALUE_MAX])
{
	char word_a[SETTING_VALUE_MAX], word_b[SETTING_VALUE_MAX], larger[SETTING_VALUE_MAX] = "";
	int order, n = 0;

	if (value_compare(meanings, a, b, &order) < 0)
		return -EINVAL;
	while ((a = next_word(a, word_a)) && (b = next_word(b, word_b))) {
		(void)value_compare(meanings, word_a, word_b, &order);
		n += snprintf(larger + n, sizeof(larger) - (size_t)n, "%s%s", n > 0 ? " " : "",
			order < 0 ? word_b : word_a);
		if ((size_t)n >= sizeof(larger))
			return -EINVAL;
	}
	copy_text(out, SETTING_VALUE_MAX, larger);
	return 0;
}

bool value_is_foreign(const struct value_record *record, const char *actual)
{
	return !value_equal(actual, record->original) && !value_equal(actual, record->before) &&
	       !value_equal(actual, record->wanted);
}

const char *value_of_node(const struct value_record *record, const char *actual)
{
	return !record || value_is_foreign(record, actual)                   ? actual
	       : !record->chosen[0] || value_equal(actual, record->original) ? record->original
									     : record->chosen;
}

void value_floor(const struct meaning *meanings, const struct value_record *record,
	const char *actual, char floor[static SETTING_VALUE_MAX])
{
	copy_text(floor, SETTING_VALUE_MAX, record ? record->original : actual);
	/* Leaves floor unchanged if a value is not a number. */
	value_max(meanings, floor, value_of_node(record, actual), floor);
}

enum reason value_choose(const struct choice *choice, char wanted[static SETTING_VALUE_MAX])
{
	bool undone = choice->chosen && !choice->configured;

	copy_text(wanted, SETTING_VALUE_MAX, undone ? choice->node : choice->ours);
	if (undone)
		return choice->chosen;
	if (choice->exact || !choice->node ||
		value_max(choice->meanings, choice->ours, choice->node, wanted) < 0 ||
		value_equal(wanted, choice->ours))
		return choice->reason;
	return REASON_ADMINISTRATOR_HIGHER;
}
