/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node as documents, and the server of them. A document's function only reads the node, and
 * its cost depends on what the agent reports, never on the size of a kernel table. Every document
 * is valid UTF-8 for any names in the node. JSON is the caller's to delete.
 */

#include <stdio.h>

#include <cjson/cJSON.h>
#include <systemd/sd-event.h>

#include "base/util.h"
#include "model/node.h"

/* /v1/status, schema 1. trusted: for root's eyes, with what a tuner shows nobody else. */
cJSON *report_status(const struct node *node, bool trusted);

/* /health: {"status": "ok|warning|critical", "checks": [...]}. */
cJSON *report_health(const struct node *node);

/*
 * {"changes": [{"name", "tuner", "old", "new", "actual", "reason", "error"}], "failed": N}: a plan
 * before (done: false; actual and error are null) or after it was carried out.
 */
cJSON *report_plan(const struct plan *plan, bool done);

/* /metrics: Prometheus text 0.0.4, or OpenMetrics 1.0. */
void report_metrics(FILE *out, const struct node *node, bool openmetrics);

/* /readyz?verbose: whether the node was applied, and a line for each tuner. */
void report_ready(FILE *out, const struct node *node);

/* /: the status page, one self-contained HTML document; paused: it does not renew itself. */
void report_page(FILE *out, const struct node *node, bool paused);

#define STATUS_LINE_MAX 256

/* What systemd shows of the service: one line, cut where it is too long. */
void report_line(const struct node *node, char line[static STATUS_LINE_MAX]);

/* What a word of the status document means: a verdict, state, status or severity. */
enum tone { TONE_GOOD, TONE_WARNING, TONE_BAD, TONE_FAINT };
enum tone tone_of(const char *word);

/* A cell of a view: "" for none, for a history and for a COLUMN_NUMBER. Returns text. */
#define CELL_MAX 512
const char *cell_text(const struct column *column, const cJSON *row, char *text, size_t size);

/* The word for people: of a True condition its severity, OK of a False one, else word itself. */
const char *condition_word(const cJSON *row, const char *word);

/*
 * An HTTP server in the caller's event loop: read-only over TCP, or a unix socket where root can
 * also change things. A request has 10 s in all, however it trickles; beyond 64 connections the one
 * whose request is oldest is closed in favour of the new one, so that slow clients starve only each
 * other. Documents are rendered at most once a tick. Without a client it never wakes up.
 */
struct http_server;
struct http_connection;

/*
 * POST /v1/apply and /v1/restore. only is a tuner's name ([a-z]{1,31}, not yet looked up), or NULL
 * for all; it is gone when the function returns. It calls http_reply() exactly once, now or later
 * from the same loop, also when the client or the server has gone meanwhile. It must not close the
 * server itself.
 */
typedef void http_change_fn(
	void *userdata, bool restore, const char *only, struct http_connection *client);

/* Answers such a request with a JSON document, which is copied. */
void http_reply(struct http_connection *client, unsigned status, const char *json);

/*
 * listen_on: "ADDRESS:PORT", IPv6 in brackets; or a unix socket's path, made with mode 0600 in
 * place of a dead one. 0 with *ret; -EINVAL for what is no address; -EADDRINUSE for a socket on
 * which someone listens; else -errno. node must outlive the server.
 */
int http_server_open(sd_event *event, const char *listen_on, const struct node *node,
	http_change_fn *change, void *userdata, struct http_server **ret);

/* Closes all connections, removes the unix socket. */
void http_server_close(struct http_server *server);
DEFINE_CLEANUP(struct http_server, http_server_close)
