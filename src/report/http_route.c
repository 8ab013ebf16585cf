/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/util.h"
#include "report/report.h"

#include <ctype.h>
#include <errno.h>

#define BODY_MAX 4096

/* A longer body of unknown length is not even thrown away: the connection ends. */
#define BODY_DISCARD_MAX ((size_t)64 * 1024)

#define ONLY_MAX 31

/* The agent's tick is 1 s; a loop that hangs for longer than this is to be restarted. */
#define HEARTBEAT_MAX_US (10 * USEC_PER_SEC)

#define ALLOW_READ "GET, HEAD"
#define ALLOW_POST "POST"

#define TYPE_TEXT "text/plain; charset=utf-8"
#define TYPE_JSON "application/json"

/* The page carries its own styles and icon and asks for nothing else. */
#define PAGE_POLICY                                                                       \
	"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

/* Outlives the request when the server closes while a handler still has it. */
struct http_reply {
	struct http_request *request; /* NULL when nobody waits any more */
};

struct http_request {
	struct http_server *server;
	struct http_connection *connection;
	struct MHD_Connection *mhd;
	struct http_request *next;     /* in server->working */
	struct http_reply *reply;      /* while a handler has it */
	struct MHD_Response *response; /* what it answered */
	unsigned status;
	size_t body; /* bytes of the body so far */
};

/* Responses. */

/* Takes text when mode says so, also when it fails. headers: name, value, ..., NULL. */
static struct MHD_Response *response_new(
	const char *text, size_t len, enum MHD_ResponseMemoryMode mode, const char *const headers[])
{
	static const char *const common[] = {
		"Cache-Control", "no-store", "X-Content-Type-Options", "nosniff", NULL};
	/* Text that is neither copied nor taken is never written to. */
	struct MHD_Response *response = MHD_create_response_from_buffer(len, (void *)text, mode);
	const char *const *const lists[] = {common, headers};

	if (!response && mode == MHD_RESPMEM_MUST_FREE)
		free((void *)text);
	for (size_t i = 0; response && i < ARRAY_SIZE(lists); i++)
		for (const char *const *header = lists[i]; *header && response; header += 2) {
			if (MHD_add_response_header(response, header[0], header[1]) == MHD_YES)
				continue;
			MHD_destroy_response(response);
			response = NULL;
		}
	return response;
}

/* MHD_NO, without memory, closes the connection. Takes the response. */
static enum MHD_Result answer(
	struct http_request *request, unsigned status, struct MHD_Response *response)
{
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	http_connection_phase(request->connection, HTTP_SENDING);
	result = MHD_queue_response(request->mhd, status, response);
	MHD_destroy_response(response);
	return result;
}

/* text is static. */
static enum MHD_Result answer_text(struct http_request *request, unsigned status, const char *text)
{
	static const char *const headers[] = {"Content-Type", TYPE_TEXT, NULL};

	return answer(
		request, status, response_new(text, strlen(text), MHD_RESPMEM_PERSISTENT, headers));
}

static enum MHD_Result answer_method(struct http_request *request, const char *allow)
{
	static const char text[] =
		"method not allowed here; what changes the node goes over the unix socket\n";
	const char *const headers[] = {"Content-Type", TYPE_TEXT, "Allow", allow, NULL};

	return answer(request, MHD_HTTP_METHOD_NOT_ALLOWED,
		response_new(text, strlen(text), MHD_RESPMEM_PERSISTENT, headers));
}

/* A parameter without a value, or with any but 0, is set. */
static bool parameter_set(struct http_request *request, const char *name)
{
	const char *value = NULL;

	if (MHD_lookup_connection_value_n(request->mhd, MHD_GET_ARGUMENT_KIND, name, strlen(name),
		    &value, NULL) != MHD_YES)
		return false;
	return !value || !streq(value, "0");
}

/* Documents: rendered at most once for each revision of the node. */

static int render(enum http_document which, const struct node *node, unsigned *status, char **text,
	size_t *len)
{
	bool ready = true;
	int r;

	switch (which) {
	case HTTP_READY:
		r = report_ready(node, &ready, text, len);
		*status = ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
		return r;
	case HTTP_HEALTH:
		return report_health(node, text, len);
	case HTTP_METRICS:
	case HTTP_OPENMETRICS:
		return report_metrics(node, which == HTTP_OPENMETRICS, text, len);
	case HTTP_PAGE:
		return report_page(node, text, len);
	default:
		return report_status(
			node, (which - HTTP_STATUS) & 1, (which - HTTP_STATUS) & 2, text, len);
	}
}

void http_rendered_drop(struct http_server *server)
{
	for (size_t i = 0; i < HTTP_DOCUMENTS; i++) {
		if (server->rendered[i].response)
			MHD_destroy_response(server->rendered[i].response);
		server->rendered[i] = (struct http_rendered){0};
	}
}

static const struct node *node_of(const struct http_request *request)
{
	return request->server->handlers->node(request->server->userdata);
}

