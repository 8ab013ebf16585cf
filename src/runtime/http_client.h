/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Blocking HTTP requests with libcurl, over TCP or a unix socket, several at the same time. They
 * use no proxy, cookie, credential or kept connection, whatever the environment says.
 */

#include <stdbool.h>
#include <stddef.h>

#include <curl/curl.h>
#include <netinet/in.h>

#include "base/wait.h"

/*
 * Gets the unconsumed part of the body of a 2xx answer, terminated, and sets used to the bytes that
 * it consumed. Returns 0 to continue, 1 to end the request successfully, -errno to end it with an
 * error.
 */
typedef int http_data_fn(const char *text, size_t len, size_t *used, void *userdata);

/* Zeroed, except for the request. */
struct http_get {
	/* The request. Strings must stay valid during the call. */
	const char *url;         /* http:// or https:// */
	const char *unix_socket; /* NULL: TCP to the URL's host */
	const char *ca_files;    /* trusted for https, a path a line; NULL: libcurl's default */
	const char *cert_file;   /* the client's; NULL: none */
	const char *key_file;    /* belongs to the client's certificate */
	bool insecure;           /* any certificate is good */
	bool follows;        /* redirects, at most ten, as Go's clients; else they are answers */
	size_t limit;        /* maximum bytes of body, consumed ones included; 0: none */
	const char *method;  /* for a request without body; NULL: GET */
	const char *headers; /* more of them, "Accept: text/plain", one a line; or NULL */
	http_data_fn *data;  /* NULL: the body is collected */
	void *userdata;

	/* The answer. */
	int error;     /* 0 for a whole answer of any status, else -errno: see below */
	long status;   /* HTTP's; 0 without an answer */
	char *body;    /* terminated, or NULL. The caller frees it */
	size_t len;    /* the body's length */
	char type[64]; /* its content's type; "": not named */
	char why[160]; /* describes error; never contains a part of the body */
	uint64_t took_us;
	char address[INET6_ADDRSTRLEN]; /* the server's; "": none */

	/* Internal. */
	CURL *easy;
	struct curl_slist *headers_list;
	int ca_fd; /* several files of certificates as one; 0: none */
	uint64_t started_us;
	size_t received, received_headers, allocated;
	int ended; /* the error of a callback that ended the request; 1: data() returned 1 */
	char message[CURL_ERROR_SIZE];
};

/*
 * Makes n requests at the same time and returns when all have an answer or an error: -ETIMEDOUT,
 * -ECANCELED, -EFBIG (limit), -ENOENT, -EACCES, -ECONNREFUSED, ... (connecting), -EHOSTUNREACH
 * (name not found), -ECONNRESET (within the answer), -EKEYREJECTED (certificate not trusted),
 * -EPROTO (not HTTP, not TLS), -EINVAL (bad URL), or the error of data().
 */
void http_get_all(struct http_get *gets, size_t n, const struct wait *wait);
