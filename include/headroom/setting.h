/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADROOM_SETTING_H
#define HEADROOM_SETTING_H

/*
 * A setting is a value that the node should have. There are two kinds: a value of the running
 * kernel (value.h) and a key of a program's configuration file (file.h). This is what both have in
 * common: what `headroom status` shows. A value is text, as the kernel prints it, with the selected
 * word taken out of "always [madvise] never" and runs of white space folded to one space. A value
 * from a file is shown without the quotes of the file's language.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTING_NAME_MAX  128
#define SETTING_VALUE_MAX 128 /* the longest sysctl worth managing is core_pattern */
#define SETTING_PATH_MAX  256
#define SETTING_WHY_MAX   200

/* A tuner's, or the whole agent's, attitude to the node. */
enum mode {
	MODE_ENFORCE,  /* sense, decide, apply */
	MODE_OBSERVE,  /* sense, decide; apply nothing */
	MODE_OFF,      /* not even sense */
	MODE_RELEASED, /* as MODE_OBSERVE, after `headroom restore` and until `headroom apply` */
};

enum setting_state {
	SETTING_IN_SYNC,     /* the value read back is the wanted one */
	SETTING_PENDING,     /* will be written at the next occasion */
	SETTING_DRIFTED,     /* someone else changed it, and on_drift leaves it so */
	SETTING_YIELDED,     /* someone else keeps changing it: left to them */
	SETTING_FAILED,      /* could not be read, recorded or written: see error */
	SETTING_UNSUPPORTED, /* this kernel has no such thing */
	SETTING_OBSERVED,    /* read, never written */
};

/* What is known of a setting, kept from poll to poll. */
struct setting {
	char name[SETTING_NAME_MAX];
	const char *tuner;
	char wanted[SETTING_VALUE_MAX];   /* empty: nothing is wanted */
	char actual[SETTING_VALUE_MAX];   /* in force now; empty: not known */
	char original[SETTING_VALUE_MAX]; /* before our first write; until then, actual */
	enum mode mode;
	enum setting_state state;
	const char *reason;                /* why it is in this state: a slug */
	int error;                         /* -errno behind SETTING_FAILED; of SETTING_UNSUPPORTED
					    * when a file of the configuration asks for it; else 0 */
	char why[SETTING_WHY_MAX];         /* more about error than strerror(3) says; or empty */
	char confirmed[SETTING_VALUE_MAX]; /* as it last was in sync: another value is drift */
	bool drifted;                      /* drift was seen, and nothing written since */
	unsigned rounds;                   /* consecutive times it was set again after drift */
	uint64_t drift_total;              /* times drift was seen */
	uint64_t drift_at_us;              /* when it was last seen, CLOCK_MONOTONIC */
	uint64_t retry_at_us;              /* when to try again what failed or waits */
};

extern const char *const mode_names[];
extern const char *const setting_state_names[];

/*
 * The one place where a setting's state changes. reason is a slug; error and why (may be NULL)
 * belong to SETTING_FAILED; an error also to SETTING_UNSUPPORTED. True when it is in that state for
 * another reason than before.
 */
bool setting_become(struct setting *setting, enum setting_state state, const char *reason,
	int error, const char *why);

/* The value that was read is the wanted one, whatever the mode. */
bool setting_in_sync(const struct setting *setting);

/* True for a value equal to either: numbers by value, anything else by its words. */
bool value_equal(const char *a, const char *b);

/*
 * Compares two values of one or more integers, field by field. Returns 0 and writes order: -1 when
 * no field of a is above b's and one is below, 0 equal, 1 when none is below and one is above, 2
 * when fields go both ways. -EINVAL when one is no list of integers or the lists differ in length.
 */
int value_compare(const char *a, const char *b, int *order);

/* Writes the larger of both, field by field, to out, which may be a or b. -EINVAL as above. */
int value_max(const char *a, const char *b, char out[static SETTING_VALUE_MAX]);

#endif
