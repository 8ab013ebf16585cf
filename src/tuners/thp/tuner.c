/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"
#include "tuners/thp/thp.h"

#include "base/text.h"

#include <dirent.h>

/* Growth is reported long enough for a dashboard and an alert to see it. */
#define GROWTH_WINDOW_US (300 * USEC_PER_SEC)

/* /proc/meminfo is 60 lines of 28 bytes. */
#define MEMINFO_MAX 16384

static const char *const enabled_choices[] = {"never", "madvise", "always", "keep", NULL};
static const char *const defrag_choices[] = {
	"never", "madvise", "defer", "defer+madvise", "always", "keep", NULL};
static const char *const shmem_choices[] = {
	"never", "advise", "within_size", "always", "deny", "force", "keep", NULL};
static const char *const khugepaged_choices[] = {"false", "true", "keep", NULL};
static const char *const sizes_choices[] = {"never", "inherit", "madvise", "always", "keep", NULL};

#define CHOICE(title, words, preset, meaning) \
	{.name = "thp." title,                \
		.type = OPTION_CHOICE,        \
		.choices = words,             \
		.def = preset,                \
		.help = meaning}

const struct config_option thp_options[] = {
	MODE_OPTION("thp"),
	CHOICE("enabled", enabled_choices, "never",
		"Huge pages for anonymous memory; keep leaves the node's value alone."),
	CHOICE("defrag", defrag_choices, "never",
		"Whether a page fault stalls to compact memory for a huge page."),
	CHOICE("shmem", shmem_choices, "never",
		"Huge pages for the kernel's internal shmem mount (shmem_enabled)."),
	CHOICE("khugepaged_defrag", khugepaged_choices, "false",
		"Whether khugepaged compacts memory to make huge pages (khugepaged/defrag)."),
	CHOICE("sizes", sizes_choices, "never",
		"The switches of each page size, hugepages-*kB/enabled and shmem_enabled (Linux 6.8 "
		"and later)."),
	{0},
};

#define TRANSHUGE "Documentation/admin-guide/mm/transhuge.rst"

static const struct help_entry entries[] = {
	{"thp.enabled", ENTRY_SETTING,
		"Whether anonymous memory gets huge pages: always, madvise (where a process asks "
		"for them) or never. Databases such as etcd and Redis see latency spikes with "
		"always.",
		.def = "by the kernel's build: always or madvise", .option = "thp.enabled",
		.source = TRANSHUGE},
	{"thp.defrag", ENTRY_SETTING,
		"Whether a page fault waits until memory is compacted for a huge page.",
		.def = "madvise", .option = "thp.defrag", .source = TRANSHUGE},
	{"thp.shmem_enabled", ENTRY_SETTING,
		"Whether the kernel's internal shmem mount gets huge pages.", .def = "never",
		.option = "thp.shmem", .source = TRANSHUGE},
	{"thp.khugepaged.defrag", ENTRY_SETTING,
		"Whether khugepaged may compact memory to collapse small pages into huge pages.",
		.def = "1", .option = "thp.khugepaged_defrag", .source = TRANSHUGE},
	{"thp.hugepages-*.enabled", ENTRY_SETTING,
		"The switch of one page size for anonymous memory. It can override thp.enabled, so "
		"thp.enabled=never alone does not switch huge pages off.",
		.def = "never; inherit for the largest", .option = "thp.sizes",
		.source = TRANSHUGE " (from Linux 6.8)"},
	{"thp.hugepages-*.shmem_enabled", ENTRY_SETTING,
		"The switch of one page size for shared memory; it can override thp.shmem_enabled.",
		.def = "never; inherit for the largest", .option = "thp.sizes",
		.source = TRANSHUGE " (from Linux 6.11)"},
	{0},
};

static const struct condition_type conditions[] = {
	{"TransparentHugePagesActive", SEVERITY_WARNING,
		"Memory uses transparent huge pages although they should be off. Memory mapped "
		"before the switch keeps them until its process ends or restarts: this is advice. "
		"While the amount grows although they are off, it is a warning.",
		REASON_LIST(REASON_NONE_IN_USE, REASON_STILL_MAPPED, REASON_STILL_SWITCHED_ON,
			REASON_GROWING_THOUGH_OFF, REASON_WANTED_IN_USE,
			REASON_MEMINFO_UNAVAILABLE),
		.now = "restart the process that the message names"},
	{0},
};

