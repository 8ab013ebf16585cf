/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include <crypt.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <nettle/base64.h>

#define BASIC     "Basic "
#define BASIC_MAX 256 /* bytes of "USER:PASSWORD" in base64 */

/* A request with other credentials waits for this time while one is checked. */
#define RETRY_US (100 * USEC_PER_MSEC)

/* After a wrong password the next check waits for this many times the duration of the last one. */
#define PAUSE_FACTOR 4

struct check {
	struct http_connection *connection;
	struct http_digest digest; /* of the credentials */
	char password[BASIC_MAX];
	char hash[WEB_BCRYPT_LEN + 1];
	bool known; /* the user exists */
	bool right;
	uint64_t took_us;
};

/* On the worker: bcrypt needs 60 ms and more. */
static void run_check(void *job, const struct wait *)
{
	struct crypt_data *data = must(calloc(1, sizeof(*data)));
	struct check *check = job;
	uint64_t began = now_us();
	const char *hash = crypt_r(check->password, check->hash, data);

	check->right = hash && streq(hash, check->hash) && check->known;
	check->took_us = now_us() - began;
	explicit_bzero(data, sizeof(*data));
	free(data);
}

static void check_done(void *job, void *userdata)
{
	struct http_server *server = userdata;
	struct check *check = job;

	server->auth.checking = false;
	if (check->right) {
		server->auth.known[server->auth.next++ % HTTP_KNOWN_MAX] = check->digest;
	} else {
		server->auth.next_check_us = now_us() + PAUSE_FACTOR * check->took_us;
		check->connection->denied = true;
	}
	http_resume(check->connection);
	explicit_bzero(check, sizeof(*check));
	free(check);
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

/* A check of an unknown user takes as long as one of a known user. */
static bool begin_check(struct http_connection *connection, const struct http_digest *digest,
	const char *user, const char *password)
{
	struct http_server *server = connection->server;
	const struct web_config *web = server->web;
	const struct web_user *found = find_named(web->users, web->n_users, user);
	struct check *check;

	if (!server->auth.worker && worker_new(server->event, &server->auth.worker) < 0)
		return false;
	check = must(calloc(1, sizeof(*check)));
	check->known = found;
	check->connection = connection;
	check->digest = *digest;
	set_text(check->password, password);
	set_text(check->hash, (found ? found : web->users)->hash);
	if (worker_submit(server->auth.worker, run_check, check_done, check, server) < 0) {
		free(check);
		return false;
	}
	server->auth.checking = true;
	http_hold(connection);
	return true;
}

/* The certificate must be for clients and from the configured authority. */
static bool certificate_fits(struct http_connection *connection)
{
	gnutls_typed_vdata_st purpose = {
		GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT, 0};
	enum web_client_auth auth = connection->server->web->client_auth;
	gnutls_session_t session;
	unsigned n = 0, status = 0;

	if (auth <= WEB_REQUEST_CLIENT_CERT)
		return true;
	session = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION)
			  ->tls_session;
	if (!gnutls_certificate_get_peers(session, &n) || n == 0)
		return auth == WEB_VERIFY_CLIENT_CERT_IF_GIVEN;
	return auth == WEB_REQUIRE_ANY_CLIENT_CERT ||
	       (gnutls_certificate_verify_peers(session, &purpose, 1, &status) == 0 && status == 0);
}

enum http_access http_authenticate(struct http_connection *connection)
{
	struct http_server *server = connection->server;
	char text[BASIC_MAX] = "", *password;
	struct sha256_ctx context;
	struct http_digest digest;
	const char *header, *user;

	if (!server->web)
		return HTTP_GRANTED;
	if (server->web->cert && !certificate_fits(connection))
		return HTTP_NO_CERTIFICATE;
	if (server->web->n_users == 0)
		return HTTP_GRANTED;
	header = MHD_lookup_connection_value(
		connection->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	if (connection->denied || !parse_basic(header, text, &user, &password)) {
		connection->denied = false;
		return HTTP_DENIED;
	}
	sha256_init(&context);
	sha256_update(&context, strlen(header), (const uint8_t *)header);
	sha256_digest(&context, sizeof(digest.bytes), digest.bytes);
	for (size_t i = 0; i < HTTP_KNOWN_MAX; i++)
		if (memcmp(&server->auth.known[i], &digest, sizeof(digest)) == 0)
			return HTTP_GRANTED;
	if (server->auth.checking || now_us() < server->auth.next_check_us)
		http_wait(connection, now_us() + RETRY_US);
	else if (!begin_check(connection, &digest, user, password))
		return HTTP_DENIED;
	explicit_bzero(text, sizeof(text));
	return HTTP_WAITS;
}
