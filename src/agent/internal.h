/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_INTERNAL_H
#define AGENT_INTERNAL_H

/* The running agent, shared by the files of this room. */

#include <systemd/sd-event.h>

#include "agent/core.h"
#include "agent/pipeline.h"
#include "base/job.h"
#include "report/http.h"

#define REQUESTS_MAX 8

/* One look a second, and the loop's only timer: a drift is seen within that. */
#define TICK_US USEC_PER_SEC

/* What a client of the unix socket asked for, waiting for its turn. */
struct request {
	bool restore;  /* else apply */
	char only[32]; /* a tuner; empty for all */
	struct http_reply *reply;
};

enum priority {
	PRIORITY_ORDINARY,
	PRIORITY_URGENT,  /* real time */
	PRIORITY_REFUSED, /* it cannot be had: ordinary for good */
};

/* What the storing thread gets. */
struct store {
	int dir;
	bool twice;
	char *text;
};

/* Where it serves: a TCP address or a path. Each by itself: one that is taken costs only itself. */
struct endpoint {
	struct http_server *server; /* NULL: none is configured, or error says why */
	char place[PATH_MAX];       /* what server was opened with, or is to be */
	int error;                  /* 0 or -errno */
	uint64_t retry_us;
};

struct agent {
	struct core core;
	sd_event *event;
	sd_event_source *tick;
	sd_event_source **watches; /* one for each tuner; NULL for those without a descriptor */
	struct endpoint tcp, local;

	struct job *job;           /* the journal is being stored */
	struct store store;        /* the job's */
	struct plan committing;    /* what is written once it is */
	struct journal *take_back; /* the journal as it was, in case storing fails */
	bool restoring;            /* committing has been carried out already */
	struct pipeline files;     /* what is written to files, beside the above */
	bool storing_files;        /* the journal that is being stored is for them too */

	struct http_reply *reply;       /* who waits for what they asked for; NULL for nobody */
	bool asked_values, asked_files; /* of that: not done yet */
	struct plan done;               /* of that: done */
	bool not_noted;                 /* of that: restored, and the journal does not tell */
	bool not_known; /* of that: restored what a new journal tells, the old one is lost */
	struct request requests[REQUESTS_MAX];
	size_t n_requests;

	uint64_t source_signature; /* of the configuration files as loaded */
	uint64_t source_changed;   /* another signature, seen once: 0 for none */
	uint64_t urgent_at_us;     /* when something was last written ahead of its note */
	enum priority priority;
	bool ready;       /* READY=1 was sent */
	bool reloaded;    /* to be said again at the next tick: nobody may wait for it for ever */
	char status[256]; /* the last STATUS= */
};

/*
 * Takes the lock when the configuration wants something written, else only reads the journal. 0, or
 * -errno, said in the log; -EBUSY when another process holds it.
 */
int agent_become_writer(struct agent *agent);

/* urgent.c: the descriptors of tuners whose next look cannot wait, and how soon the next tick is
 * due. */
int agent_watch_tuners(struct agent *agent);
uint64_t agent_tick_us(const struct agent *agent);

/* Writes at once what may be written ahead of its note; it is noted, and stored behind. */
void agent_apply_urgent(struct agent *agent);

/* priority.c: the loop, until it is told to end. 0 or -errno. */
int agent_loop(struct agent *agent);

/* commit.c: from the plan of the last look to the node, journal first. */
void agent_begin_files(struct agent *agent);
void agent_pump(struct agent *agent);
void agent_request(struct agent *agent, bool restore, const char *only, struct http_reply *reply);

/* reload.c */
void agent_watch_config(struct agent *agent);
void agent_reload(struct agent *agent);

/* serve.c: opens what the configuration asks for, closes what it does not any more. */
void agent_serve(struct agent *agent);
void agent_serve_no_more(struct agent *agent);

/* privilege.c: gives up every capability that is not needed after the start. */
void agent_drop_privileges(const struct agent *agent);

#endif
