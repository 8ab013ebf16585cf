/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tap OBJECT CGROUP tap|empty: attaches these programs of tap.bpf.c until its input ends. It reads
 * the queried name of each packet, and counts the packets.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

struct packet {
	uint64_t time;
	uint64_t cgroup;
	uint32_t length;
	uint8_t egress;
	uint8_t data[256];
};

struct counts {
	uint64_t packets;
	uint64_t names; /* a hash of all names, so that the compiler keeps the reading */
};

static int count_packet(void *data, void *record, size_t)
{
	const struct packet *packet = record;
	struct counts *counts = data;
	size_t at = 12;

	counts->packets++;
	while (at < sizeof(packet->data) && packet->data[at] && at < packet->length) {
		for (uint8_t i = 0; i <= packet->data[at] && at + i < sizeof(packet->data); i++)
			counts->names = counts->names * 31 + packet->data[at + i];
		at += 1u + packet->data[at];
	}
	return 0;
}

/* Attaches both programs with this prefix. */
static int attach(struct bpf_object *object, const char *prefix, int cgroup)
{
	struct bpf_program *program;
	int attached = 0;

	bpf_object__for_each_program(program, object)
	{
		if (strncmp(bpf_program__name(program), prefix, strlen(prefix)) == 0)
			attached += bpf_program__attach_cgroup(program, cgroup) != NULL;
	}
	return attached == 2 ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct counts counts = {0};
	struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
	struct ring_buffer *ring;
	struct bpf_object *object;
	int cgroup;

	if (argc != 4)
		return 64;
	cgroup = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	object = bpf_object__open(argv[1]);
	if (cgroup < 0 || !object || bpf_object__load(object) < 0 ||
		attach(object, argv[3], cgroup) < 0)
		return 1;
	ring = ring_buffer__new(
		bpf_object__find_map_fd_by_name(object, "packets"), count_packet, &counts, NULL);
	if (!ring)
		return 1;
	puts("ready");
	fflush(stdout);
	fds[1].fd = ring_buffer__epoll_fd(ring);
	while (poll(fds, 2, -1) > 0 && !fds[0].revents)
		ring_buffer__consume(ring);
	printf("%llu %llx\n", (unsigned long long)counts.packets, (unsigned long long)counts.names);
	return 0;
}
