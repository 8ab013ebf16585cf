/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_NOTIFY_H
#define REPORT_NOTIFY_H

/* Messages to systemd (sd_notify(3)). Without a service manager nothing is sent. */

#include "model/node.h"

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

/* STATUS= in one line, sent only when it changed since the last call; keep is the caller's memory.
 */
void notify_status(const struct node *node, char keep[static 256]);

/* WATCHDOG=1. */
void notify_watchdog(void);

#endif
