/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_PARSE_H
#define RUNTIME_DOCKER_PARSE_H

/*
 * What the Engine API says, as plain data. Pure. Each takes the text of one JSON object; 0,
 * -EBADMSG for what is no such object, or -ENOMEM. Strings are cut to their room at a whole
 * character and have no control characters; what is missing stays empty.
 */

#include "runtime/docker.h"

/* GET /version and GET /info: each writes its part. */
int docker_parse_version(const char *text, size_t len, struct docker_info *info);
int docker_parse_info(const char *text, size_t len, struct docker_info *info);

/*
 * One message of GET /events. 1 when it is a reload (value becomes what is in force of a top-level
 * key of daemon.json) or the end of a pull (name becomes the image's reference), else 0.
 */
int docker_parse_reload(const char *text, size_t len, const char *key,
	char value[static DOCKER_VALUE_MAX], uint64_t *when_us);
int docker_parse_pull(const char *text, size_t len, char name[static DOCKER_NAME_MAX]);

/* One element of GET /containers/json. */
int docker_parse_container(const char *text, size_t len, struct docker_container *container);

/* A refusal, {"message": "..."}, in one line, without secrets of URLs; any other text as it is. */
void docker_parse_refusal(const char *body, char why[static DOCKER_ERROR_MAX]);

#endif
