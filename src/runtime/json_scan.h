/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_JSON_SCAN_H
#define RUNTIME_JSON_SCAN_H

/*
 * Where the members of a JSON text's topmost object are, for editing one in place: what cJSON
 * cannot tell. It does not judge what is inside of values.
 */

#include <stddef.h>

/* Offsets into the text: the key with its quotes, and the value. */
struct json_member {
	size_t key, key_end;
	size_t value, value_end;
};

struct json_scan {
	const char *text;
	size_t len, at;
	size_t open, close; /* the object's braces, once they were passed */
	size_t n;           /* members so far */
	char why[128];      /* of -EBADMSG: "LINE:COLUMN: what" */
};

/* 1 with the next member, 0 at the end of the text or in a blank one, -EBADMSG for any other. */
int json_next(struct json_scan *scan, struct json_member *member);

#endif
