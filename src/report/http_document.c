/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/util.h"
#include "report/report.h"

/* The agent's tick is 1 s; a loop that was stuck for longer than this has no business living. */
#define BEAT_MAX_US (10 * USEC_PER_SEC)

#define TYPE_TEXT        "text/plain; charset=utf-8"
#define TYPE_JSON        "application/json"
#define TYPE_HTML        "text/html; charset=utf-8"
#define TYPE_METRICS     "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* The page carries its own styles and icon and asks for nothing else. */
#define PAGE_POLICY                                                                       \
	"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

/* Takes text when mode says so, also when it fails. */
static struct MHD_Response *response_new(
	const char *text, size_t len, enum MHD_ResponseMemoryMode mode, const char *type)
{
	/* Text that is neither copied nor taken is never written to. */
	struct MHD_Response *response = MHD_create_response_from_buffer(len, (void *)text, mode);

	if (!response) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free((void *)text);
		return NULL;
	}
	if (MHD_add_response_header(response, "Content-Type", type) == MHD_YES &&
		MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES &&
		MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES)
		return response;
	MHD_destroy_response(response);
	return NULL;
}

enum MHD_Result http_answer_response(
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

enum MHD_Result http_answer_text(struct http_request *request, unsigned status, const char *text)
{
	return http_answer_response(request, status,
		response_new(text, strlen(text), MHD_RESPMEM_MUST_COPY, TYPE_TEXT));
}

enum MHD_Result http_answer_method(struct http_request *request, const char *allow)
{
	static const char text[] = "method not allowed here; what changes the node goes over the "
				   "unix socket\n";
	struct MHD_Response *response =
		response_new(text, strlen(text), MHD_RESPMEM_PERSISTENT, TYPE_TEXT);

	if (response && MHD_add_response_header(response, "Allow", allow) != MHD_YES) {
		MHD_destroy_response(response);
		return MHD_NO;
	}
	return http_answer_response(request, MHD_HTTP_METHOD_NOT_ALLOWED, response);
}

struct MHD_Response *http_json_response(const char *json)
{
	return response_new(json, strlen(json), MHD_RESPMEM_MUST_COPY, TYPE_JSON);
}

/* Takes text, the result of a report that returned r. */
static enum MHD_Result answer_report(struct http_request *request, int r, unsigned status,
	char *text, size_t len, const char *type)
{
	if (r < 0)
		return http_answer_text(request, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	return http_answer_response(
		request, status, response_new(text, len, MHD_RESPMEM_MUST_FREE, type));
}

static const struct node *node_of(const struct http_request *request)
{
	return request->server->handlers->node(request->server->userdata);
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

/* It is the loop itself that answers; only a tick that no longer comes can make it fail. */
enum MHD_Result http_get_live(struct http_request *request)
{
	uint64_t beat = node_of(request)->heartbeat_us, now = now_us();

	if (beat > 0 && now > beat + BEAT_MAX_US)
		return http_answer_text(request, MHD_HTTP_SERVICE_UNAVAILABLE,
			"the agent's tick is more than 10 s late\n");
	return http_answer_text(request, MHD_HTTP_OK, "ok\n");
}

enum MHD_Result http_get_ready(struct http_request *request)
{
	char *text = NULL;
	bool ready = false;
	size_t len = 0;
	int r = report_ready(node_of(request), &ready, &text, &len);

	/* Whoever is refused wants to know why without having to ask again. */
	if (r < 0 || !ready || parameter_set(request, "verbose"))
		return answer_report(request, r, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
			text, len, TYPE_TEXT);
	free(text);
	return http_answer_text(request, MHD_HTTP_OK, "ok\n");
}

enum MHD_Result http_get_health(struct http_request *request)
{
	const struct node *node = node_of(request);
	bool failed = parameter_set(request, "strict") && node_verdict(node) != VERDICT_OK;
	char *text = NULL;
	size_t len = 0;
	int r = report_health(node, &text, &len);

	return answer_report(request, r, failed ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, text,
		len, TYPE_JSON);
}

enum MHD_Result http_get_metrics(struct http_request *request)
{
	bool openmetrics = http_accepts_openmetrics(
		MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, "Accept"));
	char *text = NULL;
	size_t len = 0;
	int r = report_metrics(node_of(request), openmetrics, &text, &len);

	return answer_report(
		request, r, MHD_HTTP_OK, text, len, openmetrics ? TYPE_OPENMETRICS : TYPE_METRICS);
}

enum MHD_Result http_get_status(struct http_request *request)
{
	char *text = NULL;
	size_t len = 0;
	int r = report_status(node_of(request), parameter_set(request, "pretty"),
		request->connection->authorized, &text, &len);

	return answer_report(request, r, MHD_HTTP_OK, text, len, TYPE_JSON);
}

enum MHD_Result http_get_page(struct http_request *request)
{
	char *text = NULL;
	size_t len = 0;
	int r = report_page(node_of(request), &text, &len);
	struct MHD_Response *response;

	if (r < 0)
		return answer_report(request, r, 0, NULL, 0, NULL);
	response = response_new(text, len, MHD_RESPMEM_MUST_FREE, TYPE_HTML);
	if (response && (MHD_add_response_header(
				 response, "Content-Security-Policy", PAGE_POLICY) != MHD_YES ||
				MHD_add_response_header(
					response, "Referrer-Policy", "no-referrer") != MHD_YES)) {
		MHD_destroy_response(response);
		return MHD_NO;
	}
	return http_answer_response(request, MHD_HTTP_OK, response);
}
