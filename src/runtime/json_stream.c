/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/json_stream.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

static int keep(struct json_stream *s, const char *data, size_t len)
{
	if (s->len + len > s->max)
		return -EFBIG;
	if (s->len + len + 1 > s->allocated) {
		size_t wanted = MAX(2 * s->allocated, s->len + len + 1);
		char *moved = realloc(s->buffer, wanted);

		if (!moved)
			return -ENOMEM;
		s->buffer = moved;
		s->allocated = wanted;
	}
	memcpy(s->buffer + s->len, data, len);
	s->len += len;
	s->buffer[s->len] = '\0';
	return 0;
}

/* Takes note of one character inside an object. */
static void follow(struct json_stream *s, char c)
{
	if (s->in_string) {
		if (s->escaped)
			s->escaped = false;
		else if (c == '\\')
			s->escaped = true;
		else if (c == '"')
			s->in_string = false;
	} else if (c == '"') {
		s->in_string = true;
	} else if (c == '{' || c == '[') {
		s->depth++;
	} else if (c == '}' || c == ']') {
		s->depth--;
	}
}

/* A character between objects: whether it belongs there. */
static bool is_between(struct json_stream *s, char c)
{
	if (memchr(" \t\r\n", c, 4))
		return true;
	if (!s->list || s->closed)
		return false;
	if (c == '[' && !s->opened) {
		s->opened = true;
		return true;
	}
	if (c == ']' && s->opened) {
		s->closed = true;
		return true;
	}
	return c == ',' && s->opened;
}

int json_stream_feed(
	struct json_stream *s, const char *data, size_t len, json_stream_fn *each, void *userdata)
{
	size_t start = 0;

	for (size_t i = 0; i < len; i++) {
		int r;

		if (s->depth == 0) {
			if (data[i] != '{' || (s->list && (!s->opened || s->closed))) {
				if (!is_between(s, data[i]))
					return -EBADMSG;
				continue;
			}
			start = i;
		}
		follow(s, data[i]);
		if (s->depth > 0)
			continue;
		r = keep(s, data + start, i + 1 - start);
		if (r == 0)
			r = each(s->buffer, s->len, userdata);
		if (r != 0)
			return r;
		s->len = 0;
	}
	return s->depth > 0 ? keep(s, data + start, len - start) : 0;
}

bool json_stream_is_whole(const struct json_stream *s)
{
	return s->depth == 0 && (!s->list || s->closed);
}

void json_stream_clear(struct json_stream *s)
{
	free(s->buffer);
	*s = (struct json_stream){.list = s->list, .max = s->max};
}
