/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml_place.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>

/* Says of a table at the end of a text that toml_set() put it there, and toml_remove() may take it.
 */
#define ADDED "# added by headroom"

/* An edit is one piece of the text that becomes another. */
struct file_edit {
	size_t from, to;
	struct toml_buffer text;
};

static void edit_release(struct file_edit *edit)
{
	toml_buffer_clear(&edit->text);
}

static int edit_apply(
	const char *text, size_t len, const struct file_edit *edit, char **out, size_t *out_len)
{
	size_t result = len - (edit->to - edit->from) + edit->text.len;
	char *copy = malloc(result + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, edit->from);
	if (edit->text.len > 0)
		memcpy(copy + edit->from, edit->text.bytes, edit->text.len);
	memcpy(copy + edit->from + edit->text.len, text + edit->to, len - edit->to);
	copy[result] = '\0';
	*out = copy;
	if (out_len)
		*out_len = result;
	return 0;
}

/* The texts one after the other, up to NULL. */
static int add_texts(struct file_edit *edit, const char *const *texts)
{
	int r = 0;

	for (; *texts && r == 0; texts++)
		r = toml_buffer_add(&edit->text, *texts, strlen(*texts));
	return r;
}

#define add(edit, ...) add_texts(edit, (const char *const[]){__VA_ARGS__, NULL})

/* How lines end here: as the first one does. */
static const char *line_end_of(const char *text, size_t len)
{
	const char *end = len > 0 ? memchr(text, '\n', len) : NULL;

	return end && end > text && end[-1] == '\r' ? "\r\n" : "\n";
}

/* Behind the end of the line that at is in. */
static size_t next_line(const char *text, size_t len, size_t at)
{
	const char *end = at < len ? memchr(text + at, '\n', len - at) : NULL;

	return end ? (size_t)(end - text) + 1 : len;
}

static size_t line_start(const char *text, size_t at)
{
	while (at > 0 && text[at - 1] != '\n')
		at--;
	return at;
}

