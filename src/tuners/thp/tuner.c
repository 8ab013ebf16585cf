/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"
#include "tuners/thp/thp.h"

static const char *const enabled_words[] = {"never", "madvise", "always", "keep", NULL};
static const char *const defrag_words[] = {
	"never", "madvise", "defer", "defer+madvise", "always", "keep", NULL};
static const char *const shmem_words[] = {
	"never", "advise", "within_size", "always", "deny", "force", "keep", NULL};
static const char *const khugepaged_words[] = {"false", "true", "keep", NULL};
static const char *const sizes_words[] = {"never", "inherit", "madvise", "always", "keep", NULL};

#define CHOICE(title, of, preset, meaning)                                               \
	{                                                                                \
		.name = "thp." title, .type = OPTION_CHOICE, .words = of, .def = preset, \
		.help = meaning                                                          \
	}

const struct config_option thp_options[] = {
	MODE_OPTION("thp"),
	CHOICE("enabled", enabled_words, "never",
		"Huge pages for anonymous memory; keep leaves what the node has."),
	CHOICE("defrag", defrag_words, "never",
		"Whether a page fault stalls to compact memory for a huge page."),
	CHOICE("shmem", shmem_words, "never",
		"Huge pages for the kernel's internal shared memory mount (shmem_enabled)."),
	CHOICE("khugepaged_defrag", khugepaged_words, "false",
		"Whether khugepaged compacts memory to make huge pages (khugepaged/defrag)."),
	CHOICE("sizes", sizes_words, "never",
		"The switches of each page size, hugepages-*kB/enabled and shmem_enabled, from Linux "
		"6.8."),
	{0},
};

#define TRANSHUGE "Documentation/admin-guide/mm/transhuge.rst"

static const struct explanation explanations[] = {
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
	{"growing-though-off",
		"Memory backed by transparent huge pages grew within the last five minutes, "
		"although they should be off."},
	{"wanted-in-use", "Huge pages are in use, as the configuration allows."},
	{"meminfo-unavailable", "/proc/meminfo could not be read."},
	{0},
};

const struct condition_type thp_conditions[] = {
	{"TransparentHugePagesActive", SEVERITY_WARNING,
		"Memory is backed by transparent huge pages although they should be off: what was "
		"mapped before the switch keeps them until its process ends or is restarted, which "
		"is advice; a warning while they grow.",
		condition_reasons},
	{0},
};

static const struct reason reasons[] = {
	{"configured-over-boot-line",
		"The configuration asks for this value; the kernel's boot line sets another at "
		"each boot: change it there for the time before the agent starts."},
	{0},
};

static void thp_configure(void *self, const struct config *config)
{
	static const char *const options[THP_SWITCH_KINDS] = {
		[THP_ENABLED] = "thp.enabled",
		[THP_DEFRAG] = "thp.defrag",
		[THP_SHMEM_ENABLED] = "thp.shmem",
		[THP_KHUGEPAGED_DEFRAG] = "thp.khugepaged_defrag",
		[THP_SIZE_ENABLED] = "thp.sizes",
		[THP_SIZE_SHMEM_ENABLED] = "thp.sizes",
	};
	struct thp *thp = self;

	for (int kind = 0; kind < THP_SWITCH_KINDS; kind++) {
		const struct config_option *option = option_find(option_tables, options[kind]);
		const char *word = option->words[config_choice(config, options[kind])];

		if (streq(word, "keep"))
			word = "";
		else if (kind == THP_KHUGEPAGED_DEFRAG)
			word = streq(word, "true") ? "1" : "0";
		else if (kind == THP_SIZE_SHMEM_ENABLED && streq(word, "madvise"))
			word = "advise"; /* shared memory's word for the same */
		copy_text(thp->wanted[kind], sizeof(thp->wanted[kind]), word);
		thp->requested[kind] = config_is_given(config, options[kind]);
	}
}

static void thp_explain(const void *self, char why[static TUNER_WHY_MAX])
{
	copy_text(why, TUNER_WHY_MAX, ((const struct thp *)self)->write_why);
}

const struct tuner_ops thp_tuner = {
	.name = "thp",
	.summary =
		"Switches transparent huge pages off, every page size, and reports what is still in use.",
	.options = thp_options,
	.explanations = explanations,
	.conditions = thp_conditions,
	.reasons = reasons,
	.open = thp_open,
	.configure = thp_configure,
	.sense = thp_sense,
	.memory_size = sizeof(struct thp_memory),
	.decide = thp_decide,
	.explain = thp_explain,
	.close = thp_close,
};
