/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replays a scenario for any tuner: see README.md for the form of the files. */

#include "model/node.h"
#include "tuners/table.h"

#define SCENARIO_WORDS_MAX   24
#define SCENARIO_RECORDS_MAX 16

struct scenario {
	const char *path;
	unsigned line;
	char *words[SCENARIO_WORDS_MAX]; /* of the line; next is the first that is not parsed yet */
	unsigned n_words, next;
	struct value_record values[SCENARIO_RECORDS_MAX];
	size_t n_values;
	struct key_record keys[SCENARIO_RECORDS_MAX];
	size_t n_keys;
	struct pin_record pins[SCENARIO_RECORDS_MAX];
	size_t n_pins;
	uint64_t now_us;
	enum mode mode;
	bool force;          /* at this moment */
	struct setting held; /* the one setting whose state is known */
	void *memory;        /* of decide() */
	bool decided;        /* proposal belongs to this moment */
	struct proposal proposal;
	struct finding_list findings; /* as the core keeps them */
	unsigned expectations;
};

/* A word of a line and its effect on the struct at base. */
struct scenario_word {
	/* One word or two. NULL ends a table; with parse this row matches any other word. */
	const char *word;
	enum {
		SCENARIO_CONST,  /* value goes to offset */
		SCENARIO_NUMBER, /* the next word, to an uint64_t */
		SCENARIO_TEXT,   /* the next word, to an array of char; "-" is empty */
	} kind;
	size_t offset, size;
	uint64_t value;
	bool (*parse)(struct scenario *scenario, void *base); /* replaces kind; false: error */
};

#define WORD_NUMBER(name, type, field) \
	{.word = name, .kind = SCENARIO_NUMBER, .offset = offsetof(type, field)}
#define WORD_TEXT(name, type, field)             \
	{.word = name,                           \
		.kind = SCENARIO_TEXT,           \
		.offset = offsetof(type, field), \
		.size = sizeof(((type *)NULL)->field)}
#define WORD_CONST(name, type, field, to)              \
	{.word = name,                                 \
		.offset = offsetof(type, field),       \
		.size = sizeof(((type *)NULL)->field), \
		.value = (uint64_t)(to)}
#define WORD_CALL(name, function) {.word = name, .parse = function}

/* Parses the rest of the line by a table. */
bool scenario_parse(struct scenario *scenario, const struct scenario_word *words, void *base);

struct scenario_tuner {
	const struct tuner_ops *ops;
	size_t size;                               /* of self, zeroed */
	const struct scenario_word *at;            /* after `at TIME`; base is self */
	const struct scenario_word *config, *line; /* after `config`; other lines */
	const struct scenario_word *expect;        /* after `expect`; may be NULL */
	void (*open)(void *self);                  /* sets up a fresh node; may be NULL */
	void (*close)(void *self, void *memory);   /* may be NULL */
	/* Replaces decide() of ops; may be NULL. */
	void (*decide)(void *self, const struct decide_input *input, struct proposal *proposal);
};

extern const struct scenario_tuner neighbor_scenario, thp_scenario, dns_scenario, sysctl_scenario,
	kubelet_scenario, runtime_scenario, images_scenario, storage_scenario;

/* The next word, or NULL at the end of the line. */
const char *scenario_word(struct scenario *scenario);

/* Skips the next word if it is this one. */
bool scenario_is(struct scenario *scenario, const char *word);

/* Parse the next word as a number or as a value ("-" is empty). Return false on an error. */
bool scenario_number(struct scenario *scenario, uint64_t *number);
bool scenario_value(struct scenario *scenario, char *value, size_t size);

/* A WORD_CALL: the mode of the tuner. */
bool scenario_mode(struct scenario *scenario, void *base);
