/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/mirror.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"
#include "runtime/http_client.h"

#include <errno.h>
#include <limits.h>

#define CHECK_US    (10 * USEC_PER_SEC) /* from one check to the next */
#define DEADLINE_US (2 * USEC_PER_SEC)
#define DOUBT_US    (1 * USEC_PER_SEC) /* to the second check of an unexpected answer */
#define AGREE       2                  /* answers in a row that change a state */
#define ANSWER_MAX  65536              /* bytes: an answer to /v2/ is {} or a few errors */

/* Debian, Red Hat, SUSE, Alpine: what Go's crypto/x509 knows, in its order. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

void mirror_observe(struct mirror *mirror, bool healthy, uint64_t checked_us)
{
	enum mirror_state seen = healthy ? MIRROR_UP : MIRROR_DOWN;

	mirror->against = seen == mirror->state ? 0 : mirror->against + 1;
	if (mirror->against >= (mirror->state == MIRROR_UNKNOWN ? 1 : AGREE)) {
		mirror->state = seen;
		mirror->since_us = checked_us;
		mirror->against = 0;
	}
	mirror->due_us = checked_us + (mirror->against > 0 ? DOUBT_US : CHECK_US);
}

static void take_answer(struct mirror *mirror, const struct http_get *get)
{
	bool healthy = get->error == 0 && (get->status == 200 || get->status == 401);

	mirror->why[0] = '\0';
	mirror->took_us = get->took_us;
	if (get->error == -EKEYREJECTED)
		copy_text(mirror->why, MIRROR_WHY_MAX,
			"its certificate is not one that this node trusts");
	else if (get->error == -ETIMEDOUT)
		copy_text(mirror->why, MIRROR_WHY_MAX, "no answer within 2 s");
	else if (get->error < 0)
		copy_text(mirror->why, MIRROR_WHY_MAX, get->why);
	else if (!healthy)
		snprintf(mirror->why, MIRROR_WHY_MAX, "GET /v2/ answers %ld", get->status);
	mirror_observe(mirror, healthy, now_us());
}

void mirrors_check(struct mirror *mirrors, size_t n, const char *host_root, const struct wait *wait)
{
	_cleanup_free_ struct http_get *gets = calloc(n ? n : 1, sizeof(*gets));
	_cleanup_free_ struct mirror **checked = calloc(n ? n : 1, sizeof(*checked));
	_cleanup_free_ char(*urls)[REGISTRY_URL_MAX + 8] = calloc(n ? n : 1, sizeof(*urls));
	struct wait bounded = wait_at_most(wait, DEADLINE_US);
	uint64_t now = now_us();
	char ca_file[PATH_MAX] = "";
	size_t due = 0;

	if (!gets || !checked || !urls)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(bundles) && !ca_file[0]; i++)
		if (path_in_root(host_root, bundles[i], ca_file) < 0)
			ca_file[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		struct mirror *mirror = &mirrors[i];
		size_t len = strlen(mirror->url);
		/* As containerd makes it: a path that ends in /v2 is the API's root already. */
		bool is_root = len > 3 && streq(mirror->url + len - 3, "/v2");

		if (mirror->due_us > now)
			continue;
		if (starts_with(mirror->url, "https:") && !ca_file[0]) {
			copy_text(mirror->why, MIRROR_WHY_MAX, "this node has no certificates");
			mirror_observe(mirror, false, now);
			continue;
		}
		snprintf(urls[due], sizeof(urls[due]), "%s%s", mirror->url, is_root ? "/" : "/v2/");
		gets[due] = (struct http_get){
			.url = urls[due], .ca_file = ca_file, .limit = ANSWER_MAX};
		checked[due++] = mirror;
	}
	if (due == 0)
		return;
	http_get_all(gets, due, &bounded);
	for (size_t i = 0; i < due; i++) {
		if (gets[i].error != -ECANCELED)
			take_answer(checked[i], &gets[i]);
		http_get_clear(&gets[i]);
	}
}
