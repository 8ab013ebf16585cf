/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Members of struct runtime_driver for runtimes with the CRI. */

#include "runtime/cri_client.h"
#include "runtime/driver.h"

/* ---- read() ---- */

struct cri_reading {
	struct runtime_reading *reading;
	struct node_runtime *runtime; /* of reading */
	struct cri cri;
	struct wait wait;   /* of the current question */
	struct arena arena; /* of the last answer */
};

/* of_cri: skipped if the CRI is off; slow: asked in slow readings only. */
struct cri_question {
	void (*ask)(struct cri_reading *session);
	bool of_cri, slow;
};

/*
 * Asks the questions, ended by {0}, until a call fails. The first question decides whether the
 * runtime answers.
 */
void cri_read(struct runtime_reading *reading, const struct cri_question *questions);

/* Frees the previous answer, then as cri_call(). */
int cri_ask(struct cri_reading *session, enum cri_call which, const char *namespace,
	const ProtobufCMessage *message, void *ret);

/* Notes an answer (true) or an error. A gRPC status is neither of both. */
bool cri_is_good(struct cri_reading *session, int r);

/* The same for a runtime that may be starting: a gRPC status is asked again soon. */
bool cri_is_ready(struct cri_reading *session, int r);

/* Notes version and process. */
void cri_set_version(struct cri_reading *session, const char *version);

void cri_ask_version(struct cri_reading *session);
void cri_ask_store(struct cri_reading *session); /* the store's directory and size */
void cri_ask_names(struct cri_reading *session); /* of pods and containers */

/* ---- images ---- */

/* Lasts for one call of a driver. */
struct image_session {
	struct cri cri;
	struct arena arena;
	const struct image_runtime *runtime;
	struct wait wait;
	char *why;
	char hash[HASH_TEXT_MAX]; /* identifies names and lease of a transfer */
};

struct image_session image_session_open(
	const struct image_runtime *runtime, const struct wait *wait, char *why);
void image_session_end(struct image_session *session);

/* The answer lives as long as the session. 0, or -errno with why. */
int image_call(struct image_session *session, enum cri_call which, const ProtobufCMessage *message,
	void *ret);

/* Members of struct runtime_driver. */
int cri_read_images_info(struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX]);
int cri_list_images(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX]);
int cri_find_image(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	struct runtime_image *image, char why[static IMAGES_WHY_MAX]);
int cri_pull_image(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static IMAGES_WHY_MAX]);

/* The image of a name within a session; NULL: there is none. */
int cri_image_status(struct image_session *session, const char *name, const Cri__Image **image);

/* Pulls an image within a session, under the lease of the session. */
int cri_pull(struct image_session *session, const char *reference);
