/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/table.h"
#include "tuners/thp/thp.h"

DIRECTORY_TEST(boot_parameters_of_switches_are_kept)
{
	static const struct {
		const char *line, *kept;
		unsigned kinds; /* a bit for each */
	} cases[] = {
		{"", "", 0},
		{"BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet\n", "", 0},
		{"ro transparent_hugepage=always quiet\n", "transparent_hugepage=always",
			1 << THP_ENABLED},
		{"transparent_hugepage=never thp_anon=16K-64K:always",
			"transparent_hugepage=never thp_anon=16K-64K:always",
			1 << THP_ENABLED | 1 << THP_SIZE_ENABLED},
		{"thp_shmem=64K:always transparent_hugepage_shmem=advise",
			"thp_shmem=64K:always transparent_hugepage_shmem=advise",
			1 << THP_SIZE_SHMEM_ENABLED | 1 << THP_SHMEM_ENABLED},
		{"not_transparent_hugepage=always xthp_anon=1", "", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned kinds = 0;
		struct thp *thp;

		directory_put(directory, "/proc/cmdline", cases[i].line);
		thp = thp_tuner.open(&directory->host, &directory->facts, NULL);
		assert_string_equal(thp->boot_line, cases[i].kept);
		for (int kind = 0; kind < THP_SWITCH_KINDS; kind++)
			kinds |= (unsigned)thp->at_boot[kind] << kind;
		assert_int_equal(kinds, cases[i].kinds);
		thp_tuner.close(thp, NULL);
	}
}

DIRECTORY_TEST(switches_of_every_page_size_are_found)
{
	static const struct {
		const char *file, *text, *name, *value;
	} rows[] = {
		{"/enabled", "always [madvise] never\n", "thp.enabled", "madvise"},
		{"/defrag", "always defer defer+madvise [madvise] never\n", "thp.defrag",
			"madvise"},
		{"/shmem_enabled", "always within_size advise [never] deny force\n",
			"thp.shmem_enabled", "never"},
		{"/khugepaged/defrag", "1\n", "thp.khugepaged.defrag", "1"},
		/* This size exists only for shared memory. */
		{"/hugepages-8kB/shmem_enabled", "always [never]\n",
			"thp.hugepages-8kB.shmem_enabled", "never"},
		{"/hugepages-64kB/enabled", "[always] inherit madvise never\n",
			"thp.hugepages-64kB.enabled", "always"},
		{"/hugepages-64kB/shmem_enabled", "always inherit within_size advise [never]\n",
			"thp.hugepages-64kB.shmem_enabled", "never"},
		{"/hugepages-2048kB/enabled", "always [inherit] madvise never\n",
			"thp.hugepages-2048kB.enabled", "inherit"},
	};
	struct thp *thp;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), THP_DIRECTORY "%s", rows[i].file);
		directory_put(directory, path, rows[i].text);
	}
	directory_put(directory, THP_DIRECTORY "/hugepages-16kB/stats/x", "1\n"); /* not a switch */
	directory_put(directory, "/proc/meminfo",
		"MemTotal:       8 kB\nAnonHugePages:   6144 kB\nShmemHugePages:  2048 kB\n"
		"ShmemPmdMapped:  7 kB\nFileHugePages:   4096 kB\n");
	thp = thp_tuner.open(&directory->host, &directory->facts, NULL);
	thp_tuner.sense(thp, now_us());
	assert_int_equal(thp->n_switches, ARRAY_SIZE(rows));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_string_equal(thp->switches[i].want.name, rows[i].name);
		assert_string_equal(thp->switches[i].want.actual, rows[i].value);
		assert_int_equal(thp->switches[i].want.error, 0);
	}
	assert_int_equal(thp->switches[5].kind, THP_SIZE_ENABLED);
	assert_int_equal(thp->usage_error, 0);
	assert_memory_equal(
		&thp->usage, &((struct thp_usage){6144, 2048, 4096}), sizeof(thp->usage));
	/* The next poll reads the new values. Kernels before 5.4 lack FileHugePages. */
	directory_put(directory, THP_DIRECTORY "/enabled", "always madvise [never]\n");
	directory_put(directory, "/proc/meminfo",
		"MemTotal: 8 kB\nAnonHugePages: 2048 kB\nShmemHugePages: 0 kB\n");
	thp_tuner.sense(thp, now_us());
	assert_int_equal(thp->usage_error, 0);
	assert_memory_equal(&thp->usage, &((struct thp_usage){2048, 0, 0}), sizeof(thp->usage));
	directory_put(directory, "/proc/meminfo", "MemTotal: 8 kB\n");
	thp_tuner.sense(thp, now_us());
	assert_string_equal(thp->switches[0].want.actual, "never");
	assert_int_equal(thp->usage_error, -EBADMSG);
	thp_tuner.close(thp, NULL);
}

DIRECTORY_TEST(without_huge_pages_every_switch_is_missing)
{
	struct thp *thp = thp_tuner.open(&directory->host, &directory->facts, NULL);

	thp_tuner.sense(thp, now_us());
	assert_int_equal(thp->n_switches, 4);
	for (unsigned i = 0; i < thp->n_switches; i++)
		assert_int_equal(thp->switches[i].want.error, -ENOENT);
	assert_int_equal(thp->usage_error, -ENOENT);
	thp_tuner.close(thp, NULL);
}
