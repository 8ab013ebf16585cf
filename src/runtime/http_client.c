/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/http_client.h"

#include "base/build.h"
#include "base/file.h"
#include "base/text.h"

#include <malloc.h>
#include <netdb.h>
#include <sys/mman.h>

#define ERROR_BODY_MAX ((size_t)65536) /* kept of an answer that is not 2xx */
#define HEADERS_MAX    65536           /* bytes: libcurl 7.88 does not limit them */
#define CA_FILE_MAX    ((size_t)1 << 20)
#define POLL_MAX_MS    1000

static size_t on_body(char *data, size_t size, size_t n, void *userdata)
{
	struct http_get *get = userdata;
	size_t len = size * n, kept = len, used = 0;
	long status = 0;
	bool refusal;

	curl_easy_getinfo(get->easy, CURLINFO_RESPONSE_CODE, &status);
	refusal = get->data && status / 100 != 2;
	get->received += len;
	if (get->limit > 0 && get->received > get->limit) {
		get->ended = -EFBIG;
		return 0;
	}
	if (refusal)
		kept = MIN(len, ERROR_BODY_MAX - MIN(get->len, ERROR_BODY_MAX));
	if (get->len + kept + 1 > get->allocated) {
		get->allocated = MAX(2 * get->allocated, get->len + kept + 1);
		get->body = must(realloc(get->body, get->allocated));
	}
	memcpy(get->body + get->len, data, kept);
	get->len += kept;
	get->body[get->len] = '\0';
	if (get->data && !refusal) {
		get->ended = get->data(get->body, get->len, &used, get->userdata);
		get->len -= used;
		memmove(get->body, get->body + used, get->len + 1);
	}
	return get->ended == 0 ? len : 0;
}

static size_t count_headers(char *, size_t size, size_t n, void *userdata)
{
	struct http_get *get = userdata;

	get->received_headers += size * n;
	if (get->received_headers <= HEADERS_MAX)
		return size * n;
	get->ended = -EFBIG;
	return 0;
}

/* The errno of libcurl's codes, unless connect() had one; of all others EPROTO. */
static const int errors[CURL_LAST] = {
	[CURLE_OPERATION_TIMEDOUT] = ETIMEDOUT,
	[CURLE_OUT_OF_MEMORY] = EFBIG, /* libcurl 7.88: a header of more than 100 kB */
	[CURLE_URL_MALFORMAT] = EINVAL,
	[CURLE_COULDNT_RESOLVE_HOST] = EHOSTUNREACH,
	[CURLE_PEER_FAILED_VERIFICATION] = EKEYREJECTED,
	[CURLE_COULDNT_CONNECT] = ECONNREFUSED,
	[CURLE_GOT_NOTHING] = ECONNRESET,
	[CURLE_PARTIAL_FILE] = ECONNRESET,
	[CURLE_RECV_ERROR] = ECONNRESET,
	[CURLE_SEND_ERROR] = ECONNRESET,
};

/* error: why we end the request; 0: libcurl ended it with code. */
static void end_request(struct http_get *get, CURLM *multi, CURLcode code, int error)
{
	const char *why = "";
	const char *type = NULL;
	long os_errno = 0;

	curl_easy_getinfo(get->easy, CURLINFO_RESPONSE_CODE, &get->status);
	curl_easy_getinfo(get->easy, CURLINFO_CONTENT_TYPE, &type);
	snprintf(get->type, sizeof(get->type), "%s", type ? type : "");
	text_make_printable(get->type);
	get->took_us = now_us() - get->started_us;
	if (code == CURLE_COULDNT_CONNECT)
		curl_easy_getinfo(get->easy, CURLINFO_OS_ERRNO, &os_errno);
	if (get->ended != 0)
		error = MIN(get->ended, 0);
	else if (error == 0 && os_errno > 0)
		error = -(int)os_errno;
	else if (error == 0 && code != CURLE_OK)
		error = code < CURL_LAST && errors[code] ? -errors[code] : -EPROTO;
	get->error = error;
	/* libcurl's text for a failed connect() lacks the errno. */
	if (error == -EFBIG)
		why = "the answer is too large";
	else if (error < 0 && get->ended == 0 && code != CURLE_OK && code != CURLE_COULDNT_CONNECT)
		why = *get->message ? get->message : curl_easy_strerror(code);
	else if (error < 0)
		why = strerror(-error);
	set_text(get->why, why);
	curl_multi_remove_handle(multi, get->easy);
	curl_easy_cleanup(steal(get->easy));
	curl_slist_free_all(steal(get->headers_list));
	if (get->ca_fd > 0)
		close(get->ca_fd);
}

