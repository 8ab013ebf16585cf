/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fetch_internal.h"

#include "base/build.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* Collected of an answer that is streamed when it is well: enough for an error's message. */
#define ERROR_BODY_MAX 65536
#define HEADERS_MAX    65536 /* bytes in all: libcurl 7.88 keeps as many as come */
/* libcurl reads up to 100 of these in one call: this much at a time is parsed in 1 ms or two. */
#define BUFFER_SIZE 1024L
/* How soon to ask again for bytes of a file that are not in memory yet. */
#define READ_RETRY_US (2 * USEC_PER_MSEC)

bool fetch_is_streamed(const struct fetch *fetch)
{
	long status = 0;

	curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
	return fetch->data && status >= 200 && status < 300;
}

static int keep(struct fetch *fetch, const char *data, size_t len)
{
	if (fetch->len + len + 1 > fetch->allocated) {
		size_t wanted = MAX(2 * fetch->allocated, fetch->len + len + 1);
		char *moved = realloc(fetch->body, wanted);

		if (!moved)
			return -ENOMEM;
		fetch->body = moved;
		fetch->allocated = wanted;
	}
	memcpy(fetch->body + fetch->len, data, len);
	fetch->len += len;
	fetch->body[fetch->len] = '\0';
	return 0;
}

static size_t take_body(char *data, size_t size, size_t n, void *userdata)
{
	struct fetch *fetch = userdata;
	size_t len = size * n, kept = len;

	fetch->received += len;
	if (fetch->limit > 0 && fetch->received > fetch->limit)
		fetch->error = -EFBIG;
	else if (fetch->data && !fetch_is_streamed(fetch))
		kept = MIN(len, ERROR_BODY_MAX - MIN(fetch->len, ERROR_BODY_MAX));
	if (fetch->error == 0)
		fetch->error = keep(fetch, data, kept);
	return fetch->error < 0 ? 0 : len;
}

static size_t count_headers(char *data, size_t size, size_t n, void *userdata)
{
	struct fetch *fetch = userdata;

	(void)data;
	fetch->received_headers += size * n;
	if (fetch->received_headers <= HEADERS_MAX)
		return size * n;
	fetch->error = -EFBIG;
	return 0;
}

static int on_resume(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fetch *fetch = userdata;
	struct fetcher *fetcher = fetch->fetcher;

	(void)source;
	(void)usec;
	curl_easy_pause(fetch->easy, CURLPAUSE_CONT);
	fetcher_settle(fetcher);
	return 0;
}

/* The disk is asked for what comes next, and looked at again a little later. */
static size_t pause_body(struct fetch *fetch)
{
	sd_event *event = fetch->fetcher->event;
	int r;

	posix_fadvise(fetch->body_fd, fetch->body_at, 1024 * 1024, POSIX_FADV_WILLNEED);
	sd_event_source_disable_unref(steal(fetch->resume));
	r = sd_event_add_time_relative(event, &fetch->resume, CLOCK_MONOTONIC, READ_RETRY_US,
		TIMER_ACCURACY_US, on_resume, fetch);
	if (r >= 0)
		return CURL_READFUNC_PAUSE;
	fetch->error = r;
	return CURL_READFUNC_ABORT;
}

/* Only what is in memory already: a disk may take longer than the loop may stand. */
static size_t give_body(char *buffer, size_t size, size_t n, void *userdata)
{
	struct fetch *fetch = userdata;
	struct iovec vector = {.iov_base = buffer, .iov_len = size * n};
	ssize_t got = preadv2(fetch->body_fd, &vector, 1, fetch->body_at, RWF_NOWAIT);

	if (got < 0 && errno == EAGAIN)
		return pause_body(fetch);
	/* File systems that do not know this flag are in memory, most of them. */
	if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		got = pread(fetch->body_fd, buffer, size * n, fetch->body_at);
	if (got < 0) {
		fetch->error = -errno;
		return CURL_READFUNC_ABORT;
	}
	fetch->body_at += got;
	return (size_t)got;
}

static bool set_method(CURL *easy, const struct fetch_request *request)
{
	const char *method = request->method ? request->method : "GET";

	if (streq(method, "HEAD"))
		return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
	if (streq(method, "POST") && request->body_fd == 0)
		return curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "") == CURLE_OK;
	if (streq(method, "POST"))
		return curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK;
	return streq(method, "GET") ||
	       curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
}

static bool set_body(struct fetch *fetch, const struct fetch_request *request)
{
	const char *type = request->content_type ? request->content_type : "application/x-tar";
	char header[128];
	struct stat st;

	if (request->body_fd == 0)
		return true;
	fetch->body_at = lseek(request->body_fd, 0, SEEK_CUR);
	if (fetch->body_at < 0 || fstat(request->body_fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	snprintf(header, sizeof(header), "Content-Type: %s", type);
	fetch->headers = curl_slist_append(NULL, header);
	/* Nobody refuses the body before it is sent: no round trip to ask. */
	if (!fetch->headers || !curl_slist_append(fetch->headers, "Expect:"))
		return false;
	curl_easy_setopt(fetch->easy, CURLOPT_HTTPHEADER, fetch->headers);
	curl_easy_setopt(fetch->easy, CURLOPT_READFUNCTION, give_body);
	curl_easy_setopt(fetch->easy, CURLOPT_READDATA, fetch);
	return curl_easy_setopt(fetch->easy, CURLOPT_POSTFIELDSIZE_LARGE,
		       (curl_off_t)(st.st_size - fetch->body_at)) == CURLE_OK;
}

static bool set_target(CURL *easy, const struct fetch_request *request)
{
	if (curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK)
		return false;
	if (request->unix_socket &&
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket) != CURLE_OK)
		return false;
	if (!request->ca_file)
		return true;
	/* Without this GnuTLS would read a directory of certificates as well. */
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	return curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file) == CURLE_OK;
}

static long to_ms(uint64_t us)
{
	return us == 0 ? 0L : (long)MAX(us / USEC_PER_MSEC, 1U);
}

static void set_limits(CURL *easy, const struct fetch_request *request)
{
	uint64_t connect_us = request->connect_us ? request->connect_us : request->deadline_us;

	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, to_ms(request->deadline_us));
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, to_ms(connect_us));
	if (request->idle_s > 0) {
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)request->idle_s);
	}
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_SIZE);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* Else ending a request would wait for the thread that resolves its name. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	/* A kept connection would tell nothing of who listens there now. */
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "headroom/" HEADROOM_VERSION);
	/* Nobody's proxy settings or passwords concern these requests. */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
}

static void set_callbacks(struct fetch *fetch)
{
	curl_easy_setopt(fetch->easy, CURLOPT_PRIVATE, fetch);
	curl_easy_setopt(fetch->easy, CURLOPT_ERRORBUFFER, fetch->message);
	curl_easy_setopt(fetch->easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(fetch->easy, CURLOPT_WRITEDATA, fetch);
	curl_easy_setopt(fetch->easy, CURLOPT_HEADERFUNCTION, count_headers);
	curl_easy_setopt(fetch->easy, CURLOPT_HEADERDATA, fetch);
}

bool fetch_set_up(struct fetch *fetch, const struct fetch_request *request)
{
	set_callbacks(fetch);
	set_limits(fetch->easy, request);
	return set_target(fetch->easy, request) && set_method(fetch->easy, request) &&
	       set_body(fetch, request);
}
