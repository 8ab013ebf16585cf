/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What src/base/toml.h and src/runtime/containerd_config.h do, for the root tests.
 *
 * containerd_tool get FILE TABLE KEY
 * containerd_tool literal FILE TABLE KEY            as it is spelled
 * containerd_tool set FILE TABLE KEY LITERAL        writes FILE
 * containerd_tool remove FILE TABLE KEY             writes FILE
 * containerd_tool walk FILE                         one value a line: path TAB type TAB text
 * containerd_tool plan ROOT MAIN VERSION DUMP SETTING VALUE     DUMP may be -
 * containerd_tool apply ROOT MAIN VERSION DUMP SETTING VALUE    plans, and writes the file
 * containerd_tool trial ROOT MAIN DROP-IN           the main file for a dry run of a drop-in
 * containerd_tool differs OLD NEW KEY...            compares two dumps
 *
 * Exit status 0, 1 for a difference, 2 for a failure, which is told on stderr.
 */

#include "base/cleanup.h"
#include "base/file.h"
#include "base/toml.h"
#include "base/util.h"
#include "runtime/containerd_config.h"

#include <errno.h>
#include <limits.h>

static int fail(const char *what, int error, const struct toml_error *place)
{
	fprintf(stderr, "%s: %s", what, strerror(-error));
	if (place && (error == -EBADMSG || error == -EEXIST))
		fprintf(stderr, ": %zu:%zu: %s", place->line, place->column, place->message);
	fputc('\n', stderr);
	return 2;
}

static int load(const char *path, char **text, size_t *len)
{
	return read_file(path, TOML_TEXT_MAX, text, len);
}

static int store(const char *path, const char *text, size_t len)
{
	_cleanup_fclose_ FILE *file = fopen(path, "we");

	if (!file || fwrite(text, 1, len, file) != len || fflush(file) != 0)
		return -errno;
	return 0;
}

static int get(char **args, bool literal)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(toml_value_clear) struct toml_value value = {0};
	struct toml_error error;
	size_t len;
	int r = load(args[0], &text, &len);

	if (r == 0)
		r = toml_get(text, len, args[1], args[2], &value, &error);
	if (r < 0)
		return fail(args[0], r, &error);
	if (literal)
		fwrite(text + value.at, 1, value.len, stdout);
	else
		puts(value.text);
	return 0;
}

static int edit(char **args, bool set)
{
	_cleanup_free_ char *text = NULL, *out = NULL;
	struct toml_error error;
	size_t len;
	int r = load(args[0], &text, &len);

	if (r == 0)
		r = set ? toml_set(text, len, args[1], args[2], args[3], &out, &len, &error)
			: toml_remove(text, len, args[1], args[2], &out, &len, &error);
	if (r == 0)
		r = store(args[0], out, len);
	return r < 0 ? fail(args[0], r, &error) : 0;
}

static int print_value(const char *path, const struct toml_value *value, void *userdata)
{
	static const char *const types[] = {
		"string", "integer", "float", "boolean", "date", "array", "table"};

	(void)userdata;
	printf("%s\t%s\t", path, types[value->type]);
	for (const char *p = value->text; *p; p++)
		printf(*p == '\n' ? "\\n" : *p == '\\' ? "\\\\" : "%c", *p);
	putchar('\n');
	return 0;
}

static int walk(char **args)
{
	_cleanup_free_ char *text = NULL;
	struct toml_error error;
	size_t len;
	int r = load(args[0], &text, &len);

	if (r == 0)
		r = toml_walk(text, len, print_value, NULL, &error);
	return r < 0 ? fail(args[0], r, &error) : 0;
}

static void print_plan(const struct containerd_edit *edit)
{
	static const char *const methods[] = {"in-place", "own-file", "unsupported"};

	printf("method %s\nrefusal %d\nwhy %s\npath %s\ntable %s\nkey %s\nliteral %s\n"
	       "begin %d\nstaged %s\neffective %s\neffective_path %s\n",
		methods[edit->method], (int)edit->refusal, edit->why, edit->path, edit->table,
		edit->key, edit->literal, edit->begin[0] != '\0', edit->on_disk, edit->effective,
		edit->effective_path);
}

