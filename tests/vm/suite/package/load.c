/* SPDX-License-Identifier: Apache-2.0 */

/*
 * load RATE: makes so many new IPv4 neighbours a second until SIGTERM, by sending to addresses that
 * nobody has spoken to (10.128.0.1 and on, behind one device), and looks at the six thresholds at
 * each step. At its end it prints what was created and refused, and each threshold that was ever
 * lower than before.
 *
 * In C, because the machine is emulated: a script would need a processor of its own.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FIRST   0x0A800001u
#define BATCH   64
#define STEP_NS 10000000L

enum { LOOKED_AT = 6, COLUMNS = 13 };

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Sends to so many addresses after the first sent; returns how many were refused. */
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

/* Sums column (counted from 0) of all processors' lines. */
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

static void look(const int fds[LOOKED_AT], long highest[LOOKED_AT], long lowest_after[LOOKED_AT])
{
	for (int i = 0; i < LOOKED_AT; i++) {
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
	static const char *const paths[LOOKED_AT] = {"/proc/sys/net/ipv4/neigh/default/gc_thresh1",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh2",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh3",
		"/proc/sys/net/ipv6/neigh/default/gc_thresh1",
		"/proc/sys/net/ipv6/neigh/default/gc_thresh2",
		"/proc/sys/net/ipv6/neigh/default/gc_thresh3"};
	enum { ALLOCS = 1, TABLE_FULLS = 12 };
	double rate = argc == 2 ? atof(argv[1]) : 0, started = seconds(), took;
	uint64_t allocs = counter(ALLOCS), fulls = counter(TABLE_FULLS), sent = 0, errors = 0,
		 looks = 0;
	long highest[LOOKED_AT] = {0}, lowest_after[LOOKED_AT];
	int fds[LOOKED_AT], fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), lower = 0;

	signal(SIGTERM, stop);
	for (int i = 0; i < LOOKED_AT; i++) {
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
		look(fds, highest, lowest_after);
		looks++;
		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
	}
	took = seconds() - started;
	printf("created %.0f\n", (double)(counter(ALLOCS) - allocs) / took);
	printf("refused %llu\n", (unsigned long long)(counter(TABLE_FULLS) - fulls));
	printf("errors %llu\nlooks %.0f\nlower", (unsigned long long)errors, (double)looks / took);
	for (int i = 0; i < LOOKED_AT; i++)
		if (lowest_after[i] >= 0)
			lower += printf(
				" %s: %ld after %ld;", paths[i], lowest_after[i], highest[i]);
	puts(lower ? "" : " none");
	return 0;
}
