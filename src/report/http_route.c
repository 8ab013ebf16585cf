/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/util.h"

#define BODY_MAX 4096

/* A longer body of unknown length is not even thrown away: the connection ends. */
#define BODY_DISCARD_MAX ((size_t)64 * 1024)

#define ONLY_MAX 31

#define ALLOW_READ "GET, HEAD"
#define ALLOW_POST "POST"

typedef void (*change_fn)(void *userdata, const char *only, struct http_reply *reply);

/* Outlives the request when the server closes while a handler still has it. */
struct http_reply {
	struct http_request *request; /* NULL when nobody waits any more */
};

static const struct {
	const char *path;
	enum MHD_Result (*get)(struct http_request *request);
} get_routes[] = {
	{"/livez", http_get_live},
	{"/healthz", http_get_live},
	{"/readyz", http_get_ready},
	{"/health", http_get_health},
	{"/metrics", http_get_metrics},
	{"/v1/status", http_get_status},
	{"/", http_get_page},
};

static void request_working(struct http_request *request, bool working)
{
	struct http_request **at = &request->server->working;

	if (working) {
		request->next = *at;
		*at = request;
		return;
	}
	while (*at && *at != request)
		at = &(*at)->next;
	if (*at)
		*at = request->next;
}

void http_reply_finish(struct http_reply *reply, unsigned status, const char *json)
{
	struct http_request *request = reply->request;

	free(reply);
	if (!request)
		return;
	request->reply = NULL;
	request->status = status;
	/* Without memory for it there is no response, and the client finds the connection closed.
	 */
	request->response = http_json_response(json);
	if (request->connection->phase != HTTP_WORKING)
		return; /* the handler has not even returned: nothing is suspended */
	request_working(request, false);
	http_connection_phase(request->connection, HTTP_SENDING);
	MHD_resume_connection(request->mhd); /* it asks http_route again */
	http_server_wake(request->server);
}

void http_requests_abandon(struct http_server *server)
{
	struct http_request *request;

	/* libmicrohttpd aborts the program when it is stopped with suspended connections. */
	while ((request = server->working)) {
		request_working(request, false);
		if (request->reply)
			request->reply->request = NULL;
		request->reply = NULL;
		MHD_resume_connection(request->mhd);
	}
}

static enum MHD_Result answer_finished(struct http_request *request)
{
	struct MHD_Response *response = request->response;

	request->response = NULL;
	return http_answer_response(request, request->status, response);
}

static enum MHD_Result start_change(
	struct http_request *request, change_fn change, const char *only)
{
	struct http_reply *reply = calloc(1, sizeof(*reply));

	if (!reply)
		return MHD_NO;
	reply->request = request;
	request->reply = reply;
	change(request->server->userdata, only, reply);
	if (!request->reply)
		return answer_finished(request);
	http_connection_phase(request->connection, HTTP_WORKING);
	request_working(request, true);
	MHD_suspend_connection(request->mhd);
	return MHD_YES;
}

static bool only_valid(const char *only)
{
	size_t len = strspn(only, "abcdefghijklmnopqrstuvwxyz");

	return len > 0 && len <= ONLY_MAX && !only[len];
}

static enum MHD_Result answer_change(
	struct http_request *request, const char *method, change_fn change)
{
	const char *only = NULL;
	bool given = MHD_lookup_connection_value_n(request->mhd, MHD_GET_ARGUMENT_KIND, "only",
			     strlen("only"), &only, NULL) == MHD_YES;

	if (!streq(method, MHD_HTTP_METHOD_POST))
		return http_answer_method(request, ALLOW_POST);
	if (!request->connection->listener->local)
		return http_answer_method(request, ALLOW_READ);
	if (!request->connection->authorized)
		return http_answer_text(request, MHD_HTTP_FORBIDDEN, "only root may do this\n");
	if (given && !(only && only_valid(only)))
		return http_answer_text(
			request, MHD_HTTP_BAD_REQUEST, "only: not a tuner's name\n");
	return start_change(request, change, only);
}

static enum MHD_Result answer_request(
	struct http_request *request, const char *url, const char *method)
{
	const struct http_handlers *handlers = request->server->handlers;
	bool reads = streq(method, MHD_HTTP_METHOD_GET) || streq(method, MHD_HTTP_METHOD_HEAD);

	if (streq(url, "/v1/apply"))
		return answer_change(request, method, handlers->apply);
	if (streq(url, "/v1/restore"))
		return answer_change(request, method, handlers->restore);
	for (size_t i = 0; i < ARRAY_SIZE(get_routes); i++) {
		if (!streq(url, get_routes[i].path))
			continue;
		return reads ? get_routes[i].get(request) : http_answer_method(request, ALLOW_READ);
	}
	if (!reads && !request->connection->listener->local)
		return http_answer_method(request, ALLOW_READ);
	return http_answer_text(request, MHD_HTTP_NOT_FOUND, "not found\n");
}

/* Refuses what says beforehand that it is too long. */
static bool length_fits(struct MHD_Connection *mhd)
{
	const char *text = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Content-Length");
	uint64_t length;

	return !text || (parse_count(text, &length) == 0 && length <= BODY_MAX);
}

static enum MHD_Result refuse_body(struct http_request *request)
{
	return http_answer_text(
		request, MHD_HTTP_CONTENT_TOO_LARGE, "the body is longer than 4096 bytes\n");
}

static enum MHD_Result begin_request(
	struct http_server *server, struct MHD_Connection *mhd, void **state)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_request *request;

	if (!info || !info->socket_context)
		return MHD_NO;
	request = calloc(1, sizeof(*request));
	if (!request)
		return MHD_NO;
	request->server = server;
	request->connection = info->socket_context;
	request->mhd = mhd;
	*state = request;
	return length_fits(mhd) ? MHD_YES : refuse_body(request);
}

/* No request has a body that matters; a reply can only be queued before it or after it. */
static enum MHD_Result take_body(struct http_request *request, size_t *size)
{
	request->body += *size;
	*size = 0;
	return request->body <= BODY_DISCARD_MAX ? MHD_YES : MHD_NO;
}

enum MHD_Result http_route(void *userdata, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **state)
{
	struct http_server *server = userdata;
	struct http_request *request = *state;

	(void)version, (void)data;
	if (server->closing)
		return MHD_NO;
	if (!request)
		return begin_request(server, mhd, state);
	if (*size > 0)
		return take_body(request, size);
	if (request->body > BODY_MAX)
		return refuse_body(request);
	if (request->status)
		return answer_finished(request);
	return answer_request(request, url, method);
}

void http_request_completed(void *server, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode code)
{
	struct http_request *request = *state;

	(void)server, (void)mhd, (void)code;
	if (!request)
		return;
	/* The next request of a connection that stays open has its whole time again. */
	http_connection_phase(request->connection, HTTP_RECEIVING);
	if (request->response)
		MHD_destroy_response(request->response);
	free(request);
	*state = NULL;
}
