/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fetch_internal.h"

#include <errno.h>

/* A descriptor that libcurl wants to know of. */
struct watch {
	struct fetcher *fetcher;
	sd_event_source *source;
	struct watch *next, **owner;
};

static void release(struct fetch *fetch)
{
	curl_easy_cleanup(fetch->easy);
	curl_slist_free_all(fetch->headers);
	sd_event_source_disable_unref(fetch->resume);
	free(fetch->body);
	free(fetch);
}

/* From now on neither libcurl nor the fetcher knows of it. */
static void take_off(struct fetch *fetch)
{
	curl_multi_remove_handle(fetch->fetcher->multi, fetch->easy);
	*fetch->owner = fetch->next;
	if (fetch->next)
		fetch->next->owner = fetch->owner;
	if (fetch->fetcher->handing_over == fetch)
		fetch->fetcher->handing_over = NULL;
}

void fetch_cancel(struct fetch *fetch)
{
	if (!fetch)
		return;
	take_off(fetch);
	release(fetch);
}

/* The reason of a failed connect() where there is one, else by what libcurl makes of it. */
static int error_of(CURL *easy, CURLcode code)
{
	long os_errno = 0;

	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
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

static const char *message_of(const struct fetch *fetch, CURLcode code, int error)
{
	if (error == -EFBIG)
		return "the answer is larger than it may be";
	/* libcurl's own words for these tell neither the errno nor what a user can do. */
	if (fetch->error < 0 || code == CURLE_COULDNT_CONNECT)
		return strerror(-error);
	return *fetch->message ? fetch->message : curl_easy_strerror(code);
}

static void finish(struct fetch *fetch, CURLcode code)
{
	struct fetch_result result = {.body = fetch->body ? fetch->body : "",
		.len = fetch->received,
		.message = "",
		.took_us = now_us() - fetch->started_us};

	curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &result.status);
	if (fetch->error < 0 || code != CURLE_OK) {
		result.error = fetch->error < 0 ? fetch->error : error_of(fetch->easy, code);
		result.message = message_of(fetch, code, result.error);
	}
	take_off(fetch);
	fetch->done(&result, fetch->userdata);
	release(fetch);
}

/*
 * Out of libcurl's own calls, in which it must not be called: so the callback may start and cancel
 * requests, also this one.
 */
static void hand_over(struct fetch *fetch)
{
	struct fetcher *fetcher = fetch->fetcher;
	_cleanup_free_ char *data = steal(fetch->body);
	size_t len = fetch->len;
	int r;

	fetch->len = fetch->allocated = 0;
	fetcher->handing_over = fetch;
	r = fetch->data(data, len, fetch->userdata);
	if (!fetcher->handing_over)
		return;
	fetcher->handing_over = NULL;
	if (r < 0) {
		fetch->error = r;
		finish(fetch, CURLE_OK);
	}
}

static struct fetch *find_waiting(const struct fetcher *fetcher)
{
	for (struct fetch *fetch = fetcher->fetches; fetch; fetch = fetch->next)
		if (fetch->len > 0 && fetch_is_streamed(fetch))
			return fetch;
	return NULL;
}

/* What libcurl has brought goes to its owners: data first, then the ends. */
void fetcher_settle(struct fetcher *fetcher)
{
	struct fetch *fetch;
	CURLMsg *message;
	int left;

	while ((fetch = find_waiting(fetcher)))
		hand_over(fetch);
	while ((message = curl_multi_info_read(fetcher->multi, &left))) {
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
		finish(fetch, code);
	}
}

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	/* By libcurl's leave the watch may be gone when its call returns. */
	struct fetcher *fetcher = ((struct watch *)userdata)->fetcher;
	int ready = 0, running;

	(void)source;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		ready |= CURL_CSELECT_IN;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		ready |= CURL_CSELECT_OUT;
	curl_multi_socket_action(fetcher->multi, fd, ready, &running);
	fetcher_settle(fetcher);
	return 0;
}

static void watch_free(struct watch *watch)
{
	*watch->owner = watch->next;
	if (watch->next)
		watch->next->owner = watch->owner;
	sd_event_source_disable_unref(watch->source);
	free(watch);
}

