/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node as documents. Each function only reads the node, and its cost depends on what the agent
 * reports, never on the size of a kernel table. Every document is valid UTF-8 for any names in the
 * node. JSON is the caller's to delete.
 */

#include <stdio.h>

#include <cjson/cJSON.h>

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

/* /readyz?verbose: a line for each tuner. The verdict. */
bool report_ready(FILE *out, const struct node *node);

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
