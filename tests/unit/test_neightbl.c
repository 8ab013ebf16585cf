/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "kernel/neightbl.h"

#define HEADER                                                                                   \
	"entries  allocs   destroys hash_grows lookups  hits     res_failed "                    \
	"rcv_probes_mcast rcv_probes_ucast periodic_gc_runs forced_gc_runs unresolved_discards " \
	"table_fulls\n"

static const struct {
	const char *text;
	int result;
	struct neightbl_stats stats;
} cases[] = {
	/* Two CPUs: numbers are hexadecimal, entries are the table's on each line. */
	{HEADER "0000000a  0000000f 1 2 3 4 5 6 7 8 00000002 9 00000003\n"
		"0000000a  00000001 1 2 3 4 5 6 7 8 00000001 9 00000010\n",
		0, {10, 16, 3, 19}},
	/* An older kernel, without table_fulls. */
	{"entries allocs forced_gc_runs\nff 1 2\n", 0, {255, 1, 2, 0}},
	/* A newer one, with more columns than we know, and in another order. */
	{"entries new table_fulls allocs newer\n1 99 2 3 99\n1 99 2 3 99 99 99\n", 0, {1, 6, 0, 4}},
	{"entries allocs table_fulls\n7 8\n", 0, {7, 8, 0, 0}}, /* a short line */
	{"", -EBADMSG, {0}},
	{"\n\n", -EBADMSG, {0}},
	{"entries allocs\n", -EBADMSG, {0}},
	{"allocs entries\n1 2\n", -EBADMSG, {0}},
	{"Tcp: 1 2 3\n4 5 6\n", -EBADMSG, {0}},
	{"\x7f"
	 "ELF\x02\x01\n\x01\x02\n",
		-EBADMSG, {0}},
};

TEST(statistics_are_summed)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct neightbl_stats stats = {77, 77, 77, 77}, untouched = stats;
		char text[1024];

		assert_true(copy_text(text, sizeof(text), cases[i].text));
		assert_int_equal(neightbl_parse_stats(text, &stats), cases[i].result);
		assert_memory_equal(
			&stats, cases[i].result == 0 ? &cases[i].stats : &untouched, sizeof(stats));
	}
}

DIRECTORY_TEST(statistics_are_read_from_a_file)
{
	struct kept_file file = {.fd = -1};
	struct neightbl_stats stats;
	struct host host;
	char scratch[1024];

	assert_true(host_init(&host, directory->path));
	assert_true(copy_text(file.path, sizeof(file.path), neightbl_stat_path(AF_INET6)));
	assert_int_equal(
		neightbl_read_stats(&host, &file, scratch, sizeof(scratch), &stats), -ENOENT);
	directory_put(
		directory, "/proc/net/stat/ndisc_cache", HEADER "a 1 2 3 4 5 6 7 8 9 a b c\n");
	assert_int_equal(neightbl_read_stats(&host, &file, scratch, sizeof(scratch), &stats), 0);
	assert_int_equal(stats.entries, 10);
	assert_int_equal(stats.table_fulls, 12);
	/* Where it does not fit, a part must not pass for all CPUs. */
	assert_int_equal(neightbl_read_stats(&host, &file, scratch, 64, &stats), -EFBIG);
	kept_close(&file);
}
