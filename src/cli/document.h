/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DOCUMENT_H
#define CLI_DOCUMENT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "cli/cli.h"

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/*
 * The status document, of the running agent or, without one, of a look of our own (watch: with what
 * only BPF knows). EXIT_OK with *status, which the caller deletes, and in alone (may be NULL)
 * whether there was no agent; else an exit code, said on stderr.
 */
int status_document(const struct cli *cli, bool watch, cJSON **status, bool *alone);

#endif