static int write_edit(const struct containerd_edit *edit, const char *root)
{
	_cleanup_free_ char *old = NULL, *text = NULL;
	char path[PATH_MAX];
	size_t len = 0;
	int r;

	snprintf(path, sizeof(path), "%s%s", root, edit->path);
	r = load(path, &old, &len);
	if (r < 0 && r != -ENOENT)
		return r;
	if (!old)
		len = strlen(edit->begin);
	r = toml_set(old ? old : edit->begin, len, edit->table, edit->key, edit->literal, &text,
		&len, NULL);
	return r < 0 ? r : store(path, text, len);
}

static int setting_of(const char *name)
{
	static const char *const names[CONTAINERD_SETTINGS] = {
		[CONTAINERD_DOWNLOADS] = "containerd.max_concurrent_downloads",
		[CONTAINERD_PROGRESS_TIMEOUT] = "containerd.image_pull_progress_timeout",
		[CONTAINERD_REGISTRY_DIRECTORY] = "containerd.registry.config_path",
	};

	for (int i = 0; i < CONTAINERD_SETTINGS; i++)
		if (streq(names[i], name))
			return i;
	return -EINVAL;
}

static int plan(char **args, bool apply)
{
	_cleanup_free_ char *dump = NULL;
	char culprit[CONTAINERD_CULPRIT_MAX];
	struct containerd_config config = {.main_path = args[1], .version = args[2]};
	struct containerd_edit edit;
	int setting = setting_of(args[4]);
	int r = setting < 0 ? setting : 0;

	if (r == 0 && !streq(args[3], "-"))
		r = load(args[3], &dump, NULL);
	config.dump = dump;
	if (r == 0)
		r = containerd_files_read(args[0], args[1], &config.files, culprit);
	if (r < 0)
		return fail(culprit, r, NULL);
	r = containerd_config_plan(&config, (enum containerd_setting)setting, args[5], &edit);
	containerd_files_clear(&config.files);
	if (r == 0)
		print_plan(&edit);
	if (r == 0 && apply && edit.method != CONTAINERD_UNSUPPORTED)
		r = write_edit(&edit, args[0]);
	return r < 0 ? fail("plan", r, NULL) : 0;
}

static int trial(char **args)
{
	_cleanup_free_ char *text = NULL, *out = NULL;
	char path[PATH_MAX];
	size_t len;
	int r;

	snprintf(path, sizeof(path), "%s%s", args[0], args[1]);
	r = load(path, &text, &len);
	if (r == 0)
		r = containerd_trial_main(text, len, args[2], &out);
	if (r < 0)
		return fail(path, r, NULL);
	fputs(out, stdout);
	return 0;
}

static int differs(char **args, size_t n)
{
	_cleanup_free_ char *old = NULL, *new = NULL;
	char difference[CONTAINERD_DIFFERENCE_MAX];
	int r = load(args[0], &old, NULL);

	if (r == 0)
		r = load(args[1], &new, NULL);
	if (r == 0)
		r = containerd_dump_differs(
			old, new, (const char *const *)args + 2, n - 2, difference);
	if (r < 0)
		return fail("differs", r, NULL);
	if (r > 0)
		puts(difference);
	return r;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	char **args = argv + 2;
	int n = argc - 2;

	if ((streq(verb, "get") || streq(verb, "literal")) && n == 3)
		return get(args, streq(verb, "literal"));
	if ((streq(verb, "set") && n == 4) || (streq(verb, "remove") && n == 3))
		return edit(args, n == 4);
	if (streq(verb, "walk") && n == 1)
		return walk(args);
	if ((streq(verb, "plan") || streq(verb, "apply")) && n == 6)
		return plan(args, streq(verb, "apply"));
	if (streq(verb, "trial") && n == 3)
		return trial(args);
	if (streq(verb, "differs") && n >= 2)
		return differs(args, (size_t)n);
	fprintf(stderr, "containerd_tool: see the comment at the top of its source\n");
	return 64;
}
