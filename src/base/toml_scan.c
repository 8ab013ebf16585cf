/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml_scan.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "base/util.h"

#include <errno.h>

/* An array of tables: a later [name.x] stands in its last element. */
struct array {
	size_t name, len; /* in scanner.array_names */
	unsigned n;
};

struct scanner {
	struct toml_cursor cursor;
	struct toml_buffer name;   /* of what is being read, its context first */
	size_t context_len;        /* of the table of the last header */
	struct toml_buffer header; /* the name of that table */
	struct toml_buffer names;  /* of all arrays of tables */
	struct array *arrays;
	size_t n_arrays, allocated;
	unsigned depth;
	toml_sink sink;
	void *userdata;
};

static void scanner_release(struct scanner *s)
{
	toml_buffer_clear(&s->name);
	toml_buffer_clear(&s->header);
	toml_buffer_clear(&s->names);
	free(s->arrays);
}

static int fault(struct scanner *s, const char *why)
{
	s->cursor.why = why;
	return -EBADMSG;
}

static bool more(const struct scanner *s)
{
	return s->cursor.at < s->cursor.len;
}

/* The character at the cursor, NUL at the end. A NUL in the text fits nowhere either. */
static char peek(const struct scanner *s)
{
	return more(s) ? s->cursor.text[s->cursor.at] : '\0';
}

static bool accept(struct scanner *s, char wanted)
{
	if (!more(s) || peek(s) != wanted)
		return false;
	s->cursor.at++;
	return true;
}

static void skip_blanks(struct scanner *s)
{
	while (peek(s) == ' ' || peek(s) == '\t')
		s->cursor.at++;
}

static bool accept_line_end(struct scanner *s)
{
	size_t at = s->cursor.at;

	if (accept(s, '\r') && accept(s, '\n'))
		return true;
	s->cursor.at = at;
	return accept(s, '\n');
}

static void skip_comment(struct scanner *s)
{
	if (peek(s) != '#')
		return;
	while (more(s) && peek(s) != '\n' && peek(s) != '\r')
		s->cursor.at++;
}

static int end_line(struct scanner *s)
{
	skip_blanks(s);
	skip_comment(s);
	return !more(s) || accept_line_end(s) ? 0 : fault(s, "the line should end here");
}

/* Blanks, comments and line ends, as they may stand in an array. */
static void skip_lines(struct scanner *s)
{
	do {
		skip_blanks(s);
		skip_comment(s);
	} while (accept_line_end(s));
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static bool is_utf8(const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_length(text + i);
		if (n == 0 || i + n > len)
			return false;
	}
	return true;
}

static int read_part(struct scanner *s, struct toml_buffer *name)
{
	static const char end = TOML_PART_END;
	size_t start = s->cursor.at, before = name->len;
	int r;

	if (peek(s) == '"' || peek(s) == '\'') {
		r = toml_string_read(&s->cursor, false, name);
	} else {
		while (is_bare(peek(s)))
			s->cursor.at++;
		if (s->cursor.at == start)
			return fault(s, "a name was expected");
		r = toml_buffer_add(name, s->cursor.text + start, s->cursor.at - start);
	}
	if (r < 0)
		return r;
	if (!is_utf8(name->bytes + before, name->len - before)) {
		s->cursor.at = start;
		return fault(s, "the name is no UTF-8");
	}
	if (name->len >= TOML_NAME_MAX)
		return fault(s, "the name is too long");
	return toml_buffer_add(name, &end, 1);
}

/* A dotted name, appended to name; blanks behind it are read too. */
static int read_name(struct scanner *s, struct toml_buffer *name)
{
	int r;

	do {
		skip_blanks(s);
		r = read_part(s, name);
		if (r < 0)
			return r;
		skip_blanks(s);
	} while (accept(s, '.'));
	return 0;
}

static int add_element(struct toml_buffer *name, unsigned n)
{
	char part[16];
	int len = snprintf(part, sizeof(part), "%c%u%c", TOML_ELEMENT, n, TOML_PART_END);

	return toml_buffer_add(name, part, (size_t)len);
}

static int read_value(struct scanner *s, struct toml_event *event);

static int tell(struct scanner *s, struct toml_event *event)
{
	event->name = s->name.bytes;
	event->name_len = s->name.len;
	event->depth = s->depth;
	return s->sink(event, s->userdata);
}

