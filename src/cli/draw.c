/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/draw.h"

#include "base/util.h"

#include <math.h>

#define BAR_WIDTH 16

void draw_color(const struct screen *screen, enum color color)
{
	static const char *const codes[] = {
		[COLOR_NONE] = "\033[0m",
		[COLOR_GOOD] = "\033[32m",
		[COLOR_WARNING] = "\033[33m",
		[COLOR_BAD] = "\033[31m",
		[COLOR_FAINT] = "\033[2m",
		[COLOR_BOLD] = "\033[1m",
	};

	if (screen->color)
		fputs(codes[color], screen->out);
}

void draw_colored(const struct screen *screen, enum color color, const char *text)
{
	draw_color(screen, color);
	fputs(text, screen->out);
	draw_color(screen, COLOR_NONE);
}

void draw_heading(const struct screen *screen, const char *text)
{
	fputc('\n', screen->out);
	draw_colored(screen, COLOR_BOLD, text);
	fputc('\n', screen->out);
}

/* Eighths of a cell, so that a nearly empty table still shows. */
void draw_bar(const struct screen *screen, double share)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	int parts = (int)lround(fmin(fmax(share, 0), 1) * BAR_WIDTH * 8);
	int cells = 0;

	if (!screen->bars)
		return;
	if (share > 0 && parts == 0)
		parts = 1;
	draw_color(screen, share >= 0.8 ? COLOR_BAD : share >= 0.6 ? COLOR_WARNING : COLOR_GOOD);
	for (; parts >= 8; parts -= 8, cells++)
		fputs("█", screen->out);
	if (parts > 0 && ++cells)
		fputs(eighths[parts], screen->out);
	draw_color(screen, COLOR_FAINT);
	for (; cells < BAR_WIDTH; cells++)
		fputs("·", screen->out);
	draw_color(screen, COLOR_NONE);
	fputs("  ", screen->out);
}

/* Columns of a text, taking each character for one. */
static int columns_of(const char *text, size_t len)
{
	int columns = 0;

	for (size_t i = 0; i < len; i++)
		columns += (text[i] & 0xc0) != 0x80;
	return columns;
}

void draw_wrapped(const struct screen *screen, int column, int indent, const char *text)
{
	int used = column;

	while (*text) {
		size_t len = strcspn(text, " ");
		int columns = columns_of(text, len);

		if (used > column && used + 1 + columns > screen->width) {
			fprintf(screen->out, "\n%*s", indent, "");
			used = column = indent;
		} else if (used > column) {
			fputc(' ', screen->out);
			used++;
		}
		fprintf(screen->out, "%.*s", (int)len, text);
		used += columns;
		text += len + (text[len] == ' ');
	}
	fputc('\n', screen->out);
}

void draw_workload(const struct screen *screen, const cJSON *workload)
{
	const char *namespace = text_of(workload, "namespace");

	fprintf(screen->out, "%-9s %s%s%s", text_of(workload, "kind"), namespace,
		namespace[0] ? "/" : "", text_of(workload, "name"));
}

const cJSON *member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

const char *text_of(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(member(object, name));

	return text ? text : "";
}

double number_of(const cJSON *object, const char *name)
{
	const cJSON *item = member(object, name);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}
