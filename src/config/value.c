/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#include <ctype.h>

#define TEXT_DEFAULT_MAX 255

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

const char *duration_format(char text[static DURATION_TEXT_MAX], uint64_t us)
{
	size_t i = us == 0 ? 2 : 0; /* "0s" */

	while (i + 1 < ARRAY_SIZE(units) && us % units[i].us != 0)
		i++;
	snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 "%s", us / units[i].us, units[i].name);
	return text;
}

static uint64_t upper_bound(const struct config_option *option)
{
	return option->max > 0 ? option->max : UINT64_MAX;
}

static void append_words(
	const struct config_option *option, const char *before, char *buffer, size_t size)
{
	for (const char *const *word = option->words; word && *word; word++)
		text_append(buffer, size, "%s%s",
			word == option->words ? before
			: word[1]             ? ", "
					      : " or ",
			*word);
}

static void append_duration(const struct config_option *option, char *buffer, size_t size)
{
	char bound[DURATION_TEXT_MAX];

	text_append(buffer, size, "a whole number with its unit, as in 500ms, 20s, 30m or 2h");
	if (option->min > 0)
		text_append(buffer, size, ", from %s", duration_format(bound, option->min));
	if (option->max > 0)
		text_append(buffer, size, "%s%s", option->min > 0 ? " to " : ", at most ",
			duration_format(bound, option->max));
}

static void append_list(const struct config_option *option, char *buffer, size_t size)
{
	if (option->items[0].name[0] == '\0') {
		text_append(buffer, size, "a list, such as [a, b]");
		return;
	}
	text_append(buffer, size, "a list of maps, such as [{");
	for (const struct config_option *row = option->items; row->name; row++)
		text_append(buffer, size, "%s%s: ...", row == option->items ? "" : ", ", row->name);
	text_append(buffer, size, "}]");
}

void value_describe(const struct config_option *option, char *buffer, size_t size)
{
	static const char *const plain[] = {
		[OPTION_BOOL] = "true or false",
		[OPTION_TEXT] = "one line of text",
		[OPTION_SYSCTLS] = "a map of sysctl names to values",
		[OPTION_RESERVED] = "anything",
	};

	if (option->type == OPTION_COUNT)
		text_append(buffer, size, "digits alone, from %" PRIu64 " to %" PRIu64 "%s%s",
			option->min, upper_bound(option), option->unit ? " " : "",
			option->unit ? option->unit : "");
	else if (option->type == OPTION_DURATION)
		append_duration(option, buffer, size);
	else if (option->type == OPTION_LIST)
		append_list(option, buffer, size);
	else if (option->type != OPTION_CHOICE)
		text_append(buffer, size, "%s", plain[option->type]);
	append_words(option, option->type == OPTION_CHOICE ? "" : ", or ", buffer, size);
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
	if (option->type != OPTION_TEXT) { /* any text will do: the help says which */
		text_append(text, OPTION_TEXT_MAX, " Takes ");
		value_describe(option, text, OPTION_TEXT_MAX);
		text_append(text, OPTION_TEXT_MAX, ".");
	}
	text_append(text, OPTION_TEXT_MAX, " Default: %s.", preset);
}

int value_word(const struct config_option *option, const char *text)
{
	for (int i = 0; option->words && option->words[i]; i++)
		if (streq(option->words[i], text))
			return i;
	return -1;
}

static const char *number_fault(const struct config_option *option, const char *text)
{
	bool duration = option->type == OPTION_DURATION;
	uint64_t number = 0;
	int r = duration ? duration_parse(text, &number) : parse_count(text, &number);

	if (r == -EINVAL)
		return duration ? "no time with a unit" : "no whole number";
	return r < 0 || number < option->min || number > upper_bound(option) ? "out of range"
									     : NULL;
}

