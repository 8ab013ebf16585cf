/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of names: how a word that someone types leads to entries. explain, top, --only and the
 * completion use it.
 */
#include "tuners/table.h"

#include "base/text.h"

#include <ctype.h>
#include <fnmatch.h>

/* Shorter words would be in too many names and texts. */
#define PART_MIN 3

/* Shorter parts of names are near to too many words. */
#define SUGGEST_PART_MIN 4

/* The field's words for names of this program. Blanks separate entries. */
static const struct {
	const char *word, *entries;
} aliases[] = {
	{"arp", "neighbor/ipv4"},
	{"arp cache", "neighbor/ipv4"},
	{"arp_cache", "neighbor/ipv4 NeighborTableOverflow"},
	{"neighbor table overflow", "NeighborTableOverflow"},
	{"neighbour table overflow", "NeighborTableOverflow"},
	{"ndp", "neighbor/ipv6"},
	{"neighbour", "neighbor"},
	{"hugepages", "thp"},
	{"huge pages", "thp"},
	{"transparent_hugepage", "thp"},
	{"thresholds", "neighbor"},
	{"coredns", "coredns-sizing dns"},
	{"nodelocaldns", "local"},
	{"rcode", "NOERROR NXDOMAIN DNSFailing"},
	{"search", "dns-search-cluster dns-search-upstream"},
	{"ndots", "dns-search-local dns-search-cluster dns-search-upstream"},
	{"AWS", "budget/aws"},
	{"imds", "nic/link-local link_local"},
	{"fsync", "storage syncs/s StorageSlow"},
	{"disk", "device storage"},
	{"iops", "queue storage"},
	{"latency", "p50 p99"},
	{"dirty", "storage.bound_writeback bounded-writeback"},
	{"memcg", "memory-cgroups"},
	{"psi", "pressure"},
	{"threads", "pids"},
	{"processes", "pids"},
	{"fd", "files/process file-handles"},
	{"fds", "files/process file-handles"},
	{"ulimit", "files/process pids"},
	{"nofile", "files/process"},
	{"mmap", "maps/process"},
	{"EMFILE", "files/process inotify/instances"},
	{"EAGAIN", "pids pids/cgroup"},
	{"ENFILE", "file-handles"},
	{"EADDRNOTAVAIL", "ports"},
	{"EADDRINUSE", "ports"},
	{"ephemeral", "ports"},
	{"EDQUOT", "keys keys/bytes"},
	{"ENOBUFS", "neighbor/ipv4 neighbor/ipv6"},
	{"rmem", "tcp-memory udp-memory"},
	{"backlog", "listen"},
	{"nat", "conntrack"},
	{"nf_conntrack_max", "conntrack conntrack/namespace"},
	{"pause", "SandboxImageMissing"},
	{"sandbox", "SandboxImageMissing pin.*"},
	{"ImagePullBackOff", "PullStuck PullSlow"},
	{"preload", "images"},
	{"ErrImagePull", "pull-failed PullStuck"},
	{"toomanyrequests", "pull-failed runtime.mirrors"},
	{"429", "pull-failed runtime.mirrors"},
	{"i/o timeout", "PullStuck DNSUnanswered"},
	{"registry",
		"runtime.mirrors kubelet.registryPullQPS kubelet.registryBurst *.registry-mirrors"},
	{"OOMKilled", "kernel-log/oom memory-limit-low"},
	{"evicted", "filesystem/kubelet/bytes filesystem/images/bytes ImageStoreFull"},
	{"eviction", "filesystem/kubelet/bytes filesystem/images/bytes ImageStoreFull"},
	{"throttle", "DNSBudgetExceeded nic/link-local PullSlow"},
	{"throttled", "DNSBudgetExceeded nic/link-local PullSlow"},
	{"rate limit", "DNSBudgetExceeded nic/link-local kubelet.registryPullQPS"},
	{"TIME_WAIT", "ports"},
	{"timewait", "ports"},
	{"tw", "ports"},
	{"SYN flooding", "listen"},
	{"softirq", "softnet"},
	{"eni", "pod-addresses"},
	{"nproc", "pids"},
	{"zombie", "pids pids/cgroup"},
	{"nr_open", "files/process"},
	{"certificate", "tls-key http.web_config"},
	{"cert", "tls-key http.web_config"},
	{"ebpf", "tuner-degraded bpf/map bpf/lru-map"},
	{"btf", "tuner-degraded"},
	/* Objects of findings about a tuner that lacks something. */
	{"neighbor/write", "tuner-degraded"},
	{"sysctl/write", "tuner-degraded"},
	{"thp/write", "tuner-degraded"},
	{"neighbor/bpf", "tuner-degraded"},
	{"dns/bpf", "tuner-degraded"},
	{"storage/bpf", "tuner-degraded"},
	{"limits/bpf", "tuner-degraded"},
	{"storage/kernel", "tuner-degraded"},
	{"stale neighbours", "NeighborStale"},
	{"own-mode", "held_by"},
	{"queries/s", "q/s"},
	{"fine", "ok"},
	{"could not be checked", "Unknown"},
	{"problem", "finding"},
	{"problems", "finding"},
	{"override_path", "runtime.mirrors"},
	{"pulls", "progress PullStuck PullSlow"},
	{"what breaks", "breaks"},
	{"what to type", "now"},
	{"to keep it", "keep"},
	/* Alerts about one condition. */
	{"HeadroomLimitReached", "LimitReached"},
	{"HeadroomPullStuck", "PullStuck"},
	{"HeadroomDNSBudgetExceeded", "DNSBudgetExceeded"},
	{"HeadroomDNSBudgetTouched", "DNSBudgetExceeded"},
	{"HeadroomDNSFailing", "DNSFailing"},
	{"HeadroomSyncsSlow", "StorageSlow"},
	{"HeadroomSettingContested", "SettingDrifted"},
};

