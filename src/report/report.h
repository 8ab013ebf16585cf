/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

/*
 * The node as documents. Each function only reads the node, and its cost depends on what the agent
 * reports, never on the size of a kernel table. On success *ret is a new buffer that the caller
 * frees, len its length without the terminator (len may be NULL); 0 or -ENOMEM. Every document ends
 * with a newline and is valid UTF-8 for any names in the node.
 */

#include <stdbool.h>
#include <stddef.h>

#include "model/node.h"

#include <headroom/plan.h>

/*
 * /v1/status, schema 1. pretty: indented, for people. trusted: for root's eyes, with what a tuner
 * shows nobody else.
 */
int report_status(const struct node *node, bool pretty, bool trusted, char **ret, size_t *len);

/* /metrics: Prometheus text 0.0.4, or OpenMetrics 1.0. */
int report_metrics(const struct node *node, bool openmetrics, char **ret, size_t *len);

/* /health: {"status": "ok|warning|critical", "checks": [...]}. */
int report_health(const struct node *node, char **ret, size_t *len);

/* /readyz?verbose: a line for each tuner. *ready (never NULL) is the verdict. */
int report_ready(const struct node *node, bool *ready, char **ret, size_t *len);

/*
 * {"changes": [{"name", "tuner", "old", "new", "actual", "reason", "error"}], "failed": N}: a plan
 * before (done: false; actual and error are null) or after it was carried out.
 */
int report_plan(const struct plan *plan, bool done, char **ret);

/* /: the status page, one self-contained HTML document. */
int report_page(const struct node *node, char **ret, size_t *len);
extern const char page_style[];

#endif