static size_t bom_of(const char *text, size_t len)
{
	return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static bool ends_a_line(const char *text, size_t at)
{
	return at == bom_of(text, at) || text[at - 1] == '\n';
}

/* Adds the blanks that the line at begins with. */
static int add_indent(struct file_edit *edit, const char *text, size_t at)
{
	size_t start = line_start(text, at), n = 0;

	while (text[start + n] == ' ' || text[start + n] == '\t')
		n++;
	return toml_buffer_add(&edit->text, text + start, n);
}

/* The key as it has to be spelled where the names' first context_len bytes are the table. */
static int spell_key(const struct toml_place *place, size_t context_len, char **spelled)
{
	_cleanup_(toml_buffer_clear) struct toml_buffer key = {0};
	int r = toml_name_spell(
		place->name.bytes + context_len, place->name.len - context_len, &key);

	if (r == 0)
		*spelled = steal(key.bytes);
	return r;
}

/* A line of its own below the one that `behind` is the end of a value, or header, in. */
static int add_line(struct file_edit *edit, const char *text, size_t len, size_t behind,
	const char *more_indent, const char *key, const char *literal)
{
	const char *line_end = line_end_of(text, len);
	size_t at = next_line(text, len, behind);
	bool ended = ends_a_line(text, at);
	int r;

	edit->from = edit->to = at;
	r = ended ? 0 : add(edit, line_end);
	if (r == 0)
		r = add_indent(edit, text, behind);
	if (r == 0)
		r = add(edit, more_indent, key, " = ", literal);
	return r == 0 && ended ? add(edit, line_end) : r;
}

static int add_to_top(
	struct file_edit *edit, const char *text, size_t len, const char *key, const char *literal)
{
	edit->from = edit->to = bom_of(text, len);
	return add(edit, key, " = ", literal, line_end_of(text, len));
}

/* In an empty pair of braces the blanks that stand there come on both sides. */
static int add_to_braces(struct file_edit *edit, const char *text, const struct toml_place *place,
	const char *key, const char *literal)
{
	size_t blanks = 0;

	if (place->braces_last > 0) {
		edit->from = edit->to = place->braces_last;
		return add(edit, ", ", key, " = ", literal);
	}
	while (text[place->braces_end - blanks - 1] != '{')
		blanks++;
	edit->from = edit->to = place->braces_end;
	if (add(edit, key, " = ", literal) < 0)
		return -ENOMEM;
	return toml_buffer_add(&edit->text, text + place->braces_end - blanks, blanks);
}

static int add_table(struct file_edit *edit, const char *text, size_t len,
	const struct toml_place *place, const char *key, const char *literal)
{
	_cleanup_(toml_buffer_clear) struct toml_buffer table = {0};
	const char *line_end = line_end_of(text, len);
	bool ended = ends_a_line(text, len);
	bool empty = len == bom_of(text, len);
	int r = toml_name_spell(place->name.bytes, place->table_len, &table);

	edit->from = edit->to = len;
	if (r == 0)
		r = add(edit, ended ? "" : line_end, empty ? "" : line_end, "[", table.bytes,
			"] " ADDED, line_end, key, " = ", literal, ended ? line_end : "");
	return r;
}

/* The way that keeps the text TOML: see the comments in struct toml_place. */
static int add_key(struct file_edit *edit, const char *text, size_t len,
	const struct toml_place *place, const char *literal)
{
	_cleanup_free_ char *key = NULL;
	size_t context_len = place->braces                     ? place->braces_name_len
			     : !place->header && place->dotted ? place->dotted_context_len
							       : place->table_len;
	int r = spell_key(place, context_len, &key);

	if (r < 0)
		return r;
	if (place->braces)
		return add_to_braces(edit, text, place, key, literal);
	if (place->header) {
		bool indented = place->header_start > line_start(text, place->header_start);

		return add_line(edit, text, len, place->header_at,
			indented && place->header_keys == 0 ? "  " : "", key, literal);
	}
	if (place->dotted)
		return add_line(edit, text, len, place->dotted_at, "", key, literal);
	if (place->table_len > 0)
		return add_table(edit, text, len, place, key, literal);
	if (place->top_at > 0)
		return add_line(edit, text, len, place->top_at, "", key, literal);
	return add_to_top(edit, text, len, key, literal);
}

static int accept_literal(const struct toml_event *event, void *userdata)
{
	(void)event;
	(void)userdata;
	return 0;
}

static int check_literal(const char *literal)
{
	return toml_scan_literal(literal, accept_literal, NULL) == 0 ? 0 : -EINVAL;
}

int toml_set(const char *text, size_t len, const char *table, const char *key, const char *literal,
	char **out, size_t *out_len, struct toml_error *error)
{
	_cleanup_(toml_place_clear) struct toml_place place = {0};
	_cleanup_(edit_release) struct file_edit edit = {0};
	int r = check_literal(literal);

	if (r == 0)
		r = toml_find(text, len, table, key, &place, error);
	if (r < 0)
		return r;
	if (!place.found) {
		r = add_key(&edit, text, len, &place, literal);
	} else if (!toml_equal(text, &place.event, literal)) {
		edit.from = place.event.value;
		edit.to = place.event.end;
		r = add(&edit, literal);
	}
	return r < 0 ? r : edit_apply(text, len, &edit, out, out_len);
}

/* Stretches a removal of text from the start of a line to what a line takes, its end included. */
static void remove_line(
	struct file_edit *edit, const char *text, size_t len, size_t start, size_t end)
{
	edit->from = line_start(text, start);
	if (edit->from < bom_of(text, len))
		edit->from = bom_of(text, len);
	edit->to = next_line(text, len, end);
	if (!ends_a_line(text, edit->to) && edit->from > 0 && text[edit->from - 1] == '\n') {
		edit->from--;
		if (edit->from > 0 && text[edit->from - 1] == '\r')
			edit->from--;
	}
}

static size_t skip_blanks(const char *text, size_t at)
{
	while (text[at] == ' ' || text[at] == '\t')
		at++;
	return at;
}

/* Text in braces always goes on behind a value: with } at least. */
static void remove_member(struct file_edit *edit, const char *text, const struct toml_event *event)
{
	size_t behind = skip_blanks(text, event->end);

	edit->from = event->start;
	edit->to = behind;
	if (event->previous > 0) {
		edit->from = event->previous;
		edit->to = event->end;
	} else if (text[behind] == ',') {
		edit->to = skip_blanks(text, behind + 1);
	}
}

/* True when the header's line is one that add_table() wrote. */
static bool is_added(const char *text, size_t len, const struct toml_place *place)
{
	size_t n = strlen(ADDED);
	size_t at = place->header_at;

	return at + 1 + n <= len && text[at] == ' ' && memcmp(text + at + 1, ADDED, n) == 0;
}

/* Takes the header's line away, and the blank line that add_table() put above it. */
static int drop_table(char **text, size_t *len, const struct toml_place *place)
{
	_cleanup_(edit_release) struct file_edit edit = {0};
	_cleanup_free_ char *old = *text;
	size_t old_len = *len;
	size_t start = line_start(old, place->header_start);
	const char *line_end = line_end_of(old, old_len);
	size_t n = strlen(line_end);

	*text = NULL;
	remove_line(&edit, old, old_len, place->header_start, place->header_at);
	if (start >= n && memcmp(old + start - n, line_end, n) == 0 &&
		ends_a_line(old, start - n) && edit.from >= n)
		edit.from -= n;
	return edit_apply(old, old_len, &edit, text, len);
}

/* Takes the table of the key away when toml_set() had added it, and no key is left in it. */
static int remove_added_table(char **text, size_t *len, const char *table, const char *key)
{
	_cleanup_(toml_place_clear) struct toml_place place = {0};
	int r = toml_find(*text, *len, table, key, &place, NULL);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (place.header && place.header_keys == 0 && is_added(*text, *len, &place))
		return drop_table(text, len, &place);
	return 0;
}

int toml_remove(const char *text, size_t len, const char *table, const char *key, char **out,
	size_t *out_len, struct toml_error *error)
{
	_cleanup_(toml_place_clear) struct toml_place place = {0};
	struct file_edit edit = {0};
	_cleanup_free_ char *result = NULL;
	size_t result_len;
	int r = toml_find(text, len, table, key, &place, error);

	if (r < 0)
		return r;
	if (!place.found)
		return -ENOENT;
	if (place.event.depth > 0)
		remove_member(&edit, text, &place.event);
	else
		remove_line(&edit, text, len, place.event.start, place.event.end);
	r = edit_apply(text, len, &edit, &result, &result_len);
	if (r == 0)
		r = remove_added_table(&result, &result_len, table, key);
	if (r < 0)
		return r;
	*out = steal(result);
	if (out_len)
		*out_len = result_len;
	return 0;
}
