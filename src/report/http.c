/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server. Its parts, in this order: replies, and connections that wait for one; who may
 * read over TCP; documents, rendered at most once per tick; requests, and whose is next;
 * connections and their deadlines; sockets and the server. It reads the node and changes nothing:
 * requests that do go to the caller's function. Nothing blocks the loop but rendering: tasks check
 * passwords and make handshakes.
 */
#include "report/http.h"

#include "base/file.h"
#include "report/recorder.h"
#include "report/report.h"

#include <crypt.h>
#include <ctype.h>
#include <libgen.h>
#include <netinet/in.h>
#include <time.h>
#include <zlib.h>

#include <nettle/base64.h>

#define REQUEST_US      (10 * USEC_PER_SEC)
#define CONNECTIONS_MAX 64

/*
 * Holds the headers of a request and of its reply; longer headers get 431 or 414. A browser may
 * send all cookies of "localhost", which all ports share.
 */
#define CONNECTION_MEMORY ((size_t)16 * 1024)

/* The default of sd-event, 250 ms, is too coarse for the deadlines. */
#define TIMER_ACCURACY_US (10 * USEC_PER_MSEC)

/* Accepting pauses for this time when the process has no free descriptors. */
#define PAUSE_US USEC_PER_SEC

/*
 * Connections accepted before libmicrohttpd reads from them. Fewer than CONNECTIONS_MAX, so that
 * many new connections at once cannot evict each other before their requests are read.
 */
#define ACCEPT_BATCH 16

/* The bodies of requests are ignored. */
#define BODY_MAX 4096

#define ONLY_MAX 31

/*
 * The budget of all TCP clients together: one request per interval, and a burst of the requests of
 * one second. A request over the budget waits, so clients in a loop cost little. The next one is of
 * the address that has used least.
 */
#define REQUEST_EVERY_US (10 * USEC_PER_MSEC)
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

#define BASIC     "Basic "
#define BASIC_MAX 256 /* bytes of "USER:PASSWORD" in base64 */

/* Passwords are checked for half of the time, so that guesses leave the other half of a CPU. */
#define PAUSE_FACTOR 1

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

/* ---- replies ---- */

/* Makes a response. mode says whether text is copied, freed later, or static. */
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

/* Answers with a static text. header: a name and value, or NULL. */
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

static void hold_connection(struct http_connection *connection)
{
	connection->held = connection->suspended = true;
	MHD_suspend_connection(connection->mhd);
}

static void resume_connection(struct http_connection *connection)
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

/* Waits for end_waiting(); then libmicrohttpd calls answer_request() again. */
static void wait_for_turn(struct http_connection *connection, enum http_wait wait)
{
	connection->wait = wait;
	MHD_suspend_connection(connection->mhd);
}

static void end_waiting(struct http_connection *connection)
{
	connection->wait = WAITS_NOT;
	connection->since_us = now_us();
	MHD_resume_connection(connection->mhd);
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
		resume_connection(client);
}

/* ---- who may read over TCP ---- */

/* Returns the record of an address. A new one may replace the record that is unused for longest. */
static struct http_client *client_of(struct http_server *server, const struct peer *peer)
{
	struct http_client *oldest = &server->clients[0];

	for (struct http_client *c = server->clients; c < server->clients + HTTP_CLIENTS_MAX; c++) {
		if (peer_is(&c->peer, peer))
			return c;
		if (MAX(c->due_us, c->wrong_us) < MAX(oldest->due_us, oldest->wrong_us))
			oldest = c;
	}
	*oldest = (struct http_client){.peer = *peer};
	return oldest;
}

enum http_access {
	ACCESS_GRANTED,
	ACCESS_DENIED,         /* no password, or a wrong one */
	ACCESS_NO_CERTIFICATE, /* or not from the configured authority */
	ACCESS_WAITS,          /* the connection is suspended */
};

struct password_check {
	struct http_connection *connection;
	struct http_digest digest; /* identifies the credentials */
	char password[BASIC_MAX];
	char hash[WEB_BCRYPT_LEN + 1];
	bool known; /* the user exists */
	bool right;
	uint64_t took_us; /* on a CPU: an idle thread may wait long for one */
};

