/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_SECONDS_H
#define TUNERS_DNS_SECONDS_H

/*
 * Seconds out of bins. The kernel counts into 64 bins of a sixteenth of a second, by the clock and
 * without end: bin number (time / 62.5 ms) mod 64. A poll within four seconds knows what each bin
 * got since, and so every second that there was, wherever it began.
 *
 * A second that begins within a bin ends within the seventeenth. Sixteen bins would miss up to half
 * a bin of it, 3 %; seventeen would add as much to a steady load. So the two outer ones both count
 * when they have, together, little more than one of those between: then they were not busy all
 * along.
 */

#include <stdbool.h>
#include <stdint.h>

#include <headroom/bpf/dns.h>

#define DNS_PEAKS         62 /* seconds: a minute, and what a poll and a scrape may come late */
#define DNS_SECOND_BOUNDS 9

struct dns_seconds {
	uint32_t seen[DNS_BINS];                  /* the kernel's counters at the last poll */
	uint32_t window[DNS_BINS_PER_SECOND + 1]; /* the bins of the last full second, and one */
	uint32_t peaks[DNS_PEAKS];                /* busiest, of each second of the clock; a ring */
	uint64_t next;       /* the first bin that is not over yet; 0 before the first poll */
	uint64_t over_until; /* up to this bin one second is counted as over budget already */
	uint64_t over;       /* seconds over budget */
	uint64_t counts[DNS_SECOND_BOUNDS + 1]; /* of seconds, by dns_second_bounds */
	double sum;                             /* of all that was counted there */
	uint32_t last;                          /* what the last full second got */
	uint32_t poll_peak;                     /* the busiest that ended since the last poll */
	uint32_t current;                       /* the busiest that ended in this second so far */
};

/* Upper bounds of the histogram's buckets. */
extern const double dns_second_bounds[DNS_SECOND_BOUNDS];

/*
 * Takes the bins as they are, read after now_ns (CLOCK_MONOTONIC, nanoseconds). A second with more
 * than budget (0: none) is over it; two of them never share a moment. Each second of the clock is
 * an observation of the histogram: the busiest 16 bins that ended in it, so that a burst across its
 * edge is reported in full. False when the last poll is so long ago that bins went round: what they
 * got is spread over the time, and after a minute left out.
 */
bool dns_seconds_take(struct dns_seconds *seconds, const uint32_t bins[static DNS_BINS],
	uint64_t now_ns, uint64_t budget);

/* The busiest second that ended within the last minute. */
uint32_t dns_seconds_peak(const struct dns_seconds *seconds);

#endif
