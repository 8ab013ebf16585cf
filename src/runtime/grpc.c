/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/grpc.h"

#include "base/util.h"
#include "runtime/grpc_internal.h"

#include <errno.h>
#include <time.h>

/* Handing out answers may take this long in one turn of the loop; then others have theirs. */
#define DELIVER_US (2 * USEC_PER_MSEC)

/* Deadlines may be this late, so that they share their wake-ups. */
#define TIMER_ACCURACY_US (10 * USEC_PER_MSEC)

#define METHOD_MAX 256

static void call_free(struct call *call)
{
	grpc_reply_clear(&call->reply);
	free(call->method);
	free(call->namespace);
	free(call->message);
	if (call->release)
		call->release(call->userdata);
	free(call);
}

DEFINE_CLEANUP(struct call, call_free)

static void append(struct call **list, struct call *call)
{
	while (*list)
		list = &(*list)->next;
	call->next = NULL;
	*list = call;
}

static struct call *take_first(struct call **list)
{
	struct call *call = *list;

	*list = call->next;
	return call;
}

static void free_list(struct call **list)
{
	while (*list)
		call_free(take_first(list));
}

/* Off the list of open calls, and off its connection. */
static void detach(struct call *call)
{
	for (struct call **p = &call->client->calls; *p; p = &(*p)->next) {
		if (*p == call) {
			*p = call->next;
			break;
		}
	}
	if (call->connection)
		call->connection->n_calls--;
	call->connection = NULL;
}

void call_end(struct call *call)
{
	detach(call);
	append(&call->client->ended, call);
}

bool call_retry(struct call *call)
{
	if (call->refused)
		return false;
	call->refused = true;
	call->connection->closing = true;
	detach(call);
	grpc_reply_clear(&call->reply);
	grpc_reply_init(&call->reply, call->reply.limit, &call->client->budget);
	append(&call->client->waiting, call);
	sd_event_source_set_enabled(call->client->work, SD_EVENT_ONESHOT);
	return true;
}

struct call *call_find(const struct grpc_connection *connection, int32_t stream)
{
	for (struct call *call = connection->client->calls; call; call = call->next)
		if (call->connection == connection && call->stream == stream)
			return call;
	return NULL;
}

static void drop_connections(struct grpc_client *client)
{
	for (struct grpc_connection **p = &client->connections; *p;) {
		struct grpc_connection *connection = *p;

		if (connection->dead || (connection->closing && connection->n_calls == 0)) {
			*p = connection->next;
			connection_free(connection);
		} else {
			p = &connection->next;
		}
	}
}

/* Everything but the client itself. */
static void clear(struct grpc_client *client)
{
	while (client->connections) {
		struct grpc_connection *connection = client->connections;

		client->connections = connection->next;
		connection_free(connection);
	}
	free_list(&client->calls);
	free_list(&client->waiting);
	free_list(&client->ended);
	client->work = sd_event_source_disable_unref(client->work);
	client->timer = sd_event_source_disable_unref(client->timer);
	client->event = sd_event_unref(client->event);
}

static void finish(struct grpc_client *client)
{
	free(client->path);
	free(client);
}

/* The callback may close the client. */
static void deliver(struct grpc_client *client)
{
	_cleanup_(cleanup_call_free) struct call *call = take_first(&client->ended);
	struct grpc_result result;

	client->n_calls--;
	grpc_reply_result(&call->reply, call->error, &result);
	call->done(&result, call->userdata);
}

void client_turn(struct grpc_client *client)
{
	uint64_t until = now_us() + DELIVER_US;

	drop_connections(client);
	client->delivering = true;
	while (client->ended && now_us() < until)
		deliver(client);
	client->delivering = false;
	if (client->closed)
		finish(client);
	else if (client->ended)
		sd_event_source_set_enabled(client->work, SD_EVENT_ONESHOT);
}

static int newest_connection(struct grpc_client *client, struct grpc_connection **ret)
{
	struct grpc_connection *connection = client->connections;
	int r;

	if (connection && connection_usable(connection)) {
		*ret = connection;
		return 0;
	}
	if (connection)
		connection->closing = true;
	r = connection_open(client, &connection);
	if (r < 0)
		return r;
	connection->next = client->connections;
	client->connections = connection;
	*ret = connection;
	return 0;
}

static int begin(struct grpc_client *client, struct call *call)
{
	struct grpc_connection *connection;
	int r = newest_connection(client, &connection);

	if (r < 0)
		return r;
	call->next = client->calls;
	client->calls = call;
	return connection_submit(connection, call);
}

static int on_work(sd_event_source *source, void *userdata)
{
	struct grpc_client *client = userdata;

	(void)source;
	while (client->waiting) {
		struct call *call = take_first(&client->waiting);
		int r = begin(client, call);

		if (r < 0) {
			grpc_reply_fail(&call->reply, GRPC_UNAVAILABLE, "%s", strerror(-r));
			call_end(call);
		}
	}
	for (struct grpc_connection *c = client->connections; c; c = c->next)
		connection_flush(c);
	client_turn(client);
	return 0;
}

