/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml_place.h"

#include "base/util.h"

#include <errno.h>

struct search {
	struct toml_place *place;
	bool in_header; /* in [table], the one that counts */
	bool in_top;    /* no header has come yet */
	size_t fault_at;
	const char *fault;
	int error;
};

void toml_place_clear(struct toml_place *place)
{
	toml_buffer_clear(&place->name);
}

/* True when the first is the beginning of the second. Names' parts have an end: no part is cut. */
static bool begins(const char *name, size_t len, const char *longer, size_t longer_len)
{
	return len <= longer_len && memcmp(name, longer, len) == 0;
}

/* Noted, and the rest of the text read on: what is no TOML at all comes first. */
static int fault(struct search *search, size_t at, const char *why, int error)
{
	if (!search->fault) {
		search->fault_at = at;
		search->fault = why;
		search->error = error;
	}
	return 0;
}

static int see_table(struct search *search, const struct toml_event *event)
{
	struct toml_place *place = search->place;
	const struct toml_buffer *name = &place->name;

	search->in_top = false;
	search->in_header = false;
	if (begins(name->bytes, name->len, event->name, event->name_len))
		return fault(search, event->start, "this is a table", -EEXIST);
	if (event->kind != TOML_EVENT_TABLE || event->name_len != place->table_len ||
		!begins(event->name, event->name_len, name->bytes, name->len))
		return 0;
	if (place->header || place->braces || place->dotted)
		return fault(search, event->start, "this table was there before", -EBADMSG);
	search->in_header = true;
	place->header = true;
	place->header_start = event->start;
	place->header_at = event->end;
	return 0;
}

/* An array of tables on the way: its elements have no names here. */
static int see_element(struct search *search, const struct toml_event *event)
{
	const struct toml_buffer *name = &search->place->name;
	const char *element = memrchr(event->name, TOML_ELEMENT, event->name_len);
	size_t len = (size_t)(element - event->name);

	search->in_top = false;
	search->in_header = false;
	if (begins(event->name, len, name->bytes, name->len))
		return fault(search, event->start, "this is an array of tables", -EEXIST);
	return 0;
}

static int see_key(struct search *search, const struct toml_event *event)
{
	struct toml_place *place = search->place;

	if (place->found)
		return fault(search, event->start, "this key was there before", -EBADMSG);
	if (event->type == TOML_TABLE)
		return fault(search, event->start, "this is a table", -EEXIST);
	place->found = true;
	place->event = *event;
	place->event.name = NULL;
	return 0;
}

static int see_braces(struct search *search, const struct toml_event *event)
{
	struct toml_place *place = search->place;

	if (event->type != TOML_TABLE)
		return fault(search, event->start, "this is no table", -EEXIST);
	if (place->braces && event->name_len <= place->braces_name_len)
		return 0; /* around the one that is known */
	place->braces = true;
	place->braces_name_len = event->name_len;
	place->braces_end = event->end - 1;
	place->braces_last = event->last;
	return 0;
}

static int see_value(struct search *search, const struct toml_event *event)
{
	struct toml_place *place = search->place;
	const struct toml_buffer *name = &place->name;

	if (event->depth == 0 && search->in_top)
		place->top_at = event->end;
	if (event->depth == 0 && search->in_header) {
		place->header_at = event->end;
		place->header_keys++;
	}
	if (event->name_len == name->len && memcmp(event->name, name->bytes, name->len) == 0)
		return see_key(search, event);
	if (begins(name->bytes, name->len, event->name, event->name_len)) {
		if (event->name[name->len] == TOML_ELEMENT)
			return 0; /* in the key's own array */
		return fault(search, event->start, "this is a table", -EEXIST);
	}
	if (begins(event->name, event->name_len, name->bytes, name->len))
		return see_braces(search, event);
	if (event->depth == 0 && event->context_len < place->table_len &&
		begins(name->bytes, place->table_len, event->name, event->name_len)) {
		place->dotted = true;
		place->dotted_context_len = event->context_len;
		place->dotted_at = event->end;
	}
	return 0;
}

static int see(const struct toml_event *event, void *userdata)
{
	switch (event->kind) {
	case TOML_EVENT_TABLE:
		return see_table(userdata, event);
	case TOML_EVENT_ELEMENT:
		return see_element(userdata, event);
	case TOML_EVENT_VALUE:
		return see_value(userdata, event);
	}
	return 0;
}

int toml_find(const char *text, size_t len, const char *table, const char *key,
	struct toml_place *place, struct toml_error *error)
{
	struct search search = {.place = place, .in_top = true};
	int r = toml_name_parse(table, &place->name);

	if (r < 0)
		return r;
	place->table_len = place->name.len;
	r = toml_name_parse(key, &place->name);
	if (r < 0)
		return r;
	if (place->name.len == place->table_len || place->name.len > TOML_NAME_MAX)
		return -EINVAL;
	r = toml_scan(text, len, see, &search, error);
	if (r < 0 || !search.fault)
		return r;
	toml_error_set(error, text, search.fault_at, search.fault);
	return search.error;
}
