/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PROCESS_H
#define REPORT_PROCESS_H

/* What the agent itself uses, in the names that every Prometheus client library gives it. */

#include <stdint.h>

struct metric_sink;

/* Seven system calls. What cannot be read is left out. started_us: CLOCK_REALTIME. */
void process_metrics(struct metric_sink *sink, uint64_t started_us);

#endif