/* The inside of an array, behind its bracket. */
static int read_array(struct scanner *s, struct toml_event *event)
{
	size_t name_len = s->name.len;
	unsigned n = 0;
	int r;

	event->type = TOML_ARRAY;
	for (skip_lines(s); !accept(s, ']'); skip_lines(s)) {
		struct toml_event element = {
			.kind = TOML_EVENT_VALUE,
			.context_len = name_len,
			.start = s->cursor.at,
			.value = s->cursor.at,
			.previous = event->last,
		};

		r = add_element(&s->name, n++);
		if (r == 0)
			r = read_value(s, &element);
		if (r != 0)
			return r;
		event->last = element.end;
		s->name.len = name_len;
		skip_lines(s);
		if (!accept(s, ',') && peek(s) != ']')
			return fault(s, "a comma or ] was expected");
	}
	return 0;
}

/* A name and its value in the braces of an inline table. */
static int read_member(struct scanner *s, struct toml_event *table)
{
	struct toml_event member = {
		.kind = TOML_EVENT_VALUE,
		.context_len = s->name.len,
		.start = s->cursor.at,
		.previous = table->last,
	};
	int r = read_name(s, &s->name);

	if (r < 0)
		return r;
	if (!accept(s, '='))
		return fault(s, "= was expected");
	skip_blanks(s);
	member.value = s->cursor.at;
	r = read_value(s, &member);
	s->name.len = member.context_len;
	table->last = member.end;
	return r;
}

static int read_inline_table(struct scanner *s, struct toml_event *event)
{
	int r;

	event->type = TOML_TABLE;
	skip_blanks(s);
	if (accept(s, '}'))
		return 0;
	do {
		skip_blanks(s);
		r = read_member(s, event);
		if (r != 0)
			return r;
		skip_blanks(s);
	} while (accept(s, ','));
	return accept(s, '}') ? 0 : fault(s, "a comma or } was expected");
}

static bool is_scalar(char c)
{
	return is_bare(c) || c == '+' || c == '.' || c == ':';
}

static int read_scalar(struct scanner *s, struct toml_event *event)
{
	const char *text = s->cursor.text;
	size_t start = s->cursor.at;
	enum toml_type type;

	while (is_scalar(peek(s)))
		s->cursor.at++;
	/* A date and its time may have a space between them. */
	if (toml_scalar_type(text + start, s->cursor.at - start, &type) == 0 && type == TOML_DATE &&
		s->cursor.at - start == strlen("yyyy-mm-dd") && s->cursor.at + 1 < s->cursor.len &&
		text[s->cursor.at] == ' ' && text[s->cursor.at + 1] >= '0' &&
		text[s->cursor.at + 1] <= '9')
		for (s->cursor.at++; is_scalar(peek(s));)
			s->cursor.at++;
	if (toml_scalar_type(text + start, s->cursor.at - start, &event->type) == 0)
		return 0;
	s->cursor.at = start;
	return fault(s, "a value was expected");
}

static int read_container(struct scanner *s, struct toml_event *event)
{
	char open = peek(s);
	int r;

	if (s->depth >= TOML_NESTING_MAX)
		return fault(s, "too many brackets in one another");
	s->cursor.at++;
	s->depth++;
	r = open == '[' ? read_array(s, event) : read_inline_table(s, event);
	s->depth--;
	return r;
}

/* Reads the value at the cursor and tells of it, after what is in it. */
static int read_value(struct scanner *s, struct toml_event *event)
{
	char first = peek(s);
	int r;

	if (first == '[' || first == '{') {
		r = read_container(s, event);
	} else if (first == '"' || first == '\'') {
		event->type = TOML_STRING;
		r = toml_string_read(&s->cursor, true, NULL);
	} else {
		r = read_scalar(s, event);
	}
	if (r != 0)
		return r;
	event->end = s->cursor.at;
	return tell(s, event);
}

static struct array *find_array(struct scanner *s, const char *name, size_t len)
{
	for (size_t i = 0; i < s->n_arrays; i++)
		if (s->arrays[i].len == len &&
			memcmp(s->names.bytes + s->arrays[i].name, name, len) == 0)
			return &s->arrays[i];
	return NULL;
}

static int add_array(struct scanner *s, const char *name, size_t len)
{
	int r;

	if (s->n_arrays >= TOML_ARRAYS_MAX)
		return fault(s, "too many arrays of tables");
	r = grow_array(&s->arrays, s->n_arrays, &s->allocated, sizeof(*s->arrays));
	if (r < 0)
		return r;
	s->arrays[s->n_arrays] = (struct array){.name = s->names.len, .len = len};
	r = toml_buffer_add(&s->names, name, len);
	if (r == 0)
		s->n_arrays++;
	return r;
}