static const struct {
	const char *file, *option;
	const char *boot; /* the kernel parameter; NULL for none */
	int forbids;      /* the switch that says whether its huge pages are unwanted; -1: none */
} kinds[THP_SWITCH_KINDS] = {
	[THP_ENABLED] = {"enabled", "thp.enabled", "transparent_hugepage=", THP_ENABLED},
	[THP_DEFRAG] = {"defrag", "thp.defrag", NULL, -1},
	[THP_SHMEM_ENABLED] = {"shmem_enabled", "thp.shmem",
		"transparent_hugepage_shmem=", THP_SHMEM_ENABLED},
	[THP_KHUGEPAGED_DEFRAG] = {"khugepaged/defrag", "thp.khugepaged_defrag", NULL, -1},
	[THP_SIZE_ENABLED] = {"enabled", "thp.sizes", "thp_anon=", THP_ENABLED},
	[THP_SIZE_SHMEM_ENABLED] = {"shmem_enabled", "thp.sizes", "thp_shmem=", THP_SHMEM_ENABLED},
};

/* hugepages-64kB/enabled becomes the setting thp.hugepages-64kB.enabled. */
static void add_switch(struct thp *thp, int kind, const char *directory)
{
	struct thp_switch *added = &thp->switches[thp->n_switches];

	if (thp->n_switches == THP_SWITCHES_MAX)
		return;
	*added = (struct thp_switch){
		.kind = (enum thp_switch_kind)kind, .want.target.kind = VALUE_FILE};
	snprintf(added->want.target.path, SETTING_PATH_MAX, THP_DIRECTORY "%.60s/%s", directory,
		kinds[kind].file);
	snprintf(added->want.name, SETTING_NAME_MAX, "thp%.60s/%s", directory, kinds[kind].file);
	for (char *slash = added->want.name; (slash = strchr(slash, '/'));)
		*slash = '.';
	/* Not every size has both: 8 kB has shmem_enabled only. */
	if (kind < THP_SIZE_ENABLED ||
		host_read_value(thp->host, added->want.target.path, added->want.actual) != -ENOENT)
		thp->n_switches++;
}

static void parse_boot_line(const char *line, struct thp *thp)
{
	char word[96];
	int used;

	for (; sscanf(line, "%95s%n", word, &used) == 1; line += used)
		for (int kind = 0; kind < THP_SWITCH_KINDS; kind++) {
			if (!kinds[kind].boot || !starts_with(word, kinds[kind].boot))
				continue;
			text_append(thp->boot_line, sizeof(thp->boot_line), "%s%s",
				thp->boot_line[0] ? " " : "", word);
			thp->at_boot[kind] = true;
		}
}

static void *thp_open(const struct host *host, struct facts *, struct sd_event *)
{
	_cleanup_free_ char *line = NULL;
	struct thp *thp = must(calloc(1, sizeof(*thp)));
	char full[PATH_MAX], directory[NAME_MAX + 2];
	struct dirent **sizes = NULL;
	int r, n = scandir(host_path(host, THP_DIRECTORY, full), &sizes, NULL, versionsort);

	thp->host = host;
	for (int kind = 0; kind < THP_SIZE_ENABLED; kind++)
		add_switch(thp, kind, "");
	for (int i = 0; i < n; i++) {
		snprintf(directory, sizeof(directory), "/%s", sizes[i]->d_name);
		if (starts_with(directory, "/hugepages-")) {
			add_switch(thp, THP_SIZE_ENABLED, directory);
			add_switch(thp, THP_SIZE_SHMEM_ENABLED, directory);
		}
		free(sizes[i]);
	}
	free(sizes);
	if (host_read_file(host, "/proc/cmdline", 65536, &line) == 0)
		parse_boot_line(line, thp);
	r = host_may_write(host, THP_DIRECTORY "/enabled");
	/* A kernel without huge pages needs no switch. */
	if (r < 0 && r != -ENOENT)
		snprintf(thp->write_why, TUNER_WHY_MAX,
			THP_DIRECTORY "/enabled: %s: run as uid 0 with a writable " THP_DIRECTORY
				      " (ProtectKernelTunables=no, or a hostPath)",
			strerror(-r));
	return thp;
}

static void thp_configure(void *self, const struct config *config)
{
	struct thp *thp = self;

	for (int kind = 0; kind < THP_SWITCH_KINDS; kind++) {
		const struct config_option *option = option_find(option_tables, kinds[kind].option);
		const char *word = option->choices[config_choice(config, kinds[kind].option)];

		if (streq(word, "keep"))
			word = "";
		else if (kind == THP_KHUGEPAGED_DEFRAG)
			word = streq(word, "true") ? "1" : "0";
		else if (kind == THP_SIZE_SHMEM_ENABLED && streq(word, "madvise"))
			word = "advise"; /* shmem_enabled calls it so */
		set_text(thp->wanted[kind], word);
		thp->requested[kind] = config_is_given(config, kinds[kind].option);
	}
}

/* Returns 0 when this kernel lacks the line. */
static uint64_t meminfo_kb(const char *text, const char *name)
{
	const char *line = strstr(text, name);
	uint64_t kb = 0;

	if (line)
		sscanf(line + strlen(name), " %" SCNu64, &kb);
	return kb;
}

