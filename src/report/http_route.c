/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "report/incidents.h"

#include <ctype.h>
#include <netinet/in.h>
#include <zlib.h>

/* The bodies of requests are ignored. */
#define BODY_MAX 4096

#define ONLY_MAX 31

/*
 * The budget of a TCP connection: one request per interval, and a burst of the requests of one
 * second. A request over the budget waits, so a client in a loop costs little.
 */
#define REQUEST_EVERY_US (100 * USEC_PER_MSEC)
#define BURST_US         USEC_PER_SEC

/* Longer documents are compressed for clients that accept it. */
#define GZIP_ABOVE 4096

/* zlib needs 64 kB of memory for this window and level. */
#define GZIP_WINDOW (13 + 16) /* 16: with the header of gzip */
#define GZIP_MEMORY 6

/* The agent ticks every second. A loop that hangs for longer than this should be restarted. */
#define HEARTBEAT_MAX_US (10 * USEC_PER_SEC)

#define ALLOW_READ "GET, HEAD"
#define ALLOW_POST "POST"

#define INCIDENTS_URL "/v1/incidents"

#define TYPE_TEXT "text/plain; charset=utf-8"
#define TYPE_JSON "application/json"
#define TYPE_HTML "text/html; charset=utf-8"

/* The page contains its style and icon and loads nothing else. */
#define PAGE_POLICY                                                                       \
	"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

static const struct {
	const char *path; /* NULL: a variant of another document */
	const char *type; /* NULL: TYPE_JSON */
} documents[HTTP_DOCUMENTS] = {
	[HTTP_LIVE] = {"/livez", TYPE_TEXT},
	[HTTP_HEALTHZ] = {"/healthz", TYPE_TEXT},
	[HTTP_READY] = {"/readyz", TYPE_TEXT},
	[HTTP_HEALTH] = {"/health", NULL},
	[HTTP_METRICS] = {"/metrics", "text/plain; version=0.0.4; charset=utf-8"},
	[HTTP_OPENMETRICS] = {NULL, "application/openmetrics-text; version=1.0.0; charset=utf-8"},
	[HTTP_PAGE] = {"/", TYPE_HTML},
	[HTTP_PAGE_PAUSED] = {NULL, TYPE_HTML},
	[HTTP_STATUS] = {"/v1/status", NULL},
};

/* mode says whether text is copied, freed later, or static. */
static struct MHD_Response *response_new(
	const char *text, size_t len, enum MHD_ResponseMemoryMode mode, const char *type)
{
	struct MHD_Response *response =
		must(MHD_create_response_from_buffer(len, (void *)text, mode));

	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	return response;
}

static enum MHD_Result answer(
	struct http_connection *connection, unsigned status, struct MHD_Response *response)
{
	connection->sending = true;
	connection->since_us = now_us();
	return MHD_queue_response(connection->mhd, status, response);
}

/* text is static. header: a name and value, or NULL. */
static enum MHD_Result answer_with(struct http_connection *connection, unsigned status,
	const char *text, const char *header, const char *value)
{
	struct MHD_Response *response =
		response_new(text, strlen(text), MHD_RESPMEM_PERSISTENT, TYPE_TEXT);
	enum MHD_Result result;

	if (header)
		MHD_add_response_header(response, header, value);
	result = answer(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_text(
	struct http_connection *connection, unsigned status, const char *text)
{
	return answer_with(connection, status, text, NULL, NULL);
}

static enum MHD_Result answer_method(struct http_connection *connection, const char *allow)
{
	return answer_with(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
		"method not allowed: requests that change the node need the unix socket\n", "Allow",
		allow);
}

/* NULL if the parameter is absent, "" if it lacks a value. */
static const char *parameter(const struct http_connection *connection, const char *name)
{
	const char *value = NULL;

	if (MHD_lookup_connection_value_n(connection->mhd, MHD_GET_ARGUMENT_KIND, name,
		    strlen(name), &value, NULL) != MHD_YES)
		return NULL;
	return value ? value : "";
}

static bool parameter_set(const struct http_connection *connection, const char *name)
{
	const char *value = parameter(connection, name);

	return value && !streq(value, "0");
}

void http_rendered_drop(struct http_server *server)
{
	for (size_t i = 0; i < HTTP_DOCUMENTS; i++)
		for (int gzip = 0; gzip < 2; gzip++)
			if (server->rendered[i][gzip])
				MHD_destroy_response(steal(server->rendered[i][gzip]));
}

static void compress_text(char **text, size_t *len)
{
	z_stream stream = {.next_in = (Bytef *)*text, .avail_in = (uInt)*len};

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
		    Z_DEFAULT_STRATEGY) != Z_OK)
		abort(); /* out of memory */
	stream.avail_out = (uInt)deflateBound(&stream, *len);
	stream.next_out = must(malloc(stream.avail_out));
	deflate(&stream, Z_FINISH);
	free(*text);
	*len = stream.total_out;
	*text = (char *)(stream.next_out - *len);
	deflateEnd(&stream);
}