/* NULL without memory. */
static const struct http_rendered *rendered(struct http_request *request, enum http_document which)
{
	static const char *const json[] = {"Content-Type", TYPE_JSON, NULL};
	static const char *const headers[HTTP_DOCUMENTS][7] = {
		[HTTP_READY] = {"Content-Type", TYPE_TEXT},
		[HTTP_METRICS] = {"Content-Type", "text/plain; version=0.0.4; charset=utf-8"},
		[HTTP_OPENMETRICS] = {"Content-Type",
			"application/openmetrics-text; version=1.0.0; charset=utf-8"},
		[HTTP_PAGE] = {"Content-Type", "text/html; charset=utf-8",
			"Content-Security-Policy", PAGE_POLICY, "Referrer-Policy", "no-referrer"},
	};
	struct http_server *server = request->server;
	struct http_rendered *document = &server->rendered[which];
	const struct node *node = node_of(request);
	char *text = NULL;
	size_t len = 0;

	/* Before the first tick nothing says when the node changes. */
	if (server->rendered_at != node->revision || node->revision == 0)
		http_rendered_drop(server);
	server->rendered_at = node->revision;
	if (document->response)
		return document;
	document->status = MHD_HTTP_OK;
	if (render(which, node, &document->status, &text, &len) < 0)
		return NULL;
	document->response = response_new(
		text, len, MHD_RESPMEM_MUST_FREE, headers[which][0] ? headers[which] : json);
	return document->response ? document : NULL;
}

/* The kept response stays with the server; libmicrohttpd counts who uses it. */
static enum MHD_Result answer_rendered(
	struct http_request *request, enum http_document which, unsigned status)
{
	const struct http_rendered *document = rendered(request, which);

	if (!document)
		return answer_text(request, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	http_connection_phase(request->connection, HTTP_SENDING);
	return MHD_queue_response(
		request->mhd, status ? status : document->status, document->response);
}

/* It is the loop itself that answers; only a tick that is late can make it fail. */
static enum MHD_Result get_live(struct http_request *request)
{
	uint64_t heartbeat = node_of(request)->heartbeat_us, now = now_us();

	if (heartbeat > 0 && now > heartbeat + HEARTBEAT_MAX_US)
		return answer_text(request, MHD_HTTP_SERVICE_UNAVAILABLE,
			"the agent's tick is more than 10 s late\n");
	return answer_text(request, MHD_HTTP_OK, "ok\n");
}

/* Who is refused gets the reasons too. */
static enum MHD_Result get_ready(struct http_request *request)
{
	const struct http_rendered *document = rendered(request, HTTP_READY);

	if (document && document->status == MHD_HTTP_OK && !parameter_set(request, "verbose"))
		return answer_text(request, MHD_HTTP_OK, "ok\n");
	return answer_rendered(request, HTTP_READY, 0);
}

static enum MHD_Result get_health(struct http_request *request)
{
	bool failed =
		parameter_set(request, "strict") && node_verdict(node_of(request)) != VERDICT_OK;

	return answer_rendered(
		request, HTTP_HEALTH, failed ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK);
}

static enum MHD_Result get_metrics(struct http_request *request)
{
	bool openmetrics = http_accepts_openmetrics(
		MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, "Accept"));

	return answer_rendered(request, openmetrics ? HTTP_OPENMETRICS : HTTP_METRICS, 0);
}

static enum MHD_Result get_status(struct http_request *request)
{
	int form = parameter_set(request, "pretty") + 2 * request->connection->authorized;

	return answer_rendered(request, (enum http_document)(HTTP_STATUS + form), 0);
}

static enum MHD_Result get_page(struct http_request *request)
{
	return answer_rendered(request, HTTP_PAGE, 0);
}

/* "application/openmetrics-text;version=1.0.0;q=0.8": quality 0..1 of one range of Accept. */
static double quality(const char *parameters)
{
	const char *q = strstr(parameters, ";q=");
	double value = 0, weight = 0.1;

	if (!q || q[3] == '1')
		return 1;
	/* What is no number from 0 to 1 counts as 0, so that nothing is chosen by a mistake. */
	if (q[3] != '0' || q[4] != '.')
		return 0;
	for (q += 5; isdigit((unsigned char)*q); q++, weight /= 10)
		value += (*q - '0') * weight;
	return value;
}

