/* SPDX-License-Identifier: Apache-2.0 */
#include "config/value.h"

#include "base/util.h"
#include "config/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

/*
 * A part of nothing but slashes stands for "." or ".." in the path, an empty one for "//": both
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

/* True when the folded text fits. */
static bool fold_blanks(const char *text, char value[static SETTING_VALUE_MAX])
{
	size_t used = 0;

	for (const char *p = text; *p; p++) {
		bool blank = *p == ' ' || *p == '\t';

		if (blank && (used == 0 || value[used - 1] == ' '))
			continue;
		if (used + 1 >= SETTING_VALUE_MAX)
			return false;
		value[used++] = blank ? ' ' : *p;
	}
	if (used > 0 && value[used - 1] == ' ')
		used--;
	value[used] = '\0';
	return true;
}

int sysctl_value_parse(
	const char *text, char value[static SETTING_VALUE_MAX], char why[static VALUE_WHY_MAX])
{
	char folded[SETTING_VALUE_MAX];
	const char *fault = NULL;

	if (!fold_blanks(text, folded))
		fault = "the value is too long: the kernel takes at most 127 bytes here";
	else if (folded[0] == '\0')
		fault = "the value is empty: write null to take the key away";
	else if (!text_is_plain(folded))
		fault = "the value has line breaks or control characters: write one line of text";
	if (fault) {
		copy_text(why, VALUE_WHY_MAX, fault);
		return -EINVAL;
	}
	copy_text(value, SETTING_VALUE_MAX, folded);
	return 0;
}

bool sysctl_value_is_numeric(const char *value)
{
	int order;

	return value_compare(value, value, &order) == 0;
}