static int check_text(
	const struct config_option *option, const char *text, char why[static VALUE_WHY_MAX])
{
	size_t max = option->max > 0 ? option->max : TEXT_DEFAULT_MAX;
	const char *wrong = option->check ? option->check(text) : NULL;
	char quoted[TEXT_QUOTE_MAX];

	if (strlen(text) > max)
		snprintf(why, VALUE_WHY_MAX, "the text is too long: write at most %zu bytes", max);
	else if (strlen(text) < option->min)
		snprintf(why, VALUE_WHY_MAX,
			"the text is too short: write one of at least %" PRIu64 " bytes",
			option->min);
	else if (wrong)
		snprintf(why, VALUE_WHY_MAX, "%s is not possible: %s", text_quote(quoted, text),
			wrong);
	else
		return 0;
	return -EINVAL;
}

int value_check(
	const struct config_option *option, const char *text, char why[static VALUE_WHY_MAX])
{
	char quoted[TEXT_QUOTE_MAX];
	const char *wrong = NULL;

	if (option->type == OPTION_TEXT && text_is_printable(text))
		return check_text(option, text, why);
	if (option->type == OPTION_TEXT)
		wrong = "a text with line breaks or control characters";
	else if (option->type == OPTION_BOOL)
		wrong = streq(text, "true") || streq(text, "false") ? NULL
								    : "neither true nor false";
	else if (value_word(option, text) >= 0)
		wrong = NULL;
	else if (option->type == OPTION_COUNT || option->type == OPTION_DURATION)
		wrong = number_fault(option, text);
	else
		wrong = option->type == OPTION_LIST ? "no list" : "not known here";
	if (!wrong)
		return 0;
	snprintf(why, VALUE_WHY_MAX, "%s is %s: write ", text_quote(quoted, text), wrong);
	value_describe(option, why, VALUE_WHY_MAX);
	return -EINVAL;
}

/*
 * A part of nothing but slashes means "." or ".." in the path, an empty one for "//": both
 * would name another file than the one that is shown.
 */
static const char *name_fault(const char *name)
{
	size_t parts = 0;

	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("_.:/@-", *p))
			return "has a character that no sysctl has";
	for (const char *p = name;; p++, parts++) {
		size_t len = strcspn(p, ".");

		if (strspn(p, "/") >= len)
			return "has an empty part";
		p += len;
		if (*p == '\0')
			break;
	}
	return parts == 0 ? "is no sysctl: one has at least two parts" : NULL;
}

int sysctl_name_parse(
	const char *text, char name[static SETTING_NAME_MAX], char why[static VALUE_WHY_MAX])
{
	char quoted[TEXT_QUOTE_MAX], dotted[SETTING_NAME_MAX];
	const char *fault = "is too long";

	if (copy_text(dotted, sizeof(dotted), text)) {
		/* In the form with slashes a dot is part of a component. */
		bool slashes = text[strcspn(text, "./")] == '/';

		for (char *p = dotted; slashes && *p; p++)
			*p = *p == '/' ? '.' : *p == '.' ? '/' : *p;
		fault = name_fault(dotted);
	}
	if (fault) {
		snprintf(why, VALUE_WHY_MAX, "the name %s %s: write it as sysctl -a prints it",
			text_quote(quoted, text), fault);
		return -EINVAL;
	}
	copy_text(name, SETTING_NAME_MAX, dotted);
	return 0;
}

int sysctl_value_parse(
	const char *text, char value[static SETTING_VALUE_MAX], char why[static VALUE_WHY_MAX])
{
	char folded[1024];
	const char *fault = NULL;

	if (copy_text(folded, sizeof(folded), text))
		text_fold_blanks(folded);
	if (strpbrk(text, "\n\v\f\r") || !text_is_printable(folded))
		fault = "the value has line breaks or control characters: write one line of text";
	else if (folded[0] == '\0')
		fault = "the value is empty: write null to take the key away";
	else if (!copy_text(value, SETTING_VALUE_MAX, folded))
		fault = "the value is too long: the kernel takes at most 127 bytes here";
	if (!fault)
		return 0;
	copy_text(why, VALUE_WHY_MAX, fault);
	return -EINVAL;
}