static void thp_sense(void *self, uint64_t)
{
	_cleanup_free_ char *text = NULL;
	struct thp *thp = self;

	for (unsigned i = 0; i < thp->n_switches; i++) {
		struct want *want = &thp->switches[i].want;

		want->error = host_read_value(thp->host, want->target.path, want->actual);
	}
	thp->usage_error = host_read_file(thp->host, "/proc/meminfo", MEMINFO_MAX, &text);
	if (thp->usage_error == 0 && !strstr(text, "\nAnonHugePages:"))
		thp->usage_error = -EBADMSG;
	if (thp->usage_error == 0)
		thp->usage = (struct thp_usage){.anon = meminfo_kb(text, "\nAnonHugePages:"),
			.shmem = meminfo_kb(text, "\nShmemHugePages:"),
			.file = meminfo_kb(text, "\nFileHugePages:")};
}

static bool is_off(const char *value)
{
	return streq(value, "never") || streq(value, "deny");
}

/* Returns the huge pages that the configuration forbids. */
static uint64_t unwanted_kb(const struct thp *thp, const struct thp_usage *usage)
{
	return (is_off(thp->wanted[THP_ENABLED]) ? usage->anon : 0) +
	       (is_off(thp->wanted[THP_SHMEM_ENABLED]) ? usage->shmem : 0);
}

/* Returns whether the kernel still provides huge pages that the configuration forbids. */
static bool switched_on(const struct thp *thp)
{
	for (unsigned i = 0; i < thp->n_switches; i++) {
		int forbids = kinds[thp->switches[i].kind].forbids;
		const char *actual = thp->switches[i].want.actual;

		if (forbids >= 0 && is_off(thp->wanted[forbids]) && actual[0] && !is_off(actual) &&
			!streq(actual, "inherit"))
			return true;
	}
	return false;
}

static void thp_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct thp *thp = self;
	const struct thp_usage *usage = &thp->usage;
	char amounts[2][AMOUNT_MAX];
	struct thp_memory *memory = data;
	struct condition_reading *condition = proposal_condition(proposal, conditions,
		usage->anon + usage->shmem > 0 ? REASON_WANTED_IN_USE : REASON_NONE_IN_USE);
	uint64_t unwanted = unwanted_kb(thp, usage), now = input->now_us;
	bool on = switched_on(thp);

	if (input->mode == MODE_ENFORCE)
		proposal_lacks(proposal, thp->write_why);
	for (unsigned i = 0; i < thp->n_switches; i++) {
		enum thp_switch_kind kind = thp->switches[i].kind;
		struct want *want = proposal_value(proposal);

		*want = thp->switches[i].want;
		copy_text(want->wanted, SETTING_VALUE_MAX, thp->wanted[kind]);
		want->requested = thp->requested[kind];
		want->reason = want->wanted[0] == '\0' ? REASON_KEPT
			       : thp->at_boot[kind]    ? REASON_CONFIGURED_OVER_BOOT_LINE
						       : REASON_CONFIGURED;
	}
	if (thp->usage_error < 0) {
		condition_unknown(condition, REASON_MEMINFO_UNAVAILABLE);
		condition_append(condition, "/proc/meminfo: %s", strerror(-thp->usage_error));
		return;
	}
	if (memory->off && !on && unwanted > unwanted_kb(thp, &memory->usage))
		memory->grown_at_us = now;
	memory->off = !on;
	memory->usage = *usage;
	condition_append(condition, "AnonHugePages %s, ShmemHugePages %s",
		amount_text(1024 * (double)usage->anon, "memory", amounts[0]),
		amount_text(1024 * (double)usage->shmem, "memory", amounts[1]));
	if (usage->file > 0)
		condition_append(condition, ", FileHugePages %s (large folios of file systems)",
			amount_text(1024 * (double)usage->file, "memory", amounts[0]));
	if (thp->boot_line[0])
		condition_append(condition, "; kernel command line: %s", thp->boot_line);
	if (unwanted > 0) {
		bool growing =
			memory->grown_at_us > 0 && now - memory->grown_at_us < GROWTH_WINDOW_US;

		condition->status = CONDITION_TRUE;
		condition->milder = on || !growing || input->mode != MODE_ENFORCE;
		condition->reason = on        ? REASON_STILL_SWITCHED_ON
				    : growing ? REASON_GROWING_THOUGH_OFF
					      : REASON_STILL_MAPPED;
	}
}

const struct tuner_tables thp_tables = {
	.summary =
		"Switches transparent huge pages of every size off and reports those still in use.",
	.entries = entries,
	.conditions = conditions,
};

const struct tuner_ops thp_tuner = {
	.name = "thp",
	.tables = &thp_tables,
	.open = thp_open,
	.configure = thp_configure,
	.sense = thp_sense,
	.memory_size = sizeof(struct thp_memory),
	.decide = thp_decide,
	.close = tuner_free,
};
