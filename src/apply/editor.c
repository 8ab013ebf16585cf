/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/editor.h"

#include "base/cleanup.h"
#include "base/toml.h"
#include "base/util.h"
#include "runtime/containerd_config.h"
#include "runtime/daemon_json.h"

#include <errno.h>
#include <stdio.h>

/* As the program names it that runs inside the host's root. */
static const char *inside(const struct host *host, const char *full)
{
	size_t len = strlen(host->root);

	return strncmp(full, host->root, len) == 0 && full[len] == '/' ? full + len : full;
}

static struct containerd_process containerd_of(const struct editor *editor)
{
	const struct service *service = editor->service;

	return (struct containerd_process){.host = editor->host,
		.binary = service->binary,
		.version = service->version,
		.config = service->config[0] ? service->config : editor->path,
		.directory = service->directory};
}

static struct docker_daemon docker_of(const struct editor *editor)
{
	return (struct docker_daemon){.host = editor->host,
		.binary = editor->service->binary,
		.version = editor->service->version,
		.config = editor->path};
}

/* ---- containerd: a trial of the new text ---- */

/* Where containerd reads a file that does not exist yet: among its directory, by name. */
static size_t position_of(const struct containerd_files *files, const char *path)
{
	size_t directory = (size_t)(strrchr(path, '/') - path) + 1;

	for (size_t i = 1; i < files->n; i++)
		if (strncmp(files->files[i].path, path, directory) == 0 &&
			strcmp(files->files[i].path, path) >= 0)
			return i;
	return files->n;
}

/* The main file's text, importing by name all that it does, but one of them by way of its trial. */
static int make_main(const struct containerd_files *files, const char *path, const char *trial,
	char **text, size_t *len, char *why)
{
	const struct containerd_file *main = &files->files[0];
	char list[CONTAINERD_FILES_MAX * SETTING_PATH_MAX], quoted[PATH_MAX];
	size_t at = position_of(files, path), used = 0;

	for (size_t i = 1; i <= files->n; i++) {
		bool there = i < files->n && streq(files->files[i].path, path);
		const char *names[] = {i == at ? trial : NULL,
			i < files->n && !there ? files->files[i].path : NULL};

		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			if (!names[k])
				continue;
			if (!toml_quote(names[k], quoted, sizeof(quoted)))
				return -EINVAL;
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
				used > 0 ? ", " : "[", quoted);
			if (used >= sizeof(list) - 1)
				return -E2BIG;
		}
	}
	strcpy(list + used, "]");
	return toml_key_set(
		main->text ? main->text : "", main->len, "", "imports", list, text, len, why);
}

/* What containerd makes of its files with this text in the place of one of them. */
static int dump_trial(const struct editor *editor, const char *text, size_t len,
	const struct wait *wait, char **dump, char *why)
{
	const struct containerd_process process = containerd_of(editor);
	_cleanup_(containerd_files_clear) struct containerd_files files = {0};
	_cleanup_free_ char *main_text = NULL, *plain = NULL;
	char path[PATH_MAX], main_path[PATH_MAX] = "";
	struct file_at at;
	size_t main_len;
	int r = file_put_trial(editor->state, editor->at, text, len, path);

	if (r < 0)
		return r;
	if (streq(process.config, editor->path)) {
		r = containerd_dump(&process, inside(editor->host, path), wait, dump, why);
		file_drop_trial(editor->state, path);
		return r;
	}
	r = containerd_files_read(&process, &files, why);
	if (r == 0)
		r = containerd_dump(&process, process.config, wait, &plain, why);
	if (r == 0) {
		containerd_files_filter(&files, &process, plain);
		r = make_main(&files, editor->path, inside(editor->host, path), &main_text,
			&main_len, why);
	}
	if (r == 0)
		r = file_locate(editor->host, process.config, &at);
	if (r == 0)
		r = file_put_trial(editor->state, &at, main_text, main_len, main_path);
	if (r == 0)
		r = containerd_dump(&process, inside(editor->host, main_path), wait, dump, why);
	file_drop_trial(editor->state, path);
	if (main_path[0])
		file_drop_trial(editor->state, main_path);
	return r;
}

/* The next key or header of a dump that counts: not the one that is set, nor names of files. */
static int next_of(struct toml_scan *scan, const char *allowed, struct toml_item *item)
{
	char name[2 * TOML_NAME_MAX];
	int r;

	while ((r = toml_next(scan, item)) > 0) {
		snprintf(name, sizeof(name), "%s%s%s", item->table, item->table[0] ? "." : "",
			item->key);
		if (!streq(name, "imports") && (item->header || !streq(name, allowed)))
			break;
	}
	return r;
}

