/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_REASON_H
#define MODEL_REASON_H

/*
 * Reasons are data: one slug ("below-configured") serves the log, the JSON, `explain` and the
 * manual.
 */

struct reason {
	const char *slug;
	const char *sentence;
};

extern const struct reason reason_table[]; /* ended by a row without a slug */

/* The sentence of a slug, or NULL for one that is not in the table. */
const char *reason_sentence(const char *slug);

#endif
