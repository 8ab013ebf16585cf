/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Entries of the neighbour tables in this network namespace, over rtnetlink. Each call may wait for
 * the kernel's lock of the network configuration, so it belongs in a task.
 */

#include <headroom/bpf/neighbor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nl_sock;

/* Identifies an entry. memcmp(3) compares it: it has no padding. */
struct neighbor_id {
	uint32_t family; /* AF_INET or AF_INET6 */
	uint32_t ifindex;
	uint8_t address[16]; /* network order; IPv4 in the first four, zeros after it */
};

struct neighbor_entry {
	struct neighbor_id id;
	bool has_mac; /* it has a link address, of NEIGHBOR_MAC bytes */
	uint8_t mac[NEIGHBOR_MAC];
	uint16_t state;  /* NUD_* */
	bool is_router;  /* NTF_ROUTER */
	bool is_managed; /* it has another flag, or names the program that has made it */
	uint64_t confirmed_us, updated_us; /* ages */
};

/* Returns NULL and -errno in *error. The caller frees it with nl_socket_free(). */
struct nl_sock *neighbors_open(int *error);

/* Calls visit for each entry of a family. Returns 0 or -errno. */
typedef void neighbor_visit(void *userdata, const struct neighbor_entry *entry);
int neighbors_each(struct nl_sock *socket, int family, neighbor_visit *visit, void *userdata);

/* Reads one entry. Returns 0, -ENOENT, or -errno. */
int neighbors_get(
	struct nl_sock *socket, const struct neighbor_id *id, struct neighbor_entry *entry);

/* Makes the kernel ask the entry's link address. Returns 0 or -errno. */
int neighbors_probe(struct nl_sock *socket, const struct neighbor_entry *entry);

/* Returns 0 or -errno. */
int neighbors_delete(struct nl_sock *socket, const struct neighbor_entry *entry);

/* Adds the entry, or replaces it, with state stale. Returns 0 or -errno. */
int neighbors_put_stale(struct nl_sock *socket, const struct neighbor_entry *entry);