/* 0 when the dumps differ in that key alone. Only names are said: values may be passwords. */
static int compare_dumps(const char *old, const char *new, const char *allowed, char *why)
{
	struct toml_scan a = {.text = old, .len = strlen(old)};
	struct toml_scan b = {.text = new, .len = strlen(new)};

	for (;;) {
		struct toml_item x = {0}, y = {0};
		int r = next_of(&a, allowed, &x), s = next_of(&b, allowed, &y);
		size_t n = x.value_end - x.value;

		if (r < 0 || s < 0) {
			snprintf(why, EDIT_WHY_MAX, "its dump is not understood: %s",
				r < 0 ? a.why : b.why);
			return -EBADMSG;
		}
		if (r == 0 && s == 0)
			return 0;
		if (r == s && x.header == y.header && streq(x.table, y.table) &&
			streq(x.key, y.key) && n == y.value_end - y.value &&
			memcmp(old + x.value, new + y.value, n) == 0)
			continue;
		snprintf(why, EDIT_WHY_MAX,
			"it would change more than was asked for: %.120s%s%.80s",
			r > 0 ? x.table : y.table, (r > 0 ? x.key : y.key)[0] ? "." : "",
			r > 0 ? x.key : y.key);
		return -EINVAL;
	}
}

/* The new dump has the value that is wanted, as text or as the same duration. */
static int check_value(const char *dump, const struct edit_key *key, char *why)
{
	const struct toml_item whole = {.value_end = strlen(key->literal)};
	char wanted[SETTING_VALUE_MAX] = "", value[SETTING_VALUE_MAX] = "";
	unsigned long long a, b;

	(void)toml_value(key->literal, &whole, wanted, sizeof(wanted));
	if (containerd_dump_value(dump, key->dump_key, value, sizeof(value)) &&
		(streq(value, wanted) ||
			(containerd_duration_parse(value, &a) == 0 &&
				containerd_duration_parse(wanted, &b) == 0 && a == b)))
		return 0;
	snprintf(why, EDIT_WHY_MAX, "it would have no effect: %.120s stays %s", key->dump_key,
		value[0] ? value : "unset");
	return -EINVAL;
}

/* How likely a table is the right one: it has the key already, it is there, it is not. */
static int rank_of(const char *text, size_t len, const char *table, const char *key)
{
	struct toml_scan scan = {.text = text, .len = len};
	char why[TOML_WHY_MAX];
	struct toml_item item;

	if (toml_find(text, len, table, key, &item, why) != -ENOENT)
		return 0;
	while (toml_next(&scan, &item) > 0)
		if (starts_with(item.table, table))
			return 1;
	return 2;
}

/* The text, and what containerd makes of it: replaced as keys are set. */
struct draft {
	char *text;
	size_t len;
	char *dump;
};

static void draft_clear(struct draft *draft)
{
	free(draft->text);
	free(draft->dump);
}

static int try_table(const struct editor *editor, struct draft *draft, struct edit_key *key,
	const char *table, const struct wait *wait, char *why)
{
	_cleanup_(draft_clear) struct draft next = {0};
	int r = toml_key_set(
		draft->text, draft->len, table, key->key, key->literal, &next.text, &next.len, why);

	if (r == 0)
		r = dump_trial(editor, next.text, next.len, wait, &next.dump, why);
	if (r == 0 && key->dump_key)
		r = compare_dumps(draft->dump, next.dump, key->dump_key, why);
	if (r == 0 && key->dump_key && key->literal)
		r = check_value(next.dump, key, why);
	if (r < 0)
		return r;
	draft_clear(draft);
	*draft = next;
	next = (struct draft){0};
	key->table = table;
	return 0;
}

/* Names of tables differ from one generation of containerd to the next: the dump shows the right
 * one. */
static int set_toml(const struct editor *editor, struct draft *draft, struct edit_key *key,
	const struct wait *wait, char *why)
{
	char other[EDIT_WHY_MAX];
	int first = 0;

	for (int rank = 0; rank <= 2; rank++)
		for (const char *const *table = key->tables; *table; table++) {
			int r;

			if (rank_of(draft->text, draft->len, *table, key->key) != rank)
				continue;
			r = try_table(editor, draft, key, *table, wait, first < 0 ? other : why);
			if (r == 0 || r == -ECANCELED || r == -ETIMEDOUT)
				return r;
			first = first < 0 ? first : r;
		}
	return first < 0 ? first : -EINVAL;
}

