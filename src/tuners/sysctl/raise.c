/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/sysctl/sysctl.h"

#include "config/config.h"

/* A tracked connection takes about 320 bytes; the table gets at most 1 % of the memory. */
#define CONNECTION_BYTES    320
#define CONNECTIONS_MEMORY  100
#define CONNECTIONS_MAX     UINT64_C(1048576)
#define CONNECTIONS_A_CHAIN 4

/* The kernel rounds the number of chains up to whole pages. */
#define CHAINS_A_PAGE 512

/* The sysctls of limits.raise. The value NULL depends on the memory. */
static const struct {
	const char *choice, *name, *value;
} raises[] = {
	{"conntrack", "net.netfilter.nf_conntrack_buckets", NULL},
	{"conntrack", "net.netfilter.nf_conntrack_max", NULL},
	{"inotify", "fs.inotify.max_user_instances", "8192"},
	{"inotify", "fs.inotify.max_user_watches", "524288"},
	{"pids", "kernel.pid_max", "4194304"},
	{"maps", "vm.max_map_count", "1048576"},
	{"keys", "kernel.keys.maxkeys", "2000"},
	{"keys", "kernel.keys.maxbytes", "200000"},
	{"somaxconn", "net.core.somaxconn", "4096"},
};

_Static_assert(ARRAY_SIZE(raises) <= SYSCTL_RAISES_MAX, "room for all");

static void write_value(size_t i, char value[static SETTING_VALUE_MAX])
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t most = MIN(memory / CONNECTIONS_MEMORY / CONNECTION_BYTES, CONNECTIONS_MAX);
	uint64_t pages = MAX(most / CONNECTIONS_A_CHAIN / CHAINS_A_PAGE, (uint64_t)1);
	uint64_t chains = pages * CHAINS_A_PAGE;

	if (raises[i].value)
		copy_text(value, SETTING_VALUE_MAX, raises[i].value);
	else
		snprintf(value, SETTING_VALUE_MAX, "%" PRIu64,
			strstr(raises[i].name, "buckets") ? chains : chains * CONNECTIONS_A_CHAIN);
}

static bool is_chosen(const struct config *config, const char *choice)
{
	for (size_t k = 0; k < config_list(config, "limits.raise"); k++)
		if (streq(config_item(config, "limits.raise", k, ""), choice))
			return true;
	return false;
}

/* Adds a key with an exact value. NULL: it is configured. */
static struct want *add_exact(struct sysctl *sysctl, const char *name, const char *value)
{
	struct sysctl_key *key = &sysctl->keys[sysctl->n];

	if (find_named(sysctl->keys, sysctl->n, name))
		return NULL;
	sysctl->n++;
	sysctl_key_init(key, name, value);
	key->want.requested = key->exact = true;
	return &key->want;
}

/*
 * The kernel sets a ratio to 0 when its bytes are set, and refuses 0 as bytes. So the ratio is
 * recorded, too: its original restores both.
 */
static void add_writeback(struct sysctl *sysctl, const struct config *config)
{
	static const char *const keys[][3] = {
		{"vm.dirty_background_bytes", "8388608", "vm.dirty_background_ratio"},
		{"vm.dirty_bytes", "16777216", "vm.dirty_ratio"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct want *want = NULL;

		if (config_bool(config, "storage.bound_writeback"))
			want = add_exact(sysctl, keys[i][0], keys[i][1]);
		if (want)
			want->reason = "bounded-writeback";
		want = find_named(sysctl->keys, sysctl->n, keys[i][0])
			       ? add_exact(sysctl, keys[i][2], "0")
			       : NULL;
		if (want)
			want->reason = "bytes-instead";
	}
}

void sysctl_add_raises(struct sysctl *sysctl, const struct config *config)
{
	add_writeback(sysctl, config);
	for (size_t i = 0; i < ARRAY_SIZE(raises); i++) {
		struct sysctl_key *key = find_named(sysctl->keys, sysctl->n, raises[i].name);
		char value[SETTING_VALUE_MAX], larger[SETTING_VALUE_MAX];

		if (!is_chosen(config, raises[i].choice) || (key && key->exact))
			continue;
		write_value(i, value);
		if (!key) {
			key = &sysctl->keys[sysctl->n++];
			sysctl_key_init(key, raises[i].name, value);
		} else if (value_max(key->want.wanted, value, larger) < 0 ||
			   value_equal(larger, key->want.wanted)) {
			continue;
		}
		copy_text(key->want.wanted, SETTING_VALUE_MAX, value);
		key->want.reason = "raised-limit";
		/* Connections are tracked only once the module is loaded. */
		key->want.requested = raises[i].value != NULL;
	}
}
