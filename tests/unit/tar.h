/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Creates tars in memory, for unit tests and fuzzers. */

#include "base/util.h"

struct bytes {
	char *data;
	size_t len;
};

static inline void bytes_clear(struct bytes *bytes)
{
	free(bytes->data);
}
#define _cleanup_bytes_ __attribute__((cleanup(bytes_clear)))

static inline void bytes_add(struct bytes *bytes, const void *data, size_t len)
{
	if (len == 0 && bytes->data)
		return;
	bytes->data = must(realloc(bytes->data, bytes->len + len + 1));
	memcpy(bytes->data + bytes->len, data, len);
	bytes->len += len;
	bytes->data[bytes->len] = '\0';
}

static inline void tar_seal(char header[512])
{
	unsigned int sum = 0;

	memset(header + 148, ' ', 8);
	for (size_t i = 0; i < 512; i++)
		sum += (unsigned char)header[i];
	snprintf(header + 148, 8, "%06o", sum);
}

static inline void tar_add(struct bytes *tar, char type, const char *name, const char *link,
	const void *data, size_t len)
{
	static const char zeros[512];
	char header[512] = {0};

	memcpy(header, name, MIN(strlen(name), 100));
	strcpy(header + 100, "0000644");
	snprintf(header + 124, 12, "%011zo", len);
	header[156] = type;
	memcpy(header + 157, link, MIN(strlen(link), 100));
	memcpy(header + 257, "ustar\00000", 8);
	tar_seal(header);
	bytes_add(tar, header, sizeof(header));
	bytes_add(tar, data, len);
	bytes_add(tar, zeros, -len % 512);
}

static inline void tar_put(struct bytes *tar, const char *name, const char *text)
{
	tar_add(tar, '0', name, "", text, strlen(text));
}

static inline void tar_end(struct bytes *tar)
{
	static const char zeros[1024];

	bytes_add(tar, zeros, sizeof(zeros));
}
