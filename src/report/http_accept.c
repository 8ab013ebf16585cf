/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/util.h"

#include <ctype.h>
#include <strings.h>

/* What an Accept header says of the two formats (RFC 9110, 12.5.1): quality 0..1. */
struct preference {
	double openmetrics; /* 0 unless named */
	double text;        /* of the most specific range that covers text/plain */
	int specific;       /* 0 none, 1 any type, 2 any text, 3 text/plain */
};

/* Cuts the next item off at a separator, without the white space around it. NULL at the end. */
static char *next_item(char **rest, const char *separator)
{
	char *item = strsep(rest, separator);
	size_t len;

	if (!item)
		return NULL;
	item += strspn(item, " \t");
	len = strlen(item);
	while (len > 0 && isspace((unsigned char)item[len - 1]))
		item[--len] = '\0';
	return item;
}

/* "0", "1", "0.75": anything else counts as 0, so that nothing is chosen by a mistake. */
static double quality(const char *text)
{
	double value = 0, weight = 0.1;

	if (text[0] == '1')
		return 1;
	if (text[0] != '0' || text[1] != '.')
		return 0;
	for (text += 2; isdigit((unsigned char)*text); text++, weight /= 10)
		value += (*text - '0') * weight;
	return value;
}

static void weigh_text(struct preference *preference, const char *type, double q)
{
	static const char *const ranges[] = {"*/*", "text/*", "text/plain"};

	for (int i = 0; i < (int)ARRAY_SIZE(ranges); i++) {
		if (strcasecmp(type, ranges[i]) != 0 || i + 1 < preference->specific)
			continue;
		preference->text = q;
		preference->specific = i + 1;
	}
}

static void weigh(struct preference *preference, char *range)
{
	const char *type = next_item(&range, ";");
	bool version_fits = true;
	double q = 1;
	char *parameter;

	while ((parameter = next_item(&range, ";"))) {
		if (strncasecmp(parameter, "q=", 2) == 0)
			q = quality(parameter + 2);
		else if (strncasecmp(parameter, "version=", 8) == 0)
			version_fits = streq(parameter + 8, "1.0.0");
	}
	if (strcasecmp(type, "application/openmetrics-text") != 0)
		weigh_text(preference, type, q);
	else if (version_fits)
		preference->openmetrics = MAX(preference->openmetrics, q);
}

bool http_accepts_openmetrics(const char *accept)
{
	struct preference preference = {0};
	char copy[1024], *rest = copy, *range;

	if (!accept || !copy_text(copy, sizeof(copy), accept))
		return false;
	while ((range = strsep(&rest, ",")))
		weigh(&preference, range);
	return preference.openmetrics > 0 && preference.openmetrics >= preference.text;
}
