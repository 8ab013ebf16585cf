/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/raise.h"
#include "tuners/sysctl/sysctl.h"
#include "tuners/table.h"

#include <linux/capability.h>

const struct config_option sysctl_options[] = {
	{"sysctl", OPTION_SYSCTLS,
		.help = "Sysctls and their values, in addition to the profile's. A value is "
			"only raised; {value: V, exact: true} sets it exactly; null removes a key "
			"of the profile."},
	MODE_OPTION("sysctl"),
	{0},
};

/* Sysctls that can be written only with a certain capability. */
static const struct capability_row capabilities[] = {
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "kernel.dmesg_restrict",
		"kernel/printk/sysctl.c"},
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "kernel.kptr_restrict",
		"kernel/printk/sysctl.c"},
	{CAPABILITY(CAP_SYS_MODULE), CAPABILITY_TO_SET, "kernel.modules_disabled",
		"kernel/module/main.c"},
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "kernel.unprivileged_bpf_disabled",
		"kernel/bpf/syscall.c"},
	{CAPABILITY(CAP_SYS_PTRACE), CAPABILITY_TO_SET, "kernel.yama.", "security/yama/yama_lsm.c"},
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "net.core.bpf_jit_",
		"net/core/sysctl_net_core.c"},
	{CAPABILITY(CAP_SYS_RESOURCE), CAPABILITY_TO_SET, "user.", "kernel/ucount.c"},
	{CAPABILITY(CAP_SYS_RAWIO), CAPABILITY_TO_SET, "vm.mmap_min_addr", "security/min_addr.c"},
	{0},
};

static void *sysctl_open(const struct host *host, struct facts *, struct sd_event *)
{
	/* Every kernel has it, and root can write it unless /proc/sys is mounted read-only. */
	static const char probe[] = "/proc/sys/vm/max_map_count";
	struct sysctl *sysctl = must(calloc(1, sizeof(*sysctl)));
	int r;

	sysctl->host = host;
	r = host_may_write(host, probe);
	if (r < 0)
		snprintf(sysctl->write_why, TUNER_WHY_MAX,
			"%s: %s: run as root with a writable /proc/sys", probe, strerror(-r));
	return sysctl;
}

/* What is to be known of a sysctl besides its number. */
static const struct sysctl_row {
	const char *name;
	const char *kernel; /* its default: less was chosen, and a default of ours leaves it */
	const struct meaning *meanings;
} *find_row(const char *name)
{
	static const struct meaning zero[] = {{"0", NO_BOUND}, {0}};
	static const struct meaning minus[] = {{"-1", NO_BOUND}, {0}};
	static const struct sysctl_row rows[] = {
		{"fs.inotify.max_user_instances", "128", NULL},
		{"fs.inotify.max_user_watches", "8192", NULL}, /* the least; from 5.11 by memory */
		{"kernel.keys.maxbytes", "20000", NULL}, {"kernel.keys.maxkeys", "200", NULL},
		{"kernel.pid_max", "32768", NULL}, /* the least; by the number of CPUs */
		{"vm.max_map_count", "65530", NULL},
		{"fs.pipe-user-pages-soft", NULL, zero}, /* admin-guide/sysctl/fs.rst */
		{"fs.pipe-user-pages-hard", NULL, zero},
		{"kernel.sched_rt_runtime_us", NULL, minus},      /* scheduler/sched-rt-group.rst */
		{"kernel.perf_cpu_time_max_percent", NULL, zero}, /* kernel.rst: no check */
	};
	static const struct sysctl_row others;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (streq(rows[i].name, name))
			return &rows[i];
	return &others;
}

static bool is_below_kernel(const struct sysctl_row *row, const char *value)
{
	int order;

	return row->kernel && value_compare(row->meanings, value, row->kernel, &order) == 0 &&
	       order < 0;
}

/* ---- limits.raise and storage.bound_writeback ---- */

static void init_key(struct sysctl_key *key, const char *name, const char *value)
{
	copy_text(key->want.name, SETTING_NAME_MAX, name);
	copy_text(key->want.wanted, SETTING_VALUE_MAX, value);
	key->want.target.kind = VALUE_FILE;
	sysctl_path(key->want.name, key->want.target.path);
}

/* Adds a key with an exact value. NULL: it is configured. */
static struct want *add_exact(struct sysctl *sysctl, const char *name, const char *value)
{
	struct sysctl_key *key = &sysctl->keys[sysctl->n];

	if (find_named(sysctl->keys, sysctl->n, name))
		return NULL;
	sysctl->n++;
	init_key(key, name, value);
	key->want.requested = key->configured = key->exact = true;
	return &key->want;
}

/*
 * The kernel sets a ratio to 0 when its bytes are set, and refuses 0 as bytes. So the ratio is
 * recorded, too: its original restores both.
 */
static const char *const writeback[][3] = {
	{"vm.dirty_background_bytes", "8388608", "vm.dirty_background_ratio"},
	{"vm.dirty_bytes", "16777216", "vm.dirty_ratio"},
};

