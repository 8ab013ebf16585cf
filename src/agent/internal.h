/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_INTERNAL_H
#define AGENT_INTERNAL_H

/* The running agent, shared by the files of this directory. */

#include <systemd/sd-event.h>

#include "agent/core.h"
#include "base/worker.h"
#include "report/http.h"

#define REQUESTS_MAX 8

/* One poll a second, and the loop's only timer: a drift is seen within that. */
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

/* Where it serves: a TCP address or a path. Each by itself: one that is taken costs only itself. */
struct endpoint {
	struct http_server *server; /* NULL: none is configured, or error says why */
	char address[PATH_MAX];     /* what server was opened with, or is to be */
	int error;                  /* 0 or -errno */
	uint64_t retry_us;
};

struct agent {
	struct core core;
	sd_event *event;
	sd_event_source *tick;
	sd_event_source **watches; /* one for each tuner; NULL for those without a descriptor */
	struct endpoint tcp, local;
	enum priority priority;

	struct worker *worker;  /* samples and file jobs */
	struct file_job *job;   /* under way; NULL for none */
	uint64_t resume_us;     /* when to look again after restarts whose end is not known */
	struct request request; /* being worked on, when its reply is not NULL */
	struct plan done;       /* of that */
	struct request requests[REQUESTS_MAX];
	size_t n_requests;

	char **sources; /* configuration files that were loaded and not empty */
	size_t n_sources, sources_allocated;
	uint64_t source_signature; /* of the configuration files as loaded */
	uint64_t source_changed;   /* another signature, seen once: 0 for none */
	bool ready;                /* READY=1 was sent */
	bool reloaded;    /* to be reported again at the next tick, so that nobody waits for ever */
	char status[256]; /* the last STATUS= */
};

/*
 * Takes the lock when the configuration wants something written, else only reads the records. 0, or
 * -errno, after a line in the log; -EBUSY when another process holds it.
 */
int agent_become_writer(struct agent *agent);

/* loop.c: the tick and the descriptors of tuners whose next poll cannot wait. 0 or -errno. */
int agent_watch_tuners(struct agent *agent);
int agent_begin_ticking(struct agent *agent);

/* Polls, writes values, and hands files to the worker. */
void agent_poll(struct agent *agent);

/* Until the agent is to end. 0 or -errno. */
int agent_loop(struct agent *agent);

/* work.c: what clients ask for, and what the worker does. */
void agent_work(struct agent *agent);
void agent_sample(struct agent *agent);
void agent_request(struct agent *agent, bool restore, const char *only, struct http_reply *reply);

/* reload.c */
void agent_watch_config(struct agent *agent);
void agent_remember_sources(struct agent *agent);
void agent_forget_sources(struct agent *agent);
void agent_reload(struct agent *agent);

/* serve.c: opens what the configuration asks for, closes what it no longer does. */
void agent_serve(struct agent *agent);
void agent_stop_serving(struct agent *agent);

/* privilege.c: gives up every capability that is not needed after the start. */
void agent_drop_privileges(const struct agent *agent);

#endif