static struct MHD_Response *rendered(
	struct http_server *server, enum http_document which, bool gzip)
{
	struct MHD_Response **response = &server->rendered[which][gzip];
	const char *type = documents[which].type ? documents[which].type : TYPE_JSON;
	const struct node *node = server->node;
	char *text = NULL;
	size_t len = 0;
	FILE *out;

	/* Before the first tick the revision is 0 whatever changes. */
	if (server->rendered_at != node->revision || node->revision == 0)
		http_rendered_drop(server);
	server->rendered_at = node->revision;
	if (*response)
		return *response;
	out = must(open_memstream(&text, &len));
	if (which == HTTP_READY)
		report_ready(out, node);
	else if (which == HTTP_HEALTH)
		json_put(out, report_health(node), false);
	else if (which == HTTP_METRICS || which == HTTP_OPENMETRICS)
		report_metrics(out, node, which == HTTP_OPENMETRICS);
	else if (which == HTTP_PAGE || which == HTTP_PAGE_PAUSED)
		report_page(out, node, which == HTTP_PAGE_PAUSED);
	else
		json_put(out, report_status(node, which == HTTP_STATUS_TRUSTED), false);
	if (fclose(out) != 0)
		abort(); /* out of memory: systemd restarts the agent */
	gzip = gzip && len > GZIP_ABOVE;
	if (gzip)
		compress_text(&text, &len);
	*response = response_new(text, len, MHD_RESPMEM_MUST_FREE, type);
	MHD_add_response_header(*response, "Vary", "Accept, Accept-Encoding");
	if (gzip)
		MHD_add_response_header(*response, "Content-Encoding", "gzip");
	if (streq(type, TYPE_HTML)) {
		MHD_add_response_header(*response, "Content-Security-Policy", PAGE_POLICY);
		MHD_add_response_header(*response, "Referrer-Policy", "no-referrer");
	}
	return *response;
}

/*
 * The highest quality that the header of the request gives to a format, 0 without one. A version
 * excludes ranges with other versions.
 */
static double quality(const struct http_connection *connection, const char *header,
	const char *format, const char *version)
{
	const char *value = MHD_lookup_connection_value(connection->mhd, MHD_HEADER_KIND, header);
	_cleanup_free_ char *copy = must(strdup(value ? value : ""));
	char *rest = copy, *to = copy, *range;
	double best = 0;

	for (const char *from = copy; *from; from++) /* remove white space, convert to lower case */
		if (!isspace((unsigned char)*from))
			*to++ = (char)tolower((unsigned char)*from);
	*to = '\0';
	/* Each range is like "application/openmetrics-text;version=1.0.0;q=0.8". */
	while ((range = strsep(&rest, ","))) {
		const char *parameters = range + strcspn(range, ";");
		const char *given = strstr(parameters, ";version=");
		const char *q = strstr(parameters, ";q=");
		double number = q ? strtod(q + strlen(";q="), NULL) : 1;

		/* Ignore an invalid quality. */
		if (number >= 0 && number <= 1 && (size_t)(parameters - range) == strlen(format) &&
			starts_with(range, format) &&
			(!version || !given || starts_with(given, version)))
			best = MAX(best, number);
	}
	return best;
}

static enum MHD_Result get(struct http_connection *connection, enum http_document which)
{
	const struct node *node = connection->server->node;
	unsigned status = MHD_HTTP_OK;

