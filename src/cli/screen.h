/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

/* Text for people: colours and bars on a terminal, lines wrapped to its width and never cut. */

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

struct screen {
	FILE *out;
	bool color; /* a terminal, and NO_COLOR is not set: colours */
	bool bars;  /* a terminal: bars of block characters */
	int width;  /* columns: COLUMNS, else the terminal's; INT_MAX where nothing ends */
	int height; /* lines; INT_MAX where nothing ends */
};

enum color {
	COLOR_NONE,
	COLOR_GOOD, /* from here in the order of enum tone */
	COLOR_WARNING,
	COLOR_BAD,
	COLOR_FAINT,
	COLOR_BOLD,
};

/* How to draw on out, from what it is and the environment. */
struct screen screen_of(FILE *out);

/* Begins anew at the top of a terminal. */
void screen_clear(const struct screen *screen);

/* printf() in one colour; without colours just printf(). Returns the columns, taken for bytes. */
int draw(const struct screen *screen, enum color color, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A share of 0..1 and two blanks; nothing where the screen has no bars. Returns the columns. */
int draw_bar(const struct screen *screen, enum color color, double share);

/*
 * Text of any length from a column on, wrapped between words where the screen ends; the lines that
 * follow begin at the column indent. Nothing is cut. It ends the line.
 */
void draw_wrapped(const struct screen *screen, int column, int indent, const char *text);

/* Green, yellow, red: of a word of the document. */
enum color color_of(const char *word);

/* The status document's screens, in status.c and top.c. alone: no agent answered. */
void print_status(const struct screen *screen, const cJSON *status, bool alone);
void print_dns(const struct screen *screen, cJSON *status, unsigned turn);
void print_image(const struct screen *screen, const cJSON *image);
void print_heading(const struct screen *screen, const char *text);
/* "12.3 GB" of bytes, the plain number of anything else. */
void amount_text(double value, const char *unit, char *text, size_t size);
void print_limit(const struct screen *screen, const cJSON *limit);

#endif
