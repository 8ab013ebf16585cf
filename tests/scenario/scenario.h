/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SCENARIO_SCENARIO_H
#define TESTS_SCENARIO_SCENARIO_H

/* What replays a scenario for any tuner: see README.md for the form of the files. */

#include "base/util.h"

#include <headroom/tuner.h>

#define SCENARIO_WORDS_MAX   24
#define SCENARIO_RECORDS_MAX 16

struct scenario;

struct scenario_tuner {
	/* Takes what is after `at TIME`, or a line that only this tuner knows. False when it
	 * cannot. */
	bool (*at)(struct scenario *scenario, void *self);
	bool (*line)(struct scenario *scenario, void *self);
	int (*decide)(void *self, const struct decide_input *input, struct proposal *proposal);
};

struct scenario {
	const char *path;
	unsigned line;
	char *words[SCENARIO_WORDS_MAX]; /* of the line; those from next on are not yet taken */
	unsigned n_words, next;
	struct value_record records[SCENARIO_RECORDS_MAX];
	size_t n_records;
	uint64_t now_us;
	bool decided; /* proposal is of this moment */
	struct proposal proposal;
	unsigned expectations;
};

/* Replays the file named on the command line: the exit code for main(). */
int scenario_main(int argc, char **argv, const struct scenario_tuner *tuner, void *self);

/* The next word, or NULL at the end of the line. */
const char *scenario_word(struct scenario *scenario);

/* Takes the next word when it is this one. */
bool scenario_is(struct scenario *scenario, const char *word);

/* Takes the next word as a number, or a value ("-" is empty). False when there is none. */
bool scenario_number(struct scenario *scenario, uint64_t *number);
bool scenario_value(struct scenario *scenario, char *value, size_t size);

#endif
