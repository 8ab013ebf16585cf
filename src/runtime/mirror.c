/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/mirror.h"

#include "base/util.h"
#include "runtime/fetch.h"
#include "runtime/trust.h"

#include <errno.h>
#include <limits.h>

#define CHECK_US    (10 * USEC_PER_SEC) /* from one round to the next */
#define DEADLINE_US (2 * USEC_PER_SEC)
#define DOUBT_US    (1 * USEC_PER_SEC) /* until the second look at what was not expected */
#define ACCURACY_US USEC_PER_MSEC
#define AGREE       2     /* answers in a row that change a state */
#define ANSWER_MAX  65536 /* bytes: an answer to /v2/ is {} or a few errors */

/* A check of one mirror; kept as long as it is configured. */
struct check {
	struct mirrors *mirrors;
	struct fetch *fetch;
	sd_event_source *timer;
	uint64_t started_us;
	size_t part, tried; /* of the node's authorities: the one last used, and how many in vain */
};

struct mirrors {
	sd_event *event;
	struct fetcher *fetcher;
	char root[PATH_MAX];
	mirrors_changed_fn *changed;
	void *userdata;
	struct trust *trust; /* NULL: not needed so far */
	bool trust_is_old;   /* a certificate was not trusted: perhaps by now it is */
	/* Side by side; a check is kept at its own place, since libcurl and the loop point to it.
	 */
	struct mirror *list;
	struct check **checks;
	size_t n;
};

static void start(struct check *check);

static size_t index_of(const struct check *check)
{
	const struct mirrors *mirrors = check->mirrors;
	size_t i = 0;

	while (mirrors->checks[i] != check)
		i++;
	return i;
}

static struct mirror *mirror_of(const struct check *check)
{
	return &check->mirrors->list[index_of(check)];
}

static void check_free(struct check *check)
{
	if (!check)
		return;
	fetch_cancel(check->fetch);
	sd_event_source_disable_unref(check->timer);
	free(check);
}

static void again_in(struct check *check, uint64_t us)
{
	sd_event_source_set_time_relative(check->timer, us);
	sd_event_source_set_enabled(check->timer, SD_EVENT_ONESHOT);
}

bool mirror_observe(struct mirror *mirror, bool healthy, uint64_t checked_us)
{
	enum mirror_state seen = healthy ? MIRROR_UP : MIRROR_DOWN;

	mirror->checked_us = checked_us;
	mirror->against = seen == mirror->state ? 0 : mirror->against + 1;
	if (mirror->against < (mirror->state == MIRROR_UNKNOWN ? 1 : AGREE))
		return false;
	mirror->state = seen;
	mirror->since_us = checked_us;
	mirror->against = 0;
	return true;
}

static void note(struct check *check, bool healthy, const char *why)
{
	struct mirrors *mirrors = check->mirrors;
	struct mirror *mirror = mirror_of(check);
	bool changed = mirror_observe(mirror, healthy, now_us());

	mirror->took_us = mirror->checked_us - check->started_us;
	copy_text(mirror->why, sizeof(mirror->why), why);
	again_in(check, mirror->against > 0 ? DOUBT_US : CHECK_US);
	/* Last: it may set other mirrors, and this check would be gone. */
	if (changed && mirrors->changed)
		mirrors->changed(mirrors->userdata);
}

/* The certificate may be one that another part vouches for. False when all have been asked. */
static bool try_next_part(struct check *check)
{
	struct mirrors *mirrors = check->mirrors;

	if (!mirrors->trust || ++check->tried >= trust_parts(mirrors->trust))
		return false;
	check->part = (check->part + 1) % trust_parts(mirrors->trust);
	start(check);
	return true;
}

static void on_answer(const struct fetch_result *result, void *userdata)
{
	struct check *check = userdata;
	bool healthy = result->error == 0 && (result->status == 200 || result->status == 401);
	char why[MIRROR_WHY_MAX] = "";

	check->fetch = NULL;
	if (result->error == -EKEYREJECTED && try_next_part(check))
		return;
	if (result->error == -EKEYREJECTED) {
		check->mirrors->trust_is_old = true;
		copy_text(why, sizeof(why), "its certificate is not one that this node trusts");
	} else if (result->error == -ETIMEDOUT) {
		copy_text(why, sizeof(why), "no answer within 2 s");
	} else if (result->error < 0) {
		copy_text(why, sizeof(why), result->message);
	} else if (!healthy) {
		snprintf(why, sizeof(why), "GET /v2/ answers %ld", result->status);
	}
	note(check, healthy, why);
}

/* Reads anew what the node trusts, unless a request still points to what was read before. */
static void renew_trust(struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->n; i++)
		if (mirrors->checks[i]->fetch)
			return;
	trust_close(steal(mirrors->trust));
	mirrors->trust_is_old = false;
}

/* The file with the authorities for a request over TLS. */
static int choose_trust(struct check *check, char path[static TRUST_PATH_MAX])
{
	struct mirrors *mirrors = check->mirrors;

	if (mirrors->trust_is_old && check->tried == 0)
		renew_trust(mirrors);
	if (!mirrors->trust) {
		int r = trust_open(mirrors->root, &mirrors->trust);

		if (r < 0)
			return r;
	}
	check->part %= trust_parts(mirrors->trust);
	trust_path(mirrors->trust, check->part, path);
	return 0;
}

/* URL/v2/, as containerd makes it: a path that ends in /v2 is the API's root already. */
static void endpoint(const char *url, char *path, size_t size)
{
	size_t len = strlen(url);
	bool is_root = len > 3 && streq(url + len - 3, "/v2");

	snprintf(path, size, "%s%s", url, is_root ? "/" : "/v2/");
}

