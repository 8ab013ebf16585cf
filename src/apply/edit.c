/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the new text of a daemon's configuration file. In this order: edits of one key in TOML and
 * in JSON, which keep every other byte; trials, in which the daemon's program accepts the text or
 * its dump shows that one value alone would change. Nothing here replaces a real file.
 */
#include "apply/edit.h"

#include "base/json.h"
#include "base/toml.h"
#include "runtime/driver.h"

/* Precedes an added table, which is removed with its last key. */
#define MARK "# Added by headroom"

#define BLANKS " \t\r\n"
#define EMPTY  "{\n}\n" /* stands for a file of white space alone */

void text_copy(struct file_bytes *text, const char *bytes, size_t len)
{
	char *copy = must(calloc(1, len + 1));

	if (len > 0)
		memcpy(copy, bytes, len);
	*text = (struct file_bytes){.bytes = copy, .len = len};
}

/* Replaces bytes with the formatted text. */
static int PRINTF_LIKE(4, 5)
	splice(struct file_bytes *text, size_t start, size_t end, const char *format, ...)
{
	_cleanup_free_ char *insert = NULL;
	size_t n, rest = text->len - end;
	va_list args;
	char *bytes;

	va_start(args, format);
	must_do(vasprintf(&insert, format, args) >= 0);
	va_end(args);
	n = strlen(insert);
	bytes = must(malloc(start + n + rest + 1));
	memcpy(bytes, text->bytes, start);
	memcpy(bytes + start, insert, n);
	memcpy(bytes + start + n, text->bytes + end, rest);
	bytes[start + n + rest] = '\0';
	free(text->bytes);
	text->bytes = bytes;
	text->len = start + n + rest;
	return 0;
}

/* ---- TOML ---- */

static const char *line_break(const struct file_bytes *text, size_t from)
{
	const char *begin = text->bytes + from, *end = memchr(begin, '\n', text->len - from);

	return end && end > begin && end[-1] == '\r' ? "\r\n" : "\n";
}

static size_t line_start(const char *text, size_t at)
{
	while (at > 0 && text[at - 1] != '\n')
		at--;
	return at;
}

/* Returns the offset of the line break before a line, or the offset itself. */
static size_t before_break(const char *text, size_t at)
{
	if (at > 0 && text[at - 1] == '\n')
		at--;
	return at > 0 && text[at] == '\n' && text[at - 1] == '\r' ? at - 1 : at;
}

/* Also removes the header and mark of an added table with its last key. */
static int remove_key(struct file_bytes *text, const struct toml_item *key)
{
	const char *bytes = text->bytes;
	struct toml_scan scan = {.text = bytes, .len = text->len};
	struct toml_item item, header = {0};
	size_t first = text_mark(bytes, text->len), end = key->end, n = 0, mark;
	size_t start = line_start(bytes, key->start);

	while (toml_next(&scan, &item) > 0) {
		bool same = streq(item.table, key->table);

		if (same && item.header)
			header = item;
		n += same && !item.header;
	}
	mark = line_start(bytes, before_break(bytes, header.start));
	if (n == 1 && header.header && mark + strlen(MARK) == before_break(bytes, header.start) &&
		memcmp(bytes + mark, MARK, strlen(MARK)) == 0)
		start = mark > 0 ? before_break(bytes, mark) : 0;
	start = MAX(start, first);
	if (start > first)
		start = before_break(bytes, start);
	else if (end < text->len) /* on the first line: remove the line break behind it */
		end += strlen(line_break(text, end));
	return splice(text, start, end, "%s", "");
}

