/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text for people: colours and bars on a terminal, lines wrapped to its width and never cut. */

#include <cjson/cJSON.h>

#include "base/util.h"

/* Begins anew at the top of a terminal. */
#define SCREEN_CLEAR "\033[H\033[J"

struct screen {
	FILE *out;
	bool color; /* a terminal, and NO_COLOR is not set: colours */
	bool bars;  /* a terminal: bars of block characters */
	int width;  /* columns: COLUMNS, else the terminal's; INT_MAX where nothing ends */
	int height; /* lines; INT_MAX where nothing ends */
	int column; /* of what comes next */
};

enum color {
	COLOR_NONE,
	COLOR_GOOD, /* from here in the order of enum tone */
	COLOR_WARNING,
	COLOR_BAD,
	COLOR_FAINT,
	COLOR_BOLD,
};

/* How to draw on standard output, from what it is and the environment. */
struct screen screen_open(void);

void draw(struct screen *screen, enum color color, const char *format, ...) PRINTF_LIKE(3, 4);

/* A share of 0..1 and two blanks; nothing where the screen has no bars. */
void draw_bar(struct screen *screen, enum color color, double share);

/* The rest of the line, wrapped between words; lines that follow begin at the column indent. */
void draw_wrapped(struct screen *screen, int indent, const char *format, ...) PRINTF_LIKE(3, 4);

void draw_heading(struct screen *screen, const char *text);

/* Green, yellow, red: of a word of the document. */
enum color color_of(const char *word);

/* "12.3 GB" of bytes, the plain number of anything else. Returns text. */
#define AMOUNT_MAX 32
const char *amount_text(double value, const char *unit, char text[static AMOUNT_MAX]);

/* The status document's screens. alone: no agent answered. turn: of the columns it sorts by. */
void print_status(struct screen *screen, const cJSON *status, bool alone);
void print_dns(struct screen *screen, cJSON *status, unsigned turn);
void print_image(struct screen *screen, const cJSON *image);
void print_limit(struct screen *screen, const cJSON *limit);
