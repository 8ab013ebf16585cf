/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_config.h"

#include "base/file.h"
#include "base/toml.h"

#include <fnmatch.h>
#include <glob.h>

#define DUMP_MAX    ((size_t)4 << 20)
#define VERSION_MAX 4096

void containerd_files_clear(struct containerd_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		free(steal(files->files[i].text));
	files->n = 0;
}

/* The path of an import, as Go's filepath.Clean. False when it is too long. */
static bool import_path(
	const char *directory, const char *import, char path[static SETTING_PATH_MAX])
{
	char full[2 * SETTING_PATH_MAX + 2];

	snprintf(full, sizeof(full), "/%s/%s", import[0] == '/' ? "" : directory, import);
	path_clean(full);
	return copy_text(path, SETTING_PATH_MAX, full);
}

/* Adds a file once. Returns its index or -errno. */
static int add_file(struct containerd_files *files, const char *path)
{
	struct containerd_file *file = &files->files[files->n];

	for (size_t i = 0; i < files->n; i++)
		if (streq(files->files[i].path, path))
			return (int)i;
	if (files->n == CONTAINERD_FILES_MAX)
		return -E2BIG;
	*file = (struct containerd_file){0};
	if (!set_text(file->path, path))
		return -ENAMETOOLONG;
	return (int)files->n++;
}

/*
 * Adds matches of a pattern as Go's filepath.Glob: "*" matches a leading dot, unreadable
 * directories are skipped. ours: adds our own file in its order, even if it does not exist.
 */
static int add_matches(
	const struct host *host, struct containerd_files *files, char *path, bool ours)
{
	char directory[PATH_MAX], pattern[PATH_MAX + SETTING_PATH_MAX];
	char found[PATH_MAX], own[PATH_MAX];
	char *name = strrchr(path, '/') + 1;
	glob_t matches = {0};
	int r = 0;

	name[-1] = '\0';
	ours = ours && !strpbrk(path, "*?[\\") && fnmatch(name, CONTAINERD_DROP_IN, 0) == 0;
	snprintf(own, sizeof(own), "%s/" CONTAINERD_DROP_IN, path);
	if (path_in_root(host->root, path[0] ? path : "/", directory) == 0) {
		snprintf(pattern, sizeof(pattern), "%s/%s", directory, name);
		glob(pattern, GLOB_PERIOD, NULL, &matches);
	}
	for (size_t i = 0; i <= matches.gl_pathc && r >= 0; i++) {
		bool end = i == matches.gl_pathc;

		if (!end)
			snprintf(found, sizeof(found), "%s%s", path,
				strrchr(matches.gl_pathv[i], '/'));
		if (ours && (end || strcmp(found, own) >= 0)) {
			r = add_file(files, own);
			files->own = (size_t)MAX(r, 0);
			ours = false;
		}
		if (!end && r >= 0)
			r = add_file(files, found);
	}
	globfree(&matches);
	return r;
}

/*
 * A relative import starts at the directory of its file; 1.x may resolve a pattern from its working
 * directory: add both and let containerd_files_filter() decide. Only the file name may be a
 * pattern.
 */
static int add_import(const struct host *host, const struct daemon *daemon,
	struct containerd_files *files, size_t parent, const char *import)
{
	bool pattern = strchr(import, '*') != NULL, is_1 = starts_with(daemon->version, "1.");
	bool both = pattern && import[0] != '/' && is_1;
	char directory[SETTING_PATH_MAX], path[SETTING_PATH_MAX];
	int r = 0;

	set_text(directory, files->files[parent].path);
	*strrchr(directory, '/') = '\0';
	for (int i = 0; i < (both ? 2 : 1) && r >= 0; i++) {
		if (!import_path(i == 0 ? directory : daemon->directory, import, path))
			return -ENAMETOOLONG;
		r = pattern ? add_matches(host, files, path, parent == 0 && !is_1)
			    : add_file(files, path);
	}
	return MIN(r, 0);
}

static int read_one(const struct host *host, const struct daemon *daemon,
	struct containerd_files *files, size_t i, char why[static RUNTIME_WHY_MAX])
{
	struct containerd_file *file = &files->files[i];
	char full[PATH_MAX], import[SETTING_PATH_MAX], fault[TOML_WHY_MAX];
	struct toml_item item;
	struct stat st;
	size_t at = 0;
	int r = path_in_root(host->root, file->path, full);

