/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/http_client.h"

#include "base/build.h"
#include "base/cleanup.h"
#include "base/util.h"

#include <curl/curl.h>
#include <errno.h>
#include <malloc.h>

#define ERROR_BODY_MAX 65536 /* kept of an answer that is not 2xx */
#define HEADERS_MAX    65536 /* bytes in all: libcurl 7.88 keeps as many as come */
#define POLL_MAX_MS    1000

struct transfer {
	struct http_get *get;
	CURL *easy;
	uint64_t started_us;
	size_t received, received_headers, allocated;
	int error; /* why the transfer was ended from here; 1: data has what it wants */
	char message[CURL_ERROR_SIZE];
};

static int collect(struct transfer *transfer, const char *data, size_t len)
{
	struct http_get *get = transfer->get;

	if (get->len + len + 1 > transfer->allocated) {
		size_t wanted = MAX(2 * transfer->allocated, get->len + len + 1);
		char *moved = realloc(get->body, wanted);

		if (!moved)
			return -ENOMEM;
		get->body = moved;
		transfer->allocated = wanted;
	}
	memcpy(get->body + get->len, data, len);
	get->len += len;
	get->body[get->len] = '\0';
	return 0;
}

static size_t take_body(char *data, size_t size, size_t n, void *userdata)
{
	struct transfer *transfer = userdata;
	struct http_get *get = transfer->get;
	size_t len = size * n;
	long status = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	transfer->received += len;
	if (get->limit > 0 && transfer->received > get->limit)
		transfer->error = -EFBIG;
	else if (!get->data)
		transfer->error = collect(transfer, data, len);
	else if (status >= 200 && status < 300)
		transfer->error = get->data(data, len, get->userdata);
	else
		transfer->error = collect(
			transfer, data, MIN(len, ERROR_BODY_MAX - MIN(get->len, ERROR_BODY_MAX)));
	return transfer->error == 0 ? len : 0;
}

static size_t count_headers(char *data, size_t size, size_t n, void *userdata)
{
	struct transfer *transfer = userdata;

	(void)data;
	transfer->received_headers += size * n;
	if (transfer->received_headers <= HEADERS_MAX)
		return size * n;
	transfer->error = -EFBIG;
	return 0;
}

/* The errno of a failed connect() where there is one, else what libcurl's code means. */
static int error_of(CURL *easy, CURLcode code)
{
	long os_errno = 0;

	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_URL_MALFORMAT:
		return -EINVAL;
	case CURLE_COULDNT_RESOLVE_HOST:
		return -EHOSTUNREACH;
	case CURLE_PEER_FAILED_VERIFICATION:
		return -EKEYREJECTED;
	case CURLE_COULDNT_CONNECT:
		curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_errno);
		return os_errno > 0 ? -(int)os_errno : -ECONNREFUSED;
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		return -ECONNRESET;
	default:
		return -EPROTO;
	}
}

static void finish(struct transfer *transfer, CURLcode code, int error)
{
	struct http_get *get = transfer->get;
	const char *why = "";

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &get->status);
	get->took_us = now_us() - transfer->started_us;
	if (transfer->error > 0)
		error = 0;
	else if (transfer->error < 0)
		error = transfer->error;
	else if (error == 0 && code != CURLE_OK)
		error = error_of(transfer->easy, code);
	get->error = error;
	/* libcurl's own words for a failed connect() name neither the errno nor a cure. */
	if (error == -EFBIG)
		why = "the answer is too large";
	else if (error < 0 && transfer->error == 0 && code != CURLE_OK &&
		 code != CURLE_COULDNT_CONNECT)
		why = *transfer->message ? transfer->message : curl_easy_strerror(code);
	else if (error < 0)
		why = strerror(-error);
	copy_text(get->why, sizeof(get->why), why);
}

static bool set_up(struct transfer *transfer)
{
	const struct http_get *get = transfer->get;
	CURL *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->message);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_headers);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	/* The time limit is ours: http_get_all() watches it. */
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 24 * 3600 * 1000L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* Else ending a request would wait for the thread that resolves its name. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	/* A kept connection would not tell who listens there now. */
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "headroom/" HEADROOM_VERSION);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	if (curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
		curl_easy_setopt(easy, CURLOPT_URL, get->url) != CURLE_OK)
		return false;
	if (get->unix_socket &&
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, get->unix_socket) != CURLE_OK)
		return false;
	if (!get->ca_file)
		return true;
	/* Without this GnuTLS would read a directory of certificates as well. */
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	return curl_easy_setopt(easy, CURLOPT_CAINFO, get->ca_file) == CURLE_OK;
}

static void take_finished(CURLM *multi)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(multi, &left))) {
		struct transfer *transfer;
		CURLcode code = message->data.result;
		CURL *easy = message->easy_handle;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
		finish(transfer, code, 0);
		curl_multi_remove_handle(multi, easy);
		curl_easy_cleanup(steal(transfer->easy));
	}
}

/* Until all transfers have ended: 0, or why the rest has to be given up. */
static int run(CURLM *multi, const struct wait *wait)
{
	struct curl_waitfd cancel = {.fd = wait->cancel_fd, .events = CURL_WAIT_POLLIN};
	int running = 1;

	for (;;) {
		uint64_t now = now_us(), left_ms;

		if (curl_multi_perform(multi, &running) != CURLM_OK)
			return -EPROTO;
		take_finished(multi);
		if (running == 0)
			return 0;
		if (now >= wait->deadline_us)
			return -ETIMEDOUT;
		left_ms = MIN((wait->deadline_us - now) / USEC_PER_MSEC + 1, (uint64_t)POLL_MAX_MS);
		cancel.revents = 0;
		if (curl_multi_poll(multi, &cancel, wait->cancel_fd >= 0 ? 1 : 0, (int)left_ms,
			    NULL) != CURLM_OK)
			return -EPROTO;
		if (cancel.revents)
			return -ECANCELED;
	}
}

void http_get_all(struct http_get *gets, size_t n, const struct wait *wait)
{
	_cleanup_free_ struct transfer *transfers = calloc(n ? n : 1, sizeof(*transfers));
	bool over_tls = false;
	CURLM *multi = curl_multi_init();
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		struct transfer *transfer = transfers ? &transfers[i] : NULL;

		gets[i].error = -ENOMEM;
		gets[i].status = 0;
		copy_text(gets[i].why, sizeof(gets[i].why), strerror(ENOMEM));
		over_tls = over_tls || starts_with(gets[i].url, "https:");
		if (!transfer || !multi || !(transfer->easy = curl_easy_init()))
			continue;
		transfer->get = &gets[i];
		transfer->started_us = now_us();
		if (set_up(transfer) && curl_multi_add_handle(multi, transfer->easy) == CURLM_OK)
			continue;
		finish(transfer, CURLE_OK, -EINVAL);
		curl_easy_cleanup(steal(transfer->easy));
	}
	if (transfers && multi)
		r = run(multi, wait);
	for (size_t i = 0; transfers && i < n; i++) {
		if (!transfers[i].easy)
			continue;
		finish(&transfers[i], CURLE_OK, r < 0 ? r : -EPROTO);
		curl_multi_remove_handle(multi, transfers[i].easy);
		curl_easy_cleanup(transfers[i].easy);
	}
	curl_multi_cleanup(multi);
	/* The certificates of a bundle take 4 MB while they are in use. */
	if (over_tls)
		malloc_trim(0);
}

void http_get_clear(struct http_get *get)
{
	free(steal(get->body));
	get->len = 0;
}
