/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DRAW_H
#define CLI_DRAW_H

/* What the screens share: colours and bars, and reading a document that may lack anything. */

#include "cli/screen.h"

enum color {
	COLOR_NONE,
	COLOR_GOOD,
	COLOR_WARNING,
	COLOR_BAD,
	COLOR_FAINT,
	COLOR_BOLD,
};

/* From here on; COLOR_NONE ends it. Nothing where the screen has no colours. */
void draw_color(const struct screen *screen, enum color color);
void draw_colored(const struct screen *screen, enum color color, const char *text);
void draw_heading(const struct screen *screen, const char *text);

/* A share of 0..1 and two blanks; nothing where the screen has no bars. */
void draw_bar(const struct screen *screen, double share);

/*
 * Text of any length from a column on, wrapped between words where the screen ends; the lines that
 * follow begin at the column indent. Nothing is cut. It ends the line.
 */
void draw_wrapped(const struct screen *screen, int column, int indent, const char *text);

/* "pod       shop/cart-7", of a workload of the document. */
void draw_workload(const struct screen *screen, const cJSON *workload);

/* Members of an object: NULL, "" or 0 without. The text is the document's. */
const cJSON *member(const cJSON *object, const char *name);
const char *text_of(const cJSON *object, const char *name);
double number_of(const cJSON *object, const char *name);

#endif
