/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_PARSE_H
#define RUNTIME_DOCKER_PARSE_H

/*
 * What the Engine API says, as plain data. Pure. Each takes the text of one JSON object; 0,
 * -EBADMSG for what is no such object, or -ENOMEM. Strings are cut to their room at a whole
 * character; what is missing stays empty.
 */

#include "runtime/docker.h"

/* GET /version and GET /info: each writes its part of the state. */
int docker_parse_version(const char *text, size_t len, struct docker_state *state);
int docker_parse_info(const char *text, size_t len, struct docker_state *state);

int docker_parse_info_version(const char *text, size_t len, struct docker_info *info);
int docker_parse_info_rest(const char *text, size_t len, struct docker_info *info);

/*
 * One message of GET /events. 1 when it is a reload (value becomes what is in force of a top-level
 * key of daemon.json) or the end of a pull (name becomes the image's reference), else 0.
 */
int docker_parse_reload(
	const char *text, size_t len, const char *key, char value[static DOCKER_VALUE_MAX]);
int docker_parse_pull(const char *text, size_t len, char name[static DOCKER_NAME_MAX]);

/*
 * One message of GET /events. 1 when it is of a kind that is told on. A reload writes the effective
 * values into the state.
 */
int docker_parse_event(
	const char *text, size_t len, struct docker_event *event, struct docker_state *state);

/* One element of GET /containers/json and GET /images/json. */
int docker_parse_container(const char *text, size_t len, struct docker_container *container);
int docker_parse_image(const char *text, size_t len, struct docker_image *image);

/*
 * A refusal, {"message": "..."}, in one line; what else stands there as it is, cut. Returns the
 * error that the words mean (docker_transfer_options).
 */
int docker_parse_refusal(const char *body, char why[static DOCKER_WHY_MAX]);

/*
 * One message of a pull's or load's stream: 0 with progress written, or the error that it tells
 * (docker_transfer_options) with why.
 */
int docker_parse_progress(const char *text, size_t len, struct docker_progress *progress,
	char why[static DOCKER_WHY_MAX]);

#endif
