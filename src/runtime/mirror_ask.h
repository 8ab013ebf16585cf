/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Asks mirrors whether they have an image (OCI distribution specification: the pull part). */

#include "runtime/archive.h"
#include "runtime/registry.h"

#define MIRROR_PATH_MAX 512

/* A mirror, and what a runtime's file says about it. */
struct mirror_access {
	char url[REGISTRY_URL_MAX];
	/* Full paths; "": none. */
	char cas[4 * MIRROR_PATH_MAX + 1];     /* one a line */
	char clients[4 * MIRROR_PATH_MAX + 1]; /* a certificate, a key, ..., one a line */
	char headers[1024];                    /* one a line */
	const char *networks;                  /* the list of networks in which it is; or NULL */
	bool insecure;                         /* any certificate is good */
	bool is_root;                          /* the URL is that of the API */
	bool useless;                          /* it serves no pulls */
	bool unsupported;                      /* too many certificates, CAs or headers */
};

struct mirror_question {
	char image[IMAGE_NAME_MAX]; /* complete */
	struct mirror_access mirror;
	bool names_registry; /* ?ns=REGISTRY, as the runtime adds it */
	int answer; /* 1: it has the image; 0: not (yet); -errno: it refuses, or does not answer */
	char why[MIRROR_WHY_MAX]; /* of an error: the mirror and its answer */

	/* Internal. */
	char path[IMAGE_NAME_MAX + DIGEST_MAX];
	unsigned steps;
	size_t client; /* where in mirror.clients the certificate is */
	bool repeated;
};

/*
 * Asks all questions at the same time, for 2 s at most. A peer announces a manifest before its
 * layers, so a question by digest asks for the largest layer. After a 404 it asks once more.
 */
void mirrors_ask(struct mirror_question *questions, size_t n, const char *host_root,
	const struct wait *wait);
