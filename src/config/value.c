/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#define DURATION_TEXT_MAX 24

static const struct {
	const char *name;
	uint64_t us;
} units[] = {
	{"h", 3600 * USEC_PER_SEC},
	{"m", 60 * USEC_PER_SEC},
	{"s", USEC_PER_SEC},
	{"ms", USEC_PER_MSEC},
};

int duration_parse(const char *text, uint64_t *us)
{
	size_t len = strspn(text, "0123456789");
	_cleanup_free_ char *digits = must(strndup(text, len));
	uint64_t count = 0;
	int r = parse_count(digits, &count);

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!streq(text + len, units[i].name))
			continue;
		if (r < 0 || count > UINT64_MAX / units[i].us)
			return r < 0 ? r : -ERANGE;
		*us = count * units[i].us;
		return 0;
	}
	return -EINVAL;
}

/* Uses the largest unit that divides us. */
static const char *duration_format(char text[static DURATION_TEXT_MAX], uint64_t us)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && us % units[i].us != 0)
		i++;
	snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 "%s", us / units[i].us, units[i].name);
	return text;
}

void value_describe(const struct config_option *option, char *buffer, size_t size)
{
	static const char *const plain[] = {
		[OPTION_BOOL] = "true or false",
		[OPTION_DURATION] = "a whole number with its unit, as in 500ms, 20s, 30m or 2h",
		[OPTION_CHOICE] = "",
		[OPTION_TEXT] = "one line of text",
		[OPTION_SYSCTLS] = "a map of sysctl names to values",
	};
	const char *const *choices = option->choices;
	char bound[DURATION_TEXT_MAX];

	if (option->type == OPTION_COUNT) {
		text_append(buffer, size, "digits alone, from %" PRIu64 " to %" PRIu64 "%s%s",
			option->min, option->max > 0 ? option->max : UINT64_MAX,
			option->unit ? " " : "", option->unit ? option->unit : "");
	} else if (option->type != OPTION_LIST) {
		text_append(buffer, size, "%s", plain[option->type]);
	} else if (option->items[0].name[0] == '\0') {
		text_append(buffer, size, "a list, such as [a, b]");
	} else {
		for (const struct config_option *row = option->items; row->name; row++)
			text_append(buffer, size, "%s%s: ...",
				row == option->items ? "a list of maps, such as [{" : ", ",
				row->name);
		text_append(buffer, size, "}]");
	}
	if (option->type == OPTION_DURATION && option->min > 0)
		text_append(buffer, size, ", from %s", duration_format(bound, option->min));
	if (option->type == OPTION_DURATION && option->max > 0)
		text_append(buffer, size, "%s%s", option->min > 0 ? " to " : ", at most ",
			duration_format(bound, option->max));
	for (size_t i = 0; choices && choices[i]; i++)
		text_append(buffer, size, "%s%s",
			i > 0                           ? choices[i + 1] ? ", " : " or "
			: option->type == OPTION_CHOICE ? ""
							: ", or ",
			choices[i]);
}

void option_describe(const struct config_option *option, char text[static OPTION_TEXT_MAX])
{
	const char *help = option->help ? option->help : "";
	const char *preset = option->def                   ? option->def
			     : option->type == OPTION_LIST ? "[]"
							   : "empty";

	copy_text(text, OPTION_TEXT_MAX, option->name[0] ? help : "Each item is ");
	if (!option->name[0]) {
		value_describe(option, text, OPTION_TEXT_MAX);
		text_append(text, OPTION_TEXT_MAX, ". %s", help);
		return;
	}
	if (option->type == OPTION_TEXT && option->min > 0 && !option->def) {
		text_append(text, OPTION_TEXT_MAX, " Must be given.");
		return;
	}
	if (option->type != OPTION_TEXT) { /* the help describes valid texts */
		text_append(text, OPTION_TEXT_MAX, " Takes ");
		value_describe(option, text, OPTION_TEXT_MAX);
		text_append(text, OPTION_TEXT_MAX, ".");
	}
	text_append(text, OPTION_TEXT_MAX, " Default: %s.", preset);
}

int word_index(const char *const *words, const char *word)
{
	for (int i = 0; words && words[i]; i++)
		if (streq(words[i], word))
			return i;
	return -1;
}
