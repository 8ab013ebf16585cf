/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/table.h"

/* Each step writes a file. An unreadable file makes the tuner degraded. */
DIRECTORY_TEST(a_row_becomes_a_limit_where_the_node_has_it)
{
	static const struct {
		const char *path, *text; /* written before */
		size_t n;                /* limits then */
		bool degraded;
		const char *name; /* of the first */
		uint64_t used, max;
	} steps[] = {
		{NULL, NULL, 0, false, NULL, 0, 0},
		{"/proc/sys/fs/file-nr", "1046\t0\t2466177\n", 1, false, "file-handles", 1046,
			2466177},
		{"/proc/sys/fs/file-nr", "1046\t0\t9223372036854775807\n", 0, false, NULL, 0, 0},
		{"/proc/sys/fs/file-nr", "1046\t0\n", 0, true, NULL, 0, 0},
		{"/proc/sys/fs/file-nr", "max\n", 0, true, NULL, 0, 0},
		{"/proc/sys/fs/file-nr", "7\t0\t7\n", 1, false, "file-handles", 7, 7},
		/* The module was loaded. */
		{"/proc/sys/net/netfilter/nf_conntrack_count", "12\n", 1, false, "file-handles", 7,
			7},
		{"/proc/sys/net/netfilter/nf_conntrack_max", "262144\n", 2, false, "conntrack", 12,
			262144},
	};
	void *self = limits_tuner.open(&directory->host, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct proposal proposal = {0};
		char why[TUNER_WHY_MAX] = "";

		if (steps[i].path)
			directory_put(directory, steps[i].path, steps[i].text);
		limits_tuner.sense(self);
		limits_tuner.decide(self, NULL, NULL, &proposal);
		limits_tuner.explain(self, why);
		assert_int_equal(why[0] != '\0', steps[i].degraded);
		assert_int_equal(proposal.n_limits, steps[i].n);
		if (steps[i].n > 0) {
			assert_string_equal(proposal.limits[0].name, steps[i].name);
			assert_int_equal(proposal.limits[0].used, steps[i].used);
			assert_int_equal(proposal.limits[0].max, steps[i].max);
		}
		proposal_clear(&proposal);
	}
	limits_tuner.close(self, NULL);
}