/* Runs in a task: bcrypt needs 60 ms and more. */
static void check_password(void *data, const struct wait *)
{
	struct crypt_data *memory = must(calloc(1, sizeof(*memory)));
	struct password_check *check = data;
	const char *hash = crypt_r(check->password, check->hash, memory);
	struct timespec cpu = {0};

	check->right = hash && streq(hash, check->hash) && check->known;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	check->took_us = (uint64_t)cpu.tv_sec * USEC_PER_SEC + (uint64_t)cpu.tv_nsec / 1000;
	explicit_bzero(memory, sizeof(*memory));
	free(memory);
}

static void free_server(struct http_server *server)
{
	explicit_bzero(&server->auth, sizeof(server->auth));
	free(server);
}

static void adopt_check(void *data, void *userdata)
{
	struct http_server *server = userdata;
	struct password_check *check = data;

	server->auth.next_check_us = now_us() + PAUSE_FACTOR * check->took_us;
	if (check->right) {
		server->auth.known[server->auth.next++ % HTTP_KNOWN_MAX] = check->digest;
		for (struct http_connection *c = server->connections; c; c = c->next)
			if (c->wait == WAITS_FOR_CHECK) /* it may have the same password */
				end_waiting(c);
	} else {
		client_of(server, &check->connection->peer)->wrong_us = now_us();
		check->connection->denied = true;
	}
	resume_connection(check->connection);
	explicit_bzero(check, sizeof(*check));
	free(check);
	if (server->is_closed)
		free_server(server);
}

/* Splits "Basic BASE64" into user and password. Returns false if it is not of this form. */
static bool parse_basic(
	const char *header, char text[static BASIC_MAX], const char **user, char **password)
{
	struct base64_decode_ctx context;
	size_t length = BASIC_MAX - 1;

	if (!header || strncasecmp(header, BASIC, strlen(BASIC)) != 0)
		return false;
	header += strlen(BASIC);
	base64_decode_init(&context);
	if (BASE64_DECODE_LENGTH(strlen(header)) >= BASIC_MAX ||
		!base64_decode_update(&context, &length, (uint8_t *)text, strlen(header), header) ||
		!base64_decode_final(&context))
		return false;
	text[length] = '\0';
	*user = text;
	*password = strchr(text, ':');
	if (!*password || strlen(text) != length)
		return false;
	*(*password)++ = '\0';
	return true;
}

/* The check of an unknown user takes as long as that of a known user. */
static bool begin_check(struct http_connection *connection, const struct http_digest *digest,
	const char *user, const char *password)
{
	struct http_server *server = connection->server;
	const struct web_config *web = server->web;
	const struct web_user *found = find_named(web->users, web->n_users, user);
	struct password_check *check;

	check = must(calloc(1, sizeof(*check)));
	check->known = found;
	check->connection = connection;
	check->digest = *digest;
	set_text(check->password, password);
	set_text(check->hash, (found ? found : web->users)->hash);
	if (task_start(&server->auth.check, server->event,
		    &(struct task){check_password, adopt_check, check, server, UINT64_MAX, true}) <
		0) {
		explicit_bzero(check, sizeof(*check));
		free(check);
		return false;
	}
	hold_connection(connection);
	return true;
}

static enum http_access authenticate(struct http_connection *connection)
{
	struct http_server *server = connection->server;
	char text[BASIC_MAX] = "", *password;
	struct sha256_ctx context;
	struct http_digest digest;
	const char *header, *user;

