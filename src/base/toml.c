/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml_place.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>

static int copy_bytes(const char *bytes, size_t len, char **text)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	*text = copy;
	return 0;
}

static int decode_string(const char *text, const struct toml_event *event, char **decoded)
{
	_cleanup_(toml_buffer_clear) struct toml_buffer buffer = {0};
	struct toml_cursor cursor = {.text = text, .len = event->end, .at = event->value};
	int r = toml_string_read(&cursor, true, &buffer);

	if (r < 0)
		return r;
	*decoded = steal(buffer.bytes);
	return 0;
}

static int decode(const char *text, const struct toml_event *event, struct toml_value *value)
{
	const char *spelled = text + event->value;
	size_t len = event->end - event->value;
	struct toml_value found = {.type = event->type, .at = event->value, .len = len};
	char number[32];
	long long integer;
	int r;

	if (event->type == TOML_STRING) {
		r = decode_string(text, event, &found.text);
	} else if (event->type == TOML_INTEGER && toml_integer_read(spelled, len, &integer) == 0) {
		snprintf(number, sizeof(number), "%lld", integer);
		r = copy_bytes(number, strlen(number), &found.text);
	} else {
		r = copy_bytes(spelled, len, &found.text);
	}
	if (r == 0)
		*value = found;
	return r;
}

void toml_value_clear(struct toml_value *value)
{
	free(value->text);
	*value = (struct toml_value){0};
}

static size_t line_of(const char *text, size_t at)
{
	size_t line = 1;

	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return line;
}

struct reading {
	const char *text;
	toml_visit visit;
	void *userdata;
	size_t line, counted; /* lines up to the byte counted */
	struct toml_buffer spelled;
};

/* What an event is as a value: a table is {}, and a container's content has events of its own. */
static int reading_value(
	const struct reading *reading, const struct toml_event *event, struct toml_value *value)
{
	int r;

	if (event->type != TOML_TABLE && (event->type != TOML_ARRAY || event->last == 0))
		return decode(reading->text, event, value);
	*value = (struct toml_value){.type = event->type, .at = event->value};
	value->len = event->end - event->value;
	r = copy_bytes(event->type == TOML_TABLE ? "{}" : "[...]",
		event->type == TOML_TABLE ? 2 : 5, &value->text);
	return r;
}

static int read_event(const struct toml_event *event, void *userdata)
{
	struct reading *reading = userdata;
	_cleanup_(toml_value_clear) struct toml_value value = {0};
	int r;

	reading->spelled.len = 0;
	r = toml_name_spell(event->name, event->name_len, &reading->spelled);
	if (r == 0)
		r = reading_value(reading, event, &value);
	if (r < 0)
		return r;
	for (; reading->counted < event->start; reading->counted++)
		reading->line += reading->text[reading->counted] == '\n';
	value.line = reading->line;
	for (size_t i = event->start; i < reading->counted; i++) /* told after what is in it */
		value.line -= reading->text[i] == '\n';
	return reading->visit(reading->spelled.bytes, &value, reading->userdata);
}

int toml_walk(
	const char *text, size_t len, toml_visit visit, void *userdata, struct toml_error *error)
{
	struct reading reading = {
		.text = text,
		.visit = visit,
		.userdata = userdata,
		.line = 1,
	};
	int r = toml_scan(text, len, read_event, &reading, error);

	toml_buffer_clear(&reading.spelled);
	return r;
}

static int ignore_event(const struct toml_event *event, void *userdata)
{
	(void)event;
	(void)userdata;
	return 0;
}

int toml_check(const char *text, size_t len, struct toml_error *error)
{
	return toml_scan(text, len, ignore_event, NULL, error);
}

int toml_get(const char *text, size_t len, const char *table, const char *key,
	struct toml_value *value, struct toml_error *error)
{
	_cleanup_(toml_place_clear) struct toml_place place = {0};
	int r = toml_find(text, len, table, key, &place, error);

	if (r < 0)
		return r;
	if (!place.found)
		return -ENOENT;
	r = decode(text, &place.event, value);
	if (r == 0)
		value->line = line_of(text, value->at);
	return r;
}

static int keep_event(const struct toml_event *event, void *userdata)
{
	if (event->depth == 0)
		*(struct toml_event *)userdata = *event;
	return 0;
}

bool toml_equal(const char *text, const struct toml_event *event, const char *literal)
{
	_cleanup_(toml_value_clear) struct toml_value old = {0}, new = {0};
	struct toml_event wanted = {0};

	return toml_scan_literal(literal, keep_event, &wanted) == 0 && wanted.type == event->type &&
	       decode(text, event, &old) == 0 && decode(literal, &wanted, &new) == 0 &&
	       streq(old.text, new.text);
}

struct strings {
	const char *literal;
	char **strings;
	size_t n, allocated;
};

static int add_string(const struct toml_event *event, void *userdata)
{
	struct strings *s = userdata;
	int r;

	if (event->depth == 0)
		return event->type == TOML_ARRAY ? 0 : -EINVAL;
	if (event->depth > 1 || event->type != TOML_STRING)
		return -EINVAL;
	r = grow_array(&s->strings, s->n, &s->allocated, sizeof(*s->strings));
	if (r == 0)
		r = decode_string(s->literal, event, &s->strings[s->n]);
	if (r == 0)
		s->n++;
	return r;
}

int toml_strings(const char *literal, char ***strings, size_t *n)
{
	struct strings found = {.literal = literal};
	int r = toml_scan_literal(literal, add_string, &found);

	if (r < 0) {
		toml_strings_free(found.strings, found.n);
		return r == -EBADMSG ? -EINVAL : r;
	}
	*strings = found.strings;
	*n = found.n;
	return 0;
}

void toml_strings_free(char **strings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(strings[i]);
	free(strings);
}