	/* The loop itself answers, so these fail only while its tick is late. */
	if (which <= HTTP_HEALTHZ)
		return node->heartbeat_us > 0 && now_us() > node->heartbeat_us + HEARTBEAT_MAX_US
			       ? answer_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
					 "the agent's tick is more than 10 s late\n")
			       : answer_text(connection, MHD_HTTP_OK, "ok\n");
	if (which == HTTP_METRICS) {
		double openmetrics = quality(
			connection, "Accept", "application/openmetrics-text", ";version=1.0.0");

		if (openmetrics > 0 &&
			openmetrics >= quality(connection, "Accept", "text/plain", NULL))
			which = HTTP_OPENMETRICS;
	}
	if (which == HTTP_PAGE && parameter_set(connection, "paused"))
		which = HTTP_PAGE_PAUSED;
	if (which == HTTP_STATUS && connection->authorized)
		which = HTTP_STATUS_TRUSTED;
	/* A node that is not ready always gets the verbose list. */
	if (which == HTTP_READY && node_is_ready(node) && !parameter_set(connection, "verbose"))
		return answer_text(connection, MHD_HTTP_OK, "ok\n");
	if ((which == HTTP_READY && !node_is_ready(node)) ||
		(which == HTTP_HEALTH && parameter_set(connection, "strict") &&
			node_verdict(node) != VERDICT_OK))
		status = MHD_HTTP_SERVICE_UNAVAILABLE;
	return answer(connection, status,
		rendered(connection->server, which,
			quality(connection, "Accept-Encoding", "gzip", NULL) > 0));
}

void http_reply(struct http_connection *client, unsigned status, const char *json)
{
	client->held = false;
	if (!client->mhd) {
		free(client);
		return;
	}
	client->status = status;
	client->response = response_new(json, strlen(json), MHD_RESPMEM_MUST_COPY, TYPE_JSON);
	if (client->suspended)
		http_resume(client);
}

void http_hold(struct http_connection *connection)
{
	connection->held = connection->suspended = true;
	MHD_suspend_connection(connection->mhd);
}

void http_resume(struct http_connection *connection)
{
	connection->held = connection->suspended = false;
	if (!connection->mhd) {
		free(connection);
		return;
	}
	connection->sending = true;
	connection->since_us = now_us();
	MHD_resume_connection(connection->mhd);
	/* Wake the loop: libmicrohttpd wakes only threads of its own, which it does not have. */
	sd_event_source_set_time(connection->server->timer, 0);
	sd_event_source_set_enabled(connection->server->timer, SD_EVENT_ONESHOT);
}

void http_wait(struct http_connection *connection, uint64_t due_us)
{
	connection->due_us = due_us;
	connection->waiting = true;
	MHD_suspend_connection(connection->mhd);
}

/* After the request was handed on. */
static enum MHD_Result wait_for_reply(struct http_connection *connection)
{
	if (!connection->held)
		return answer(connection, connection->status, connection->response);
	http_hold(connection);
	return MHD_YES;
}

static enum MHD_Result post(struct http_connection *connection, const char *method, bool restore)
{
	const struct http_server *server = connection->server;
	const char *only = parameter(connection, "only");
	size_t len = only ? strspn(only, "abcdefghijklmnopqrstuvwxyz") : 0;

	if (!streq(method, MHD_HTTP_METHOD_POST))
		return answer_method(connection, ALLOW_POST);
	if (!server->local)
		return answer_method(connection, ALLOW_READ);
	if (!connection->authorized)
		return answer_text(
			connection, MHD_HTTP_FORBIDDEN, "only root may change the node\n");
	if (only && (len == 0 || len > ONLY_MAX || only[len]))
		return answer_text(connection, MHD_HTTP_BAD_REQUEST, "only: not a tuner name\n");
	connection->held = true;
	server->change(server->userdata, restore, only, parameter(connection, "owner"), connection);
	return wait_for_reply(connection);
}

/* Answers /v1/incidents and /v1/incidents/ID. */
static enum MHD_Result get_incidents(struct http_connection *connection, const char *url)
{
	struct recorder *recorder = connection->server->node->recorder;
	const char *id = url + strlen(INCIDENTS_URL);

	if (!recorder)
		return answer_text(connection, MHD_HTTP_NOT_FOUND,
			"no incidents: this agent does not record, because it only observes or "
			"cannot write its state directory\n");
	connection->held = true;
	recorder_read(recorder, *id == '/' && id[1] ? id + 1 : NULL, connection);
	return wait_for_reply(connection);
}

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;

	if (address->ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(six) ||
	       (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET);
}

/*
 * False for a request to a loopback address under another name: a website whose name resolves to
 * this address (DNS rebinding) would read the documents. An address as the Host is safe: a proxy
 * such as kube-rbac-proxy keeps the Host header of its own client.
 */
