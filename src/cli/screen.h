/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

/* The status document (GET /v1/status) as one screen of text. */

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

struct screen {
	FILE *out;
	bool color; /* a terminal, and NO_COLOR is not set: colours */
	bool bars;  /* a terminal: bars of block characters */
	int width;  /* columns */
	int height; /* lines; INT_MAX where nothing ends */
};

/* How to draw on out, from what it is and the environment. */
struct screen screen_of(FILE *out);

void screen_print(const struct screen *screen, const cJSON *status);

/* The limits whose names begin with prefix, and who uses most of each. */
void screen_print_top(const struct screen *screen, const cJSON *status, const char *prefix);

/* Whom this node asks for names, who asks, and for what: the member dns of the document. */
void screen_print_dns(const struct screen *screen, const cJSON *status);

#endif
