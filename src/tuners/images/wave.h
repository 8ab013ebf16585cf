/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a node pulls an image that many nodes want, without anyone who coordinates them: a few
 * nodes fetch it from upstream in round 0, and in each round some times as many have begun as in
 * the one before, which find it at their peers. Which round is a node's follows from a hash of its
 * name and the image's, so that each image begins at other nodes and a restart changes nothing.
 */

#include <stdint.h>

struct wave {
	unsigned nodes;    /* about how many there are; 0 and 1: begin at once */
	unsigned seeds;    /* how many of them begin in round 0, on average */
	unsigned growth;   /* how many times as many have begun a round later; at least 2 */
	uint64_t round_us; /* from one round to the next */
	uint64_t start_us; /* when round 0 begins, at all nodes */
};

unsigned wave_round(const struct wave *wave, const char *node, const char *image);

/* When to begin. Each failed attempt costs one more round. */
uint64_t wave_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures);