static void add_writeback(struct sysctl *sysctl, const struct config *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(writeback); i++) {
		struct want *want = NULL;

		if (config_bool(config, "storage.bound_writeback"))
			want = add_exact(sysctl, writeback[i][0], writeback[i][1]);
		if (want)
			want->reason = REASON_BOUNDED_WRITEBACK;
		want = find_named(sysctl->keys, sysctl->n, writeback[i][0])
			       ? add_exact(sysctl, writeback[i][2], "0")
			       : NULL;
		if (want)
			want->reason = REASON_BYTES_INSTEAD;
	}
}

/* Adds the keys of limits.raise. Raises a key that the section sysctl has too. keys has room. */
static void add_raises(struct sysctl *sysctl, const struct config *config)
{
	for (const struct raise *raise = raises; raise->name; raise++) {
		struct sysctl_key *key = find_named(sysctl->keys, sysctl->n, raise->name);
		char value[SETTING_VALUE_MAX], larger[SETTING_VALUE_MAX];

		if (!raise_is_chosen(config, raise->choice) || (key && key->exact))
			continue;
		snprintf(value, sizeof(value), "%" PRIu64, raise_value(raise));
		if (!key) {
			key = &sysctl->keys[sysctl->n++];
			init_key(key, raise->name, value);
		} else if (value_max(find_row(raise->name)->meanings, key->want.wanted, value,
				   larger) < 0 ||
			   value_equal(larger, key->want.wanted)) {
			continue;
		}
		copy_text(key->want.wanted, SETTING_VALUE_MAX, value);
		key->want.reason = REASON_RAISED_LIMIT;
		key->want.requested = key->configured = true;
	}
}

/* ---- the tuner ---- */

static void sysctl_configure(void *self, const struct config *config)
{
	struct sysctl *sysctl = self;
	size_t n;
	const struct config_sysctl *wanted = config_sysctls(config, &n);

	free(sysctl->keys);
	sysctl->keys = must(calloc(n + RAISES + 2 * ARRAY_SIZE(writeback), sizeof(*sysctl->keys)));
	for (size_t i = 0; i < n; i++) {
		struct sysctl_key *key = &sysctl->keys[i];

		init_key(key, wanted[i].name, wanted[i].value);
		key->want.requested = wanted[i].position.line > 0;
		key->want.reason = key->want.requested ? REASON_CONFIGURED : REASON_PROFILE;
		key->configured = key->want.requested || config_is_given(config, "profile");
		key->exact = wanted[i].exact;
	}
	sysctl->n = n;
	add_writeback(sysctl, config);
	add_raises(sysctl, config);
}

static void sysctl_sense(void *self, uint64_t)
{
	struct sysctl *sysctl = self;

	for (size_t i = 0; i < sysctl->n; i++) {
		struct want *want = &sysctl->keys[i].want;

		want->error = host_read_value(sysctl->host, want->target.path, want->actual);
		if (want->error < 0 || streq(sysctl->keys[i].looked_up, want->actual))
			continue;
		set_text(sysctl->keys[i].looked_up, want->actual);
		want->why[0] = '\0';
		if (is_below_kernel(find_row(want->name), want->actual))
			(void)host_find_sysctl(sysctl->host, want->name, want->actual, want->why);
	}
}

/* Unless exact, a field gets the larger of the configured and the administrator's value. */
static void sysctl_decide(
	const void *self, const struct decide_input *input, void *, struct proposal *proposal)
{
	const struct sysctl *sysctl = self;

	if (sysctl->n > 0 && input->mode == MODE_ENFORCE)
		proposal_lack(proposal, LACK_WRITE, sysctl->write_why);
	for (size_t i = 0; i < sysctl->n; i++) {
		const struct want *configured = &sysctl->keys[i].want;
		struct want *want = proposal_value(proposal);
		const struct sysctl_row *row = find_row(configured->name);
		const struct value_record *record =
			find_named(input->values, input->n_values, configured->name);
		const char *node = value_of_node(record, configured->actual);
		char floor[SETTING_VALUE_MAX];
		struct choice choice = {.ours = configured->wanted,
			.reason = configured->reason,
			.configured = sysctl->keys[i].configured,
			.exact = sysctl->keys[i].exact,
			.meanings = row->meanings};

		*want = *configured;
		if (want->error < 0)
			continue;
		if (is_below_kernel(row, node))
			choice.chosen = REASON_CHOSEN_ON_NODE;
		value_floor(row->meanings, record, want->actual, floor);
		choice.node = choice.chosen && !choice.configured ? node : floor;
		want->reason = value_choose(&choice, want->wanted);
		if (!value_equal(want->wanted, configured->wanted))
			copy_text(want->configured, SETTING_VALUE_MAX, configured->wanted);
	}
}

static void sysctl_close(void *self, void *)
{
	struct sysctl *sysctl = self;

	free(sysctl->keys);
	free(sysctl);
}

const struct tuner_tables sysctl_tables = {
	.summary = "Raises the sysctls of the profile, of the configuration and of limits.raise.",
	.capabilities = capabilities,
};

const struct tuner_ops sysctl_tuner = {
	.name = "sysctl",
	.tables = &sysctl_tables,
	.open = sysctl_open,
	.configure = sysctl_configure,
	.sense = sysctl_sense,
	.decide = sysctl_decide,
	.close = sysctl_close,
};
