/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Its parts, in this order: connections, and which one goes when there are too many; handshakes;
 * bytes between a client and the loop; the thread; what the loop does. The thread uses only
 * the connections of struct tls, and what never changes there.
 */
#include "report/tls.h"

#include "report/peer.h"

#include <fcntl.h>
#include <gnutls/x509.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#define TLS_CONNECTIONS_MAX 64

/* For a handshake, and for a client to take a part of a reply. */
#define STEP_US (10 * USEC_PER_SEC)

/* Deadlines are checked this often. */
#define CHECK_MS 1000

/* Without free descriptors, accepting pauses for this time. */
#define PAUSE_US USEC_PER_SEC

#define ACCEPT_BATCH 16

/* A record has at most this many bytes, so one call empties it. */
#define RECORD_MAX 16384

struct tls_connection {
	int net;   /* of the client */
	int plain; /* of the loop; -1 during the handshake */
	struct peer peer;
	struct sockaddr_storage address;
	gnutls_session_t session; /* NULL: the client has sent nothing */
	uint64_t since_us;        /* of the handshake, or the last bytes */
	bool ready;               /* the client has sent something */
	bool ended;               /* the client has sent everything */
	bool flushing;            /* a record waits for room in the socket */
	bool over;
};

struct tls {
	sd_event *event;
	struct web_config *web;
	gnutls_priority_t priority;
	int listener;
	int arrivals[2]; /* a pipe of struct tls_arrival to the loop */
	sd_event_source *listener_source, *arrivals_source;
	tls_arrival_fn *arrived;
	void *userdata;
	struct task *task; /* NULL: no connections */
	bool is_closed;    /* it is freed when the thread has ended */

	/* Of the thread. */
	struct tls_connection connections[TLS_CONNECTIONS_MAX + 1]; /* the oldest first */
	size_t n;
	uint64_t paused_until_us;
};

/* ---- connections ---- */

static void close_connection(struct tls_connection *connection)
{
	if (connection->session)
		gnutls_deinit(connection->session);
	cleanup_close(&connection->net);
	cleanup_close(&connection->plain);
}

static void remove_connections_over(struct tls *tls)
{
	size_t kept = 0;

	for (size_t i = 0; i < tls->n; i++)
		if (tls->connections[i].over)
			close_connection(&tls->connections[i]);
		else
			tls->connections[kept++] = tls->connections[i];
	tls->n = kept;
}

static size_t count_of_peer(const struct tls *tls, const struct peer *peer)
{
	size_t n = 0;

	for (size_t i = 0; i < tls->n; i++)
		n += peer_is(&tls->connections[i].peer, peer);
	return n;
}

/*
 * Ends a connection of the address that has most, so an address harms only itself: the handshake
 * whose client is slowest, else the newest handshake. So a flood of handshakes ends no connection
 * of a client that has made one, unless these are more than half: then the oldest of them goes.
 */
static void end_one(struct tls *tls)
{
	struct tls_connection *worst = NULL;
	size_t most = 0, open = 0;
	int worst_rank = 0;

	for (size_t i = 0; i < tls->n; i++)
		open += tls->connections[i].plain >= 0;
	for (size_t i = tls->n; i-- > 0;) { /* the newest first */
		struct tls_connection *c = &tls->connections[i];
		size_t n = count_of_peer(tls, &c->peer);
		bool many = open > TLS_CONNECTIONS_MAX / 2;
		int rank = c->plain >= 0 ? many : c->ready ? !many : 2;
		bool oldest = c->plain >= 0 || !c->ready;

		if (n > most ||
			(n == most && (rank > worst_rank || (rank == worst_rank && oldest)))) {
			worst = c;
			most = n;
			worst_rank = rank;
		}
	}
	worst->over = true;
	remove_connections_over(tls);
}

static void accept_clients(struct tls *tls)
{
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct tls_connection new = {.plain = -1, .since_us = now_us(), .ready = true};
		socklen_t length = sizeof(new.address);

		new.net = accept4(tls->listener, (struct sockaddr *)&new.address, &length,
			SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (new.net < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
				errno == ENOMEM)
				tls->paused_until_us = now_us() + PAUSE_US;
			return;
		}
		new.peer = peer_of(&new.address);
		tls->connections[tls->n++] = new;
		if (tls->n > TLS_CONNECTIONS_MAX)
			end_one(tls);
	}
}

/* ---- handshakes ---- */

static bool begin_session(struct tls *tls, struct tls_connection *connection)
{
	gnutls_session_t session;

	if (gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
		return false;
	connection->session = session;
	if (gnutls_priority_set(session, tls->priority) < 0 ||
		gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->web->credentials) < 0)
		return false;
	if (tls->web->client_ca)
		gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
	gnutls_transport_set_int(session, connection->net);
	return true;
}

