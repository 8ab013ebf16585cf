/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

/* FNV-1a. Its high bits hardly know of the last bytes, in which the names of nodes differ: mixed
 * as MurmurHash3's fmix64 does. */
static uint64_t hash_names(const char *node, const char *image)
{
	const char *const names[] = {node, image};
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (const char *c = names[i]; *c; c++)
			h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
		h = (h ^ '|') * UINT64_C(0x100000001b3);
	}
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

unsigned wave_round(const struct wave *wave, const char *node, const char *image)
{
	double at = (double)hash_names(node, image) / 0x1p64;
	double begun = (double)MAX(wave->seeds, 1U) / MAX(wave->nodes, 1U);
	unsigned round = 0;

	for (; begun < 1 && at >= begun; begun *= MAX(wave->growth, 2U))
		round++;
	return round;
}

uint64_t wave_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures)
{
	return wave->start_us +
	       ((uint64_t)wave_round(wave, node, image) + failures) * wave->round_us;
}
