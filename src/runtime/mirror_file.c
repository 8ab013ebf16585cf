/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/mirror_file.h"

#include "base/file.h"

#define FILE_MAX 65536 /* bytes; no mirror file is larger */
#define URLS_MAX 32

/* The rest of the line may change in later versions: it is not part of the mark. */
#define MARK      "# Written by headroom."
#define MARK_REST " It replaces and removes this file, unless this line is gone.\n"

char *mirror_file_make(const struct mirror_format *format, const char *version,
	const char *registry, const char *const *urls, size_t n)
{
	const char *ordered[URLS_MAX];
	_cleanup_free_ char *text = NULL;
	size_t size = 0, n_ordered = 0;
	FILE *out = must(open_memstream(&text, &size));
	bool written;

	for (int same_node = 1; same_node >= 0; same_node--)
		for (size_t i = 0; i < n && n_ordered < URLS_MAX; i++) {
			size_t k = 0;

			/* A table that is defined twice makes the file invalid. */
			while (k < i && !streq(urls[k], urls[i]))
				k++;
			if (k == i && registry_is_loopback(urls[i]) == (bool)same_node)
				ordered[n_ordered++] = urls[i];
		}
	fputs(MARK MARK_REST, out);
	written = format->write(out, version, registry, ordered, n_ordered);
	fclose(out);
	must(text);
	return written ? steal(text) : NULL;
}

void mirror_file_list(
	const struct mirror_format *format, const char *text, char list[static SETTING_VALUE_MAX])
{
	char all[URLS_MAX * REGISTRY_URL_MAX] = "";

	while ((text = strstr(text, format->url_mark))) {
		text += strlen(format->url_mark);
		registry_list_add(all, sizeof(all), text, strcspn(text, "\"\n"));
	}
	registry_shorten_list(all[0] ? all : "none", list, SETTING_VALUE_MAX);
}

void mirror_file_read(const struct mirror_format *format, const struct host *host,
	const char *directory, struct mirror_file *file)
{
	_cleanup_free_ char *text = NULL;
	char full[PATH_MAX];
	size_t len = 0;
	int r = streq(file->registry, REGISTRY_DEFAULT) ? 0 : registry_check_name(file->registry);

	if (r == 0)
		r = format->locate(host, directory, file->registry, file->path, full);
	if (r == 0)
		r = read_file(full, FILE_MAX, &text, &len);
	file->exists = r != -ENOENT && r != -ENAMETOOLONG && r != -EINVAL;
	file->error = r == -ENOENT || r == -EEXIST ? 0 : r;
	/* Such a file may be replaced and removed. */
	file->ours = r == 0 && starts_with(text, MARK) && strchr(" \r\n", text[strlen(MARK)]);
	if (!file->ours)
		return;
	hash_bytes(text, len, file->sum);
	mirror_file_list(format, text, file->mirrors);
}
