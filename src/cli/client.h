/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "cli/cli.h"

/*
 * One request to the running agent: over its unix socket, or over TCP when socket_path is NULL and
 * address ("127.0.0.1:19810") is not. The answer's body, which the caller frees, and its HTTP
 * status. 0; -ENOTCONN when no agent answers there; -EACCES when the socket is not for us;
 * -ETIMEDOUT; -ENOMEM.
 */
int client_call(const char *socket_path, const char *address, bool post, const char *path,
	char **body, long *status);

/*
 * The status document, of the running agent or, without one, of a reading of our own (watch: with
 * what only BPF knows). EXIT_OK with *status, which the caller deletes, and in alone (may be NULL)
 * whether there was no agent; else an exit code, reported on stderr. Its texts are printable.
 */
int status_document(const struct cli *cli, bool watch, cJSON **status, bool *alone);

#endif
