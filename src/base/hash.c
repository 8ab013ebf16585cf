/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <stdint.h>

#include <nettle/base16.h>
#include <nettle/sha2.h>

_Static_assert(HASH_TEXT_MAX == BASE16_ENCODE_LENGTH(SHA256_DIGEST_SIZE) + 1, "hash as text");

void hash_bytes(const void *data, size_t len, char out[static HASH_TEXT_MAX])
{
	struct sha256_ctx context;
	uint8_t digest[SHA256_DIGEST_SIZE];

	sha256_init(&context);
	sha256_update(&context, len, data);
	sha256_digest(&context, sizeof(digest), digest);
	base16_encode_update(out, sizeof(digest), digest);
	out[HASH_TEXT_MAX - 1] = '\0';
}
