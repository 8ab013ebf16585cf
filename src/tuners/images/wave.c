/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include <math.h>

/* If no peer has the image after this time, the nodes go upstream one after the other. */
#define PATIENCE_US     (180 * USEC_PER_SEC)
#define PATIENCE_ROUNDS 4

/* The first nodes go upstream after this many rounds. Perhaps the hash selected no seed, or all
 * seeds failed. */
#define TRICKLE_ROUNDS 2

#define HANGS_US (10 * USEC_PER_SEC) /* a question takes 2 s at most */

/* The nodes that pull upstream at once are rarely more than seeds and this many. */
static double spare(const struct wave *wave)
{
	return 3 * sqrt(MAX(wave->seeds, 1U));
}

/* The node's place in the order of the hash: 0 to 1. */
static double place_of(const char *node, const char *image)
{
	const char *const parts[] = {node, "|", image, "|"};
	uint64_t h = HASH_START;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		h = hash_text(h, parts[i]);
	/* MurmurHash3's fmix64: the last bytes, in which names of nodes differ, hardly change the
	 * high bits of FNV-1a. */
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return (double)(h ^ h >> 33) / 0x1p64;
}

/* The round of a node's first attempt. */
static unsigned round_of(const struct wave *wave, const char *node, const char *image)
{
	double begun = (double)MAX(wave->seeds, 1U) / MAX(wave->nodes, 1U);
	double place = place_of(node, image);
	unsigned round = 0;

	for (; begun < 1 && place >= begun; begun *= MAX(wave->growth, 2U))
		round++;
	return round;
}

uint64_t wave_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures)
{
	return wave->start_us + (uint64_t)(round_of(wave, node, image) + failures) * wave->round_us;
}

/* In the order of the hash, a few nodes begin, then as many in a round as upstream can serve. */
static uint64_t upstream_due_us(
	const struct wave *wave, const char *node, const char *image, unsigned failures)
{
	uint64_t soon_us = TRICKLE_ROUNDS * wave->round_us;
	uint64_t patience_us = MAX(PATIENCE_US, PATIENCE_ROUNDS * wave->round_us);
	double before = place_of(node, image) * wave->nodes - MAX(wave->seeds, 1U);
	double late = (before - spare(wave)) / (MAX(wave->seeds, 1U) + spare(wave));

	if (late < 0)
		soon_us += (uint64_t)(MAX(before, 0.0) / spare(wave) *
				      (double)(patience_us - soon_us));
	else
		soon_us = patience_us + (uint64_t)(late * (double)wave->round_us);
	return soon_us + failures * wave->round_us;
}

/*
 * Like wave_due_us() for a node that asks its peers from since_us on. have_us is when one first had
 * the image (0: not yet): the measure of a pull, unless a peer had it when first asked.
 */
static uint64_t peers_due_us(const struct wave *wave, const char *node, const char *image,
	unsigned failures, uint64_t since_us, uint64_t have_us)
{
	uint64_t rounds = round_of(wave, node, image), took_us, step_us = wave->round_us;
	uint64_t latest_us = since_us + upstream_due_us(wave, node, image, failures);

	if (rounds == 0 || (have_us > 0 && have_us <= since_us))
		return wave_due_us(wave, node, image, failures);
	if (have_us == 0)
		return latest_us;
	/* The node would have begun before a later answer: the clock was set ahead. */
	have_us = MIN(have_us, latest_us);
	/* The peer had it up to one interval before the question. */
	took_us = have_us - since_us - MIN(have_us - since_us, WAVE_ASK_EVERY_US);
	if (took_us > step_us + step_us * 3 / 10)
		step_us = took_us + took_us / 4;
	return MAX(have_us, since_us + wave->round_us) + (rounds + failures - 1) * step_us;
}

/* Whether the answers of the mirrors count, or rounds by time alone. */
static bool is_gated(const struct wave *wave, const struct peers *peers)
{
	return wave->gate == WAVE_PEERS ||
	       (wave->gate == WAVE_AUTO && peers->state != PEERS_UNKNOWN &&
		       peers->state != PEERS_SILENT);
}

static void describe_wait(struct image_row *row, const struct wave *wave)
{
	const struct peers *peers = &row->preload.peers;

	row->reason = REASON_WAVE_WAITS;
	if (wave->gate == WAVE_OFF)
		return;
	if (peers->state == PEERS_SILENT)
		snprintf(row->why, sizeof(row->why), "%s%s", row->preload.why,
			wave->gate == WAVE_AUTO ? ": begins at the time of its wave" : "");
	else if (peers->state == PEERS_UNKNOWN || peers->have_us == 1)
		snprintf(row->why, sizeof(row->why), "%s: begins at the time of its wave",
			peers->have_us == 1 ? "the mirror had it when first asked"
					    : "its registry has no mirror");
	else if (peers->have_us > 0)
		row->reason = REASON_PEERS_HAVE_IT;
	else if (peers->state == PEERS_LACK)
		row->reason = REASON_PEERS_LACK_IT;
}

void wave_plan(const struct images_tuner *tuner, struct image_row *row, uint64_t now_us)
{
	const char *node = tuner->host->node_name;
	struct wave wave = tuner->config.wave;

	if (wave.nodes <= 1)
		return;
	if (wave.start_us == 0)
		wave.start_us = row->preload.first_seen_us ? row->preload.first_seen_us : now_us;
	row->wave = (int)round_of(&wave, node, row->preload.name);
	row->planned_us = wave_due_us(&wave, node, row->preload.name, 0);
}

bool wave_waits(const struct images_tuner *tuner, struct image_row *row, uint64_t monotonic_us,
	uint64_t now_us)
{
	const char *node = tuner->host->node_name, *name = row->preload.name;
	const struct peers *peers = &row->preload.peers;
	const struct transfer *ask = images_active(tuner, TRANSFER_ASK, "", "");
	struct wave wave = tuner->config.wave;
	uint64_t first_us = row->preload.first_seen_us, due_us, since_us;
	unsigned failures = row->preload.failures;

	if (wave.nodes <= 1)
		return false;
	if (first_us == 0)
		first_us = now_us;
	if (wave.start_us == 0)
		wave.start_us = first_us;
	since_us = MAX(wave.start_us, first_us);
	due_us = is_gated(&wave, peers)
			 ? peers_due_us(&wave, node, name, failures, since_us, peers->have_us)
			 : wave_due_us(&wave, node, name, failures);
	row->asks = wave.gate != WAVE_OFF && peers->have_us == 0 && now_us >= since_us &&
		    round_of(&wave, node, name) > 0 &&
		    (peers->asked_us < since_us ||
			    (now_us - since_us) / WAVE_ASK_EVERY_US !=
				    (peers->asked_us - since_us) / WAVE_ASK_EVERY_US);
	/* A late node asks first, but not for ever: a file of a mirror may hang. */
	if (due_us <= now_us && (!row->asks || peers->state != PEERS_UNASKED ||
					(ask && monotonic_us > ask->began_us + HANGS_US)))
		return row->asks = false;
	row->retry_us = monotonic_us + MAX(due_us, now_us) - now_us;
	if (row->state == IMAGE_PENDING)
		describe_wait(row, &wave);
	return true;
}