static int toml_key_set(struct file_bytes *text, const char *table, const char *key,
	const char *literal, char why[static EDIT_WHY_MAX])
{
	const char *bytes = text->bytes, *br;
	size_t len = text->len, mark = text_mark(bytes, len), at, indent, prefix;
	struct toml_scan scan = {.text = bytes, .len = len};
	bool ends = len > 0 && bytes[len - 1] == '\n';
	struct toml_item item, anchor = {0};
	int r = toml_find(bytes, len, table, key, &item, why);

	if (r == 0 && literal)
		return splice(text, item.value, item.value_end, "%s", literal);
	if (r == 0)
		return remove_key(text, &item);
	if (r != -ENOENT || !literal)
		return r == -ENOENT ? 0 : r;
	/* After the table's header or last key, with the same indentation and dotted prefix. */
	while (toml_next(&scan, &item) > 0)
		if (streq(item.table, table))
			anchor = item;
	if (anchor.end > 0) {
		indent = anchor.start;
		prefix = anchor.header ? anchor.start : anchor.last;
		while (indent > 0 && strchr(" \t", bytes[indent - 1]))
			indent--;
		return splice(text, anchor.end, anchor.end, "%s%.*s%s = %s", line_break(text, 0),
			(int)(prefix - indent), bytes + indent, key, literal);
	}
	/* A key without a table goes to the beginning. */
	if (!table[0])
		return splice(text, mark, mark, "%s = %s%s", key, literal, line_break(text, 0));
	/* A table goes to the end. The text still ends with a line break, or without one. */
	br = line_break(text, ends ? len - MIN(len, 2) : 0);
	at = ends ? len - strlen(br) : len;
	return splice(text, at, at, "%s%s" MARK "%s[%s]%s%s = %s%s", len > 0 ? br : "",
		len > 0 ? br : "", br, table, br, key, literal, len > 0 ? "" : br);
}

/* ---- JSON: keys of the root object ---- */

/* Inserts the last member, in the style of the one before it. */
static int insert_member(struct file_bytes *text, const struct json_place *found, const char *key,
	const char *literal)
{
	const char *bytes = text->bytes;
	const struct json_member *last = &found->last;
	size_t at = strcspn(bytes, "{") + 1, start = last->key;

	if (found->n == 0)
		return splice(text, at, at, "%s\"%s\": %s",
			!memchr(bytes + at, '\n', strcspn(bytes + at, "}")) ? ""
			: bytes[at] == '\r'                                 ? "\r\n    "
									    : "\n    ",
			key, literal);
	while (strchr(BLANKS, bytes[start - 1]))
		start--;
	return splice(text, last->value_end, last->value_end, ",%s%.*s\"%s\"%s%s",
		found->n == 1 && start == last->key ? " " : "", (int)(last->key - start),
		bytes + start, key, last->value == last->key_end + 1 ? ":" : ": ", literal);
}

static bool is_same(const cJSON *a, const cJSON *b)
{
	_cleanup_free_ char *x = cJSON_PrintUnformatted(a), *y = cJSON_PrintUnformatted(b);

	return x && y ? streq(x, y) : !a && !b;
}

static int json_key_set(struct file_bytes *text, const char *key, const char *literal,
	char why[static EDIT_WHY_MAX])
{
	_cleanup_(file_bytes_clear) struct file_bytes new = {0};
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL, *edited = NULL, *has = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *value = literal ? cJSON_Parse(literal) : NULL;
	struct text_position at;
	size_t start, end, comma;
	struct json_place found;

	if (json_parse(text->bytes, text->len, &object, why) < 0)
		return -EBADMSG;
	text_copy(&new, object ? text->bytes : EMPTY, object ? text->len : strlen(EMPTY));
	if (!object)
		object = must(cJSON_CreateObject());
	found = json_find(new.bytes, object, key);
	start = found.key.key;
	end = found.key.value_end;
	if (found.n_keys > 1) {
		at = text_position(new.bytes, start);
		snprintf(why, EDIT_WHY_MAX, "%zu:%zu: %s is there twice: remove one", at.line,
			at.column, key);
		return -EBADMSG;
	}
	if (end > 0 && literal) {
		splice(&new, found.key.value, end, "%s", literal);
	} else if (end > 0) {
		/* Also remove the comma before the member, or after it if it is the first. */
		comma = end + strspn(new.bytes + end, BLANKS);
		while (strchr(BLANKS, new.bytes[start - 1]))
			start--;
		if (new.bytes[start - 1] == ',') {
			start--;
		} else if (new.bytes[comma] == ',') {
			start = found.key.key;
			end = comma + 1 + strspn(new.bytes + comma + 1, BLANKS);
		}
		splice(&new, start, end, "%s", "");
	} else if (literal) {
		insert_member(&new, &found, key, literal);
	}
	/* Only this key may differ. */
	(void)json_parse(new.bytes, new.len, &edited, why);
	has = cJSON_DetachItemFromObjectCaseSensitive(edited, key);
	cJSON_DeleteItemFromObjectCaseSensitive(object, key);
	if (!is_same(edited, object) || !is_same(has, value)) {
		snprintf(why, EDIT_WHY_MAX, "%s is not changed: the file is not plain JSON", key);
		return -EBADMSG;
	}
	free(text->bytes);
	text->bytes = steal(new.bytes);
	text->len = new.len;
	return 0;
}

