/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/editor.h"

#include "base/toml.h"
#include "runtime/driver.h"

/* Dumps the configuration with this text in place of the file, which the main file may import. */
static int dump_trial(const struct editor *editor, const struct runtime_driver *driver,
	const struct file_bytes *text, char **dump, char *why)
{
	const struct daemon *daemon = editor->daemon;
	_cleanup_(file_bytes_clear) struct file_bytes main = {0};
	char trial[PATH_MAX], path[PATH_MAX];
	struct file_at at;
	int r = file_put_trial(editor->state, TRIAL, editor->host, editor->at, text, trial);

	if (r == 0 && !streq(daemon->config, editor->path)) {
		r = driver->main_file(
			editor->host, daemon, editor->path, trial, editor->wait, &main.bytes, why);
		if (r == 0)
			r = file_locate(editor->host, daemon->config, &at);
		main.len = r == 0 ? strlen(main.bytes) : 0;
		if (r == 0)
			r = file_put_trial(
				editor->state, TRIAL_MAIN, editor->host, &at, &main, path);
	} else {
		set_text(path, trial);
	}
	if (r == 0)
		r = driver->dump(editor->host, daemon, path, editor->wait, dump, why);
	file_drop_trial(editor->state, TRIAL_MAIN);
	file_drop_trial(editor->state, TRIAL);
	return r;
}

/* The next key or header of a dump, except for the changed key and the names of files. */
static int next_of(struct toml_scan *scan, const char *allowed, struct toml_item *item)
{
	char name[TOML_FULL_MAX];
	int r;

	while ((r = toml_next(scan, item)) > 0 && !item->header &&
		(streq(toml_name(item, name), "imports") || streq(name, allowed)))
		;
	return r;
}

/* 0 when the dumps differ in that key alone. why has only names: values may be passwords. */
static int compare_dumps(const char *old, const char *new, const char *allowed, char *why)
{
	struct toml_scan a = {.text = old, .len = strlen(old)};
	struct toml_scan b = {.text = new, .len = strlen(new)};

	for (;;) {
		struct toml_item x = {0}, y = {0};
		char name[TOML_FULL_MAX];
		int r = next_of(&a, allowed, &x), s = next_of(&b, allowed, &y);
		size_t n = x.value_end - x.value;

		if (r < 0 || s < 0) {
			snprintf(why, EDIT_WHY_MAX, "its dump cannot be parsed: %s",
				r < 0 ? a.why : b.why);
			return -EBADMSG;
		}
		if (r == 0 && s == 0)
			return 0;
		if (r == s && x.header == y.header && streq(x.table, y.table) &&
			streq(x.key, y.key) && n == y.value_end - y.value &&
			memcmp(old + x.value, new + y.value, n) == 0)
			continue;
		snprintf(why, EDIT_WHY_MAX, "it would also change %.200s",
			toml_name(r > 0 ? &x : &y, name));
		return -EINVAL;
	}
}

/* Checks that the dump has the value, as the same text or the same duration. */
static int check_value(const char *dump, const struct file_change *edit, char *why)
{
	const struct toml_item whole = {.value_end = strlen(edit->text)};
	char wanted[SETTING_VALUE_MAX] = "", value[SETTING_VALUE_MAX] = "";
	unsigned long long a, b;

	(void)toml_value(edit->text, &whole, wanted, sizeof(wanted));
	if (toml_lookup(dump, edit->dump_key, value, sizeof(value)) &&
		(streq(value, wanted) ||
			(runtime_duration_parse(value, &a) == 0 &&
				runtime_duration_parse(wanted, &b) == 0 && a == b)))
		return 0;
	snprintf(why, EDIT_WHY_MAX, "it would have no effect: %.120s stays %s", edit->dump_key,
		value[0] ? value : "unset");
	return -EINVAL;
}

/* 0 when the text has the key in this table; 1 when it has the table; else 2. */
static int rank_of(const struct file_bytes *text, const char *table, const char *key)
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

			if (rank_of(text, tables[i], key) != rank)
				continue;
			text_copy(&next, text->bytes, text->len);
			r = edit_set(EDIT_TOML, &next, tables[i], key, change->text, reason);
			if (r == 0)
				r = dump_trial(editor, driver, &next, &next_dump, reason);
			if (r == 0)
				r = compare_dumps(*dump, next_dump, change->dump_key, reason);
			if (r == 0 && change->text)
				r = check_value(next_dump, change, reason);
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
	if (dumps) /* of the old text, for a comparison */
		r = dump_trial(editor, driver, &new, &dump, refusal);
	if (r < 0)
		snprintf(why, EDIT_WHY_MAX, "%s%.280s",
			r == -EINVAL && text->bytes ? "before any change, " : "", refusal);
	for (size_t i = 0; r == 0 && !own && i < n; i++) {
		struct file_change *change = changes[i]->file;

		r = dumps ? set_toml(editor, driver, &new, &dump, change, why)
			  : edit_set(change->format, &new, change->table, change->key, change->text,
				    why);
	}
	if (r == 0 && !own && driver && driver->verify) {
		r = file_put_trial(editor->state, TRIAL, editor->host, editor->at, &new, path);
		if (r == 0)
			r = driver->verify(editor->host, editor->daemon, new.bytes, new.len, path,
				editor->wait, why);
		file_drop_trial(editor->state, TRIAL);
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
	struct file_at at;
	int r = daemon->config[0] ? file_locate(host, daemon->config, &at) : 0;

	if (r < 0)
		snprintf(why, EDIT_WHY_MAX, "%.200s: %s", daemon->config, strerror(-r));
	if (r < 0 || !daemon->config[0] || !driver || !driver->check)
		return r;
	return driver->check(host, daemon, wait, why);
}
