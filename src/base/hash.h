/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>

#define HASH_TEXT_MAX 65 /* SHA-256 (FIPS 180-4) in lower-case hexadecimal digits, terminated */

void hash_bytes(const void *data, size_t len, char out[static HASH_TEXT_MAX]);

#endif
