/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Asks mirrors whether they have an image (OCI distribution specification: the pull part). */

#include "runtime/archive.h"
#include "runtime/mirror_file.h"

struct mirror_question {
	char image[IMAGE_NAME_MAX]; /* complete */
	char url[REGISTRY_URL_MAX]; /* of the mirror */
	int answer; /* 1: it has all of it; 0: not, or not yet; -errno: it refuses or is silent */
	char why[MIRROR_WHY_MAX]; /* of an error: the mirror and its answer */

	/* Internal. */
	char path[IMAGE_NAME_MAX + DIGEST_MAX];
	unsigned steps;
	bool repeated;
};

/*
 * Asks all questions at the same time, for 2 s at most. A peer announces the manifest of a digest
 * before its layers: the question is then for the largest layer. After a 404 it asks once more.
 */
void mirrors_ask(struct mirror_question *questions, size_t n, const char *host_root,
	const struct wait *wait);

/* Adds the mirrors in a runtime's hosts.toml of the registry, by any author. */
void mirror_file_find(const struct mirror_format *format, const struct host *host,
	const char *registry, char *urls, size_t size);