static void set_timer(struct grpc_client *client, uint64_t deadline_us)
{
	if (client->timer_us && client->timer_us <= deadline_us)
		return;
	client->timer_us = deadline_us;
	sd_event_source_set_time(client->timer, deadline_us);
	sd_event_source_set_enabled(client->timer, SD_EVENT_ONESHOT);
}

static void expire(struct call *call)
{
	struct grpc_connection *connection = call->connection;

	if (connection) {
		connection_cancel(connection, call);
		/* Not a word since: a new connection may find a new server. */
		if (connection->received_us < call->sent_us)
			connection->closing = true;
	}
	grpc_reply_fail(&call->reply, GRPC_DEADLINE_EXCEEDED, "no answer in time");
	call_end(call);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct grpc_client *client = userdata;
	uint64_t now = now_us();
	struct call *next;

	(void)source, (void)usec;
	client->timer_us = 0;
	for (struct call *call = client->calls; call; call = next) {
		next = call->next;
		if (call->deadline_us <= now)
			expire(call);
		else
			set_timer(client, call->deadline_us);
	}
	/* These are sent before their time is looked at again. */
	for (struct call *call = client->waiting; call; call = call->next)
		set_timer(client, call->deadline_us);
	for (struct grpc_connection *c = client->connections; c; c = c->next)
		connection_flush(c);
	client_turn(client);
	return 0;
}

int grpc_client_open(sd_event *event, const char *path, struct grpc_client **ret)
{
	_cleanup_(cleanup_grpc_client_close) struct grpc_client *client =
		calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->event = sd_event_ref(event);
	client->budget = GRPC_BUDGET;
	client->path = strdup(path);
	if (!client->path)
		return -ENOMEM;
	r = sd_event_add_defer(event, &client->work, on_work, client);
	if (r < 0)
		return r;
	r = sd_event_source_set_enabled(client->work, SD_EVENT_OFF);
	if (r < 0)
		return r;
	r = sd_event_add_time(event, &client->timer, CLOCK_MONOTONIC, UINT64_MAX, TIMER_ACCURACY_US,
		on_timer, client);
	if (r < 0)
		return r;
	*ret = steal(client);
	return 0;
}

void grpc_client_close(struct grpc_client *client)
{
	clear(client);
	client->closed = true;
	if (!client->delivering)
		finish(client);
}

static int make_message(struct call *call, const struct grpc_call *from)
{
	call->size = GRPC_PREFIX_LEN + from->size;
	call->message = malloc(call->size);
	if (!call->message)
		return -ENOMEM;
	call->message[0] = 0; /* not compressed */
	for (int i = 0; i < 4; i++)
		call->message[1 + i] = (uint8_t)(from->size >> (24 - 8 * i));
	if (from->size > 0)
		memcpy(call->message + GRPC_PREFIX_LEN, from->message, from->size);
	return 0;
}

static int make_call(struct grpc_client *client, const struct grpc_call *from, struct call **ret)
{
	_cleanup_(cleanup_call_free) struct call *call = calloc(1, sizeof(*call));
	int r;

	if (!call)
		return -ENOMEM;
	grpc_reply_init(&call->reply, from->limit ? from->limit : GRPC_ANSWER_MAX, &client->budget);
	call->client = client;
	call->deadline_us = now_us() + from->timeout_us;
	call->method = strdup(from->method);
	if (!call->method)
		return -ENOMEM;
	if (from->containerd_namespace) {
		call->namespace = strdup(from->containerd_namespace);
		if (!call->namespace)
			return -ENOMEM;
	}
	r = make_message(call, from);
	if (r < 0)
		return r;
	*ret = steal(call);
	return 0;
}

/* What may stand in a header. */
static bool is_plain(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return len > 0 && len < METHOD_MAX;
}

int grpc_call(struct grpc_client *client, const struct grpc_call *call, grpc_callback done,
	void *userdata)
{
	struct call *made;
	int r;

	if (call->method[0] != '/' || !is_plain(call->method) || call->timeout_us == 0 ||
		call->size > GRPC_ANSWER_MAX ||
		(call->containerd_namespace && !is_plain(call->containerd_namespace)))
		return -EINVAL;
	if (client->n_calls >= GRPC_CALLS_MAX)
		return -EBUSY;
	r = make_call(client, call, &made);
	if (r < 0)
		return r;
	made->done = done;
	made->release = call->release;
	made->userdata = userdata;
	append(&client->waiting, made);
	client->n_calls++;
	set_timer(client, made->deadline_us);
	sd_event_source_set_enabled(client->work, SD_EVENT_ONESHOT);
	return 0;
}

pid_t grpc_client_peer(const struct grpc_client *client)
{
	return client->connections ? client->connections->peer : 0;
}