/* ---- both ---- */

int edit_get(enum edit_format format, const struct file_bytes *text, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	struct json_member member;
	struct toml_item item;
	int r;

	*literal = NULL;
	if (format == EDIT_JSON) {
		r = json_parse(text->bytes, text->len, &object, why);
		member = json_find(text->bytes, object, key).key;
		if (member.value_end > 0)
			*literal = must(strndup(
				text->bytes + member.value, member.value_end - member.value));
		return r;
	}
	r = toml_find(text->bytes, text->len, table, key, &item, why);
	if (r == 0)
		*literal = must(strndup(text->bytes + item.value, item.value_end - item.value));
	return r == -ENOENT ? 0 : r;
}

int edit_set(enum edit_format format, struct file_bytes *text, const char *table, const char *key,
	const char *literal, char why[static EDIT_WHY_MAX])
{
	return format == EDIT_TOML ? toml_key_set(text, table, key, literal, why)
				   : json_key_set(text, key, literal, why);
}

/* ---- trials ---- */

/* Dumps the configuration with this text in place of the file, which the main file may import. */
static int dump_trial(const struct editor *editor, const struct runtime_driver *driver,
	const struct file_bytes *text, char **dump, char *why)
{
	const struct daemon *daemon = editor->daemon;
	_cleanup_(file_bytes_clear) struct file_bytes main = {0};
	struct file_bytes real_main;
	char trial[PATH_MAX], path[PATH_MAX];
	int r = file_put_trial(editor->state, TRIAL, editor->host, editor->real, text, trial);

	if (r == 0 && !streq(daemon->config, editor->path)) {
		r = driver->main_file(
			editor->host, daemon, editor->path, trial, editor->wait, &main.bytes, why);
		if (r == 0)
			r = file_locate(editor->host, daemon->config, &real_main);
		main.len = r == 0 ? strlen(main.bytes) : 0;
		if (r == 0)
			r = file_put_trial(
				editor->state, TRIAL_MAIN, editor->host, &real_main, &main, path);
	} else {
		set_text(path, trial);
	}
	if (r == 0)
		r = driver->dump(editor->host, daemon, path, editor->wait, dump, why);
	file_drop_trial(editor->state, TRIAL_MAIN, editor->host);
	file_drop_trial(editor->state, TRIAL, editor->host);
	return r;
}

/* Finds the next key or header of a dump, except for the changed key and the names of files. */
static int next_item(struct toml_scan *scan, const char *allowed, struct toml_item *item)
{
	char name[TOML_FULL_MAX];
	int r;

	while ((r = toml_next(scan, item)) > 0 && !item->header &&
		(streq(toml_name(item, name), "imports") || streq(name, allowed)))
		;
	return r;
}

bool edit_dump_has(
	const char *dump, const struct file_change *change, char value[static SETTING_VALUE_MAX])
{
	const struct toml_item whole = {.value_end = change->text ? strlen(change->text) : 0};
	char wanted[SETTING_VALUE_MAX] = "";
	unsigned long long wanted_us, value_us;

	value[0] = '\0';
	if (change->text)
		(void)toml_value(change->text, &whole, wanted, sizeof(wanted));
	return !change->text ||
	       (toml_lookup(dump, change->dump_key, value, SETTING_VALUE_MAX) &&
		       (streq(value, wanted) ||
			       (runtime_duration_parse(value, &value_us) == 0 &&
				       runtime_duration_parse(wanted, &wanted_us) == 0 &&
				       value_us == wanted_us)));
}

/*
 * Checks that the dumps differ in the key of the change alone, and that the new one has its value,
 * as the same text or the same duration. why has only names: values may be passwords.
 */
