/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_JSON_STREAM_H
#define RUNTIME_JSON_STREAM_H

/*
 * Cuts a stream of bytes into the JSON objects in it, as they come: one after the other (events,
 * progress), or as the elements of one list. So no answer is ever held or parsed whole, however
 * long it is. Pure but for its memory.
 */

#include <stdbool.h>
#include <stddef.h>

struct json_stream {
	bool list;  /* the objects are the elements of a list */
	size_t max; /* bytes of one object at most */

	/* Its own: zero at first. */
	char *buffer;
	size_t len, allocated;
	unsigned int depth; /* of braces and brackets, the list's own not counted */
	bool in_string, escaped, opened, closed;
};

/* One object's text, terminated. Any return but 0 ends the feeding with it. */
typedef int json_stream_fn(const char *text, size_t len, void *userdata);

/*
 * Takes the next bytes and calls back for each object that they complete. 0, -EBADMSG for what is
 * no such stream, -EFBIG for too large an object, -ENOMEM, or what the callback returned.
 */
int json_stream_feed(struct json_stream *stream, const char *data, size_t len, json_stream_fn *each,
	void *userdata);

/* True when nothing is missing at the end: no open object, and a list was closed. */
bool json_stream_is_whole(const struct json_stream *stream);

void json_stream_clear(struct json_stream *stream);

#endif
