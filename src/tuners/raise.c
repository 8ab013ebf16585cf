/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/raise.h"

#include "base/text.h"

/* A tracked connection takes about 320 bytes; the table gets at most 1 % of the memory. */
#define CONNECTION_BYTES    320
#define CONNECTIONS_MEMORY  100
#define CONNECTIONS_MAX     UINT64_C(1048576)
#define CONNECTIONS_A_CHAIN 4

/* The kernel rounds the number of chains up to whole pages. */
#define CHAINS_A_PAGE 512

const struct raise raises[RAISES + 1] = {
	{"net.netfilter.nf_conntrack_buckets", "conntrack", 0},
	{"net.netfilter.nf_conntrack_max", "conntrack", 0},
	{"fs.inotify.max_user_instances", "inotify", 8192},
	{"fs.inotify.max_user_watches", "inotify", 524288},
	{"kernel.pid_max", "pids", 4194304},
	{"vm.max_map_count", "maps", 1048576},
	{"kernel.keys.maxkeys", "keys", 2000},
	{"kernel.keys.maxbytes", "keys", 200000},
	{"net.core.somaxconn", "somaxconn", 4096},
	{0},
};

uint64_t raise_value(const struct raise *raise)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t most = MIN(memory / CONNECTIONS_MEMORY / CONNECTION_BYTES, CONNECTIONS_MAX);
	uint64_t pages = MAX(most / CONNECTIONS_A_CHAIN / CHAINS_A_PAGE, (uint64_t)1);
	uint64_t chains = pages * CHAINS_A_PAGE;

	return raise->value ? raise->value
	       : streq(raise->name, "net.netfilter.nf_conntrack_buckets")
		       ? chains
		       : chains * CONNECTIONS_A_CHAIN;
}

const char *sysctl_bounds(const char *name, size_t i)
{
	static const struct {
		const char *sysctl, *limit;
	} rows[] = {
		{"net.netfilter.nf_conntrack_max", "conntrack"},
		{"net.netfilter.nf_conntrack_max", "conntrack/namespace"},
		{"net.ipv4.neigh.default.gc_thresh3", "neighbor/ipv4"},
		{"net.ipv6.neigh.default.gc_thresh3", "neighbor/ipv6"},
		{"net.ipv4.tcp_mem", "tcp-memory"},
		{"net.ipv4.udp_mem", "udp-memory"},
		{"fs.file-max", "file-handles"},
		{"fs.nr_open", "files/process"},
		{"fs.mount-max", "mounts"},
		{"fs.aio-max-nr", "aio"},
		{"fs.inotify.max_user_instances", "inotify/instances"},
		{"fs.inotify.max_user_watches", "inotify/watches"},
		{"kernel.pid_max", "pids"},
		{"kernel.threads-max", "pids"},
		{"kernel.pty.max", "ptys"},
		{"kernel.keys.maxkeys", "keys"},
		{"kernel.keys.root_maxkeys", "keys"},
		{"kernel.keys.maxbytes", "keys/bytes"},
		{"kernel.keys.root_maxbytes", "keys/bytes"},
		{"vm.max_map_count", "maps/process"},
	};

	for (size_t row = 0; row < ARRAY_SIZE(rows); row++)
		if (streq(rows[row].sysctl, name) && i-- == 0)
			return rows[row].limit;
	return NULL;
}

bool raise_is_chosen(const struct config *config, const char *choice)
{
	for (size_t k = 0; k < config_list(config, "limits.raise"); k++)
		if (streq(config_item(config, "limits.raise", k, ""), choice))
			return true;
	return false;
}

/* ---- cures ---- */

/* Returns whether the choice gives each of these values or more. */
static bool gives_enough(const char *choice, const struct sysctl_value *values)
{
	for (; values->name; values++) {
		const struct raise *raise = raises;

		while (raise->name &&
			!(streq(raise->choice, choice) && streq(raise->name, values->name)))
			raise++;
		if (!raise->name || raise_value(raise) < values->value)
			return false;
	}
	return true;
}

/* A list in another file replaces the list: the cure is the whole list, where it stands. */
static void keep_choice(
	struct finding *finding, const struct decide_input *input, const char *choice)
{
	struct config_position where = config_where(input->config, "limits.raise");
	char list[256] = "";

	for (size_t i = 0; i < config_list(input->config, "limits.raise"); i++)
		text_append(list, sizeof(list), "%s, ",
			config_item(input->config, "limits.raise", i, ""));
	finding_keep(finding, input, "sysctl", "limits: {raise: [%s%s]}", list, choice);
	if (config_is_given(input->config, "limits.raise") && where.line > 0)
		finding_keep_in(finding, input, where.file);
}

static void keep_values(struct finding *finding, const struct decide_input *input,
	const struct sysctl_value *values)
{
	const struct config_sysctl *configured, *found = NULL;
	char list[512] = "";
	size_t n = 0;

	configured = input->config ? config_sysctls(input->config, &n) : NULL;
	for (; values->name; values++) {
		const struct config_sysctl *own =
			n > 0 ? find_named(configured, n, values->name) : NULL;
		bool exact = own && own->exact;

		text_append(list, sizeof(list), "%s%s: %s%" PRIu64 "%s", list[0] ? ", " : "",
			values->name, exact ? "{value: " : "", values->value,
			exact ? ", exact: true}" : "");
		if (own && own->position.line > 0)
			found = own;
	}
	finding_keep(finding, input, "sysctl", "sysctl: {%s}", list);
	if (found)
		finding_keep_in(finding, input, found->position.file);
}

/* Returns the first of these keys that the configuration sets exactly, or NULL. */
static const char *find_exact(const struct decide_input *input, const struct sysctl_value *values)
{
	size_t n = 0;
	const struct config_sysctl *configured =
		input->config ? config_sysctls(input->config, &n) : NULL;

	for (; values->name; values++) {
		const struct config_sysctl *own =
			n > 0 ? find_named(configured, n, values->name) : NULL;

		if (own && own->exact)
			return values->name;
	}
	return NULL;
}

void cure_with_sysctls(struct finding *finding, const struct decide_input *input,
	const char *choice, const struct sysctl_value *values)
{
	const char *exact = find_exact(input, values);
	char list[512] = "";

	for (const struct sysctl_value *value = values; value->name; value++)
		text_append(list, sizeof(list), " %s=%" PRIu64, value->name, value->value);
	if (exact && finding_held_by(input, "sysctl") == 0)
		finding_hint(finding,
			"the configuration sets %s exactly: a value that is typed does not stay",
			exact);
	else
		finding_now(finding, "sysctl -w%s", list);
	/* limits.raise leaves an exact value alone. */
	if (input->config && choice && !exact && !raise_is_chosen(input->config, choice) &&
		gives_enough(choice, values))
		keep_choice(finding, input, choice);
	else
		keep_values(finding, input, values);
}
