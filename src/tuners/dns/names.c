/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include <ctype.h>

#define FADE_EVERY_US (30 * USEC_PER_SEC)

/* A suffix is listed if it has this share of the samples, and its most frequent name a tenth. */
#define SUFFIX_SHARE 0.2
#define SUFFIX_TENTH 10

static void add_to(struct dns_name_sketch *sketch, const char *text, uint32_t type)
{
	struct dns_name_count *least = &sketch->names[0];

	for (size_t i = 0; i < sketch->n; i++) {
		struct dns_name_count *name = &sketch->names[i];

		if (name->type == type && streq(name->text, text)) {
			name->count++;
			return;
		}
		least = name->count < least->count ? name : least;
	}
	/* A new name replaces the rarest and takes over its count. */
	if (sketch->n < DNS_NAMES_KEPT)
		least = &sketch->names[sketch->n++];
	else
		least->excess = least->count;
	set_text(least->text, text);
	least->type = type;
	least->count++;
}

void dns_names_add(struct dns_names *names, const char *text, uint32_t type)
{
	size_t len = strlen(text);
	const char *dot = strchr(text, '.');
	char suffix[DNS_NAME_TEXT];

	if (len >= DNS_NAME_TEXT)
		text += len - (DNS_NAME_TEXT - 1);
	add_to(&names->whole, text, type);
	/* A top-level domain says nothing. */
	if (!dot || !strchr(dot + 1, '.') || strlen(dot) + 1 >= sizeof(suffix))
		return;
	snprintf(suffix, sizeof(suffix), "*%s", dot);
	add_to(&names->suffixes, suffix, 0);
}

static int by_certain_count(const void *a, const void *b)
{
	const struct dns_name_count *x = a, *y = b;
	uint32_t first = x->count - x->excess, second = y->count - y->excess;

	if (first != second)
		return first < second ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->text, y->text);
}

static void fade(struct dns_name_sketch *sketch, bool due)
{
	for (size_t i = 0; due && i < sketch->n; i++) {
		sketch->names[i].count /= 2;
		sketch->names[i].excess /= 2;
	}
	qsort(sketch->names, sketch->n, sizeof(sketch->names[0]), by_certain_count);
	while (sketch->n > 0 && sketch->names[sketch->n - 1].count == 0)
		sketch->names[--sketch->n] = (struct dns_name_count){0};
}

void dns_names_fade(struct dns_names *names, uint64_t now)
{
	bool due = names->faded_at_us > 0 && now - names->faded_at_us >= FADE_EVERY_US;

	if (names->faded_at_us == 0 || due)
		names->faded_at_us = now;
	fade(&names->whole, due);
	fade(&names->suffixes, due);
}

/* Whether the text ends in the suffix "*.example.org", with one more label. */
static bool has_suffix(const char *text, const char *suffix)
{
	const char *dot = strchr(text, '.');

	return dot && streq(dot, suffix + 1);
}

static bool is_listed(
	const struct dns_names *names, const struct dns_name_count *suffix, uint64_t samples)
{
	uint32_t certain = suffix->count - suffix->excess;

	if (certain < SUFFIX_TENTH || certain < SUFFIX_SHARE * (double)samples)
		return false;
	for (size_t i = 0; i < names->whole.n; i++) {
		const struct dns_name_count *name = &names->whole.names[i];

		if (has_suffix(name->text, suffix->text) &&
			SUFFIX_TENTH * (name->count - name->excess) > certain)
			return false;
	}
	return true;
}

size_t dns_names_top(const struct dns_names *names, struct dns_name_count top[static DNS_NAMES_TOP],
	uint64_t *samples)
{
	size_t n = 0, suffixes;
	uint64_t of_suffixes = 0;

	*samples = 0;
	for (size_t i = 0; i < names->whole.n; i++)
		*samples += names->whole.names[i].count;
	/* Fading drops names that occur once, but not their suffix. */
	for (size_t i = 0; i < names->suffixes.n; i++)
		of_suffixes += names->suffixes.names[i].count;
	*samples = MAX(*samples, of_suffixes);
	for (size_t i = 0; i < names->suffixes.n && n < DNS_NAMES_TOP; i++)
		if (is_listed(names, &names->suffixes.names[i], *samples))
			top[n++] = names->suffixes.names[i];
	suffixes = n;
	for (size_t i = 0; i < names->whole.n && n < DNS_NAMES_TOP; i++) {
		bool below = false;

		for (size_t k = 0; k < suffixes; k++)
			below = below || has_suffix(names->whole.names[i].text, top[k].text);
		if (!below)
			top[n++] = names->whole.names[i];
	}
	return n;
}

bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size, uint32_t *type)
{
	const uint8_t *name = sample->name;
	size_t at = 0, n = 0;

	text[0] = '\0';
	*type = 0;
	while (at < DNS_SAMPLE_NAME && name[at] && name[at] <= 63) {
		size_t end = at + 1 + name[at];

		for (at++; at < end && at < DNS_SAMPLE_NAME; at++) {
			unsigned char c = (unsigned char)tolower(name[at]);
			bool plain = c > ' ' && c < 0x7f && c != '.' && c != '\\' && c != '"';

			if (n + (plain ? 3 : 6) > size)
				return false;
			n += (size_t)snprintf(text + n, size - n, plain ? "%c" : "\\%03u", c);
		}
		if (end >= DNS_SAMPLE_NAME)
			return false;
		if (name[at])
			n += (size_t)snprintf(text + n, size - n, ".");
	}
	/* The sample may have the type behind the name. */
	if (at + 3 <= DNS_SAMPLE_NAME)
		*type = (uint32_t)(name[at + 1] << 8 | name[at + 2]);
	return at < DNS_SAMPLE_NAME && name[at] == 0;
}