	if (!server->web)
		return ACCESS_GRANTED;
	if (server->web->cert && !connection->certificate_fits)
		return ACCESS_NO_CERTIFICATE;
	if (server->web->n_users == 0)
		return ACCESS_GRANTED;
	header = MHD_lookup_connection_value(
		connection->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	if (connection->denied || !parse_basic(header, text, &user, &password)) {
		connection->denied = false;
		return ACCESS_DENIED;
	}
	sha256_init(&context);
	sha256_update(&context, strlen(header), (const uint8_t *)header);
	sha256_digest(&context, sizeof(digest.bytes), digest.bytes);
	for (size_t i = 0; i < HTTP_KNOWN_MAX; i++)
		if (memcmp(&server->auth.known[i], &digest, sizeof(digest)) == 0)
			return ACCESS_GRANTED;
	if (!connection->is_next)
		wait_for_turn(connection, WAITS_FOR_CHECK);
	else if (!begin_check(connection, &digest, user, password))
		return ACCESS_DENIED;
	connection->is_next = false;
	explicit_bzero(text, sizeof(text));
	return ACCESS_WAITS;
}

/* ---- documents ---- */

static void drop_rendered(struct http_server *server)
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
		drop_rendered(server);
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
 * Returns the highest quality that a header of the request gives to a format, 0 without one. A
 * version excludes ranges with other versions.
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

/* ---- requests ---- */

/* Returns NULL if the parameter is absent, "" if it lacks a value. */
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

static enum MHD_Result get_document(struct http_connection *connection, enum http_document which)
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

/* Waits for http_reply(), unless it was called already. */
static enum MHD_Result wait_for_reply(struct http_connection *connection)
{
	if (!connection->held)
		return answer(connection, connection->status, connection->response);
	hold_connection(connection);
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
 * Returns false for a request to a loopback address under another name: a website whose name
 * resolves to this address (DNS rebinding) would read the documents. An address as the Host is
 * safe: a proxy such as kube-rbac-proxy keeps the Host header of its own client.
 */
static bool host_fits(const struct http_connection *connection, const char *host)
{
	const char *const names[] = {"localhost", connection->server->node->name};
	struct sockaddr_storage address = {0};
	char with_port[80];

	if (!connection->is_loopback)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcspn(host, ":") == strlen(names[i]) &&
			strncasecmp(host, names[i], strlen(names[i])) == 0)
			return true;
	snprintf(with_port, sizeof(with_port), "%s:80", host);
	return listen_address(host, &address) > 0 || listen_address(with_port, &address) > 0;
}

/* Adds a request to the budget, and to what its address has used. */
static void use_budget(struct http_connection *connection, uint64_t now)
{
	struct http_server *server = connection->server;
	uint64_t *used = &client_of(server, &connection->peer)->due_us;

	*used = MAX(*used + REQUEST_EVERY_US, now - BURST_US);
	server->due_us = MAX(server->due_us + REQUEST_EVERY_US, now - BURST_US);
	connection->budgeted = true;
}

/* Suspends a TCP connection until the budget has room for its request. Probes never wait. */
static bool wait_for_budget(struct http_connection *connection, const char *url)
{
	uint64_t now = now_us();

	for (size_t i = 0; i <= HTTP_READY; i++)
		if (streq(url, documents[i].path))
			return false;
	if (connection->server->local || connection->budgeted)
		return false;
	if (connection->server->due_us <= now) {
		use_budget(connection, now);
		return false;
	}
	wait_for_turn(connection, WAITS_FOR_BUDGET);
	return true;
}

/*
 * Returns the connection whose turn it is. For the budget, addresses that have used less go first;
 * for a check, those whose last wrong password is older. The others are in order: if only one of an
 * address could wait for a check, and the others had to ask again, guessers that ask at once would
 * always be that one. NULL: none waits.
 */
static struct http_connection *next_waiting(struct http_server *server, enum http_wait wait)
{
	struct http_connection *next = NULL;
	uint64_t used, least = 0, now = now_us();

