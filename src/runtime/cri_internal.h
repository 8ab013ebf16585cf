/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CRI_INTERNAL_H
#define RUNTIME_CRI_INTERNAL_H

/* cri.c: the calls. cri_read.c: what their answers say. */

#include "runtime/cri.h"
#include "runtime/wire.h"

/*
 * Reads an answer; all that it points to is in the arena or is data itself. False when the bytes
 * are not the message, or too much of it.
 */
typedef bool (*cri_reader)(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);

bool cri_read_nothing(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_version(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_status(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_images(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_image(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_pull(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_filesystems(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_sandboxes(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_containers(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);
bool cri_read_sandbox(
	struct arena *arena, const uint8_t *data, size_t size, struct cri_answer *answer);

#endif