static int make_containerd(const struct editor *editor, struct draft *draft, bool there,
	struct edit_key *keys, size_t n, const struct wait *wait, char *why)
{
	char refusal[EDIT_WHY_MAX] = "";
	int r = dump_trial(editor, draft->text, draft->len, wait, &draft->dump, refusal);

	if (r < 0)
		snprintf(why, EDIT_WHY_MAX, "%s%.280s",
			r == -EINVAL && there ? "before any change, " : "", refusal);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = set_toml(editor, draft, &keys[i], wait, why);
	return r;
}

/* ---- others ---- */

static int set_all(
	enum edit_format format, struct draft *draft, struct edit_key *keys, size_t n, char *why)
{
	for (size_t i = 0; i < n; i++) {
		char *text;
		int r;

		keys[i].table = keys[i].tables ? keys[i].tables[0] : "";
		r = edit_text_set(format, draft->text, draft->len, keys[i].table, keys[i].key,
			keys[i].literal, &text, &draft->len, why);
		if (r < 0)
			return r;
		free(draft->text);
		draft->text = text;
	}
	return 0;
}

static int check_docker(
	const struct editor *editor, const struct draft *draft, const struct wait *wait, char *why)
{
	const struct docker_daemon daemon = docker_of(editor);
	char path[PATH_MAX];
	int r = file_put_trial(editor->state, editor->at, draft->text, draft->len, path);

	if (r < 0)
		return r;
	r = docker_config_check(
		&daemon, draft->text, draft->len, inside(editor->host, path), wait, why);
	file_drop_trial(editor->state, path);
	return r;
}

int edit_make(const struct editor *editor, enum edit_format format, const char *old, size_t len,
	const char *base, struct edit_key *keys, size_t n, const struct wait *wait, char **new,
	size_t *new_len, char why[static EDIT_WHY_MAX])
{
	_cleanup_(draft_clear) struct draft draft = {0};
	int r;

	why[0] = '\0';
	draft.len = old ? len : base ? strlen(base) : 0;
	draft.text = copy_bytes(old ? old : base, draft.len);
	if (!draft.text)
		return -ENOMEM;
	if (editor->service->verifier == VERIFY_CONTAINERD_DUMP)
		r = make_containerd(editor, &draft, old != NULL, keys, n, wait, why);
	else
		r = set_all(format, &draft, keys, n, why);
	if (r == 0 && editor->service->verifier == VERIFY_DOCKERD)
		r = check_docker(editor, &draft, wait, why);
	if (r < 0) {
		if (!why[0])
			snprintf(why, EDIT_WHY_MAX, "the new text could not be tried: %s",
				strerror(-r));
		return r;
	}
	*new = steal(draft.text);
	*new_len = draft.len;
	return 0;
}

int edit_check(const struct editor *editor, const struct wait *wait, char why[static EDIT_WHY_MAX])
{
	const struct containerd_process process = containerd_of(editor);
	const struct docker_daemon daemon = docker_of(editor);
	_cleanup_free_ char *dump = NULL;
	struct docker_config config = {0};
	struct file_at at;
	int r;

	switch (editor->service->verifier) {
	case VERIFY_CONTAINERD_DUMP:
		r = file_locate(editor->host, process.config, &at);
		if (r == 0 && access(at.full, F_OK) < 0)
			return 0; /* without a main file it has its defaults */
		return r < 0 ? r : containerd_dump(&process, process.config, wait, &dump, why);
	case VERIFY_DOCKERD:
		docker_config_read(&daemon, wait, &config);
		copy_text(why, EDIT_WHY_MAX, config.why);
		return config.error;
	default:
		return 0;
	}
}

int edit_text_get(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX])
{
	return format == EDIT_JSON ? json_key_get(text, len, key, literal, why)
				   : toml_key_get(text, len, table, key, literal, why);
}

int edit_text_set(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, const char *literal, char **out, size_t *out_len,
	char why[static EDIT_WHY_MAX])
{
	return format == EDIT_JSON
		       ? json_key_set(text, len, key, literal, out, out_len, why)
		       : toml_key_set(text, len, table, key, literal, out, out_len, why);
}
