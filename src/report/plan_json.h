/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PLAN_JSON_H
#define REPORT_PLAN_JSON_H

#include <stdbool.h>

#include <headroom/plan.h>

/*
 * {"changes": [{"name", "tuner", "old", "new", "actual", "reason", "error"}], "failed": N}: a plan
 * before (done: false; actual and error are null) or after it was carried out. On success *ret is a
 * new buffer that the caller frees. 0 or -ENOMEM.
 */
int report_plan(const struct plan *plan, bool done, char **ret);

#endif
