/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CHANGES_H
#define CLI_CHANGES_H

#include <stdbool.h>

/*
 * Prints the changes of a plan document (report_plan, or the agent's answer), a line each: name,
 * old, new and why, then what each reason means. Failures go to stderr. Returns how many failed, or
 * -1 for a document of another form.
 */
int print_changes(const char *json);

#endif
