/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads any text as index.json, manifest.json, manifests and configurations. The input has several
 * files, each ended by a line "-": index.json, manifest.json, then blobs. A blob is also in the tar
 * under its number. @N is the digest of a later file N and #N its size, so that the references to a
 * mutated document stay valid.
 */

#include "archive_file.h"

#include "base/text.h"

#include <ctype.h>

#define FILES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
	char *text;
	size_t len;
	char digest[DIGEST_MAX];
};

/* Replaces the references to later files by their digests and sizes. */
static void fill(struct file *files, size_t i, const char *text, size_t len)
{
	FILE *out = must(open_memstream(&files[i].text, &files[i].len));
	char hash[HASH_TEXT_MAX];

	for (size_t at = 0; at < len; at++) {
		size_t n = at + 1 < len && isdigit((unsigned char)text[at + 1])
				   ? (size_t)(text[at + 1] - '0')
				   : 0;

		if ((text[at] != '@' && text[at] != '#') || n <= i || n >= FILES_MAX) {
			fputc(text[at], out);
			continue;
		}
		if (text[at++] == '@')
			fputs(files[n].digest, out);
		else
			fprintf(out, "%zu", files[n].len);
	}
	fclose(out);
	hash_bytes(files[i].text, files[i].len, hash);
	snprintf(files[i].digest, DIGEST_MAX, "sha256:%s", hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file files[FILES_MAX] = {0};
	const char *starts[FILES_MAX + 1], *text = (const char *)data, *end = text + size;
	_cleanup_bytes_ struct bytes tar = {0};
	char name[100];
	size_t n = 0;

	starts[0] = text;
	while (n < FILES_MAX && starts[n] < end) {
		const char *line = memmem(starts[n], (size_t)(end - starts[n]), "\n-\n", 3);

		starts[n + 1] = line ? line + 3 : end;
		n++;
	}
	for (size_t i = n; i-- > 0;)
		fill(files, i, starts[i],
			(size_t)(starts[i + 1] - starts[i]) - (i + 1 < n ? 3 : 0));
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "blobs/sha256/%s", files[i].digest + 7);
		if (i > 1)
			tar_add(&tar, '0', name, "", files[i].text, files[i].len);
		snprintf(name, sizeof(name), "%zu", i);
		tar_add(&tar, '0',
			i == 0   ? "index.json"
			: i == 1 ? "manifest.json"
				 : name,
			"", files[i].text, files[i].len);
	}
	tar_end(&tar);
	try_archive(tar.data, tar.len);
	for (size_t i = 0; i < n; i++)
		free(files[i].text);
	return 0;
}
