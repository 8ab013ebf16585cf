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
	{"thresholds", "neighbor"},
	{"coredns", "coredns-sizing dns"},
	{"search", "dns-search-cluster dns-search-upstream"},
	{"fsync", "storage syncs/s StorageSlow"},
	{"disk", "device storage"},
	{"iops", "queue storage"},
	{"latency", "p50 p99"},
	{"threads", "pids"},
	{"processes", "pids"},
	{"fd", "files/process file-handles"},
	{"fds", "files/process file-handles"},
	{"ulimit", "files/process pids"},
	{"nofile", "files/process"},
	{"mmap", "maps/process"},
	{"EAGAIN", "pids pids/cgroup"},
	{"ENFILE", "file-handles"},
	{"EADDRNOTAVAIL", "ports"},
	{"EADDRINUSE", "ports"},
	{"ephemeral", "ports"},
	{"EDQUOT", "keys keys/bytes"},
	{"backlog", "listen"},
	{"nat", "conntrack"},
	{"pause", "SandboxImageMissing"},
	{"sandbox", "SandboxImageMissing pin.*"},
	{"ImagePullBackOff", "PullStuck PullSlow"},
	{"preload", "images"},
	{"warnings", "warning"},
	{"problem", "finding"},
	{"problems", "finding"},
	{"findings", "finding"},
	{"conditions", "condition"},
	{"settings", "setting"},
	{"tuners", "tuner"},
	{"events", "event"},
	{"incidents", "incident"},
	{"pulls", "progress PullStuck PullSlow"},
};

static bool is_alias(const char *entry, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcasecmp(aliases[i].word, word) == 0 &&
			text_has_word(aliases[i].entries, entry))
			return true;
	return false;
}

const char *name_alias(size_t i)
{
	return i < ARRAY_SIZE(aliases) ? aliases[i].word : NULL;
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

	if (!strchr(phrase, ' '))
		return false;
	for (size_t len; *phrase; phrase += len + (phrase[len] == ' ')) {
		len = strcspn(phrase, " ");
		snprintf(word, sizeof(word), "%.*s", (int)len, phrase);
		if (len >= PART_MIN && name_matches(entry, word) == NAME_NOT)
			return false;
	}
	return true;
}

enum name_match name_matches(const struct help_entry *entry, const char *word)
{
	if (fnmatch(entry->name, word, FNM_CASEFOLD) == 0 || strcasecmp(entry->name, word) == 0)
		return NAME_WHOLE;
	if (entry_is_setting(entry) && ends_with_part(entry->name, word))
		return NAME_END;
	if (is_alias(entry->name, word) || is_title(entry->name, word))
		return NAME_ALIAS;
	if (strlen(word) < PART_MIN)
		return NAME_NOT;
	if (strcasestr(entry->name, word))
		return NAME_PART;
	return explanation_has(entry, word) || has_each_word(entry, word) ? NAME_IN_TEXT : NAME_NOT;
}

enum name_match names_match(const struct help_entry *entries, size_t n, const char *word)
{
	enum name_match best = NAME_NOT;

	for (size_t i = 0; i < n; i++)
		best = MAX(best, name_matches(&entries[i], word));
	return best;
}

void names_suggest(
	const struct help_entry *entries, size_t n, const char *word, struct suggestion *nearest)
{
	for (size_t i = 0; i < n; i++) {
		const char *last = strrchr(entries[i].name, '.');

		if (entry_is_literal(&entries[i]))
			suggest_offer(nearest, word, entries[i].name);
		if (entry_is_setting(&entries[i]) && last)
			suggest_offer(nearest, word, last + 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		suggest_offer(nearest, word, aliases[i].word);
}
