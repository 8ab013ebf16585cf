/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "report/http.h"

#include "fake_node.h"

#include <gnutls/abstract.h>
#include <netinet/in.h>
#include <sys/eventfd.h>

/* A step of a handshake takes until the test lets it go on, as on a node with busy CPUs. */
static int has_begun, may_go_on;

static int choose_certificate(gnutls_session_t, const struct gnutls_cert_retr_st *,
	gnutls_pcert_st **, unsigned *, gnutls_ocsp_data_st **, unsigned *, gnutls_privkey_t *,
	unsigned *)
{
	eventfd_t n;

	assert_int_equal(eventfd_write(has_begun, 1), 0);
	assert_int_equal(eventfd_read(may_go_on, &n), 0);
	return -1;
}

struct fixture {
	struct fake_node fake;
	sd_event *event;
	struct web_config *web;
	struct http_server *server;
	char address[32];
	gnutls_session_t client;
	gnutls_certificate_credentials_t none;
	int fd;
};

static void begin(struct fixture *fixture)
{
	struct sockaddr_in address;
	socklen_t length = sizeof(address);

	has_begun = eventfd(0, EFD_CLOEXEC);
	may_go_on = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	fake_node_make(&fixture->fake);
	assert_int_equal(sd_event_new(&fixture->event), 0);
	fixture->web = must(calloc(1, sizeof(*fixture->web)));
	fixture->web->references = 1;
	fixture->web->cert = must(strdup("chosen by the test"));
	set_text(fixture->web->priorities, "NORMAL");
	gnutls_certificate_allocate_credentials(&fixture->web->credentials);
	gnutls_certificate_set_retrieve_function3(fixture->web->credentials, choose_certificate);
	assert_int_equal(http_server_open(fixture->event, "127.0.0.1:0", fixture->web,
				 &fixture->fake.node, NULL, NULL, &fixture->server),
		0);
	assert_int_equal(getsockname(fixture->server->fd, (struct sockaddr *)&address, &length), 0);
	snprintf(fixture->address, sizeof(fixture->address), "127.0.0.1:%u",
		ntohs(address.sin_port));
	fixture->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fixture->fd, (struct sockaddr *)&address, length), 0);
	gnutls_certificate_allocate_credentials(&fixture->none);
	gnutls_init(&fixture->client, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
	gnutls_set_default_priority(fixture->client);
	gnutls_credentials_set(fixture->client, GNUTLS_CRD_CERTIFICATE, fixture->none);
	gnutls_transport_set_int(fixture->client, fixture->fd);
	assert_int_equal(fcntl(fixture->fd, F_SETFL, O_NONBLOCK), 0);
}

static void end(struct fixture *fixture)
{
	if (fixture->server)
		http_server_close(fixture->server);
	gnutls_deinit(fixture->client);
	gnutls_certificate_free_credentials(fixture->none);
	close(fixture->fd);
	web_config_unref(fixture->web);
	sd_event_unref(fixture->event);
	close(has_begun);
	close(may_go_on);
}

#define TLS_TEST(name) TEST_OF(fixture, fixture, begin, end, name)

TLS_TEST(a_server_closes_during_a_step_of_a_handshake_and_another_takes_its_address)
{
	eventfd_t n;

	assert_int_equal(gnutls_handshake(fixture->client), GNUTLS_E_AGAIN);
	assert_true(sd_event_run(fixture->event, UINT64_MAX) > 0);
	assert_int_equal(eventfd_read(has_begun, &n), 0);
	assert_false(http_server_close(steal(fixture->server)));
	assert_int_equal(http_server_open(fixture->event, fixture->address, fixture->web,
				 &fixture->fake.node, NULL, NULL, &fixture->server),
		0);
	assert_int_equal(fixture->web->references, 4);
	assert_int_equal(eventfd_write(may_go_on, 100), 0); /* it is called more than once */
	while (fixture->web->references > 3) /* the test, the new server and its TLS */
		assert_true(sd_event_run(fixture->event, UINT64_MAX) > 0);
	assert_true(http_server_close(steal(fixture->server)));
	assert_int_equal(fixture->web->references, 1);
}
