/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_CONFIG_H
#define RUNTIME_DOCKER_CONFIG_H

/*
 * Docker's daemon.json as text: one top-level key set or taken out, all other bytes as they were.
 * Pure. len 0 (an empty or missing file) and a file of white space alone count as {}; a UTF-8 byte
 * order mark stays. Every result is parsed again by cJSON and must differ in that key alone.
 */

#include <stddef.h>

#define DOCKER_CONFIG_MAX     262144 /* bytes; more is nobody's daemon.json */
#define DOCKER_CONFIG_KEY_MAX 128

/* Why a text is no daemon.json, and where. Lines and columns (bytes) count from 1. */
struct docker_config_fault {
	unsigned int line, column;
	char message[160]; /* one line without control characters */
};

/*
 * The value of a top-level key as it stands in the text (JSON: strings with their quotes), for the
 * caller to free. Of doubles the last one, as dockerd has it. 0, -ENOENT without that key, -EINVAL
 * with fault (may be NULL) for what is no strict JSON with an object at its top, -EFBIG above
 * DOCKER_CONFIG_MAX, -ENOMEM.
 */
int docker_config_get(const char *text, size_t len, const char *key, char **value,
	struct docker_config_fault *fault);

/* A whole number from 0 up. -ERANGE when the value is anything else. Else as docker_config_get. */
int docker_config_get_count(const char *text, size_t len, const char *key, unsigned int *value,
	struct docker_config_fault *fault);

/*
 * Sets a top-level key to a value, which is JSON text ("10", "[\"https://m\"]"): in place where the
 * key is, else as the last one, in the style of the key before it. value NULL takes the key out,
 * all doubles of it. The new text is terminated and the caller's; it equals the old one byte for
 * byte when nothing had to change, and taking out a key that was inserted gives the text from
 * before (of an empty file: {, a line break, }). 0, or as docker_config_get; also -EINVAL for a
 * key or value that is no JSON, -EILSEQ when the result did not stand the check against cJSON.
 */
int docker_config_set(const char *text, size_t len, const char *key, const char *value, char **out,
	size_t *out_len, struct docker_config_fault *fault);

/* JSON text of a list of strings, for docker_config_set; the caller frees it. NULL without memory.
 */
char *docker_config_list(const char *const *strings, size_t n);

/*
 * The first key that this version of dockerd does not know (docker_keys.h): it would refuse the
 * reload, which is seen in its log alone, and its next start. 1 with the key and its place (fault
 * may be NULL), 0 when all are known, or as docker_config_get.
 */
int docker_config_unknown_key(const char *text, size_t len, const char *version,
	char key[static DOCKER_CONFIG_KEY_MAX], struct docker_config_fault *fault);

#endif