/* libcurl takes one file: several are joined in memory. It reports a file that cannot be read. */
static void set_ca(struct http_get *get)
{
	bool several = strchr(get->ca_files, '\n');
	char path[PATH_MAX] = "";

	for (const char *line = get->ca_files; *line; line += strspn(line, "\n")) {
		_cleanup_free_ char *text = NULL;
		size_t len = 0;

		snprintf(path, sizeof(path), "%.*s", (int)strcspn(line, "\n"), line);
		line += strcspn(line, "\n");
		if (!several || read_file(path, CA_FILE_MAX, &text, &len) < 0)
			break;
		if (get->ca_fd == 0)
			get->ca_fd = memfd_create("certificates", MFD_CLOEXEC);
		dprintf(get->ca_fd, "%s\n", text);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", get->ca_fd);
	}
	curl_easy_setopt(get->easy, CURLOPT_CAINFO, path);
	/* Keep GnuTLS from also reading a directory of certificates. */
	curl_easy_setopt(get->easy, CURLOPT_CAPATH, NULL);
}

/* CURLINFO_PRIMARY_IP of libcurl 8 is empty after a failure of TLS. */
static curl_socket_t open_socket(void *userdata, curlsocktype, struct curl_sockaddr *to)
{
	struct http_get *get = userdata;

	(void)getnameinfo(&to->addr, to->addrlen, get->address, sizeof(get->address), NULL, 0,
		NI_NUMERICHOST);
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static bool set_up(struct http_get *get)
{
	CURL *easy = get->easy;

	curl_easy_setopt(easy, CURLOPT_PRIVATE, get);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, get->message);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, get);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_headers);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, get);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, get);
	/* http_get_all() has the time limit. */
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 24 * 3600 * 1000L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* Do not wait for the resolver thread when a request ends. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	/* A kept connection would not show which process listens now. */
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "headroom/" HEADROOM_VERSION);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	/* An answer to HEAD has no body, whatever length it names. */
	if (get->method && streq(get->method, "HEAD"))
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, get->method);
	for (const char *line = get->headers; line && *line; line += strspn(line, "\n")) {
		_cleanup_free_ char *header = must(strndup(line, strcspn(line, "\n")));

		get->headers_list = must(curl_slist_append(get->headers_list, header));
		line += strlen(header);
	}
	if (get->cert_file) {
		curl_easy_setopt(easy, CURLOPT_SSLCERT, get->cert_file);
		curl_easy_setopt(easy, CURLOPT_SSLKEY, get->key_file);
	}
	if (get->insecure) {
		curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, get->headers_list);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, get->follows ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 10L);
	curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
	if (get->ca_files)
		set_ca(get);
	return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_URL, get->url) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, get->unix_socket) == CURLE_OK;
}

void http_get_all(struct http_get *gets, size_t n, const struct wait *wait)
{
	struct curl_waitfd cancel = {.fd = wait->cancel_fd, .events = CURL_WAIT_POLLIN};
	CURLM *multi = must(curl_multi_init());
	int running = 1, left, r = 0;
	bool over_tls = false;

	for (size_t i = 0; i < n; i++) {
		struct http_get *get = &gets[i];

		over_tls = over_tls || starts_with(get->url, "https:");
		get->started_us = now_us();
		get->easy = must(curl_easy_init());
		if (!set_up(get) || curl_multi_add_handle(multi, get->easy) != CURLM_OK)
			end_request(get, multi, CURLE_OK, -EINVAL);
	}
	while (r == 0 && running > 0) {
		uint64_t now = now_us(), left_ms;
		CURLMsg *message;

		if (curl_multi_perform(multi, &running) != CURLM_OK)
			r = -EPROTO;
		while ((message = curl_multi_info_read(multi, &left))) {
			struct http_get *get;

			curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &get);
			end_request(get, multi, message->data.result, 0);
		}
		if (r < 0 || running == 0)
			break;
		left_ms =
			now < wait->deadline_us ? (wait->deadline_us - now) / USEC_PER_MSEC + 1 : 0;
		cancel.revents = 0;
		if (left_ms == 0)
			r = -ETIMEDOUT;
		else if (curl_multi_poll(multi, &cancel, wait->cancel_fd >= 0 ? 1 : 0,
				 (int)MIN(left_ms, (uint64_t)POLL_MAX_MS), NULL) != CURLM_OK)
			r = -EPROTO;
		else if (cancel.revents)
			r = -ECANCELED;
	}
	for (size_t i = 0; i < n; i++)
		if (gets[i].easy)
			end_request(&gets[i], multi, CURLE_OK, r < 0 ? r : -EPROTO);
	curl_multi_cleanup(multi);
	/* A bundle of certificates used 4 MB. */
	if (over_tls)
		malloc_trim(0);
}