static int add_watch(struct fetcher *fetcher, curl_socket_t fd, uint32_t events)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return -1;
	*watch = (struct watch){
		.fetcher = fetcher, .next = fetcher->watches, .owner = &fetcher->watches};
	if (watch->next)
		watch->next->owner = &watch->next;
	fetcher->watches = watch;
	if (sd_event_add_io(fetcher->event, &watch->source, fd, events, on_ready, watch) >= 0 &&
		curl_multi_assign(fetcher->multi, fd, watch) == CURLM_OK)
		return 0;
	watch_free(watch);
	return -1;
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *userdata, void *socket_data)
{
	struct fetcher *fetcher = userdata;
	struct watch *watch = socket_data;
	uint32_t events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (watch)
			watch_free(watch);
		return 0;
	}
	if (what & CURL_POLL_IN)
		events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		events |= EPOLLOUT;
	if (!watch)
		return add_watch(fetcher, fd, events);
	return sd_event_source_set_io_events(watch->source, events) < 0 ? -1 : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fetcher *fetcher = userdata;
	int running;

	(void)source;
	(void)usec;
	curl_multi_socket_action(fetcher->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	fetcher_settle(fetcher);
	return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *userdata)
{
	struct fetcher *fetcher = userdata;
	int r;

	(void)multi;
	if (timeout_ms < 0)
		return sd_event_source_set_enabled(fetcher->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
	r = sd_event_source_set_time_relative(fetcher->timer, (uint64_t)timeout_ms * USEC_PER_MSEC);
	if (r >= 0)
		r = sd_event_source_set_enabled(fetcher->timer, SD_EVENT_ONESHOT);
	return r < 0 ? -1 : 0;
}

static int open_multi(struct fetcher *fetcher)
{
	int r = sd_event_add_time_relative(fetcher->event, &fetcher->timer, CLOCK_MONOTONIC, 0,
		TIMER_ACCURACY_US, on_timer, fetcher);

	if (r >= 0)
		r = sd_event_source_set_enabled(fetcher->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	fetcher->multi = curl_multi_init();
	if (!fetcher->multi)
		return -ENOMEM;
	curl_multi_setopt(fetcher->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(fetcher->multi, CURLMOPT_SOCKETDATA, fetcher);
	curl_multi_setopt(fetcher->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(fetcher->multi, CURLMOPT_TIMERDATA, fetcher);
	return 0;
}

int fetcher_open(sd_event *event, struct fetcher **ret)
{
	_cleanup_(cleanup_fetcher_close) struct fetcher *fetcher = NULL;
	int r;

	/* Counted by libcurl: fetcher_close undoes it. */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return -ENOMEM;
	fetcher = calloc(1, sizeof(*fetcher));
	if (!fetcher) {
		curl_global_cleanup();
		return -ENOMEM;
	}
	fetcher->event = sd_event_ref(event);
	if (!(curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_ASYNCHDNS))
		return -EOPNOTSUPP;
	r = open_multi(fetcher);
	if (r < 0)
		return r;
	*ret = steal(fetcher);
	return 0;
}

void fetcher_close(struct fetcher *fetcher)
{
	if (!fetcher)
		return;
	while (fetcher->fetches)
		fetch_cancel(fetcher->fetches);
	curl_multi_cleanup(fetcher->multi);
	while (fetcher->watches)
		watch_free(fetcher->watches);
	sd_event_source_disable_unref(fetcher->timer);
	sd_event_unref(fetcher->event);
	free(fetcher);
	curl_global_cleanup();
}

int fetch_start(struct fetcher *fetcher, const struct fetch_request *request, struct fetch **ret)
{
	struct fetch *fetch = calloc(1, sizeof(*fetch));

	if (!fetch)
		return -ENOMEM;
	*fetch = (struct fetch){.fetcher = fetcher,
		.easy = curl_easy_init(),
		.data = request->data,
		.done = request->done,
		.userdata = request->userdata,
		.limit = request->limit,
		.body_fd = request->body_fd,
		.started_us = now_us()};
	if (!fetch->easy) {
		release(fetch);
		return -ENOMEM;
	}
	if (!fetch_set_up(fetch, request) ||
		curl_multi_add_handle(fetcher->multi, fetch->easy) != CURLM_OK) {
		release(fetch);
		return -EINVAL;
	}
	fetch->next = fetcher->fetches;
	fetch->owner = &fetcher->fetches;
	if (fetch->next)
		fetch->next->owner = &fetch->next;
	fetcher->fetches = fetch;
	if (ret)
		*ret = fetch;
	return 0;
}
