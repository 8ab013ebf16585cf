/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_FETCH_INTERNAL_H
#define RUNTIME_FETCH_INTERNAL_H

/* Shared by fetch.c, which runs requests in the loop, and fetch_setup.c, which tells libcurl what a
 * request is and moves its bodies.
 */

#include "base/util.h"
#include "runtime/fetch.h"

#include <curl/curl.h>

/* libcurl waits for single milliseconds when it tries a second address; sd-event's default is 250.
 */
#define TIMER_ACCURACY_US USEC_PER_MSEC

struct watch;

struct fetcher {
	sd_event *event;
	CURLM *multi;
	sd_event_source *timer;
	struct watch *watches;
	struct fetch *fetches;
	const struct fetch *handing_over; /* whose data callback runs; NULL also once it is gone */
};

struct fetch {
	struct fetcher *fetcher;
	struct fetch *next, **owner;
	CURL *easy;
	struct curl_slist *headers;
	fetch_data_fn *data;
	fetch_done_fn *done;
	void *userdata;
	size_t limit, received, received_headers;
	char *body; /* collected, or waiting to be handed over */
	size_t len, allocated;
	int error;   /* why the transfer was ended from here */
	int body_fd; /* what to send, from body_at on */
	off_t body_at;
	sd_event_source *resume; /* asks again for bytes that were not in memory */
	char message[CURL_ERROR_SIZE];
	uint64_t started_us;
};

/* Gives a new request's handle its options. False when libcurl does not take them. */
bool fetch_set_up(struct fetch *fetch, const struct fetch_request *request);

/* Whether what comes goes to the data callback: it is wanted, and the status is 2xx. */
bool fetch_is_streamed(const struct fetch *fetch);

/* Hands what libcurl has brought to its owners. After each call of libcurl that may bring
 * something.
 */
void fetcher_settle(struct fetcher *fetcher);

#endif
