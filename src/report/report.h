/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Documents about the node, and the HTTP server for them. The functions only read the node; their
 * cost does not depend on the size of kernel tables. Documents are valid UTF-8 for any names in the
 * node. The caller deletes JSON documents.
 */

#include <systemd/sd-event.h>

#include "base/json.h"
#include "base/text.h"
#include "model/node.h"

/* /v1/status, schema 1. trusted: with the data that tuners show to root only. */
cJSON *report_status(const struct node *node, bool trusted);

/* /health: {"status": "ok|warning|critical", "checks": [...]}. */
cJSON *report_health(const struct node *node);

/*
 * {"changes": [{"name", "tuner", "old", "new", "actual", "reason", "error"}], "failed": N}. done:
 * the plan was carried out; before, actual and error are null.
 */
cJSON *report_plan(const struct plan *plan, bool done);

/* /metrics: Prometheus text 0.0.4, or OpenMetrics 1.0. */
void report_metrics(FILE *out, const struct node *node, bool openmetrics);

/* /readyz?verbose: whether the first apply is done, and a line for each tuner. */
void report_ready(FILE *out, const struct node *node);

/* /: the status page, a self-contained HTML document. paused: it does not reload itself. */
void report_page(FILE *out, const struct node *node, bool paused);
extern const char page_style[]; /* page_style.c: its style sheet */

#define STATUS_LINE_MAX 256

/* The STATUS= line that systemctl status shows; truncated if it is too long. */
void report_line(const struct node *node, char line[static STATUS_LINE_MAX]);

/* The tone of a verdict, state, status or severity of the status document. */
enum tone { TONE_GOOD, TONE_WARNING, TONE_BAD, TONE_FAINT };
enum tone tone_of(const char *word);

/* Writes the text of a cell: empty for numbers, histories and missing values. Returns text. */
#define CELL_MAX 512
const char *cell_text(const struct column *column, const cJSON *row, char *text, size_t size);

/* Whether the row is a warning or critical. */
bool has_problem(const cJSON *row);

/* False if the condition is OK, does not apply to this node, or its tuner is off. */
bool condition_is_listed(const cJSON *row);

/* The word that is shown: the severity for "True", "OK" for "False", else word itself. */
const char *condition_word(const cJSON *row, const char *word);

/*
 * An HTTP server in the caller's event loop. Over TCP it is read-only; over a unix socket root can
 * also change the node. A request has a deadline of 10 s. Beyond 64 connections the one with the
 * oldest request is closed, so that slow clients harm only each other. Documents are rendered at
 * most once per tick. Without clients the server never wakes up.
 */
struct http_server;
struct http_connection;
struct web_config;

/*
 * Handles POST /v1/apply and /v1/restore. only has the form of a tuner's name ([a-z]{1,31}) or is
 * NULL for all tuners; owner is the client's core_owner(), or NULL. Both are valid during the call.
 * The function must call http_reply() exactly once, now or later from the same loop, even if the
 * client or the server has gone by then. It must not close the server.
 */
typedef void http_change_fn(void *userdata, bool restore, const char *only, const char *owner,
	struct http_connection *client);

/* Answers the request. json is copied. */
void http_reply(struct http_connection *client, unsigned status, const char *json);

/*
 * listen_on is "ADDRESS:PORT" (IPv6 in brackets) or the path of a unix socket, which is created
 * with mode 0600 and replaces a dead socket. web has TLS and users of a TCP address, or is NULL;
 * the server keeps a reference. node must outlive the server. Returns 0 with *ret; -EINVAL for an
 * invalid address; -EADDRINUSE if a process listens there; or another -errno.
 */
int http_server_open(sd_event *event, const char *listen_on, struct web_config *web,
	const struct node *node, http_change_fn *change, void *userdata, struct http_server **ret);

/* Closes all connections and removes the unix socket. */
void http_server_close(struct http_server *server);
DEFINE_CLEANUP(struct http_server, http_server_close)