static int check_dumps(
	const char *old, const char *new, const struct file_change *change, char *why)
{
	struct toml_scan a = {.text = old, .len = strlen(old)};
	struct toml_scan b = {.text = new, .len = strlen(new)};
	char value[SETTING_VALUE_MAX];

	for (;;) {
		struct toml_item x = {0}, y = {0};
		char name[TOML_FULL_MAX];
		int r = next_item(&a, change->dump_key, &x);
		int s = next_item(&b, change->dump_key, &y);
		size_t n = x.value_end - x.value;

		if (r < 0 || s < 0) {
			snprintf(why, EDIT_WHY_MAX, "its dump cannot be parsed: %s",
				r < 0 ? a.why : b.why);
			return -EBADMSG;
		}
		if (r == 0 && s == 0)
			break;
		if (r == s && x.header == y.header && streq(x.table, y.table) &&
			streq(x.key, y.key) && n == y.value_end - y.value &&
			memcmp(old + x.value, new + y.value, n) == 0)
			continue;
		snprintf(why, EDIT_WHY_MAX, "it would also change %.200s",
			toml_name(r > 0 ? &x : &y, name));
		return -EINVAL;
	}
	if (edit_dump_has(new, change, value))
		return 0;
	snprintf(why, EDIT_WHY_MAX, "it would have no effect: %.120s stays %s", change->dump_key,
		value[0] ? value : "unset");
	return -EINVAL;
}

/* Returns 0 when the text has the key in this table, 1 when it has the table, else 2. */
static int likelihood(const struct file_bytes *text, const char *table, const char *key)
{
	struct toml_scan scan = {.text = text->bytes, .len = text->len};
	struct toml_item item;

	if (toml_find(text->bytes, text->len, table, key, &item, NULL) != -ENOENT)
		return 0;
	while (toml_next(&scan, &item) > 0)
		if (starts_with(item.table, table))
			return 1;
	return 2;
}

/*
 * Tries the tables, the most likely first: their names depend on the program's version. Replaces
 * the text, and the dump that the program makes of it.
 */
static int set_toml(const struct editor *editor, const struct runtime_driver *driver,
	struct file_bytes *text, char **dump, struct file_change *change, char *why)
{
	const char *const *tables = change->tables, *key = change->key;
	char *reason = why, other[EDIT_WHY_MAX];
	int first = 0;

	for (int rank = 0; rank <= 2; rank++)
		for (size_t i = 0; tables[i]; i++) {
			_cleanup_(file_bytes_clear) struct file_bytes next = {0};
			_cleanup_free_ char *next_dump = NULL;
			int r;

			if (likelihood(text, tables[i], key) != rank)
				continue;
			text_copy(&next, text->bytes, text->len);
			r = edit_set(EDIT_TOML, &next, tables[i], key, change->text, reason);
			if (r == 0)
				r = dump_trial(editor, driver, &next, &next_dump, reason);
			if (r == 0)
				r = check_dumps(*dump, next_dump, change, reason);
			if (r == 0) {
				copy_text(change->table, FILE_TABLE_MAX, tables[i]);
				file_bytes_clear(text);
				text_copy(text, next.bytes, next.len);
				free(*dump);
				*dump = steal(next_dump);
			}
			if (r == 0 || r == -ECANCELED || r == -ETIMEDOUT)
				return r;
			first = first < 0 ? first : r;
			reason = other;
		}
	return first < 0 ? first : -EINVAL;
}

/* Reads the value of a key as a tuner reads it. null and an empty list give an empty text. */
static void read_value(const struct file_bytes *text, const struct file_change *change,
	char value[static SETTING_VALUE_MAX])
{
	_cleanup_free_ char *literal = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	char words[RUNTIME_MIRRORS_MAX], why[EDIT_WHY_MAX];

	if (!text->bytes ||
		edit_get(change->format, text, change->table, change->key, &literal, why) < 0 ||
		!literal || streq(literal, "null"))
		return;
	if (literal[0] == '[')
		list = cJSON_Parse(literal);
	if (list && registry_list_read(list, words, sizeof(words)))
		registry_shorten_list(words, value, SETTING_VALUE_MAX);
	else
		copy_text(value, SETTING_VALUE_MAX, literal);
}

