/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Documents about the node. The functions only read the node; their
 * cost does not depend on the size of kernel tables. Documents are valid UTF-8 for any names in the
 * node. The caller deletes JSON documents.
 */

#include "base/json.h"
#include "base/text.h"
#include "model/node.h"

/* Makes /v1/status, schema 1. trusted: with the data that tuners show to root only. */
cJSON *report_status(const struct node *node, bool trusted);

/* Makes /health: {"status": "ok|warning|critical", "checks": [...]}. */
cJSON *report_health(const struct node *node);

/*
 * Makes {"changes": [{"name", "tuner", "old", "new", "actual", "reason", "error"}], "failed": N}.
 * done: the plan was carried out; before, actual and error are null.
 */
cJSON *report_plan(const struct plan *plan, bool done);

/* Writes /metrics: Prometheus text 0.0.4, or OpenMetrics 1.0. */
void report_metrics(FILE *out, const struct node *node, bool openmetrics);

/* Writes /readyz?verbose: whether the first apply is done, and a line for each tuner. */
void report_ready(FILE *out, const struct node *node);

/* Writes the status page, a self-contained HTML document. paused: it does not reload itself. */
void report_page(FILE *out, const struct node *node, bool paused);

#define STATUS_LINE_MAX 256

/* Writes the STATUS= line that systemctl status shows; truncated if it is too long. */
void report_line(const struct node *node, char line[static STATUS_LINE_MAX]);

/* The word for a setting that is observed, and that enforce mode would change. */
#define STATE_WOULD_CHANGE "would change"

/* The tone of a verdict, state, status or severity of the status document. */
enum tone { TONE_GOOD, TONE_WARNING, TONE_BAD, TONE_FAINT };
enum tone tone_of(const char *word);

/* ---- a finding of the document: what the views have in common ---- */

/* Returns its severity, or "ignored". */
const char *finding_word(const cJSON *finding);

/* Returns the text of its instance; empty if its slug has it already. */
const char *finding_instance(const cJSON *finding);

/*
 * Returns how many users come first: several if they use as much. 0: nobody, or it is not known.
 */
int finding_first_users(const cJSON *finding);

/* Returns whether it has users that the node does not show. */
bool finding_lacks_user(const cJSON *finding);

/* Returns the worst finding with this slug, or NULL. */
const cJSON *finding_of(const cJSON *status, const char *slug);

/* Writes the text of a cell: empty for numbers, histories and missing values. Returns text. */
#define CELL_MAX 512
const char *cell_text(const struct column *column, const cJSON *row, char *text, size_t size);

/* Returns whether the row is a warning or critical. */
bool has_problem(const cJSON *row);

/* Returns whether the condition does not apply to this node or its tuner is off. */
bool condition_is_absent(const cJSON *row);

/* Returns false if the condition is OK or absent. */
bool condition_is_listed(const cJSON *row);

/* Returns the word that is shown: the severity for "True", "OK" for "False", else word itself. */
const char *condition_word(const cJSON *row, const char *word);
