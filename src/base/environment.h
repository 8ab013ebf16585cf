/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Environment files as systemd reads them (EnvironmentFile= in systemd.exec(5)): NAME=VALUE in
 * lines, comments, quotes, and a backslash that joins lines. A shell reads the same of plain files,
 * such as those of flannel.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * Gets the last value of a variable in a terminated text. Returns false without one, or if it does
 * not fit.
 */
bool environment_get(const char *text, const char *name, char *value, size_t size);
