/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Blocking HTTP requests with libcurl, over TCP or a unix socket. Several are made at the same
 * time. No proxy, redirect, cookie or credential is ever used, whatever the environment says, and
 * no connection is kept.
 */

#include <stddef.h>

#include <curl/curl.h>

#include "base/wait.h"

/*
 * What has come of the body of a 2xx answer and is not used up yet, terminated; used: how many
 * bytes of it are. 0 goes on, 1 ends the request with success, -errno ends it with that error.
 */
typedef int http_data_fn(const char *text, size_t len, size_t *used, void *userdata);

/* Zeroed but for the request. */
struct http_get {
	/* The request. Strings must stay valid during the call. */
	const char *url;         /* http:// or https:// */
	const char *unix_socket; /* NULL: TCP to the URL's host */
	const char *ca_file;     /* trusted certificates for https; NULL: libcurl's default */
	size_t limit;            /* bytes of body at most, also when data uses them up; 0: none */
	const char *method;      /* without a body; NULL: GET */
	http_data_fn *data;      /* NULL: the body is collected */
	void *userdata;

	/* The answer. */
	int error;     /* 0: a whole answer came, whatever its status. Else -errno: see below */
	long status;   /* of HTTP; 0 without an answer */
	char *body;    /* terminated; NULL when there was none. The caller frees it */
	size_t len;    /* of body */
	char why[160]; /* describes error; "" without one. Never holds a body */
	uint64_t took_us;

	/* Of the call's own. */
	CURL *easy;
	uint64_t started_us;
	size_t received, received_headers, allocated;
	int ended; /* why it was ended from here; 1: data has what it wants */
	char message[CURL_ERROR_SIZE];
};

/*
 * Makes n requests at the same time and returns when all have an answer or an error: -ETIMEDOUT,
 * -ECANCELED, -EFBIG (limit), -ENOENT, -EACCES, -ECONNREFUSED, ... (connecting), -EHOSTUNREACH
 * (name not found), -ECONNRESET (ended within the answer), -EKEYREJECTED (certificate not trusted),
 * -EPROTO (not HTTP, not TLS), -EINVAL (bad URL), or what data returned.
 */
void http_get_all(struct http_get *gets, size_t n, const struct wait *wait);
