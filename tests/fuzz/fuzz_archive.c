/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens any bytes as an archive of images: once as they are, and once with the right checksum in
 * each tar header.
 */

#include "archive_file.h"

#define TAR_BLOCK 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *tar = malloc(size + 1);

	if (!tar)
		return -1;
	try_archive(data, size);
	memcpy(tar, data, size);
	for (size_t at = 0; at + TAR_BLOCK <= size;) {
		size_t content;
		char number[13];

		snprintf(number, sizeof(number), "%.12s", tar + at + 124);
		content = strtoul(number, NULL, 8);
		if (tar[at])
			tar_seal(tar + at);
		if (content > size - at)
			break;
		at += TAR_BLOCK + (content + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	}
	try_archive(tar, size);
	free(tar);
	return 0;
}