static bool host_fits(const struct http_connection *connection, const char *host)
{
	const char *const names[] = {"localhost", connection->server->node->name};
	struct sockaddr_storage address = {0};
	socklen_t size = sizeof(address);
	char with_port[80];

	if (getsockname(connection->fd, (struct sockaddr *)&address, &size) < 0 ||
		!is_loopback(&address))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcspn(host, ":") == strlen(names[i]) &&
			strncasecmp(host, names[i], strlen(names[i])) == 0)
			return true;
	snprintf(with_port, sizeof(with_port), "%s:80", host);
	return listen_address(host, &address) > 0 || listen_address(with_port, &address) > 0;
}

/*
 * Suspends a TCP connection that is over its budget; libmicrohttpd calls http_route() again.
 * Probes never wait.
 */
static bool wait_for_budget(struct http_connection *connection, const char *url)
{
	uint64_t now = now_us();

	for (size_t i = 0; i <= HTTP_READY; i++)
		if (streq(url, documents[i].path))
			return false;
	if (!connection->budgeted)
		connection->due_us = MAX(connection->due_us + REQUEST_EVERY_US, now - BURST_US);
	connection->budgeted = true;
	if (connection->server->local || connection->shut || connection->due_us <= now)
		return false;
	http_wait(connection, connection->due_us);
	return true;
}

enum MHD_Result http_route(void *userdata, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *, const char *, size_t *size, void **state)
{
	bool reads = streq(method, MHD_HTTP_METHOD_GET) || streq(method, MHD_HTTP_METHOD_HEAD);
	const struct http_server *server = userdata;
	struct http_connection *connection = *state;
	enum http_access access;

	if (!connection) { /* the headers are complete */
		const char *text =
			MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Content-Length");
		const char *host = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Host");
		uint64_t length;

		*state = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
				 ->socket_context;
		if (!*state)
			return MHD_NO; /* it is being closed */
		if (!server->local && host && !host_fits(*state, host))
			return answer_text(*state, MHD_HTTP_MISDIRECTED_REQUEST,
				"the Host header must be localhost, an address or the name of this node\n");
		if (text && (parse_count(text, &length) < 0 || length > BODY_MAX))
			return answer_text(*state, MHD_HTTP_CONTENT_TOO_LARGE,
				"the body is longer than 4096 bytes\n");
		return MHD_YES;
	}
	if (*size > 0) { /* part of a body; a chunked body that is too long ends the connection */
		connection->body += *size;
		*size = 0;
		return connection->body <= BODY_MAX ? MHD_YES : MHD_NO;
	}
	if (connection->status)
		return answer(connection, connection->status, connection->response);
	if (wait_for_budget(connection, url))
		return MHD_YES;
	access = http_authenticate(connection);
	if (access == HTTP_WAITS)
		return MHD_YES;
	if (access == HTTP_DENIED)
		return answer_with(connection, MHD_HTTP_UNAUTHORIZED, "unauthorized\n",
			"WWW-Authenticate", "Basic realm=\"headroom\"");
	if (access == HTTP_NO_CERTIFICATE)
		return answer_text(connection, MHD_HTTP_FORBIDDEN,
			"a client certificate of the configured authority is needed\n");
	if (streq(url, "/v1/apply") || streq(url, "/v1/restore"))
		return post(connection, method, streq(url, "/v1/restore"));
	for (size_t i = 0; i < HTTP_DOCUMENTS; i++)
		if (documents[i].path && streq(url, documents[i].path))
			return reads ? get(connection, i) : answer_method(connection, ALLOW_READ);
	if (streq(url, INCIDENTS_URL) || starts_with(url, INCIDENTS_URL "/"))
		return reads ? get_incidents(connection, url)
			     : answer_method(connection, ALLOW_READ);
	if (!reads && !server->local)
		return answer_method(connection, ALLOW_READ);
	return answer_text(connection, MHD_HTTP_NOT_FOUND, "not found\n");
}

void http_request_completed(
	void *, struct MHD_Connection *, void **state, enum MHD_RequestTerminationCode)
{
	struct http_connection *connection = *state;

	if (!connection)
		return;
	/* The deadline of the connection's next request begins now. */
	connection->sending = false;
	connection->budgeted = false;
	connection->since_us = now_us();
	if (connection->response)
		MHD_destroy_response(connection->response);
	connection->response = NULL;
	connection->status = 0;
	connection->body = 0;
	*state = NULL;
}
