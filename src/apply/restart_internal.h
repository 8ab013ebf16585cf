/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_RESTART_INTERNAL_H
#define APPLY_RESTART_INTERNAL_H

/* Between restart.c and restart_check.c. */

#include <stdbool.h>
#include <stdint.h>

#include <systemd/sd-bus.h>

#include "apply/restart.h"

#define RESTART_SYSTEMD "org.freedesktop.systemd1"
#define RESTART_MANAGER "/org/freedesktop/systemd1"
#define NEIGHBORS_MAX   64

struct restart {
	sd_bus *bus;
	sd_bus_slot *call;
	sd_event_source *timer;
	sd_event *event;
	struct host host;
	struct service service;
	char *path; /* of the unit, on the bus */
	enum restart_way way;
	restart_ready ready;
	bool asked, restarted; /* RestartUnit was sent; and it was answered, or may have been */
	struct answer *answer;
	enum answer_level before, level;
	uint64_t timeout_us, deadline_us, last_deadline_us;
	char state[32];          /* ActiveState at the last look; empty: it was not told */
	uint32_t job, first_job; /* not 0: systemd is not done with it */
	char *neighbors[NEIGHBORS_MAX + 1]; /* units that may be bound to it */
	size_t n_neighbors;
	restart_done done;
	void *userdata;
};

/* Each step is a call; its answer, or failure, decides on the next. */
typedef int (*restart_handler)(struct restart *restart, sd_bus_message *answer);

/* An error of the bus, or what the handler of this answer makes of it. */
int restart_on_answer(struct restart *restart, sd_bus_message *answer, restart_handler handler);

/* Asks for all that systemd tells of the unit; its ActiveState and job out of the answer. */
int restart_get_all(struct restart *restart, sd_bus_message_handler_t handler);
int restart_take_state(struct restart *restart, sd_bus_message *answer);

/* Whether the unit may be restarted: ends in restart_refuse() or restart_may_go(). 0 or -errno. */
int restart_check(struct restart *restart);
int restart_refuse(struct restart *restart, const char *what);
int restart_may_go(struct restart *restart);

#endif
