/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Messages and sockets of the test's DNS clients and servers. What fails ends the program. */

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT   53
#define HEADER 12

static const uint8_t question[] = "\7example\7cluster\5local\0\0\1\0\1";

static void fail(const char *what)
{
	fprintf(stderr, "dns_live: %s: %s\n", what, strerror(errno));
	exit(2);
}

static size_t make_query(uint8_t *message, uint16_t id)
{
	memset(message, 0, HEADER);
	message[0] = (uint8_t)(id >> 8);
	message[1] = (uint8_t)id;
	message[5] = 1;
	memcpy(message + HEADER, question, sizeof(question) - 1);
	return HEADER + sizeof(question) - 1;
}

/* Every second name does not exist, as the id tells. */
static void make_answer(uint8_t *message)
{
	message[2] |= 0x80;
	message[3] = message[1] & 1 ? 3 : 0;
}

static struct sockaddr_storage server_address(bool six, unsigned number)
{
	struct sockaddr_storage storage = {0};
	struct sockaddr_in6 *in6 = (void *)&storage;
	struct sockaddr_in *in = (void *)&storage;

	if (six) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(PORT);
		in6->sin6_addr = in6addr_loopback;
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(PORT);
		in->sin_addr.s_addr = htonl(0x7f350000 + number);
	}
	return storage;
}

static int open_socket(const struct sockaddr_storage *address, int type, bool server)
{
	int fd = socket(address->ss_family, type | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (server ? bind(fd, (const void *)address, sizeof(*address))
		   : connect(fd, (const void *)address, sizeof(*address)))
		fail(server ? "bind" : "connect");
	return fd;
}

/*
 * A thread that moves to another processor can overtake its own packets on the loopback device:
 * where a message of a stream begins is then not known.
 */
static void stay_on_processor(unsigned number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("sched_setaffinity");
}

static void enter_namespace(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		fail("a network namespace");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		fail("lo");
	request.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		fail("lo up");
	close(fd);
}

static void move_to(const char *directory)
{
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
	file = fopen(path, "we");
	if (!file || fprintf(file, "0\n") < 0 || fclose(file) != 0)
		fail(path);
}
