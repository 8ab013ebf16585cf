/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"
#include "tuners/thp/thp.h"

#include "base/text.h"

#include <dirent.h>

/* Growth is reported long enough for a dashboard and an alert to see it. */
#define GROWTH_WINDOW_US (300 * USEC_PER_SEC)

/* Advice begins after the first and ends after the second: a process may use huge pages on and off.
 */
#define ADVICE_BEGINS_US (60 * USEC_PER_SEC)
#define ADVICE_ENDS_US   (600 * USEC_PER_SEC)

#define USERS_EVERY_US (60 * USEC_PER_SEC)

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

#define VALUE(word, meaning) {(word), ENTRY_VALUE, (meaning), .source = TRANSHUGE}

static const struct help_entry entries[] = {
	{"thp.enabled", ENTRY_SETTING,
		"Whether anonymous memory gets huge pages: always, madvise (where a process asks "
		"for them) or never. Databases such as etcd and Redis see latency spikes with "
		"always; virtual machines, JVMs and MongoDB 8 ask for huge pages, and read memory "
		"more slowly with never. A write also makes the kernel compute vm.min_free_kbytes "
		"anew: it is higher while huge pages are on. So a value is written only if it "
		"differs.",
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
	VALUE("always",
		"All memory gets huge pages; in thp.defrag a page fault always waits for them."),
	VALUE("madvise", "Only memory for which a process asks with madvise(2) gets huge pages."),
	VALUE("never", "No memory gets huge pages."),
	VALUE("inherit", "A page size has the value of thp.enabled, or of thp.shmem_enabled."),
	VALUE("defer", "In thp.defrag: a page fault does not wait; kernel threads compact memory."),
	VALUE("defer+madvise", "In thp.defrag: as defer, but memory with madvise(2) waits."),
	VALUE("advise", "In thp.shmem_enabled: as madvise."),
	VALUE("within_size",
		"In thp.shmem_enabled: huge pages within the size of the file, and as madvise."),
	VALUE("deny", "In thp.shmem_enabled: never, for all mounts, for an emergency."),
	VALUE("force", "In thp.shmem_enabled: always, for all mounts, for a test."),
	{0},
};

static const struct condition_type conditions[] = {
	{"TransparentHugePagesActive", SEVERITY_WARNING,
		"Memory uses transparent huge pages although they should be off. Memory mapped "
		"before the switch keeps them until its process ends or restarts: this is advice, "
		"after a minute. While the amount grows although they are off, it is a warning. A "
		"tuner that observes reports neither: status says what it would change. Memory that "
		"had asked for huge pages with madvise and gets none by the default is advice.",
		REASON_LIST(REASON_NONE_IN_USE, REASON_STILL_MAPPED, REASON_STILL_SWITCHED_ON,
			REASON_GROWING_THOUGH_OFF, REASON_TAKES_HUGE_PAGES, REASON_WANTED_IN_USE,
			REASON_OBSERVE_MODE, REASON_MEMINFO_UNAVAILABLE)},
	{0},
};

static const struct {
	const char *file, *option;
	const char *boot;            /* the kernel parameter; NULL for none */
	enum thp_switch_kind leader; /* the switch that says whether huge pages are wanted at all */
	bool provides;               /* it alone can give out huge pages */
} kinds[THP_SWITCH_KINDS] = {
	[THP_ENABLED] = {"enabled", "thp.enabled", "transparent_hugepage=", THP_ENABLED, true},
	[THP_DEFRAG] = {"defrag", "thp.defrag", NULL, THP_ENABLED, false},
	[THP_SHMEM_ENABLED] = {"shmem_enabled", "thp.shmem",
		"transparent_hugepage_shmem=", THP_SHMEM_ENABLED, true},
	[THP_KHUGEPAGED_DEFRAG] = {"khugepaged/defrag", "thp.khugepaged_defrag", NULL, THP_ENABLED,
		false},
	[THP_SIZE_ENABLED] = {"enabled", "thp.sizes", "thp_anon=", THP_ENABLED, true},
	[THP_SIZE_SHMEM_ENABLED] = {"shmem_enabled", "thp.sizes", "thp_shmem=", THP_SHMEM_ENABLED,
		true},
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

static void *thp_open(const struct host *host, struct facts *facts, struct sd_event *)
{
	_cleanup_free_ char *line = NULL;
	struct thp *thp = must(calloc(1, sizeof(*thp)));
	char full[PATH_MAX], directory[NAME_MAX + 2];
	struct dirent **sizes = NULL;
	int r, n = scandir(host_path(host, THP_DIRECTORY, full), &sizes, NULL, versionsort);

	thp->host = host;
	thp->names = &facts->names;
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

/* Reads whether a profile of TuneD sets thp.enabled. One that TuneD chose is no choice. */
static void find_profile(struct thp *thp)
{
	static const char *const keys[] = {"transparent_hugepages", "transparent_hugepage"};
	char value[SETTING_VALUE_MAX];
	bool found = false;

	for (size_t i = 0; !found && i < ARRAY_SIZE(keys); i++)
		found = host_find_tuned(thp->host, "vm", keys[i], value, thp->tuned);
	if (!found || !host_tuned_is_chosen(thp->host))
		thp->tuned[0] = '\0';
}

static void thp_configure(void *self, const struct config *config)
{
	struct thp *thp = self;

	find_profile(thp);
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
		thp->chosen[kind] = config_is_chosen(config, kinds[kind].option);
		thp->reason[kind] = config_reason(config, kinds[kind].option);
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

static bool is_off(const char *value)
{
	return streq(value, "never") || streq(value, "deny");
}

static uint64_t huge_kb(const struct thp_usage *usage)
{
	return usage->anon + usage->shmem;
}

/* Returns whether the kernel command line or TuneD sets a switch. */
static bool is_set_elsewhere(const struct thp *thp, enum thp_switch_kind kind)
{
	return thp->at_boot[kind] || (kind == THP_ENABLED && thp->tuned[0]);
}

/* Returns whether the default is about to take huge pages from programs that asked for them. */
static bool takes_pages(const struct thp *thp)
{
	const struct want *enabled = thp->n_switches > 0 ? &thp->switches[0].want : NULL;

	return enabled && streq(enabled->actual, "madvise") && !thp->chosen[THP_ENABLED] &&
	       !is_set_elsewhere(thp, THP_ENABLED) && huge_kb(&thp->usage) > 0;
}

static void thp_sense(void *self, uint64_t now)
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
	if (thp->usage_error == 0 && takes_pages(thp) &&
		(thp->users_at_us == 0 || now - thp->users_at_us >= USERS_EVERY_US)) {
		thp_find_users(thp->host, &thp->users);
		thp->users_at_us = now;
	}
}

/* ---- the choice of values ---- */

/* Returns what the administrator has set. */
static const char *node_value(const struct decide_input *input, const struct want *want)
{
	return value_of_node(find_named(input->values, input->n_values, want->name), want->actual);
}

/* Returns whether huge pages of this kind are to be off. */
static bool is_unwanted(
	const struct thp *thp, const struct decide_input *input, enum thp_switch_kind leader)
{
	if (!thp->chosen[leader] && is_set_elsewhere(thp, leader))
		for (unsigned i = 0; i < thp->n_switches; i++)
			if (thp->switches[i].kind == leader)
				return is_off(node_value(input, &thp->switches[i].want));
	return is_off(thp->wanted[leader]);
}

/* Sets the value and the reason of a want that has the name and the present value. */
static void choose_value(const struct thp *thp, const struct decide_input *input,
	enum thp_switch_kind kind, struct want *want)
{
	enum thp_switch_kind leader = kinds[kind].leader;
	char node[SETTING_VALUE_MAX];
	struct choice choice = {.ours = thp->wanted[kind],
		.reason = thp->reason[kind],
		.configured = thp->chosen[kind],
		.exact = true,
		.node = node,
		.chosen = thp->at_boot[kind]            ? REASON_CHOSEN_AT_BOOT
			  : is_set_elsewhere(thp, kind) ? REASON_CHOSEN_ON_NODE
			  : kind != leader && !is_unwanted(thp, input, leader)
				  ? REASON_HUGE_PAGES_KEPT
				  : REASON_NONE};

	copy_text(node, SETTING_VALUE_MAX, node_value(input, want));
	want->reason = value_choose(&choice, want->wanted);
	if (want->reason == REASON_CHOSEN_AT_BOOT)
		set_text(want->why, thp->boot_line);
	else if (want->reason == REASON_CHOSEN_ON_NODE)
		set_text(want->why, thp->tuned);
	if (!want->wanted[0])
		want->reason = REASON_KEPT;
	else if (thp->at_boot[kind] && thp->chosen[kind] && !value_equal(want->wanted, node))
		want->reason = REASON_CONFIGURED_OVER_BOOT_LINE;
}

/* Returns the huge pages that are to be off. */
static uint64_t unwanted_kb(
	const struct thp *thp, const struct decide_input *input, const struct thp_usage *usage)
{
	return (is_unwanted(thp, input, THP_ENABLED) ? usage->anon : 0) +
	       (is_unwanted(thp, input, THP_SHMEM_ENABLED) ? usage->shmem : 0);
}

/* Returns a switch with which the kernel provides huge pages that are to be off. */
static const struct want *find_switched_on(const struct thp *thp, const struct decide_input *input)
{
	for (unsigned i = 0; i < thp->n_switches; i++) {
		const struct want *want = &thp->switches[i].want;
		enum thp_switch_kind kind = thp->switches[i].kind;

		if (kinds[kind].provides && is_unwanted(thp, input, kinds[kind].leader) &&
			want->actual[0] && !is_off(want->actual) && !streq(want->actual, "inherit"))
			return want;
	}
	return NULL;
}

/* ---- findings ---- */

static void describe(const struct thp *thp, char text[static CONDITION_MESSAGE_MAX])
{
	const struct thp_usage *usage = &thp->usage;
	char amounts[2][AMOUNT_MAX];

	snprintf(text, CONDITION_MESSAGE_MAX, "AnonHugePages %s, ShmemHugePages %s",
		amount_text(1024 * (double)usage->anon, "memory", amounts[0]),
		amount_text(1024 * (double)usage->shmem, "memory", amounts[1]));
	if (usage->file > 0)
		text_append(text, CONDITION_MESSAGE_MAX,
			", FileHugePages %s (large folios of file systems)",
			amount_text(1024 * (double)usage->file, "memory", amounts[0]));
	if (thp->boot_line[0])
		text_append(
			text, CONDITION_MESSAGE_MAX, "; kernel command line: %s", thp->boot_line);
}

/* Returns how a state of advice is at this poll, and keeps since when it lasts. */
static enum finding_phase judge_advice(bool is, uint64_t now, uint64_t *since_us)
{
	if (!is) {
		*since_us = 0;
		return FINDING_OVER;
	}
	if (*since_us == 0)
		*since_us = now;
	return now - *since_us >= ADVICE_BEGINS_US ? FINDING_HAPPENS : FINDING_LASTS;
}

static struct finding *find(struct proposal *proposal, const struct decide_input *input,
	enum reason reason, const char *setting, enum finding_phase phase, const char *text)
{
	struct instance instance = {.kind = INSTANCE_SETTING};
	struct finding *finding;

	set_text(instance.name, setting);
	finding = proposal_finding(proposal, input, conditions, reason, NULL, &instance, phase);
	if (!finding)
		return NULL;
	finding->severity = SEVERITY_ADVICE;
	finding->hold_us = ADVICE_ENDS_US;
	finding->breaks = "databases such as etcd and Redis see latency spikes";
	finding_message(finding, "%s", text);
	finding_hint(finding,
		"grep AnonHugePages /proc/*/smaps_rollup shows the processes that use them");
	return finding;
}

/* Writes the configuration that keeps the huge pages. */
static void keep_line(const struct thp_loss *loss, char line[static 64])
{
	bool both = loss->usage.anon > 0 && loss->usage.shmem > 0;

	snprintf(line, 64, "thp: {%s%s%s}", loss->usage.anon > 0 ? "enabled: madvise" : "",
		both ? ", " : "", loss->usage.shmem > 0 ? "shmem: advise" : "");
}

/* Writes what the change takes from whom, for plan and apply. */
static void describe_cost(const struct thp *thp, const struct thp_loss *loss, const char *line,
	struct thp_memory *memory)
{
	const size_t size = sizeof(memory->cost);
	char amount[AMOUNT_MAX], who[WORKLOAD_TEXT_MAX];

	snprintf(memory->cost, size,
		"%s of memory that asked for huge pages (madvise) gets no more of them",
		amount_text(1024 * (double)huge_kb(&loss->usage), "memory", amount));
	for (size_t i = 0; i < loss->users.n; i++) {
		struct workload workload = loss->users.users[i].workload;

		names_apply(thp->names, &workload);
		workload_describe(&workload, who, sizeof(who));
		text_append(memory->cost, size, "%s%s %s", i == 0 ? ": " : ", ", who,
			amount_text((double)loss->users.users[i].used, "memory", amount));
	}
	text_append(memory->cost, size, "; %s keeps them", line);
}

/*
 * Under madvise, programs have asked for the huge pages in use. The default takes them, but not
 * without a word: the amount is remembered until the next boot, because it cannot be seen once the
 * switch is off. A configured value, or huge pages that are on again, end that.
 */
static void find_taken(const struct thp *thp, const struct decide_input *input,
	struct thp_memory *memory, struct proposal *proposal)
{
	bool takes = takes_pages(thp) && input->mode != MODE_RELEASED;
	bool enforces = input->mode == MODE_ENFORCE;
	bool is_taken = is_off(thp->switches[0].want.actual) && !thp->chosen[THP_ENABLED];
	const struct thp_loss now = {thp->usage, thp->users};
	const struct thp_loss *loss = takes && !enforces ? &now : &memory->loss;
	struct instance instance = {.kind = INSTANCE_SETTING, .name = "thp.enabled"};
	char amount[AMOUNT_MAX], line[64];
	struct finding *finding;
	enum finding_phase phase;

	if (takes && enforces && huge_kb(&now.usage) > huge_kb(&memory->loss.usage))
		memory->loss = now;
	else if (!takes && !is_taken)
		memory->loss = (struct thp_loss){0};
	keep_line(loss, line);
	memory->cost[0] = '\0';
	if (takes)
		describe_cost(thp, loss, line, memory);
	phase = judge_advice(takes && !enforces, input->now_us, &memory->asked_since_us);
	if (huge_kb(&memory->loss.usage) > 0)
		phase = FINDING_HAPPENS;
	finding = proposal_finding(
		proposal, input, conditions, REASON_TAKES_HUGE_PAGES, NULL, &instance, phase);
	if (!finding)
		return;
	finding->severity = SEVERITY_ADVICE;
	finding->hold_us = enforces ? 0 : ADVICE_ENDS_US;
	finding->breaks = "programs that asked for huge pages, such as virtual machines, JVMs and "
			  "databases, read memory more slowly";
	for (size_t i = 0; i < loss->users.n; i++) {
		struct limit_user user = loss->users.users[i];

		names_apply(thp->names, &user.workload);
		finding_user_add(finding, &user);
	}
	finding_message(finding, "%s of memory asked for huge pages with madvise, and %s",
		amount_text(1024 * (double)huge_kb(&loss->usage), "memory", amount),
		is_taken ? "gets none: thp.enabled is never since then"
			 : "will get no more of them: the default of thp.enabled is never");
	/* It keeps what the node has: no tuner has to write for that. */
	finding_keep(finding, input, "", "%s", line);
}

/* A tuner that observes leaves the switches as they are, which status says. */
static void find_unwanted(const struct thp *thp, const struct decide_input *input,
	struct thp_memory *memory, const char *text, struct proposal *proposal)
{
	const struct want *on = find_switched_on(thp, input);
	uint64_t unwanted = unwanted_kb(thp, input, &thp->usage), now = input->now_us;
	bool enforces = input->mode == MODE_ENFORCE;
	bool grows = memory->off && !on && unwanted > unwanted_kb(thp, input, &memory->usage);
	const char *mapped = is_unwanted(thp, input, THP_ENABLED) && thp->usage.anon > 0
				     ? "thp.enabled"
				     : "thp.shmem_enabled";
	enum finding_phase phase;
	struct finding *finding;

	if (grows && enforces)
		memory->grown_at_us = now;
	memory->off = !on;
	memory->usage = thp->usage;
	phase = judge_advice(enforces && unwanted > 0 && on, now, &memory->on_since_us);
	finding = find(proposal, input, REASON_STILL_SWITCHED_ON, on ? on->name : "thp.enabled",
		phase, text);
	if (finding)
		finding_now(finding, "headroom apply --only thp");
	phase = judge_advice(enforces && unwanted > 0 && !on, now, &memory->mapped_since_us);
	/* Growth is the more exact word. */
	if (memory->grown_at_us > 0 && now - memory->grown_at_us < GROWTH_WINDOW_US)
		phase = MIN(phase, FINDING_LASTS);
	/* Another finding is about huge pages that programs asked for and lost. */
	if (huge_kb(&memory->loss.usage) > 0)
		phase = FINDING_OVER;
	find(proposal, input, REASON_STILL_MAPPED, mapped, phase, text);
	finding = find(proposal, input, REASON_GROWING_THOUGH_OFF, mapped,
		grows && enforces ? FINDING_HAPPENS : FINDING_OVER, text);
	if (!finding)
		return;
	finding->severity = SEVERITY_WARNING;
	finding->hold_us = GROWTH_WINDOW_US;
}

static void thp_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct thp *thp = self;
	const struct thp_usage *usage = &thp->usage;
	struct thp_memory *memory = data;
	struct condition_reading *condition = proposal_condition(proposal, conditions,
		huge_kb(usage) > 0 ? REASON_WANTED_IN_USE : REASON_NONE_IN_USE);
	char text[CONDITION_MESSAGE_MAX];

	if (input->mode == MODE_ENFORCE)
		proposal_lack(proposal, LACK_WRITE, thp->write_why);
	if (thp->usage_error == 0 && thp->n_switches > 0)
		find_taken(thp, input, memory, proposal);
	for (unsigned i = 0; i < thp->n_switches; i++) {
		enum thp_switch_kind kind = thp->switches[i].kind;
		struct want *want = proposal_value(proposal);

		*want = thp->switches[i].want;
		choose_value(thp, input, kind, want);
		/* A switch that is missing is off. */
		want->requested =
			thp->requested[kind] && !(want->error == -ENOENT && is_off(want->wanted));
		if (kind == THP_ENABLED && memory->cost[0])
			want->cost = memory->cost;
	}
	if (thp->usage_error < 0) {
		condition_unknown(condition, REASON_MEMINFO_UNAVAILABLE);
		condition_append(condition, "/proc/meminfo: %s", strerror(-thp->usage_error));
		return;
	}
	describe(thp, text);
	condition_append(condition, "%s", text);
	if (unwanted_kb(thp, input, usage) > 0)
		condition->reason = input->mode != MODE_ENFORCE    ? REASON_OBSERVE_MODE
				    : find_switched_on(thp, input) ? REASON_STILL_SWITCHED_ON
								   : REASON_STILL_MAPPED;
	find_unwanted(thp, input, memory, text, proposal);
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
	.kept_size = sizeof(struct thp_loss),
	.decide = thp_decide,
	.close = tuner_free,
};