bool http_accepts_openmetrics(const char *accept)
{
	static const char *const text_ranges[] = {"*/*", "text/*", "text/plain"};
	double openmetrics = 0, text = 0;
	char copy[1024], *rest = copy, *range;
	size_t used = 0, specific = 0;

	for (; accept && *accept; accept++) { /* without white space, in small letters */
		if (used + 1 == sizeof(copy))
			return false;
		if (!isspace((unsigned char)*accept))
			copy[used++] = (char)tolower((unsigned char)*accept);
	}
	copy[used] = '\0';
	while ((range = strsep(&rest, ","))) {
		const char *parameters = range + strcspn(range, ";");
		size_t len = (size_t)(parameters - range);
		const char *version = strstr(parameters, ";version=");
		double q = quality(parameters);

		if (len == strlen("application/openmetrics-text") &&
			starts_with(range, "application/openmetrics-text") &&
			(!version || starts_with(version, ";version=1.0.0")))
			openmetrics = MAX(openmetrics, q);
		/* The most specific range that covers text/plain counts. */
		for (size_t i = 0; i < ARRAY_SIZE(text_ranges); i++)
			if (i + 1 >= specific && len == strlen(text_ranges[i]) &&
				starts_with(range, text_ranges[i])) {
				text = q;
				specific = i + 1;
			}
	}
	return openmetrics > 0 && openmetrics >= text;
}

/* Changes: over the unix socket, suspended while a handler works. */

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
	static const char *const headers[] = {"Content-Type", TYPE_JSON, NULL};
	struct http_request *request = reply->request;

	free(reply);
	if (!request)
		return;
	request->reply = NULL;
	request->status = status;
	/* Without memory for it there is no response, and the client finds the connection closed.
	 */
	request->response = response_new(json, strlen(json), MHD_RESPMEM_MUST_COPY, headers);
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
	return answer(request, request->status, steal(request->response));
}

static enum MHD_Result post(struct http_request *request, const char *method,
	void (*change)(void *userdata, const char *only, struct http_reply *reply))
{
	const char *only = NULL;
	bool given = MHD_lookup_connection_value_n(request->mhd, MHD_GET_ARGUMENT_KIND, "only",
			     strlen("only"), &only, NULL) == MHD_YES;
	size_t len = only ? strspn(only, "abcdefghijklmnopqrstuvwxyz") : 0;

	if (!streq(method, MHD_HTTP_METHOD_POST))
		return answer_method(request, ALLOW_POST);
	if (!request->server->local)
		return answer_method(request, ALLOW_READ);
	if (!request->connection->authorized)
		return answer_text(request, MHD_HTTP_FORBIDDEN, "only root may do this\n");
	if (given && (len == 0 || len > ONLY_MAX || only[len]))
		return answer_text(request, MHD_HTTP_BAD_REQUEST, "only: not a tuner's name\n");
	request->reply = calloc(1, sizeof(*request->reply));
	if (!request->reply)
		return MHD_NO;
	request->reply->request = request;
	change(request->server->userdata, only, request->reply);
	if (!request->reply)
		return answer_finished(request);
	http_connection_phase(request->connection, HTTP_WORKING);
	request_working(request, true);
	MHD_suspend_connection(request->mhd);
	return MHD_YES;
}

static enum MHD_Result route(struct http_request *request, const char *url, const char *method)
{
	static const struct {
		const char *path;
		enum MHD_Result (*get)(struct http_request *request);
	} routes[] = {
		{"/livez", get_live},
		{"/healthz", get_live},
		{"/readyz", get_ready},
		{"/health", get_health},
		{"/metrics", get_metrics},
		{"/v1/status", get_status},
		{"/", get_page},
	};
	bool reads = streq(method, MHD_HTTP_METHOD_GET) || streq(method, MHD_HTTP_METHOD_HEAD);

	if (streq(url, "/v1/apply"))
		return post(request, method, request->server->handlers->apply);
	if (streq(url, "/v1/restore"))
		return post(request, method, request->server->handlers->restore);
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		if (streq(url, routes[i].path))
			return reads ? routes[i].get(request) : answer_method(request, ALLOW_READ);
	if (!reads && !request->server->local)
		return answer_method(request, ALLOW_READ);
	return answer_text(request, MHD_HTTP_NOT_FOUND, "not found\n");
}

static enum MHD_Result refuse_body(struct http_request *request)
{
	return answer_text(
		request, MHD_HTTP_CONTENT_TOO_LARGE, "the body is longer than 4096 bytes\n");
}

static enum MHD_Result begin_request(
	struct http_server *server, struct MHD_Connection *mhd, void **state)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	const char *text = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Content-Length");
	struct http_request *request;
	uint64_t length;

	if (!info || !info->socket_context)
		return MHD_NO;
	request = calloc(1, sizeof(*request));
	if (!request)
		return MHD_NO;
	request->server = server;
	request->connection = info->socket_context;
	request->mhd = mhd;
	*state = request;
	/* What announces too long a body is refused before it is received. */
	if (text && (parse_count(text, &length) < 0 || length > BODY_MAX))
		return refuse_body(request);
	return MHD_YES;
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
	/* No request has a body that matters; a reply is queued before it or after it. */
	if (*size > 0) {
		request->body += *size;
		*size = 0;
		return request->body <= BODY_DISCARD_MAX ? MHD_YES : MHD_NO;
	}
	if (request->body > BODY_MAX)
		return refuse_body(request);
	if (request->status)
		return answer_finished(request);
	return route(request, url, method);
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
