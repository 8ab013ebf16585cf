/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_NAMES_H
#define TUNERS_DNS_NAMES_H

/*
 * The names in most queries just now, out of a sample of all: the space-saving sketch of
 * Metwally, Agrawal and El Abbadi (2005), whose counts fade, so that it tells of the last minutes.
 * Its size is fixed, however many names there are.
 */

#include <stddef.h>
#include <stdint.h>

#define DNS_NAMES_KEPT 48
#define DNS_NAMES_TOP  10
#define DNS_NAME_TEXT  128 /* a longer name is cut at its front, where it tells least */

struct dns_name {
	char text[DNS_NAME_TEXT];
	uint32_t type;   /* as the sample has it */
	uint32_t count;  /* at least count - excess, at most count */
	uint32_t excess; /* what it may have taken over from a name that was dropped for it */
};

struct dns_names {
	struct dns_name names[DNS_NAMES_KEPT];
	size_t n;
	uint64_t faded_at_us;
};

void dns_names_add(struct dns_names *names, const char *text, uint32_t type);

/* Halves all counts every half minute; what was seen once is forgotten then. */
void dns_names_fade(struct dns_names *names, uint64_t now_us);

/* Those with the largest certain counts, largest first; how many. */
size_t dns_names_top(const struct dns_names *names, const struct dns_name *top[DNS_NAMES_TOP]);

#endif