	for (struct http_connection *c = server->connections; c; c = c->next) {
		const struct http_client *client;

		if (c->wait != wait)
			continue;
		client = client_of(server, &c->peer);
		used = wait == WAITS_FOR_CHECK ? client->wrong_us
					       : MAX(client->due_us, now - BURST_US);
		if (!next || used < least || (used == least && c->asked_us < next->asked_us)) {
			next = c;
			least = used;
		}
	}
	return next;
}

/*
 * Lets go on whose turn it is. Returns when the server must run again for it or for the next turn;
 * UINT64_MAX: nobody waits for one.
 */
static uint64_t give_turns(struct http_server *server)
{
	struct http_connection *next;
	uint64_t now = now_us(), due_us = UINT64_MAX;

	for (struct http_connection *c = server->connections; c; c = c->next)
		if (c->wait && c->shut)
			end_waiting(c);
	while ((next = next_waiting(server, WAITS_FOR_BUDGET)) && server->due_us <= now) {
		use_budget(next, now);
		end_waiting(next);
		due_us = now;
	}
	if (next)
		due_us = MIN(due_us, server->due_us);
	next = server->auth.check ? NULL : next_waiting(server, WAITS_FOR_CHECK);
	if (next && server->auth.next_check_us > now) {
		due_us = MIN(due_us, server->auth.next_check_us);
	} else if (next) {
		next->is_next = true;
		end_waiting(next);
		due_us = now;
	}
	return due_us;
}

static enum MHD_Result answer_request(void *userdata, struct MHD_Connection *mhd, const char *url,
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
		((struct http_connection *)*state)->asked_us = now_us();
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
	if (connection->shut) /* while it waited */
		return MHD_NO;
	if (wait_for_budget(connection, url))
		return MHD_YES;
	access = authenticate(connection);
	if (access == ACCESS_WAITS)
		return MHD_YES;
	if (access == ACCESS_DENIED)
		return answer_with(connection, MHD_HTTP_UNAUTHORIZED, "unauthorized\n",
			"WWW-Authenticate", "Basic realm=\"headroom\"");
	if (access == ACCESS_NO_CERTIFICATE)
		return answer_text(connection, MHD_HTTP_FORBIDDEN,
			"a client certificate of the configured authority is needed\n");
	if (streq(url, "/v1/apply") || streq(url, "/v1/restore"))
		return post(connection, method, streq(url, "/v1/restore"));
	for (size_t i = 0; i < HTTP_DOCUMENTS; i++)
		if (documents[i].path && streq(url, documents[i].path))
			return reads ? get_document(connection, i)
				     : answer_method(connection, ALLOW_READ);
	if (streq(url, INCIDENTS_URL) || starts_with(url, INCIDENTS_URL "/"))
		return reads ? get_incidents(connection, url)
			     : answer_method(connection, ALLOW_READ);
	if (!reads && !server->local)
		return answer_method(connection, ALLOW_READ);
	return answer_text(connection, MHD_HTTP_NOT_FOUND, "not found\n");
}

static void request_completed(
	void *, struct MHD_Connection *, void **state, enum MHD_RequestTerminationCode)
{
	struct http_connection *connection = *state;

	if (!connection)
		return;
	/* The deadline of the connection's next request begins now. */
	connection->sending = false;
	connection->budgeted = connection->is_next = false;
	connection->since_us = now_us();
	if (connection->response)
		MHD_destroy_response(connection->response);
	connection->response = NULL;
	connection->status = 0;
	connection->body = 0;
	*state = NULL;
}

/* ---- connections ---- */

/* Lets libmicrohttpd read the end of the stream and close the descriptor. */
static void connection_shut(struct http_connection *connection)
{
	shutdown(connection->fd, SHUT_RDWR);
	connection->shut = true;
}

/* Returns when the connection needs the timer. */
static uint64_t deadline(const struct http_connection *connection)
{
	return connection->shut || connection->held || connection->wait
		       ? UINT64_MAX
		       : connection->since_us + connection->server->request_us;
}

/* Returns how many connections of the same address are open. */
static unsigned count_of_peer(const struct http_server *server, const struct peer *peer)
{
	unsigned n = 0;

	for (const struct http_connection *c = server->connections; c; c = c->next)
		n += !c->shut && peer_is(&c->peer, peer);
	return n;
}

/*
 * Evicts a connection of the address that has most: its oldest incomplete request, else its oldest
 * reply in transmission, else its newest request that waits for a turn. Held connections stay.
 * Returns false if there are no others.
 */
static bool evict_one(struct http_server *server)
{
	struct http_connection *worst = NULL;
	unsigned most = 0;
	int lowest = 0;

	for (struct http_connection *c = server->connections; c; c = c->next) { /* newest first */
		int rank = c->wait ? 2 : c->sending ? 1 : 0;
		unsigned n;

		if (c->shut || c->held)
			continue;
		n = count_of_peer(server, &c->peer);
		if (n > most || (n == most && rank < lowest) ||
			(n == most && rank == lowest && rank < 2 &&
				c->since_us < worst->since_us)) {
			worst = c;
			most = n;
			lowest = rank;
		}
	}
	if (worst)
		connection_shut(worst);
	return worst;
}

/* Describes a client of a socket that the loop itself has accepted. */
static struct tls_arrival arrival_of(int fd)
{
	struct tls_arrival arrival = {.fd = fd};
	socklen_t peer = sizeof(arrival.peer), local = sizeof(arrival.local);

