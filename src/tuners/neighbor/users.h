/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_NEIGHBOR_USERS_H
#define TUNERS_NEIGHBOR_USERS_H

/*
 * Who uses the neighbour tables. BPF counts what is created and removed by network namespace and
 * device from the moment it is attached; what was there before is counted once by walking the
 * kernel's table, and again whenever the sum does not match the kernel's own.
 */

#include "tuners/neighbor/neighbor.h"

struct neighbor_bpf_object;
struct neighbor_users;

/* NULL without memory. object must outlive it. */
struct neighbor_users *neighbor_users_open(
	struct neighbor_bpf_object *object, const struct host *host);
void neighbor_users_close(struct neighbor_users *users);

/* Has the kernel refresh the collectable counts of the records. False: they only count events. */
bool neighbor_users_sample(struct neighbor_bpf_object *object);

/* Counts again when something happened and the last count is two seconds old. */
void neighbor_users_update(struct neighbor_users *users, uint64_t now_us);

/* Until the first count: how soon it is due, in microseconds; then 0. */
uint64_t neighbor_users_next_poll_us(const struct neighbor_users *users);

/* The largest users of a family, largest first; how many there are. */
unsigned neighbor_users_top(const struct neighbor_users *users, enum neighbor_family family,
	struct limit_user top[static LIMIT_TOP_MAX]);

/* Who wanted the entry that was refused last: the owner of its network namespace at that time. */
struct workload neighbor_users_refused(
	struct neighbor_users *users, enum neighbor_family family, uint64_t now_us);

#endif
