/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table of options. A row is a name, a type, a range, a default and the help that documents
 * it; the parser, validation, `explain`, the sample configuration and headroom.yaml(5) all come
 * from these rows. The agent's own rows are in options.c, a tuner's in its directory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define OPTION_NAME_MAX 96 /* bytes of a row's name, terminator included */

enum option_type {
	OPTION_BOOL,
	OPTION_COUNT,    /* a whole number in min..max (max 0: no upper bound), or one of words */
	OPTION_DURATION, /* a whole number with ms, s, m or h; min..max in microseconds; or a word
			  */
	OPTION_CHOICE,   /* one of words */
	OPTION_TEXT,     /* any one-line text of min..max bytes; max 0: 255 */
	OPTION_LIST,     /* a list of at most max items (max 0: 64), or one of words */
	OPTION_SYSCTLS,  /* a map of sysctl names to a value, or to {value: V, exact: true} */
	OPTION_RESERVED, /* for a later version: anything is accepted, not used, and said once */
};

struct config_option {
	const char *name; /* "neighbor.ipv4.gc_thresh1"; NULL ends a table */
	enum option_type type;
	uint64_t min, max;
	const char *const *words; /* ended by NULL; may be NULL for anything but OPTION_CHOICE */
	const char *unit;         /* NULL for none */
	const char *def;          /* as in the file; NULL: empty */
	const char *help;
	/*
	 * OPTION_LIST alone: the rows of one item's map, ended by a row without a name; or, for a
	 * list of plain values, one row whose name is "". They are of any type but a list, a map of
	 * sysctls or reserved. A text with a min above 0 and no default must be given in each item.
	 */
	const struct config_option *items;
	/* OPTION_TEXT alone: what is wrong with a text, and the cure; NULL for nothing. May be
	 * NULL.
	 */
	const char *(*check)(const char *text);
};

#define OPTION_ITEMS_MAX 64 /* items of a list whose row has no max */

/* The agent's own rows: mode, profile, node_name, http, on_drift and the reserved sections. */
extern const struct config_option core_options[];

/* A row found by name in tables (ended by NULL), or NULL. */
const struct config_option *option_find(
	const struct config_option *const *tables, const char *name);

/* True when rows are named below name: "neighbor", and "neighbor.ipv4" even if that is a row too.
 */
bool option_is_section(const struct config_option *const *tables, const char *name);

/* True for name itself and whatever is named below it. */
bool option_is_below(const char *option, const char *name);

/* "ADDRESS:PORT", an IPv6 address in brackets: its length in *address, 0 for anything else. */
socklen_t listen_address(const char *text, struct sockaddr_storage *address);

/* Appends what the row takes: "a whole number from 1 to 2147483647 (entries), or keep". */
void value_describe(const struct config_option *option, char *buffer, size_t size);

#define OPTION_TEXT_MAX 1536

/* Sentences: what a row is for, what it takes, and its default. */
void option_describe(const struct config_option *option, char text[static OPTION_TEXT_MAX]);

#define SUGGEST_WORD_MAX 32 /* longer words are not compared */

/* The word nearest to a typed one; empty while none is near. */
struct suggestion {
	char word[SUGGEST_WORD_MAX + 1];
	unsigned apart; /* letters in which they differ */
};

/* Takes a word of which typed may be a slip, if it is nearer than those before. */
void suggest_offer(struct suggestion *suggestion, const char *typed, const char *word);
