/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/thp/thp.h"

#define TRANSHUGE "Documentation/admin-guide/mm/transhuge.rst"

const struct explanation thp_explanations[] = {
	{"thp.enabled", "setting",
		"Whether anonymous memory gets huge pages: always, madvise (where asked for) or "
		"never. Databases such as etcd and Redis see latency spikes with always.",
		NULL, "by the kernel's build: always or madvise", "thp.enabled", TRANSHUGE},
	{"thp.defrag", "setting",
		"Whether a page fault waits for memory to be compacted so that a huge page can be had.",
		NULL, "madvise", "thp.defrag", TRANSHUGE},
	{"thp.shmem_enabled", "setting",
		"Whether the kernel's internal shared memory mount gets huge pages.", NULL, "never",
		"thp.shmem", TRANSHUGE},
	{"thp.khugepaged.defrag", "setting",
		"Whether khugepaged may compact memory to collapse pages into huge ones.", NULL,
		"1", "thp.khugepaged_defrag", TRANSHUGE},
	{"thp.hugepages-*.enabled", "setting",
		"The switch of one page size for anonymous memory. It can override thp.enabled, so "
		"that never there alone is not off.",
		NULL, "never; inherit for the largest", "thp.sizes", TRANSHUGE " (from Linux 6.8)"},
	{"thp.hugepages-*.shmem_enabled", "setting",
		"The switch of one page size for shared memory; it can override thp.shmem_enabled.",
		NULL, "never; inherit for the largest", "thp.sizes",
		TRANSHUGE " (from Linux 6.11)"},
	{0},
};

static const struct reason condition_reasons[] = {
	{"none-in-use", "No memory is backed by transparent huge pages."},
	{"still-mapped",
		"Memory mapped before the switch is still backed by transparent huge pages; it is "
		"given back as its processes unmap it or end."},
	{"wanted-in-use", "Huge pages are in use, as the configuration allows."},
	{"meminfo-unavailable", "/proc/meminfo could not be read."},
	{0},
};

const struct condition_type thp_conditions[] = {
	[THP_ACTIVE] = {"TransparentHugePagesActive", SEVERITY_WARNING,
		"Memory is backed by transparent huge pages although they should be off: what was "
		"mapped before the switch keeps them until its process ends or is restarted.",
		condition_reasons},
	{0},
};

const struct reason thp_reasons[] = {
	{"configured-over-boot-line",
		"The configuration asks for this value; the kernel's boot line sets another at "
		"each boot: change it there for the time before the agent starts."},
	{0},
};
