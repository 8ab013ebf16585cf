/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_generation.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/toml.h"
#include "base/util.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <sys/statvfs.h>

void containerd_files_clear(struct containerd_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		free(files->files[i].text);
	free(files->files);
	*files = (struct containerd_files){0};
}

/* Files in the order that containerd reads them: those that a file imports go to the end. */
struct reading {
	const char *root;
	char **pending;
	size_t n_pending, allocated;
	struct containerd_files files;
	size_t files_allocated;
	char *culprit;
};

static void reading_release(struct reading *reading)
{
	toml_strings_free(reading->pending, reading->n_pending);
	containerd_files_clear(&reading->files);
}

static int blame(struct reading *reading, const char *path, const struct toml_error *error)
{
	if (error)
		snprintf(reading->culprit, CONTAINERD_CULPRIT_MAX, "%s:%zu:%zu: %s", path,
			error->line, error->column, error->message);
	else
		copy_text(reading->culprit, CONTAINERD_CULPRIT_MAX, path);
	return 0;
}

static int add_pending(struct reading *reading, const char *path)
{
	int r = grow_array(&reading->pending, reading->n_pending, &reading->allocated,
		sizeof(*reading->pending));

	if (r < 0)
		return r;
	reading->pending[reading->n_pending] = strdup(path);
	if (!reading->pending[reading->n_pending])
		return -ENOMEM;
	reading->n_pending++;
	return 0;
}

/* Takes "", "." and ".." out of an absolute path, as Go's filepath.Clean. */
static void clean_path(char *path)
{
	char *to = path;

	for (const char *from = path; *from;) {
		size_t n;

		from += strspn(from, "/");
		n = strcspn(from, "/");
		if (n == 2 && starts_with(from, "..")) {
			while (to > path && *--to != '/')
				;
		} else if (n > 0 && !(n == 1 && *from == '.')) {
			*to++ = '/';
			memmove(to, from, n);
			to += n;
		}
		from += n;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

int containerd_import_path(const char *parent, const char *import, char path[static PATH_MAX])
{
	const char *slash = strrchr(parent, '/');
	int n = import[0] == '/' ? snprintf(path, PATH_MAX, "%s", import)
				 : snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - parent),
					   parent, import);

	if (n < 0 || n >= PATH_MAX)
		return -ENAMETOOLONG;
	clean_path(path);
	return 0;
}

/*
 * As Go's filepath.Glob: a leading dot is nothing special, what cannot be read matches nothing. The
 * first `drop` bytes of a match are this machine's name for what containerd calls prefix.
 */
static int add_matches(
	struct reading *reading, const char *pattern, size_t drop, const char *prefix)
{
	glob_t matches = {0};
	char path[PATH_MAX];
	int r = glob(pattern, GLOB_PERIOD, NULL, &matches);

	r = r == GLOB_NOSPACE ? -ENOMEM : 0;
	for (size_t i = 0; i < matches.gl_pathc && r == 0; i++) {
		if (snprintf(path, sizeof(path), "%s%s", prefix, matches.gl_pathv[i] + drop) <
			(int)sizeof(path))
			r = add_pending(reading, path);
		else
			r = -ENAMETOOLONG;
	}
	globfree(&matches);
	return r;
}

/* path is absolute, with a star. */
static int add_pattern(struct reading *reading, char *path)
{
	char directory[PATH_MAX], pattern[PATH_MAX];
	char *name = strrchr(path, '/');
	int r;

	*name++ = '\0';
	if (strpbrk(path, "*?[\\")) { /* links in a directory of many names are not followed */
		r = snprintf(pattern, sizeof(pattern), "%s%s/%s", reading->root, path, name);
		return r < (int)sizeof(pattern)
			       ? add_matches(reading, pattern, strlen(reading->root), "")
			       : -ENAMETOOLONG;
	}
	r = path_in_root(reading->root, path[0] ? path : "/", directory);
	if (r < 0)
		return r == -ENAMETOOLONG ? r : 0;
	if (streq(directory, "/"))
		directory[0] = '\0';
	r = snprintf(pattern, sizeof(pattern), "%s/%s", directory, name);
	return r < (int)sizeof(pattern) ? add_matches(reading, pattern, strlen(directory), path)
					: -ENAMETOOLONG;
}

static int add_import(struct reading *reading, const char *parent, const char *import)
{
	char path[PATH_MAX];

	if (containerd_import_path(parent, import, path) < 0)
		return -ENAMETOOLONG;
	return strchr(path, '*') ? add_pattern(reading, path) : add_pending(reading, path);
}

static int add_imports(struct reading *reading, const struct containerd_file *file)
{
	_cleanup_(toml_value_clear) struct toml_value value = {0};
	struct toml_error error;
	char **imports = NULL;
	size_t n = 0;
	int r = toml_get(file->text, file->len, "", "imports", &value, &error);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = toml_strings(value.text, &imports, &n);
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_import(reading, file->path, imports[i]);
	toml_strings_free(imports, n);
	if (r == -EBADMSG || r == -EEXIST)
		blame(reading, file->path, &error);
	else if (r < 0)
		blame(reading, file->path, NULL);
	return r == -EEXIST || r == -EINVAL ? -EBADMSG : r;
}

static bool is_known(const struct reading *reading, const char *path)
{
	for (size_t i = 0; i < reading->files.n; i++)
		if (streq(reading->files.files[i].path, path))
			return true;
	return false;
}

static int read_one(struct reading *reading, const char *path)
{
	_cleanup_free_ char *text = NULL;
	struct containerd_file *file;
	char host_path[PATH_MAX];
	struct toml_error error;
	struct statvfs st;
	size_t len;
	int r;

	if (reading->files.n >= CONTAINERD_FILES_MAX)
		return -E2BIG;
	r = path_in_root(reading->root, path, host_path);
	if (r == 0)
		r = read_file(host_path, CONTAINERD_FILE_MAX, &text, &len);
	if (r < 0)
		return r;
	r = toml_check(text, len, &error);
	if (r == -EBADMSG)
		blame(reading, path, &error);
	if (r < 0)
		return r;
	r = grow_array(
		&reading->files.files, reading->files.n, &reading->files_allocated, sizeof(*file));
	if (r < 0)
		return r;
	file = &reading->files.files[reading->files.n];
	if (!copy_text(file->path, sizeof(file->path), path))
		return -ENAMETOOLONG;
	file->read_only = statvfs(host_path, &st) == 0 && (st.f_flag & ST_RDONLY);
	file->text = steal(text);
	file->len = len;
	reading->files.n++;
	return add_imports(reading, file);
}

int containerd_files_read(const char *root, const char *main_path, struct containerd_files *files,
	char culprit[static CONTAINERD_CULPRIT_MAX])
{
	_cleanup_(reading_release) struct reading reading = {
		.root = streq(root, "/") ? "" : root,
		.culprit = culprit,
	};
	int r;

	culprit[0] = '\0';
	r = add_pending(&reading, main_path);
	for (size_t i = 0; i < reading.n_pending && r == 0; i++) {
		if (is_known(&reading, reading.pending[i]))
			continue;
		r = read_one(&reading, reading.pending[i]);
		if (r == -ENOENT && i == 0)
			r = 0; /* containerd starts without a main file */
		else if (r < 0 && culprit[0] == '\0')
			blame(&reading, reading.pending[i], NULL);
	}
	if (r == 0) {
		*files = reading.files;
		reading.files = (struct containerd_files){0};
	}
	return r;
}
