/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/limits/limits.h"
#include "tuners/table.h"

#include "kernel/host.h"

TEST(numbers_are_taken_by_field)
{
	static const struct {
		const char *text;
		unsigned field;
		int r;
		uint64_t value;
	} cases[] = {
		{"262144\n", 1, 0, 262144},
		{"1046\t0\t2466177\n", 1, 0, 1046},
		{"1046\t0\t2466177\n", 3, 0, 2466177},
		{"1046\t0\n", 3, -EBADMSG, 7},
		{"", 1, -EBADMSG, 7},
		{"max\n", 1, -EBADMSG, 7},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t value = 7;

		assert_int_equal(limits_parse(cases[i].text, cases[i].field, &value), cases[i].r);
		assert_int_equal(value, cases[i].value);
	}
}

TEST(a_row_becomes_a_limit_where_the_node_has_it)
{
	static const struct limit_row rows[] = {
		{.name = "here", .unit = "things"},
		{.name = "module-not-loaded", .unit = "things"},
		{.name = "unlimited", .unit = "things"},
		{.name = "full", .unit = "others"},
		{0},
	};
	const struct limits_reading readings[] = {
		{.used = 5, .max = 10},
		{.error = -ENOENT},
		{.used = 5, .max = INT64_MAX},
		{.used = 10, .max = 10},
	};
	struct proposal proposal = {0};

	assert_int_equal(limits_decide(rows, readings, &proposal), 0);
	assert_int_equal(proposal.n_limits, 2);
	assert_string_equal(proposal.limits[0].name, "here");
	assert_string_equal(proposal.limits[0].unit, "things");
	assert_int_equal(proposal.limits[0].used, 5);
	assert_int_equal(proposal.limits[0].max, 10);
	assert_string_equal(proposal.limits[1].name, "full");
	assert_int_equal(proposal.n_conditions, 0);
	assert_int_equal(proposal.n_values, 0);
	proposal_clear(&proposal);
}

DIRECTORY_TEST(files_are_read_below_the_hosts_root)
{
	struct proposal proposal = {0};
	char why[TUNER_WHY_MAX];
	struct host host;
	void *self;

	directory_put(directory, "/proc/sys/fs/file-nr", "1046\t0\t2466177\n");
	assert_true(host_init(&host, directory->path));
	assert_int_equal(limits_tuner.open(&host, false, &self), 0);
	limits_tuner.sense(self);
	assert_int_equal(limits_tuner.decide(self, NULL, NULL, &proposal), 0);
	assert_int_equal(limits_tuner.state(self, why), TUNER_ACTIVE);
	assert_int_equal(proposal.n_limits, 1);
	assert_string_equal(proposal.limits[0].name, "file-handles");
	assert_int_equal(proposal.limits[0].max, 2466177);

	/* The module is loaded. */
	directory_put(directory, "/proc/sys/net/netfilter/nf_conntrack_count", "12\n");
	directory_put(directory, "/proc/sys/net/netfilter/nf_conntrack_max", "262144\n");
	proposal_reset(&proposal);
	limits_tuner.sense(self);
	assert_int_equal(limits_tuner.decide(self, NULL, NULL, &proposal), 0);
	assert_int_equal(proposal.n_limits, 2);
	assert_string_equal(proposal.limits[0].name, "conntrack");
	assert_int_equal(proposal.limits[0].used, 12);
	proposal_clear(&proposal);
	limits_tuner.close(self);
}
