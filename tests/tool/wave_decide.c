/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wave_decide GATE NODES SEEDS GROWTH ROUND-SECONDS IMAGE START: what the images tuner decides for
 * nodes of a fleet. START is `start` or, if nodes count from their own time, `seen`.
 *
 * Input: lines of NODE NOW SEEN FAILURES FAILED-AT PEERS ASKED HAVE. Times are seconds; PEERS is a
 * number of enum peers_state, HAVE -1 for no answer yet and 0 for an answer at the first question.
 * Output: for each line the seconds until the node pulls the image (0: it begins now), and whether
 * it asks its mirror now. An empty line flushes the output. tests/sim/waves.py simulates a fleet.
 */
#include "tuners/images/images.h"

#define EPOCH_US UINT64_C(1800000000000000)
#define BOOT_US  (1000 * USEC_PER_SEC) /* CLOCK_MONOTONIC at time 0 */

static unsigned number(const char *text)
{
	return (unsigned)strtoul(text, NULL, 10);
}

static uint64_t us_of_seconds(double seconds)
{
	return (uint64_t)(seconds * (double)USEC_PER_SEC);
}

static void decide(struct images_tuner *tuner, struct images_memory *memory, const double *at)
{
	struct preload *image = &tuner->record.entries[0];
	struct decide_input input = {.mode = MODE_ENFORCE};
	struct proposal proposal = {0};
	const struct image_row *row;

	input.now_us = BOOT_US + us_of_seconds(at[0]);
	tuner->sample.now_us = input.now_us;
	tuner->sample.realtime_us = EPOCH_US + us_of_seconds(at[0]);
	image->first_seen_us = EPOCH_US + us_of_seconds(at[1]);
	image->failures = (unsigned)at[2];
	image->reason = image->failures > 0 ? REASON_PULL_FAILED : REASON_NONE;
	image->done_us = image->failures > 0 ? BOOT_US + us_of_seconds(at[3]) : 0;
	image->peers.state = (enum peers_state)at[4];
	image->peers.asked_us = at[5] < 0 ? 0 : EPOCH_US + us_of_seconds(at[5]);
	image->peers.have_us = at[6] < 0 ? 0 : at[6] > 0 ? EPOCH_US + us_of_seconds(at[6]) : 1;
	images_decide(tuner, &input, memory, &proposal);
	row = &memory->rows[0];
	printf("%.6f %d\n",
		row->retry_us > input.now_us
			? (double)(row->retry_us - input.now_us) / (double)USEC_PER_SEC
			: 0.0,
		row->asks);
	proposal_clear(&proposal);
	free(proposal.conditions);
	free(proposal.wants);
}

int main(int argc, char **argv)
{
	static const char *const gates[] = {"auto", "peers", "off"};
	static struct host host;
	struct images_tuner tuner = {.host = &host};
	struct images_memory *memory = must(calloc(1, sizeof(*memory)));
	struct wave *wave = &tuner.config.wave;
	char line[256], node[64];
	double at[7];

	if (argc != 8)
		return 64;
	while (!streq(gates[wave->gate], argv[1]))
		if (++wave->gate > WAVE_OFF)
			return 64;
	wave->nodes = number(argv[2]);
	wave->seeds = number(argv[3]);
	wave->growth = number(argv[4]);
	wave->round_us = number(argv[5]) * USEC_PER_SEC;
	wave->start_us = streq(argv[7], "start") ? EPOCH_US : 0;
	tuner.config.parallel = 1;
	text_list_add(&tuner.config.pulls, argv[6]);
	(void)preload_add(&tuner.record, "", argv[6]);
	tuner.sample.answers = true;
	tuner.sample.runtime.driver = &containerd_driver;
	strcpy(tuner.sample.runtime.socket, "/run/x");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%63s %lf %lf %lf %lf %lf %lf %lf", node, &at[0], &at[1], &at[2],
			    &at[3], &at[4], &at[5], &at[6]) == 8) {
			host.node_name = node;
			decide(&tuner, memory, at);
		} else {
			fflush(stdout);
		}
	}
	return 0;
}
