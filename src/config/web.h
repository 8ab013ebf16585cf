/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file that http.web_config names: TLS and users of the TCP endpoint, in the format of
 * Prometheus' exporter-toolkit. Keys that this version does not support are faults, because a
 * security setting must not be ignored.
 */

#include <gnutls/gnutls.h>
#include <limits.h>

#include "config/config.h"

#define WEB_USERS_MAX  64
#define WEB_USER_MAX   64
#define WEB_BCRYPT_LEN 60

enum web_client_auth { /* in the order of web_client_auths in web.c */
	WEB_NO_CLIENT_CERT,
	WEB_REQUEST_CLIENT_CERT,
	WEB_REQUIRE_ANY_CLIENT_CERT,
	WEB_VERIFY_CLIENT_CERT_IF_GIVEN,
	WEB_REQUIRE_AND_VERIFY_CLIENT_CERT,
};

struct web_user {
	char name[WEB_USER_MAX];
	char hash[WEB_BCRYPT_LEN + 1]; /* bcrypt, for crypt(3) */
};

struct web_config {
	unsigned references;
	char *cert, *key; /* PEM; NULL: no TLS */
	char *client_ca;  /* PEM, or NULL */
	enum web_client_auth client_auth;
	char priorities[160]; /* versions and suites of TLS, as GnuTLS takes them */
	struct web_user users[WEB_USERS_MAX];
	size_t n_users;          /* 0: everyone may read */
	uint32_t checksum;       /* changes with any member above */
	char files[4][PATH_MAX]; /* the file itself, certificate, key, CA; "": none */
	gnutls_certificate_credentials_t credentials; /* of cert, key and client_ca; or NULL */
	struct config_fault_list warnings;            /* what works, and should not be so */
};

/*
 * Reads the file at path. Returns 0 with one reference in *ret, or -EINVAL with faults. option: the
 * position of the path, for a file that cannot be read.
 */
int web_config_load(const char *path, const struct config_position *option,
	struct config_fault_list *faults, struct web_config **ret);

/* Returns a checksum of its files, as config_source_signature() makes it. web may be NULL. */
uint64_t web_config_signature(const struct web_config *web);

struct web_config *web_config_ref(struct web_config *web);

/* Frees it with the last reference. web may be NULL. */
void web_config_unref(struct web_config *web);
DEFINE_CLEANUP(struct web_config, web_config_unref)
