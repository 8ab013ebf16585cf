/* SPDX-License-Identifier: Apache-2.0 */

/*
 * load RATE: makes RATE new IPv4 neighbours a second until SIGTERM. It sends to new addresses
 * (10.128.0.1 and following, behind one device) and reads the six thresholds at each step. At the
 * end it prints the numbers of created and refused entries, and each threshold that ever fell.
 *
 * It is in C, because a script would need a whole CPU of the emulated machine.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FIRST   0x0A800001u
#define BATCH   64
#define STEP_NS 10000000L

enum { THRESHOLDS = 6 };

static volatile sig_atomic_t stopped;

static void stop(int)
{
	stopped = 1;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Sends to n new addresses, after the first `sent`. Returns the number of refusals. */
static uint64_t send_to_new(int fd, uint64_t sent, uint64_t n)
{
	struct sockaddr_in to[BATCH];
	struct mmsghdr messages[BATCH];
	uint64_t refused = 0;

	memset(messages, 0, sizeof(messages));
	for (uint64_t i = 0; i < n; i++) {
		to[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(9)};
		to[i].sin_addr.s_addr = htonl(FIRST + (uint32_t)((sent + i) % 0x3ffff0));
		messages[i].msg_hdr.msg_name = &to[i];
		messages[i].msg_hdr.msg_namelen = sizeof(to[i]);
	}
	for (uint64_t done = 0; done < n;) {
		int r = sendmmsg(fd, messages + done, (unsigned)(n - done), 0);

		if (r > 0)
			done += (uint64_t)r;
		else
			done++, refused++;
	}
	return refused;
}

/* The sum of a column (counted from 0) over all CPUs. */
static uint64_t counter(int column)
{
	FILE *file = fopen("/proc/net/stat/arp_cache", "re");
	char line[512];
	uint64_t sum = 0;

	if (!file || !fgets(line, sizeof(line), file))
		exit(1);
	while (fgets(line, sizeof(line), file)) {
		char *at = line;
		uint64_t value = 0;

		for (int i = 0; i <= column; i++)
			value = strtoull(at, &at, 16);
		sum += value;
	}
	fclose(file);
	return sum;
}

static void read_thresholds(
	const int fds[THRESHOLDS], long highest[THRESHOLDS], long lowest_after[THRESHOLDS])
{
	for (int i = 0; i < THRESHOLDS; i++) {
		char text[32] = "";
		long value;

		if (pread(fds[i], text, sizeof(text) - 1, 0) <= 0)
			exit(1);
		value = strtol(text, NULL, 10);
		if (value < highest[i] && (lowest_after[i] < 0 || value < lowest_after[i]))
			lowest_after[i] = value;
		if (value > highest[i])
			highest[i] = value;
	}
}

int main(int argc, char **argv)
{
	static const char *const paths[THRESHOLDS] = {"/proc/sys/net/ipv4/neigh/default/gc_thresh1",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh2",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh3",
		"/proc/sys/net/ipv6/neigh/default/gc_thresh1",
		"/proc/sys/net/ipv6/neigh/default/gc_thresh2",
		"/proc/sys/net/ipv6/neigh/default/gc_thresh3"};
	enum { ALLOCS = 1, TABLE_FULLS = 12 };
	double rate = argc == 2 ? atof(argv[1]) : 0, started = seconds();
	uint64_t allocs = counter(ALLOCS), fulls = counter(TABLE_FULLS), sent = 0, errors = 0,
		 reads = 0;
	long highest[THRESHOLDS] = {0}, lowest_after[THRESHOLDS];
	int fds[THRESHOLDS], fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), lower = 0;

	signal(SIGTERM, stop);
	for (int i = 0; i < THRESHOLDS; i++) {
		fds[i] = open(paths[i], O_RDONLY | O_CLOEXEC);
		lowest_after[i] = -1;
	}
	while (!stopped) {
		uint64_t due = (uint64_t)((seconds() - started) * rate);

		while (sent < due && !stopped) {
			uint64_t n = due - sent < BATCH ? due - sent : BATCH;

			errors += send_to_new(fd, sent, n);
			sent += n;
		}
		read_thresholds(fds, highest, lowest_after);
		reads++;
		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
	}
	printf("seconds %.0f\ncreated %" PRIu64 "\nrefused %" PRIu64 "\n", seconds() - started,
		counter(ALLOCS) - allocs, counter(TABLE_FULLS) - fulls);
	printf("errors %" PRIu64 "\nreads %" PRIu64 "\nlower", errors, reads);
	for (int i = 0; i < THRESHOLDS; i++)
		if (lowest_after[i] >= 0)
			lower += printf(
				" %s: %ld after %ld;", paths[i], lowest_after[i], highest[i]);
	puts(lower ? "" : " none");
	return 0;
}