static void start(struct check *check)
{
	const struct mirror *mirror = mirror_of(check);
	char url[REGISTRY_URL_MAX + 8], trust[TRUST_PATH_MAX];
	uint64_t spent_us = now_us() - check->started_us;
	struct fetch_request request = {.url = url,
		.limit = ANSWER_MAX,
		.done = on_answer,
		.userdata = check,
		.deadline_us = DEADLINE_US};
	int r = 0;

	request.deadline_us -= MIN(spent_us, DEADLINE_US - USEC_PER_MSEC);
	endpoint(mirror->url, url, sizeof(url));
	if (starts_with(url, "https:")) {
		r = choose_trust(check, trust);
		request.ca_file = trust;
	}
	if (r == 0)
		r = fetch_start(check->mirrors->fetcher, &request, &check->fetch);
	if (r < 0)
		note(check, false, r == -ENOENT ? "this node has no certificates" : strerror(-r));
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct check *check = userdata;

	(void)source;
	(void)usec;
	check->tried = 0;
	check->started_us = now_us();
	start(check);
	return 0;
}

int mirrors_open(sd_event *event, struct fetcher *fetcher, const char *host_root,
	mirrors_changed_fn *changed, void *userdata, struct mirrors **ret)
{
	struct mirrors *mirrors = calloc(1, sizeof(*mirrors));

	if (!mirrors)
		return -ENOMEM;
	*mirrors = (struct mirrors){.event = sd_event_ref(event),
		.fetcher = fetcher,
		.changed = changed,
		.userdata = userdata};
	copy_text(mirrors->root, sizeof(mirrors->root), host_root);
	*ret = mirrors;
	return 0;
}

/* A new one, checked as soon as the loop runs. */
static struct check *check_new(struct mirrors *mirrors)
{
	struct check *check = calloc(1, sizeof(*check));

	if (!check)
		return NULL;
	check->mirrors = mirrors;
	if (sd_event_add_time_relative(mirrors->event, &check->timer, CLOCK_MONOTONIC, 0,
		    ACCURACY_US, on_time, check) >= 0)
		return check;
	free(check);
	return NULL;
}

static bool is_double(const struct mirror *list, size_t n, const char *url)
{
	for (size_t i = 0; i < n; i++)
		if (streq(list[i].url, url))
			return true;
	return false;
}

/* The lists that replace the present ones; checks is NULL where a new one is needed. */
static int plan(const struct mirrors *mirrors, const char *const *urls, size_t n,
	struct mirror *list, struct check **checks, size_t *planned)
{
	*planned = 0;
	for (size_t i = 0; i < n; i++) {
		struct mirror *next = &list[*planned];
		const struct mirror *known = mirrors_find(mirrors, urls[i]);

		if (registry_check_url(urls[i]) < 0)
			return -EINVAL;
		registry_copy_url(next->url, sizeof(next->url), urls[i]);
		if (is_double(list, *planned, next->url))
			continue;
		if (known) {
			*next = *known;
			checks[*planned] = mirrors->checks[known - mirrors->list];
		}
		(*planned)++;
	}
	return 0;
}

static bool is_in(struct check *const *checks, size_t n, const struct check *check)
{
	for (size_t i = 0; i < n; i++)
		if (checks[i] == check)
			return true;
	return false;
}

/* Makes the checks that are missing; all of them or none. */
static int fill(struct mirrors *mirrors, struct check **checks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (checks[i])
			continue;
		checks[i] = check_new(mirrors);
		if (checks[i])
			continue;
		while (i-- > 0)
			if (!is_in(mirrors->checks, mirrors->n, checks[i]))
				check_free(checks[i]);
		return -ENOMEM;
	}
	return 0;
}

int mirrors_set(struct mirrors *mirrors, const char *const *urls, size_t n)
{
	_cleanup_free_ struct mirror *list = calloc(n + 1, sizeof(*list));
	_cleanup_free_ struct check **checks = calloc(n + 1, sizeof(struct check *));
	size_t planned;
	int r;

	if (n > MIRRORS_MAX)
		return -E2BIG;
	if (!list || !checks)
		return -ENOMEM;
	r = plan(mirrors, urls, n, list, checks, &planned);
	if (r == 0)
		r = fill(mirrors, checks, planned);
	if (r < 0)
		return r;
	for (size_t i = 0; i < mirrors->n; i++)
		if (!is_in(checks, planned, mirrors->checks[i]))
			check_free(mirrors->checks[i]);
	free(mirrors->list);
	free(mirrors->checks);
	mirrors->list = steal(list);
	mirrors->checks = steal(checks);
	mirrors->n = planned;
	return 0;
}

const struct mirror *mirrors_find(const struct mirrors *mirrors, const char *url)
{
	char wanted[REGISTRY_URL_MAX];

	if (!registry_copy_url(wanted, sizeof(wanted), url))
		return NULL;
	for (size_t i = 0; i < mirrors->n; i++)
		if (streq(mirrors->list[i].url, wanted))
			return &mirrors->list[i];
	return NULL;
}

const struct mirror *mirrors_all(const struct mirrors *mirrors, size_t *n)
{
	*n = mirrors->n;
	return mirrors->list;
}

bool mirrors_settled(const struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->n; i++)
		if (mirrors->list[i].state == MIRROR_UNKNOWN)
			return false;
	return true;
}

void mirrors_close(struct mirrors *mirrors)
{
	if (!mirrors)
		return;
	for (size_t i = 0; i < mirrors->n; i++)
		check_free(mirrors->checks[i]);
	free(mirrors->list);
	free(mirrors->checks);
	trust_close(mirrors->trust);
	sd_event_unref(mirrors->event);
	free(mirrors);
}