	if (r == 0)
		r = read_file(full, TOML_TEXT_MAX, &file->text, &file->len);
	if (r == -ENOENT && host_is_dangling(host, file->path)) {
		snprintf(why, RUNTIME_WHY_MAX, "%s is a dangling link", file->path);
		return -ELOOP;
	}
	if (r == -ENOENT && (i == 0 || i == files->own))
		return 0; /* containerd starts without a main file */
	if (r == 0 && stat(full, &st) == 0)
		files->changed_us = MAX(files->changed_us, us_of(st.st_ctim));
	if (r == 0) {
		r = toml_find(file->text, file->len, "", "imports", &item, fault);
		if (r == -EBADMSG)
			snprintf(why, RUNTIME_WHY_MAX, "%s:%s", file->path, fault);
		if (r < 0)
			return r == -ENOENT ? 0 : r;
	}
	while (r == 0 && toml_next_string(file->text, &item, &at, import, sizeof(import)))
		r = add_import(host, daemon, files, i, import);
	if (r < 0)
		snprintf(why, RUNTIME_WHY_MAX, "%s: %s", file->path,
			r == -E2BIG ? "it imports too many files" : strerror(-r));
	return r;
}

int containerd_files_read(const struct host *host, const struct daemon *daemon,
	struct containerd_files *files, char why[static RUNTIME_WHY_MAX])
{
	int r;

	*files = (struct containerd_files){0};
	r = add_file(files, daemon->config);
	for (size_t i = 0; r == 0 && i < files->n; i++)
		r = read_one(host, daemon, files, i, why);
	return r;
}

void containerd_files_filter(
	struct containerd_files *files, const struct daemon *daemon, const char *dump)
{
	char import[SETTING_PATH_MAX], full[SETTING_PATH_MAX];
	struct toml_item item;
	size_t kept = 1;
	bool imports = toml_find(dump, strlen(dump), "", "imports", &item, NULL) == 0;

	if (!starts_with(daemon->version, "1."))
		return;
	for (size_t i = 1; i < files->n; i++) {
		bool found = false;
		size_t at = 0;

		while (imports && !found &&
			toml_next_string(dump, &item, &at, import, sizeof(import)))
			found = import_path(daemon->directory, import, full) &&
				streq(full, files->files[i].path);
		if (found)
			files->files[kept++] = files->files[i];
		else
			free(files->files[i].text);
	}
	files->n = kept;
}

int containerd_dump(const struct host *host, const struct daemon *daemon, const char *path,
	const struct wait *wait, char **dump, char why[static RUNTIME_WHY_MAX])
{
	const char *const arguments[] = {daemon->program, "-c", path, "config", "dump", NULL};
	const char *const defaults[] = {daemon->program, "config", "default", NULL};
	struct child child = {.arguments = path ? arguments : defaults,
		.root = host->root,
		.directory = daemon->directory,
		.output_max = DUMP_MAX};

	return child_ask(&child, wait, dump, why);
}

int containerd_check_program(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, char why[static RUNTIME_WHY_MAX])
{
	const char *const arguments[] = {daemon->program, "--version", NULL};
	const struct child child = {
		.arguments = arguments, .root = host->root, .output_max = VERSION_MAX};
	_cleanup_free_ char *output = NULL;
	char version[64] = "an unknown version";
	int r = child_ask(&child, wait, &output, why);

	if (r < 0)
		return r;
	/* containerd github.com/containerd/containerd 1.6.20~ds1 REVISION */
	(void)sscanf(output, "%*s %*s %63s", version);
	if (streq(version, daemon->version))
		return 0;
	text_make_printable(version);
	snprintf(why, RUNTIME_WHY_MAX,
		"%.120s is %s, and %.60s runs: restart it, or start it by its full path",
		daemon->program, version, daemon->version);
	return -ESTALE;
}

int containerd_main_file(const struct host *host, const struct daemon *daemon, const char *path,
	const char *trial, const struct wait *wait, char **text, char why[static RUNTIME_WHY_MAX])
{
	_cleanup_(containerd_files_clear) struct containerd_files files = {0};
	char list[CONTAINERD_FILES_MAX * SETTING_PATH_MAX] = "", quoted[PATH_MAX];
	const struct containerd_file *main = &files.files[0];
	_cleanup_free_ char *dump = NULL;
	struct toml_item item;
	int r = containerd_files_read(host, daemon, &files, why);

	if (r == 0)
		r = containerd_dump(host, daemon, daemon->config, wait, &dump, why);
	if (r == 0)
		r = toml_find(main->text ? main->text : "", main->len, "", "imports", &item, why);
	if (r < 0)
		return r;
	containerd_files_filter(&files, daemon, dump);
	for (size_t i = 1; i < files.n; i++) {
		bool tried = streq(files.files[i].path, path);

		if (!tried && !files.files[i].text)
			continue;
		if (!toml_quote(tried ? trial : files.files[i].path, quoted, sizeof(quoted)))
			return -EINVAL;
		text_append(list, sizeof(list), "%s%s", list[0] ? ", " : "", quoted);
	}
	if (strlen(list) == sizeof(list) - 1)
		return -E2BIG;
	must_do(asprintf(text, "%.*s[%s]%s", (int)item.value, main->text, list,
			main->text + item.value_end) >= 0);
	return 0;
}
