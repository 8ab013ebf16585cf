/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wave_times NODES-CONFIGURED SEEDS GROWTH ROUND-SECONDS IMAGE NODES FAILURES: prints a line for
 * each node: the seconds from the start until it begins its pull, after 0 to FAILURES - 1 failed
 * attempts. tests/sim/waves.py simulates a fleet with these times.
 */
#include "tuners/images/images.h"

static unsigned number(const char *text)
{
	return (unsigned)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	struct wave wave = {0};
	unsigned nodes, failures;

	if (argc != 8)
		return 64;
	wave.nodes = number(argv[1]);
	wave.seeds = number(argv[2]);
	wave.growth = number(argv[3]);
	wave.round_us = number(argv[4]) * USEC_PER_SEC;
	nodes = number(argv[6]);
	failures = number(argv[7]);
	for (unsigned i = 0; i < nodes; i++) {
		char name[32];

		snprintf(name, sizeof(name), "node-%05u", i);
		for (unsigned f = 0; f < failures; f++)
			printf("%g%c", (double)wave_due_us(&wave, name, argv[5], f) / USEC_PER_SEC,
				f + 1 < failures ? ' ' : '\n');
	}
	return 0;
}
