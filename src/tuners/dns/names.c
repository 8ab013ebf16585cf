/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include <headroom/bpf/dns_hash.h>

#define FADE_EVERY_US (30 * USEC_PER_SEC)

void dns_names_add(struct dns_names *names, const char *text, uint32_t type)
{
	struct dns_name_count *least = &names->names[0];
	size_t len = strlen(text);

	if (len >= DNS_NAME_TEXT)
		text += len - (DNS_NAME_TEXT - 1);
	for (size_t i = 0; i < names->n; i++) {
		struct dns_name_count *name = &names->names[i];

		if (name->type == type && streq(name->text, text)) {
			name->count++;
			return;
		}
		least = name->count < least->count ? name : least;
	}
	/* A new name replaces the rarest and takes over its count. */
	if (names->n < DNS_NAMES_KEPT)
		least = &names->names[names->n++];
	else
		least->excess = least->count;
	set_text(least->text, text);
	least->type = type;
	least->count++;
}

static int by_certain_count(const void *a, const void *b)
{
	const struct dns_name_count *x = a, *y = b;
	uint32_t one = x->count - x->excess, other = y->count - y->excess;

	if (one != other)
		return one < other ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->text, y->text);
}

void dns_names_fade(struct dns_names *names, uint64_t now)
{
	bool due = names->faded_at_us > 0 && now - names->faded_at_us >= FADE_EVERY_US;

	if (names->faded_at_us == 0 || due)
		names->faded_at_us = now;
	for (size_t i = 0; due && i < names->n; i++) {
		names->names[i].count /= 2;
		names->names[i].excess /= 2;
	}
	qsort(names->names, names->n, sizeof(names->names[0]), by_certain_count);
	while (names->n > 0 && names->names[names->n - 1].count == 0)
		names->names[--names->n] = (struct dns_name_count){0};
}

bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size, uint32_t *type)
{
	const uint8_t *name = sample->name;
	size_t at = 0, n = 0;

	text[0] = '\0';
	*type = 0;
	while (at < sample->length && name[at] && name[at] <= DNS_LABEL_MAX) {
		size_t end = at + 1 + name[at];

		for (at++; at < end && at < sample->length; at++) {
			unsigned char c = (unsigned char)dns_lower(name[at]);
			bool plain = c > ' ' && c < 0x7f && c != '.' && c != '\\' && c != '"';

			if (n + (plain ? 3 : 6) > size)
				return false;
			n += (size_t)snprintf(text + n, size - n, plain ? "%c" : "\\%03u", c);
		}
		if (end >= sample->length)
			return false;
		if (name[at])
			n += (size_t)snprintf(text + n, size - n, ".");
	}
	/* The sample may have the type behind the name. */
	if (at + 3 <= sample->length)
		*type = (uint32_t)(name[at + 1] << 8 | name[at + 2]);
	return at < sample->length && name[at] == 0;
}
