/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The running agent, shared by the files of this directory. */

#include "agent/core.h"
#include "base/worker.h"
#include "config/web.h"
#include "report/http.h"
#include "report/recorder.h"
#include "report/report.h"

#define REQUESTS_MAX 8

/* Under way at once. */
#define JOBS_MAX 64

/* For samples and for loading BPF programs. */
#define JOB_TIMEOUT_US (10 * USEC_PER_SEC)

/* The interval of polls: drift is found within it. */
#define TICK_US USEC_PER_SEC

/* A request of a client of the unix socket. */
struct request {
	bool restore;  /* else apply */
	char only[32]; /* a tuner; empty for all */
	struct http_connection *client;
};

/* A TCP address or the path of a socket. If one is in use, the other still serves. */
struct endpoint {
	struct http_server *server; /* NULL: none is configured, or see error */
	char address[PATH_MAX];     /* configured */
	uint32_t web_checksum;      /* of the web configuration in use */
	int error;                  /* 0 or -errno */
	uint64_t retry_us;
};

struct job {
	const struct job_ops *ops;
	void *request;              /* NULL: the slot is free */
	struct tuner_status *tuner; /* NULL: a file job. The worker uses its sample_path only */
	enum job_kind kind;
	unsigned generation; /* of the tuner at the request */
	bool is_after_files; /* a sample: no file job was under way at the request */
	struct worker *own;  /* NULL: a file job */
};

struct agent {
	struct core core;
	sd_event *event;
	sd_event_source *tick;
	struct endpoint endpoints[2]; /* TCP, and the unix socket */
	struct web_config *web;       /* of http.web_config, for TCP; NULL: none, or not valid */
	bool urgent;                  /* it has real-time priority */
	bool never_urgent;            /* it may not have that priority */

	struct recorder *recorder; /* NULL: this process may not write */
	struct worker *worker;     /* file jobs */
	struct job jobs[JOBS_MAX];
	uint64_t resume_us; /* when to resume restarts whose end is not known */
	struct request requests[REQUESTS_MAX];
	size_t n_requests;
	struct plan done; /* changes made for requests[0] */

	uint64_t source_signature; /* of the configuration files as loaded */
	uint64_t source_seen;      /* their signature at the last tick */
	uint64_t source_seen_us;   /* CLOCK_MONOTONIC: when it changed */
	bool unsaved;              /* last_good_save() is due */
	bool ready;                /* READY=1 was sent */
	bool reloaded; /* send READY=1 again at the next tick, in case systemd missed it */
	char status[STATUS_LINE_MAX]; /* the last STATUS= */
};

/* job.c. Returns 0, or -errno, and the request still belongs to the caller. */
int agent_submit(struct agent *agent, const struct job *job);

/* Cancels unwanted transfers and begins the jobs that are due. */
void agent_begin_jobs(struct agent *agent);

void agent_finish_jobs(struct agent *agent);

/* Begins only JOB_LOAD, which needs the privileges of the start. */
void agent_begin_loads(struct agent *agent);

void agent_cancel_jobs(struct agent *agent);

/* After the cancel. Returns false if a thread has not ended, so that no memory may be freed. */
bool agent_join_jobs(struct agent *agent, uint64_t deadline_us);

/*
 * last_good.c. Keeps the last configuration without a fault in the state directory, so that a
 * faulty one does not leave the node unprotected after a restart.
 */
void last_good_save(struct agent *agent);

/* Returns 0, or -errno: -ENOENT if this installation and source have kept none. */
int last_good_load(const struct core_options *options, struct config **ret);

/* loop.c. Makes the next tick due now. */
void agent_wake(struct agent *agent);

/* A member of struct tuner_loop. */
void agent_poll_tuner(struct tuner_loop *loop);

/* Polls, writes values, and hands files and samples to the workers. */
void agent_poll(struct agent *agent);

/* Runs until SIGTERM or SIGINT. Returns 0 or -errno. */
int agent_loop(struct agent *agent);

/* An http_change_fn. */
void agent_request(void *userdata, bool restore, const char *only, const char *owner,
	struct http_connection *client);

/* agent.c. Opens and closes the configured endpoints. */
void agent_serve(struct agent *agent);

/* Reloads the configuration if its files have changed. */
void agent_watch_config(struct agent *agent);

/* Drops the capabilities that are needed only at the start. */
void agent_drop_privileges(const struct agent *agent);