/* From a header's name as it is spelled to the one with the elements that it stands in. */
static int resolve_header(struct scanner *s, const struct toml_buffer *spelled, bool element)
{
	struct array *array;
	int r = 0;

	s->header.len = 0;
	for (size_t i = 0; i < spelled->len && r == 0;) {
		const char *part = spelled->bytes + i;
		const char *end = memchr(part, TOML_PART_END, spelled->len - i);
		size_t n = (size_t)(end - part) + 1;

		r = toml_buffer_add(&s->header, part, n);
		i += n;
		if (r < 0)
			return r;
		array = find_array(s, s->header.bytes, s->header.len);
		if (i < spelled->len && array)
			r = add_element(&s->header, array->n - 1);
	}
	if (r < 0 || !element)
		return r;
	array = find_array(s, s->header.bytes, s->header.len);
	if (!array) {
		r = add_array(s, s->header.bytes, s->header.len);
		array = r == 0 ? &s->arrays[s->n_arrays - 1] : NULL;
	}
	return array ? add_element(&s->header, array->n++) : r;
}

static int read_header(struct scanner *s)
{
	_cleanup_(toml_buffer_clear) struct toml_buffer spelled = {0};
	struct toml_event event = {.kind = TOML_EVENT_TABLE, .type = TOML_TABLE};
	bool element;
	int r;

	event.start = s->cursor.at++;
	element = accept(s, '[');
	if (element)
		event.kind = TOML_EVENT_ELEMENT;
	r = read_name(s, &spelled);
	if (r < 0)
		return r;
	if (!accept(s, ']') || (element && !accept(s, ']')))
		return fault(s, element ? "]] was expected" : "] was expected");
	event.value = event.end = s->cursor.at;
	r = resolve_header(s, &spelled, element);
	if (r < 0)
		return r;
	s->name.len = 0;
	r = toml_buffer_add(&s->name, s->header.bytes, s->header.len);
	if (r < 0)
		return r;
	s->context_len = event.context_len = s->name.len;
	r = tell(s, &event);
	return r != 0 ? r : end_line(s);
}

static int read_pair(struct scanner *s)
{
	struct toml_event event = {
		.kind = TOML_EVENT_VALUE,
		.context_len = s->context_len,
		.start = s->cursor.at,
	};
	int r;

	s->name.len = s->context_len;
	r = read_name(s, &s->name);
	if (r < 0)
		return r;
	if (!accept(s, '='))
		return fault(s, "= was expected");
	skip_blanks(s);
	event.value = s->cursor.at;
	r = read_value(s, &event);
	return r != 0 ? r : end_line(s);
}

static int read_line(struct scanner *s)
{
	skip_blanks(s);
	if (peek(s) == '[')
		return read_header(s);
	if (!more(s) || peek(s) == '#' || peek(s) == '\n' || peek(s) == '\r')
		return end_line(s);
	return read_pair(s);
}

void toml_error_set(struct toml_error *error, const char *text, size_t at, const char *message)
{
	if (!error)
		return;
	error->line = error->column = 1;
	for (size_t i = 0; i < at; i++) {
		error->column = text[i] == '\n' ? 1 : error->column + 1;
		error->line += text[i] == '\n';
	}
	copy_text(error->message, sizeof(error->message), message);
}

int toml_scan(
	const char *text, size_t len, toml_sink sink, void *userdata, struct toml_error *error)
{
	_cleanup_(scanner_release) struct scanner s = {
		.cursor = {.text = text, .len = len},
		.sink = sink,
		.userdata = userdata,
	};
	int r = 0;

	if (len > TOML_TEXT_MAX)
		return -EFBIG;
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		s.cursor.at = 3; /* some editors put a byte order mark there */
	while (more(&s) && r == 0)
		r = read_line(&s);
	if (r == -EBADMSG && s.cursor.why)
		toml_error_set(error, text, s.cursor.at, s.cursor.why);
	return r;
}

int toml_scan_literal(const char *literal, toml_sink sink, void *userdata)
{
	_cleanup_(scanner_release) struct scanner s = {
		.cursor = {.text = literal, .len = strlen(literal)},
		.sink = sink,
		.userdata = userdata,
	};
	struct toml_event event = {.kind = TOML_EVENT_VALUE};
	int r = toml_buffer_add(&s.name, NULL, 0);

	if (r == 0)
		r = read_value(&s, &event);
	if (r != 0)
		return r;
	return more(&s) ? -EBADMSG : 0;
}

int toml_name_parse(const char *spelled, struct toml_buffer *name)
{
	struct scanner s = {.cursor = {.text = spelled, .len = strlen(spelled)}};
	size_t before = name->len;
	int r;

	if (*spelled == '\0')
		return toml_buffer_add(name, NULL, 0);
	r = read_name(&s, name);
	if (r == 0 && more(&s))
		r = -EINVAL;
	if (r < 0)
		name->len = before;
	return r == -EBADMSG ? -EINVAL : r;
}