	(void)getpeername(fd, (struct sockaddr *)&arrival.peer, &peer);
	(void)getsockname(fd, (struct sockaddr *)&arrival.local, &local);
	return arrival;
}

static void on_connection(void *userdata, struct MHD_Connection *mhd, void **state,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = userdata;
	struct http_connection **at = &server->connections, *connection = *state;
	unsigned n_open = 0;
	struct tls_arrival arrival;
	struct ucred peer;
	socklen_t length = sizeof(peer);
	int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;

	if (code != MHD_CONNECTION_NOTIFY_STARTED) {
		while (*at && *at != connection)
			at = &(*at)->next;
		if (*at)
			*at = connection->next;
		*state = NULL;
		if (connection && connection->held)
			connection->mhd = NULL; /* http_reply() frees it */
		else
			free(connection);
		return;
	}
	for (const struct http_connection *c = server->connections; c; c = c->next)
		n_open += !c->shut;
	if (n_open >= server->max_open && !evict_one(server)) {
		shutdown(fd, SHUT_RDWR);
		return;
	}
	arrival = server->arriving ? *server->arriving : arrival_of(fd);
	connection = must(calloc(1, sizeof(*connection)));
	connection->server = server;
	connection->mhd = mhd;
	connection->fd = fd;
	connection->peer = peer_of(&arrival.peer);
	connection->is_loopback = is_loopback(&arrival.local);
	connection->certificate_fits = arrival.certificate_fits;
	/* A TCP address does not authenticate its user. */
	connection->authorized = server->local &&
				 getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
				 peer.uid == 0;
	connection->since_us = now_us();
	connection->next = server->connections;
	server->connections = connection;
	*state = connection;
}

static void run_daemon(struct http_server *server)
{
	MHD_UNSIGNED_LONG_LONG milliseconds;
	uint64_t turn, next = server->paused_until_us ? server->paused_until_us : UINT64_MAX;

	MHD_run(server->daemon);
	turn = give_turns(server);
	next = MIN(next, turn);
	/* A timeout of 0 means that libmicrohttpd has input to parse, or a connection goes on. */
	if (MHD_get_timeout(server->daemon, &milliseconds) == MHD_YES)
		next = MIN(next, now_us() + (uint64_t)milliseconds * USEC_PER_MSEC);
	for (const struct http_connection *c = server->connections; c; c = c->next)
		next = MIN(next, deadline(c));
	if (next < UINT64_MAX)
		sd_event_source_set_time(server->timer, next);
	sd_event_source_set_enabled(
		server->timer, next < UINT64_MAX ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static int on_daemon(sd_event_source *, int, uint32_t, void *userdata)
{
	run_daemon(userdata);
	return 0;
}

static int on_timer(sd_event_source *, uint64_t, void *userdata)
{
	struct http_server *server = userdata;
	uint64_t now = now_us();

	if (server->paused_until_us && server->paused_until_us <= now) {
		server->paused_until_us = 0;
		sd_event_source_set_enabled(server->listener, SD_EVENT_ON);
	}
	for (struct http_connection *c = server->connections; c; c = c->next)
		if (deadline(c) <= now)
			connection_shut(c);
	run_daemon(server);
	return 0;
}

static int on_listener(sd_event_source *source, int fd, uint32_t, void *userdata)
{
	struct http_server *server = userdata;

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct sockaddr_storage address = {0};
		socklen_t length = sizeof(address);
		int client = accept4(
			fd, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client >= 0) {
			/* On failure it closes the descriptor. */
			MHD_add_connection(
				server->daemon, client, (const struct sockaddr *)&address, length);
			continue;
		}
		/* Pause, else the waiting client would wake the loop again and again. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			server->paused_until_us = now_us() + PAUSE_US;
			sd_event_source_set_enabled(source, SD_EVENT_OFF);
		}
		break; /* no client waits, or it has gone: the loop calls again for the next */
	}
	run_daemon(server);
	return 0;
}

static void on_tls_client(void *userdata, const struct tls_arrival *arrival)
{
	struct http_server *server = userdata;
	const struct sockaddr_un address = {.sun_family = AF_UNIX};

	server->arriving = arrival;
	MHD_add_connection(server->daemon, arrival->fd, (const struct sockaddr *)&address,
		sizeof(address.sun_family));
	server->arriving = NULL;
	run_daemon(server);
}

static int bind_tcp(struct http_server *server, const char *listen_on)
{
	static const int on = 1;
	struct sockaddr_storage address;
	socklen_t length = listen_address(listen_on, &address);

	if (length == 0)
		return -EINVAL;
	server->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Connections of an earlier agent may still be in TIME_WAIT. */
	if (server->fd < 0 ||
		setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(server->fd, (const struct sockaddr *)&address, length) < 0)
		return -errno;
	return 0;
}

static int bind_unix(struct http_server *server, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char parent[sizeof(address.sun_path)];
	int r;

	if (!set_text(address.sun_path, path))
		return -ENAMETOOLONG;
	set_text(parent, path);
	r = make_directories(dirname(parent), 0755);
	if (r < 0)
		return r;
	server->local = true;
	server->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The path gets the mode of the socket from the start, so chmod(2) would be too late. */
	if (server->fd < 0 || fchmod(server->fd, 0600) < 0)
		return -errno;
	r = bind(server->fd, (const struct sockaddr *)&address, sizeof(address));
	if (r < 0 && errno == EADDRINUSE) {
		_cleanup_close_ int probe =
			socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct stat st;

		/* Replace the socket only if a killed process left it and nobody listens. */
		if (probe < 0 || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode) ||
			connect(probe, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
			errno != ECONNREFUSED)
			return -EADDRINUSE;
		unlink(path);
		r = bind(server->fd, (const struct sockaddr *)&address, sizeof(address));
	}
	if (r < 0 || stat(path, &server->path_stat) < 0)
		return -errno;
	server->path = address;
	return 0;
}

/*
 * This file enforces the limits on connections and time: libmicrohttpd would refuse the newest
 * connection, and its timeout measures idle time only. Its own limit is larger, because connections
 * that were shut down count until it closes them.
 */
static int start_daemon(struct http_server *server)
{
	const union MHD_DaemonInfo *info;
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
	int r;

	server->daemon = MHD_start_daemon(flags, 0, NULL, NULL, answer_request, server,
		MHD_OPTION_CONNECTION_LIMIT, 4 * server->max_open, MHD_OPTION_CONNECTION_TIMEOUT,
		0U, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED,
		request_completed, server, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (!server->daemon)
		return errno > 0 ? -errno : -ENOMEM;
	info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	r = sd_event_add_io(
		server->event, &server->daemon_source, info->epoll_fd, EPOLLIN, on_daemon, server);
	if (r < 0)
		return r;
	r = sd_event_add_time(server->event, &server->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US,
		on_timer, server);
	return r < 0 ? r : sd_event_source_set_enabled(server->timer, SD_EVENT_OFF);
}

int http_server_open(sd_event *event, const char *listen_on, struct web_config *web,
	const struct node *node, http_change_fn *change, void *userdata, struct http_server **ret)
{
	_cleanup_(cleanup_http_server_close) struct http_server *server =
		must(calloc(1, sizeof(*server)));
	int r;

	server->event = sd_event_ref(event);
	server->web = web ? web_config_ref(web) : NULL;
	server->node = node;
	server->change = change;
	server->userdata = userdata;
	server->request_us = REQUEST_US;
	server->max_open = CONNECTIONS_MAX;
	server->fd = -1;
	r = start_daemon(server);
	if (r == 0)
		r = listen_on[0] == '/' ? bind_unix(server, listen_on)
					: bind_tcp(server, listen_on);
	/* A long backlog (net.core.somaxconn) spares clients a retry of their SYN. */
	if (r == 0 && listen(server->fd, INT_MAX) < 0)
		r = -errno;
	if (r == 0 && web && web->cert)
		r = tls_open(event, server->web, server->fd, on_tls_client, server, &server->tls);
	else if (r == 0)
		r = sd_event_add_io(
			event, &server->listener, server->fd, EPOLLIN, on_listener, server);
	if (r < 0)
		return r;
	*ret = steal(server);
	return 0;
}

bool http_server_close(struct http_server *server)
{
	struct stat st;
	bool has_ended = true;

	/* Another agent may have replaced the socket. */
	if (server->path.sun_path[0] && lstat(server->path.sun_path, &st) == 0 &&
		st.st_dev == server->path_stat.st_dev && st.st_ino == server->path_stat.st_ino)
		unlink(server->path.sun_path);
	sd_event_source_disable_unref(server->listener);
	if (server->tls)
		has_ended = tls_close(server->tls);
	cleanup_close(&server->fd);
	server->is_closed = !task_end(&server->auth.check, 0);
	if (server->daemon) {
		/* MHD_stop_daemon() aborts the program if a connection is suspended. */
		for (struct http_connection *c = server->connections; c; c = c->next)
			if (c->suspended || c->wait)
				MHD_resume_connection(c->mhd);
		sd_event_source_disable_unref(server->daemon_source);
		drop_rendered(server);
		MHD_stop_daemon(server->daemon);
	}
	sd_event_source_disable_unref(server->timer);
	sd_event_unref(server->event);
	web_config_unref(server->web);
	if (server->is_closed) /* adopt_check() frees it */
		return false;
	free_server(server);
	return has_ended;
}
