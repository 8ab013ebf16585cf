/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_INTERNAL_H
#define RUNTIME_CONTAINERD_INTERNAL_H

/* containerd.c: the calls. containerd_read.c: what their answers say. */

#include <runtime/containerd.pb-c.h>

#include "runtime/containerd.h"
#include "runtime/wire.h"

/* As cri_reader in cri_internal.h. */
typedef bool (*containerd_reader)(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);

bool containerd_read_nothing(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_version(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_namespaces(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_ingests(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_images(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_image(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);

#endif
