/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_FETCH_H
#define RUNTIME_FETCH_H

/*
 * HTTP requests in an sd-event loop, by libcurl's multi interface (libcurl-multi(3)). Nothing
 * blocks: libcurl says which descriptors and which time matter, the loop calls it for these. No
 * proxy, redirect, cookie or credential is ever used, whatever the environment says.
 *
 * Names are resolved by libcurl's own short-lived thread where it was built so (Debian's is);
 * fetcher_open refuses a libcurl that would block on a name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include "base/cleanup.h"

struct fetcher; /* one libcurl multi handle: share one among all clients of a loop */
struct fetch;   /* a request under way */

struct fetch_result {
	int error;           /* 0: an answer came, whole, whatever its status. Else -errno: below */
	long status;         /* of HTTP; 0 when there was no answer. May be set beside an error */
	const char *body;    /* terminated; "" when there is none or when it was streamed */
	size_t len;          /* of the body, also of a streamed one */
	const char *message; /* of an error in words, "" without one. Never holds a body */
	uint64_t took_us;
};

/*
 * A piece of a streamed body of an answer whose status is 2xx; others are collected, so that the
 * result's body tells their message. A negative return (-errno) ends the request with that error.
 */
typedef int fetch_data_fn(const char *data, size_t len, void *userdata);

/*
 * Called exactly once, from the loop, unless the request was cancelled. result and what it points
 * to last only as long as the call. The request is gone: it must not be cancelled any more.
 */
typedef void fetch_done_fn(const struct fetch_result *result, void *userdata);

struct fetch_request {
	const char *url;          /* http:// or https:// */
	const char *method;       /* NULL: GET. HEAD expects no body */
	const char *unix_socket;  /* path of a socket to connect to; NULL: TCP by the URL's host */
	const char *ca_file;      /* certificates to trust for https; NULL: libcurl's default */
	int body_fd;              /* a regular file to send from its present place to its end;
				     0: nothing. The caller keeps it open */
	const char *content_type; /* of the sent body; NULL: application/x-tar */
	uint64_t connect_us;      /* until connected, TLS included; 0: as deadline_us */
	uint64_t deadline_us;     /* for the whole request; 0: none (a stream that lasts) */
	unsigned int idle_s;      /* seconds without a byte in either direction; 0: any */
	size_t limit;             /* bytes of body at most, counted also when streamed; 0: none */
	/* Either may start and cancel requests, also its own in data; not close the fetcher. */
	fetch_data_fn *data; /* NULL: the body is collected */
	fetch_done_fn *done;
	void *userdata;
};

/*
 * event is kept referenced. 0, -ENOMEM, or -EOPNOTSUPP for a libcurl that resolves names in the
 * caller's thread.
 */
int fetcher_open(sd_event *event, struct fetcher **fetcher);

/* Abandons all requests without their callbacks. NULL is fine. */
void fetcher_close(struct fetcher *fetcher);

/*
 * Starts a request; strings are copied. fetch (may be NULL) is for fetch_cancel and holds until
 * done was called. 0, -EINVAL for a request that libcurl does not take, or -ENOMEM; on an error
 * done is not called.
 *
 * Errors in the result: -ETIMEDOUT (deadline), -EFBIG (limit), -ENOENT, -EACCES, -ECONNREFUSED, ...
 * (connecting), -EHOSTUNREACH (name not found), -ECONNRESET (died in the middle of the answer),
 * -EKEYREJECTED (its certificate is not trusted), -EPROTO (no HTTP, no TLS), -ENOMEM, or data's
 * own.
 */
int fetch_start(struct fetcher *fetcher, const struct fetch_request *request, struct fetch **fetch);

/* Abandons a request: done is not called. NULL is fine. */
void fetch_cancel(struct fetch *fetch);

DEFINE_CLEANUP(struct fetcher, fetcher_close)

#endif
