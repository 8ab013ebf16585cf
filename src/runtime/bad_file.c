/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/bad_file.h"

#include "base/file.h"
#include "base/text.h"

#include <glob.h>

#define HEAD_MAX      ((size_t)1 << 20) /* bytes of a configuration file */
#define CONFFILES_MAX ((size_t)1 << 18)
#define CONFFILES     "/var/lib/dpkg/info/*.conffiles"

/* A part of a path, and who writes such files without a header. */
static const struct {
	const char *path, *writer;
} known[] = {
	{"nvidia", "the NVIDIA container toolkit"},
	{"/rancher/k3s/", "k3s"},
	{"/rancher/rke2/", "RKE2"},
	{"/k0s/", "k0s"},
	{"/microk8s/", "MicroK8s"},
	{"/99-headroom.", "headroom"},
	{"/var/lib/kubelet/config.yaml", "kubeadm"},
};

/* Words of the first comment line that names a generator. */
static const char *const words[] = {
	"generated", "managed", "written by", "created by", "edit", "added by"};

static bool find_header(const char *text, char writer[static BAD_WRITER_MAX])
{
	char line[96];

	for (; *text == '#'; text += strcspn(text, "\n"), text += *text == '\n') {
		snprintf(line, sizeof(line), "%.*s",
			(int)MIN(strcspn(text, "\r\n"), sizeof(line) - 1), text);
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			if (strcasestr(line, words[i])) {
				text_make_printable(line);
				text_fold_blanks(line);
				snprintf(writer, BAD_WRITER_MAX, "its header says: %s", line);
				return true;
			}
	}
	return false;
}

/* Debian's packages list their configuration files. */
static bool find_package(
	const struct host *host, const char *path, char writer[static BAD_WRITER_MAX])
{
	char pattern[PATH_MAX];
	glob_t lists = {0};
	bool found = false;

	(void)glob(host_path(host, CONFFILES, pattern), GLOB_NOSORT, NULL, &lists);
	for (size_t i = 0; i < lists.gl_pathc && !found; i++) {
		_cleanup_free_ char *text = NULL;
		const char *name = strrchr(lists.gl_pathv[i], '/') + 1;
		char *state = NULL;

		if (read_file(lists.gl_pathv[i], CONFFILES_MAX, &text, NULL) < 0)
			continue;
		for (char *line = strtok_r(text, "\n", &state); line && !found;
			line = strtok_r(NULL, "\n", &state))
			found = streq(line, path);
		if (found)
			snprintf(writer, BAD_WRITER_MAX, "the package %.*s has it",
				(int)strcspn(name, ".:"), name);
	}
	globfree(&lists);
	return found;
}

void bad_file_find_writer(const struct host *host, struct bad_file *bad)
{
	_cleanup_free_ char *text = NULL;
	char full[PATH_MAX], changed[TIME_TEXT_MAX];
	struct stat st;
	size_t i = 0;

	bad->writer[0] = '\0';
	if (path_in_root(host->root, bad->path, full) < 0 || stat(full, &st) < 0)
		return;
	if (read_file(full, HEAD_MAX, &text, NULL) == 0 && find_header(text, bad->writer))
		return;
	while (i < ARRAY_SIZE(known) && !strstr(bad->path, known[i].path))
		i++;
	if (i < ARRAY_SIZE(known))
		snprintf(
			bad->writer, sizeof(bad->writer), "%s writes such a file", known[i].writer);
	if (bad->writer[0] || find_package(host, bad->path, bad->writer))
		return;
	time_text(us_of(st.st_mtim), changed);
	snprintf(bad->writer, sizeof(bad->writer), "it belongs to uid %u%s and was changed at %s",
		(unsigned)st.st_uid, st.st_uid == 0 ? " (root)" : "", changed);
}

unsigned bad_file_line(const char *fault)
{
	char *end;
	unsigned long line = strtoul(fault, &end, 10);

	return end > fault && *end == ':' && line <= UINT_MAX ? (unsigned)line : 0;
}