/* Checks that the certificate is for clients and from the configured authority. */
static bool certificate_fits(enum web_client_auth auth, gnutls_session_t session)
{
	gnutls_typed_vdata_st purpose = {
		GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT, 0};
	unsigned n = 0, status = 0;

	if (auth <= WEB_REQUEST_CLIENT_CERT)
		return true;
	if (!gnutls_certificate_get_peers(session, &n) || n == 0)
		return auth == WEB_VERIFY_CLIENT_CERT_IF_GIVEN;
	return auth == WEB_REQUIRE_ANY_CLIENT_CERT ||
	       (gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 && status == 0);
}

/* Gives the loop a socket for the client. */
static bool hand_over(struct tls *tls, struct tls_connection *connection)
{
	struct tls_arrival arrival = {.peer = connection->address};
	socklen_t length = sizeof(arrival.local);
	int pair[2];

	if (getsockname(connection->net, (struct sockaddr *)&arrival.local, &length) < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return false;
	connection->plain = pair[0];
	arrival.fd = pair[1];
	arrival.certificate_fits = certificate_fits(tls->web->client_auth, connection->session);
	if (write(tls->arrivals[1], &arrival, sizeof(arrival)) == sizeof(arrival))
		return true;
	close(pair[1]);
	return false;
}

static void step_handshake(struct tls *tls, struct tls_connection *connection)
{
	int r;

	if (!connection->session && !begin_session(tls, connection)) {
		connection->over = true;
		return;
	}
	r = gnutls_handshake(connection->session);
	if (r < 0 && gnutls_error_is_fatal(r)) {
		gnutls_alert_send_appropriate(connection->session, r);
		connection->over = true;
	} else if (r == 0) {
		connection->over = !hand_over(tls, connection);
	}
}

/* Makes one step for each address, for its oldest connection that is ready. */
static void step_handshakes(struct tls *tls)
{
	struct peer served[TLS_CONNECTIONS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < tls->n; i++) {
		struct tls_connection *connection = &tls->connections[i];
		size_t k = 0;

		if (connection->plain >= 0 || !connection->ready)
			continue;
		while (k < n && !peer_is(&served[k], &connection->peer))
			k++;
		if (k < n)
			continue;
		served[n++] = connection->peer;
		connection->ready = false;
		step_handshake(tls, connection);
	}
}

/* ---- bytes ---- */

static void sent(struct tls_connection *connection, ssize_t r)
{
	connection->flushing = r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED;
	connection->over |= r < 0 && !connection->flushing;
}

/*
 * Passes what the client has sent. The socket has room for many requests: a client that fills it is
 * hostile. A server that has closed may have left a reply.
 */
static void pass_request(struct tls_connection *connection)
{
	char record[RECORD_MAX];
	ssize_t n, written;

	do {
		n = gnutls_record_recv(connection->session, record, sizeof(record));
		if (n == 0) {
			connection->ended = true;
			shutdown(connection->plain, SHUT_WR);
		} else if (n > 0) {
			written = send(connection->plain, record, (size_t)n, MSG_NOSIGNAL);
			connection->over |= written >= 0 ? written < n : errno != EPIPE;
		} else {
			connection->over |= n != GNUTLS_E_AGAIN && n != GNUTLS_E_INTERRUPTED;
		}
	} while (
		n > 0 && !connection->over && gnutls_record_check_pending(connection->session) > 0);
}

static void pass_reply(struct tls_connection *connection)
{
	char record[RECORD_MAX];
	ssize_t n = recv(connection->plain, record, sizeof(record), 0);

	if (n > 0) {
		sent(connection, gnutls_record_send(connection->session, record, (size_t)n));
	} else if (n == 0 || errno != EAGAIN) {
		(void)gnutls_bye(connection->session, GNUTLS_SHUT_WR);
		connection->over = true;
	}
}

static void pass_bytes(struct tls_connection *connection, short net, short plain)
{
	if (net & (POLLERR | POLLHUP)) {
		connection->over = true;
		return;
	}
	connection->since_us = now_us();
	if (net & POLLOUT)
		sent(connection, gnutls_record_send(connection->session, NULL, 0));
	if (net & POLLIN)
		pass_request(connection);
	if (plain && !connection->over && !connection->flushing)
		pass_reply(connection);
}

/* ---- the thread ---- */

static struct pollfd wait_of_client(const struct tls_connection *connection)
{
	bool writes = connection->plain >= 0
			      ? connection->flushing
			      : connection->session &&
					gnutls_record_get_direction(connection->session) == 1;

	return (struct pollfd){
		.fd = connection->net,
		.events = (short)(writes              ? POLLOUT
				  : connection->ended ? 0
						      : POLLIN),
	};
}

/* Serves whoever is ready. Returns false when there is nobody left, or the server closes. */
static bool serve_once(struct tls *tls, int cancel_fd)
{
	struct pollfd waits[2 + 2 * TLS_CONNECTIONS_MAX];
	bool timed = tls->paused_until_us > 0;
	size_t n = tls->n;

	waits[0] = (struct pollfd){.fd = cancel_fd, .events = POLLIN};
	waits[1] = (struct pollfd){
		.fd = tls->paused_until_us > 0 ? -1 : tls->listener, .events = POLLIN};
	for (size_t i = 0; i < n; i++) {
		const struct tls_connection *connection = &tls->connections[i];

		waits[2 + 2 * i] = wait_of_client(connection);
		waits[3 + 2 * i] = (struct pollfd){
			.fd = connection->flushing ? -1 : connection->plain, .events = POLLIN};
		timed |= connection->plain < 0 || connection->flushing;
	}
	if (poll(waits, 2 + 2 * n, timed ? CHECK_MS : -1) < 0 && errno != EINTR)
		out_of_memory();
	if (waits[0].revents)
		return false;
	for (size_t i = 0; i < n; i++) {
		struct tls_connection *connection = &tls->connections[i];
		short net = waits[2 + 2 * i].revents, plain = waits[3 + 2 * i].revents;

		if (connection->plain < 0)
			connection->ready = net;
		else if (net || plain)
			pass_bytes(connection, net, plain);
		if ((connection->plain < 0 || connection->flushing) && !net &&
			now_us() > connection->since_us + STEP_US)
			connection->over = true;
	}
	step_handshakes(tls);
	remove_connections_over(tls);
	if (now_us() >= tls->paused_until_us)
		tls->paused_until_us = 0;
	if (waits[1].revents)
		accept_clients(tls);
	return tls->n > 0 || tls->paused_until_us > 0;
}

static void serve_clients(void *data, const struct wait *wait)
{
	struct tls *tls = data;

	accept_clients(tls);
	while (serve_once(tls, wait->cancel_fd))
		;
	for (size_t i = 0; i < tls->n; i++)
		close_connection(&tls->connections[i]);
	tls->n = 0;
}

/* ---- the loop ---- */

static int on_arrivals(sd_event_source *, int, uint32_t, void *userdata)
{
	struct tls_arrival arrival;
	struct tls *tls = userdata;

	while (read(tls->arrivals[0], &arrival, sizeof(arrival)) == sizeof(arrival))
		tls->arrived(tls->userdata, &arrival);
	return 0;
}

static void free_tls(struct tls *tls)
{
	struct tls_arrival arrival;

	while (read(tls->arrivals[0], &arrival, sizeof(arrival)) == sizeof(arrival))
		close(arrival.fd);
	cleanup_close(&tls->arrivals[0]);
	cleanup_close(&tls->arrivals[1]);
	cleanup_close(&tls->listener);
	gnutls_priority_deinit(tls->priority);
	web_config_unref(tls->web);
	free(tls);
}

static void thread_ended(void *, void *userdata)
{
	struct tls *tls = userdata;

	if (tls->is_closed)
		free_tls(tls);
	else if (tls->listener_source)
		sd_event_source_set_enabled(tls->listener_source, SD_EVENT_ON);
	malloc_trim(0); /* an idle node keeps no memory for sessions */
}

static int on_client(sd_event_source *source, int fd, uint32_t, void *userdata)
{
	struct tls *tls = userdata;
	int client;

	if (task_start(&tls->task, tls->event,
		    &(struct task){serve_clients, thread_ended, tls, tls, UINT64_MAX, true}) == 0) {
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		return 0;
	}
	client = accept4(fd, NULL, NULL, SOCK_CLOEXEC); /* else it would wake the loop again */
	cleanup_close(&client);
	return 0;
}

int tls_open(sd_event *event, struct web_config *web, int listener, tls_arrival_fn *arrived,
	void *userdata, struct tls **ret)
{
	_cleanup_(cleanup_tls_close) struct tls *tls = must(calloc(1, sizeof(*tls)));
	int r;

	tls->event = event;
	tls->web = web_config_ref(web);
	tls->listener = -1;
	tls->arrived = arrived;
	tls->userdata = userdata;
	tls->arrivals[0] = tls->arrivals[1] = -1;
	if (gnutls_priority_init(&tls->priority, web->priorities, NULL) < 0)
		return -EINVAL;
	tls->listener = fcntl(listener, F_DUPFD_CLOEXEC, 0);
	if (tls->listener < 0 || pipe2(tls->arrivals, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	r = sd_event_add_io(
		event, &tls->arrivals_source, tls->arrivals[0], EPOLLIN, on_arrivals, tls);
	if (r == 0)
		r = sd_event_add_io(
			event, &tls->listener_source, tls->listener, EPOLLIN, on_client, tls);
	if (r < 0)
		return r;
	*ret = steal(tls);
	return 0;
}

bool tls_close(struct tls *tls)
{
	sd_event_source_disable_unref(steal(tls->listener_source));
	sd_event_source_disable_unref(steal(tls->arrivals_source));
	(void)shutdown(tls->listener, SHUT_RDWR); /* another server may listen on its address now */
	task_cancel(tls->task);
	tls->is_closed = !task_end(&tls->task, 0);
	if (tls->is_closed)
		return false;
	free_tls(tls);
	return true;
}
