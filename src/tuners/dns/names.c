/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/util.h"

#include <stdlib.h>

#define FADE_EVERY_US (30 * USEC_PER_SEC)

void dns_names_add(struct dns_names *names, const char *text, uint32_t type)
{
	struct dns_name *least = &names->names[0];
	size_t len = strlen(text);

	if (len >= DNS_NAME_TEXT)
		text += len - (DNS_NAME_TEXT - 1);
	for (size_t i = 0; i < names->n; i++) {
		struct dns_name *name = &names->names[i];

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
	copy_text(least->text, sizeof(least->text), text);
	least->type = type;
	least->count++;
}

void dns_names_fade(struct dns_names *names, uint64_t now)
{
	size_t kept = 0;

	if (names->faded_at_us == 0)
		names->faded_at_us = now;
	if (now - names->faded_at_us < FADE_EVERY_US)
		return;
	names->faded_at_us = now;
	for (size_t i = 0; i < names->n; i++) {
		struct dns_name *name = &names->names[i];

		name->count /= 2;
		name->excess /= 2;
		if (name->count > 0)
			names->names[kept++] = *name;
	}
	memset(&names->names[kept], 0, (names->n - kept) * sizeof(names->names[0]));
	names->n = kept;
}

static int by_certain_count(const void *a, const void *b)
{
	const struct dns_name *x = *(const struct dns_name *const *)a;
	const struct dns_name *y = *(const struct dns_name *const *)b;
	uint32_t one = x->count - x->excess, other = y->count - y->excess;

	if (one != other)
		return one < other ? 1 : -1;
	return strcmp(x->text, y->text);
}

size_t dns_names_top(const struct dns_names *names, const struct dns_name *top[DNS_NAMES_TOP])
{
	const struct dns_name *all[DNS_NAMES_KEPT];
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++)
		all[n++] = &names->names[i];
	qsort(all, n, sizeof(all[0]), by_certain_count);
	n = MIN(n, DNS_NAMES_TOP);
	memcpy(top, all, n * sizeof(top[0]));
	return n;
}
