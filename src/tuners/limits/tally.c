/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/census.h"

#include "base/text.h"
#include "workload/cgroup.h"
#include "workload/process.h"

#include <arpa/inet.h>

struct limit_use *tally_at(struct tally *tally, uint64_t high, uint64_t low)
{
	const uint64_t key[2] = {high, low};
	struct limit_use *use = find_keyed(&tally->index, tally->uses, tally->n, &key);

	if (!use) {
		use = add_element(&tally->uses, &tally->n, &tally->allocated);
		memcpy(use->key, key, sizeof(key));
	}
	return use;
}

void tally_free(struct tally *tally)
{
	free(tally->uses);
	free(tally->index.positions);
	*tally = (struct tally){0};
}

/* All uses of a row have a maximum of their own, or none has. */
static int by_share(const void *a, const void *b)
{
	const struct limit_use *x = a, *y = b;
	double left = (double)x->used / (double)MAX(x->max, (uint64_t)1);
	double right = (double)y->used / (double)MAX(y->max, (uint64_t)1);

	return (left < right) - (left > right);
}

void tally_add(struct tally *tally, const struct limit_use *use)
{
	struct limit_use *known;

	if (use->key[0] || use->key[1]) {
		known = tally_at(tally, use->key[0], use->key[1]);
		if (known->pid == 0) {
			*known = *use;
		} else {
			known->used = use->used + (use->adds ? known->used : 0);
			known->max = use->max;
		}
		known->last_pid = use->pid;
		return;
	}
	/* Each process is a use: keep the fullest. */
	if (!tally->uses)
		tally->uses = must(calloc(TALLY_CANDIDATES, sizeof(*tally->uses)));
	keep_first(tally->uses, &tally->n, TALLY_CANDIDATES, sizeof(*use), use, by_share);
}

/* A process outside of all workloads and services: the unit of its session, or the host. */
static void name_scope(const char *text, struct workload *workload)
{
	const char *end = strstr(text, ".scope"), *begin = end;

	*workload = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	while (begin && begin > text && begin[-1] != '/' && begin[-1] != '\n')
		begin--;
	if (!begin)
		return;
	workload->kind = WORKLOAD_UNIT;
	snprintf(workload->name, sizeof(workload->name), "%.*s",
		(int)(end - begin) + (int)strlen(".scope"), begin);
}

static bool name_process(const struct host *host, uint32_t pid, struct workload *workload)
{
	_cleanup_free_ char *text = NULL;

	if (process_read(host->root, (pid_t)pid, "cgroup", &text, NULL) < 0)
		return false;
	if (!cgroup_file_workload(text, workload))
		name_scope(text, workload);
	return true;
}

static void describe(const struct limit_use *use, char detail[static LIMIT_DETAIL_MAX])
{
	char address[INET6_ADDRSTRLEN] = "";

	detail[0] = '\0';
	if (use->is_remote) {
		inet_ntop(use->family, use->address, address, sizeof(address));
		snprintf(detail, LIMIT_DETAIL_MAX, "to %s port %u", address, use->port);
	} else if (use->port > 0) {
		snprintf(detail, LIMIT_DETAIL_MAX, "port %u", use->port);
	} else if (use->comm[0]) {
		snprintf(detail, LIMIT_DETAIL_MAX, "process %u (%.*s)", use->pid, CENSUS_COMM,
			use->comm);
		text_make_printable(detail);
	}
}

static void name_use(const struct host *host, const struct limit_use *use, struct limit_user *user)
{
	struct workload *workload = &user->workload;

	*user = (struct limit_user){.used = use->used};
	describe(use, user->detail);
	if (use->by_uid) {
		workload->kind = WORKLOAD_UID;
		snprintf(workload->name, sizeof(workload->name), "%u", use->uid);
	} else if (use->by_netns) {
		/* The processes of others than pods share the namespace of the host. */
		if (!name_process(host, use->pid, workload) || workload->kind == WORKLOAD_UNIT)
			*workload = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	} else if (!name_process(host, use->pid, workload) &&
		   !name_process(host, use->last_pid, workload)) {
		workload->kind = WORKLOAD_UNIT;
		snprintf(workload->name, sizeof(workload->name), "cgroup %" PRIu64,
			MAX(use->key[0], use->key[1]));
	}
}

/* Uses of several cgroups may belong to one workload. */
static void add_user(struct limit_reading *reading, const struct limit_user *user, bool adds)
{
	for (unsigned i = 0; adds && i < reading->n_top; i++) {
		struct limit_user *known = &reading->top[i];

		if (workload_equal(&known->workload, &user->workload) &&
			streq(known->detail, user->detail)) {
			known->used += user->used;
			return;
		}
	}
	if (reading->n_top < LIMIT_TOP_MAX)
		*limit_add_user(reading) = *user;
}

static int by_used(const void *a, const void *b)
{
	const struct limit_user *x = a, *y = b;

	return (x->used < y->used) - (x->used > y->used);
}

void tally_finish(struct tally *tally, const struct host *host, uint64_t max, unsigned named,
	struct limit_reading *reading)
{
	const struct limit_use *fullest = tally->uses;
	size_t n = 0;

	for (size_t i = 0; i < tally->n; i++)
		if (tally->uses[i].pid > 0) /* of a process that was seen */
			tally->uses[n++] = tally->uses[i];
	reading->max = max;
	if (n > 0) {
		qsort(tally->uses, n, sizeof(*tally->uses), by_share);
		reading->used = fullest->used;
		reading->max = fullest->max ? fullest->max : max;
	}
	for (size_t i = 0; i < MIN(n, (size_t)named) && tally->uses[i].used > 0; i++) {
		struct limit_user user;

		name_use(host, &tally->uses[i], &user);
		add_user(reading, &user, tally->uses[i].adds);
	}
	if (reading->n_top > 0 && fullest->max == 0)
		qsort(reading->top, reading->n_top, sizeof(*reading->top), by_used);
	tally_free(tally);
}