/* Returns whether the word is the plural of a name: findings. */
static bool is_plural(const char *name, const char *word)
{
	size_t len = strlen(name);

	return strncasecmp(name, word, len) == 0 && strcasecmp(word + len, "s") == 0;
}

static bool is_alias(const char *entry, const char *word)
{
	if (is_plural(entry, word))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcasecmp(aliases[i].word, word) == 0 &&
			text_has_word(aliases[i].entries, entry))
			return true;
	return false;
}

/* Returns whether the page shows the column of this heading with this title. */
static bool is_title(const char *heading, const char *title)
{
	for (size_t i = 0; tuner_table[i]; i++)
		for (const struct table_view *view = tuner_table[i]->tables->view; view;
			view = view->next)
			for (const struct column *column = view->columns;
				column->key || column->write; column++)
				if (column->title && column->heading &&
					strcasecmp(column->title, title) == 0 &&
					streq(column->heading, heading))
					return true;
	return false;
}

/* Returns whether the name is the end of a sysctl or key: gc_thresh3. */
static bool ends_with_part(const char *entry, const char *name)
{
	size_t len = strlen(entry), end = strlen(name);

	return len > end && entry[len - end - 1] == '.' && strcasecmp(entry + len - end, name) == 0;
}

static bool is_part_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Returns whether a text has the word; not as a part of a longer one, unless it has a "_". */
static bool text_has(const char *text, const char *word)
{
	const size_t len = strlen(word);

	for (const char *at = text; at && (at = strcasestr(at, word)); at++)
		if (strchr(word, '_') ||
			((at == text || !is_part_of_word(at[-1])) && !is_part_of_word(at[len])))
			return true;
	return false;
}

static bool explanation_has(const struct help_entry *entry, const char *word)
{
	const char *texts[12] = {entry->help, entry->def, entry->option, entry->source};
	size_t n = 4;

	if (entry->kind == ENTRY_LIMIT) {
		const struct limit_row *row = entry->limit;

		texts[n++] = row->breaks;
		texts[n++] = row->cure_help;
		texts[n++] = row->used.path;
		texts[n++] = row->max.path;
		texts[n++] = row->hits.path;
	} else if (entry->kind == ENTRY_CHECK) {
		texts[n++] = entry->check->breaks;
		texts[n++] = entry->check->now;
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i] && text_has(texts[i], word))
			return true;
	return false;
}

/* Returns whether an entry of a phrase has each of its words. */
static bool has_each_word(const struct help_entry *entry, const char *phrase)
{
	char word[64];
	bool any = false;

	if (!strchr(phrase, ' '))
		return false;
	for (size_t len; *phrase; phrase += len + (phrase[len] == ' ')) {
		len = strcspn(phrase, " ");
		snprintf(word, sizeof(word), "%.*s", (int)len, phrase);
		if (len >= PART_MIN && name_matches(entry, word) == NAME_NOT)
			return false;
		any = any || len >= PART_MIN;
	}
	return any;
}

/*
 * Writes the name of a sysctl with dots: net/ipv4/ip_forward and its file below /proc/sys are
 * net.ipv4.ip_forward. Returns false if the word is not such a name.
 */