/* Others may have written the file since it was judged: their value must not be lost. */
static int check_judged(
	const struct file_bytes *text, const char *dump, const struct change *judged, char *why)
{
	const struct file_change *change = judged->file;
	bool is_list = change->text && change->text[0] == '[';
	char value[SETTING_VALUE_MAX] = "";

	if (dump)
		(void)toml_lookup(dump, change->dump_key, value, sizeof(value));
	else
		read_value(text, change, value);
	/* An empty value in a dump is that of the program. A list can have lost its members. */
	if (!value[0] && (!is_list || !change->on_disk[0] || streq(change->on_disk, NO_MIRRORS)))
		return 0;
	if (value_equal(value, change->on_disk) || value_equal(value, judged->new))
		return 0;
	snprintf(why, EDIT_WHY_MAX,
		"someone else has set %.60s to %.60s meanwhile, so it is judged again", change->key,
		value[0] ? value : NO_MIRRORS);
	return -ESTALE;
}

/* The same for a file that is ours as a whole. */
static int check_own(const struct file_bytes *real, const struct file_change *change, char *why)
{
	if (!change->judged[0] || streq(real->hash, change->judged))
		return 0;
	snprintf(why, EDIT_WHY_MAX,
		"someone else has written %.200s meanwhile, so it is judged again", change->path);
	return -ESTALE;
}

int edit_make(const struct editor *editor, struct change *const *changes, size_t n,
	struct file_bytes *text, char why[static EDIT_WHY_MAX])
{
	const struct file_change *edit = changes[0]->file;
	bool own = changes[0]->file->format == EDIT_OWN;
	const struct runtime_driver *driver = runtime_driver_find(editor->daemon->driver);
	bool dumps = !own && driver && driver->dump;
	const char *begin = own ? edit->text : text->bytes ? text->bytes : edit->base;
	size_t len = !own && text->bytes ? text->len : begin ? strlen(begin) : 0;
	_cleanup_(file_bytes_clear) struct file_bytes new = {.hash = FILE_HASH_NONE};
	_cleanup_free_ char *dump = NULL;
	char refusal[EDIT_WHY_MAX] = "", path[PATH_MAX];
	int r = 0;

	why[0] = '\0';
	if (!own || begin)
		text_copy(&new, begin, len);
	if (dumps) /* dump the old text, too, for a comparison */
		r = dump_trial(editor, driver, &new, &dump, refusal);
	if (r < 0)
		snprintf(why, EDIT_WHY_MAX, "%s%.280s",
			r == -EINVAL && text->bytes ? "before any change, " : "", refusal);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = own ? check_own(editor->real, edit, why)
			: check_judged(text, dump, changes[i], why);
	for (size_t i = 0; r == 0 && !own && i < n; i++) {
		struct file_change *change = changes[i]->file;

		r = dumps ? set_toml(editor, driver, &new, &dump, change, why)
			  : edit_set(change->format, &new, change->table, change->key, change->text,
				    why);
	}
	if (r == 0 && !own && driver && driver->verify) {
		r = file_put_trial(editor->state, TRIAL, editor->host, editor->real, &new, path);
		if (r == 0)
			r = driver->verify(editor->host, editor->daemon, new.bytes, new.len, path,
				editor->wait, why);
		file_drop_trial(editor->state, TRIAL, editor->host);
	}
	if (r < 0 && !why[0])
		snprintf(why, EDIT_WHY_MAX, "the new text could not be tried: %s", strerror(-r));
	if (r < 0)
		return r;
	if (new.bytes)
		hash_bytes(new.bytes, new.len, new.hash);
	file_bytes_clear(text);
	*text = new;
	new.bytes = NULL;
	return 0;
}

int edit_check(const struct host *host, const struct daemon *daemon, const struct wait *wait,
	char why[static EDIT_WHY_MAX])
{
	const struct runtime_driver *driver = runtime_driver_find(daemon->driver);
	_cleanup_(file_bytes_clear) struct file_bytes main = {0};
	_cleanup_free_ char *dump = NULL;
	int r = daemon->config[0] ? file_read(host, daemon->config, &main) : 0;

	if (r < 0)
		snprintf(why, EDIT_WHY_MAX, "%.200s: %s", daemon->config, strerror(-r));
	/* Without a main file it runs with its defaults. */
	if (r < 0 || !main.bytes || !driver)
		return r;
	if (driver->verify)
		r = driver->verify(host, daemon, main.bytes, main.len, daemon->config, wait, why);
	else if (driver->dump)
		r = driver->dump(host, daemon, daemon->config, wait, &dump, why);
	return r;
}