static bool write_dotted(const char *word, char dotted[static SETTING_NAME_MAX])
{
	static const char root[] = "/proc/sys/";

	if (!strchr(word, '/') || !copy_text(dotted, SETTING_NAME_MAX,
					  word + (starts_with(word, root) ? strlen(root) : 0)))
		return false;
	for (char *c = dotted; *c; c++)
		if (*c == '/')
			*c = '.';
	return true;
}

static bool is_name(const struct help_entry *entry, const char *word)
{
	return fnmatch(entry->name, word, FNM_CASEFOLD) == 0 || strcasecmp(entry->name, word) == 0;
}

#define PREFIX "headroom"

/* Returns the part that tells a metric or an alert from others: all begin with the prefix. */
static const char *own_part(const struct help_entry *entry)
{
	size_t len = strlen(PREFIX);

	if (strncasecmp(entry->name, PREFIX, len) != 0 || !entry->name[len])
		return entry->name;
	return entry->name + len + (entry->name[len] == '_');
}

static bool has_part(const struct help_entry *entry, const char *word)
{
	bool is_prefixed = strncasecmp(word, PREFIX, strlen(PREFIX)) == 0;

	return strcasestr(is_prefixed ? entry->name : own_part(entry), word);
}

enum name_match name_matches(const struct help_entry *entry, const char *word)
{
	char dotted[SETTING_NAME_MAX];
	bool is_dotted = write_dotted(word, dotted);

	if (is_name(entry, word) ||
		(is_dotted && entry_is_setting(entry) && is_name(entry, dotted)))
		return NAME_WHOLE;
	if (entry_is_setting(entry) && ends_with_part(entry->name, word))
		return NAME_END;
	if (is_alias(entry->name, word) || is_title(entry->name, word))
		return NAME_ALIAS;
	if (strlen(word) < PART_MIN)
		return NAME_NOT;
	if (has_part(entry, word))
		return NAME_PART;
	return explanation_has(entry, word) || has_each_word(entry, word) ||
			       (is_dotted && explanation_has(entry, dotted))
		       ? NAME_IN_TEXT
		       : NAME_NOT;
}

enum name_match names_match(const struct help_entry *entries, size_t n, const char *word)
{
	enum name_match best = NAME_NOT;

	for (size_t i = 0; i < n; i++)
		best = MAX(best, name_matches(&entries[i], word));
	return best;
}

/* Returns the last part of a setting or limit if it leads to it: gc_thresh3, watches; else NULL. */
static const char *last_part(const struct help_entry *entry)
{
	bool is_limit = entry->kind == ENTRY_LIMIT;
	const char *last = strrchr(entry->name, is_limit ? '/' : '.');

	return (is_limit || entry_is_setting(entry)) && last && strlen(last + 1) >= PART_MIN &&
			       !strpbrk(last, PATTERN_CHARACTERS)
		       ? last + 1
		       : NULL;
}

void names_each(const struct help_entry *entries, size_t n,
	void (*take)(void *data, const char *name), void *data)
{
	for (size_t i = 0; i < n; i++) {
		const char *last = last_part(&entries[i]);

		if (entry_is_literal(&entries[i]))
			take(data, entries[i].name);
		if (last)
			take(data, last);
	}
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		take(data, aliases[i].word);
}

struct offer {
	const char *word;
	bool (*accepts)(const char *name); /* NULL: all */
	struct suggestion *nearest;
};

static void offer_name(void *data, const char *name)
{
	const struct offer *offer = data;
	struct suggestion nearest = *offer->nearest;

	suggest_offer(&nearest, offer->word, name);
	if (!streq(nearest.word, offer->nearest->word) && (!offer->accepts || offer->accepts(name)))
		*offer->nearest = nearest;
}

/* Offers the words of a name. */
static void offer_parts(struct offer *offer, const char *name)
{
	char part[SUGGEST_WORD_MAX + 1];

	for (size_t len; *name; name += len + (name[len] != '\0')) {
		len = strcspn(name, "/._- " PATTERN_CHARACTERS);
		if (len < SUGGEST_PART_MIN)
			continue;
		snprintf(part, sizeof(part), "%.*s", (int)len, name);
		offer_name(offer, part);
	}
}

void names_suggest(const struct help_entry *entries, size_t n, const char *word,
	bool (*accepts)(const char *name), struct suggestion *nearest)
{
	struct offer offer = {word, accepts, nearest};

	names_each(entries, n, offer_name, &offer);
	for (size_t i = 0; i < n; i++)
		offer_parts(&offer, own_part(&entries[i]));
}
