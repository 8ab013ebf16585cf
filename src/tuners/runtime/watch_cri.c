/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/watch.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* How long a runtime may take for an answer. */
#define ANSWER_US (5 * USEC_PER_SEC)

/* The paces. A runtime that does not answer is asked for its version alone. */
#define VERSION_EVERY_US    (15 * USEC_PER_SEC)
#define STATUS_EVERY_US     (30 * USEC_PER_SEC)
#define NAMES_EVERY_US      (15 * USEC_PER_SEC)
#define STORE_EVERY_US      (60 * USEC_PER_SEC)
#define NAMESPACES_EVERY_US (60 * USEC_PER_SEC)
#define CONTENT_EVERY_US    (5 * USEC_PER_SEC)
#define SILENT_EVERY_US     (5 * USEC_PER_SEC)
#define BEGINNING_EVERY_US  (1 * USEC_PER_SEC)

/* Addresses of new pods are asked for a few at a time. */
#define ADDRESSES_AT_ONCE 4

int watched_open_cri(struct watched *watched)
{
	char path[PATH_MAX];
	int r = host_path(watched->watch->host, watched->one->where.socket, path) ? 0
										  : -ENAMETOOLONG;

	if (r == 0)
		r = cri_client_open(watched->watch->event, path, ANSWER_US, &watched->cri);
	if (r == 0 && watched->one->where.kind == RUNTIME_CONTAINERD)
		r = containerd_client_open(
			watched->watch->event, path, ANSWER_US, &watched->containerd);
	return r;
}

/* True for an answer that says something; notes that one came, or why none did. */
static bool is_good(struct watched *watched, enum ask ask, const struct grpc_result *result)
{
	char why[RUNTIME_WHY_MAX];

	watched->open[ask] = false;
	if (result->status == GRPC_OK) {
		watched_answered(watched);
		return true;
	}
	if (!result->local) {
		/* It is there, and may be about to begin: "server is not initialized yet". */
		if (ask == ASK_VERSION || ask == ASK_STATUS)
			watched->due_us[ask] = now_us() + BEGINNING_EVERY_US;
		return false;
	}
	snprintf(why, sizeof(why), "%s%s%s", grpc_status_name(result->status),
		result->message[0] ? ": " : "", result->message);
	watched_silent(watched, why);
	watched->due_us[ASK_VERSION] = now_us() + SILENT_EVERY_US;
	return false;
}

/* It goes into sentences: printable, whatever the runtime says. */
static void take_version(struct watched *watched, const char *told)
{
	struct runtime_one *one = watched->one;
	char version[sizeof(one->version)];

	copy_text(version, sizeof(version), told);
	for (char *c = version; *c; c++)
		if (*c <= ' ' || *c > '~')
			*c = '?';

	/* Another version has other places for its settings. */
	if (!streq(one->version, version))
		one->file_due_us = 0;
	copy_text(one->version, sizeof(one->version), version);
}

static void ask_version(struct watched *watched);

static void on_version(const struct cri_answer *answer, void *userdata)
{
	struct watched *watched = userdata;

	/* containerd without its CRI plugin still is one: Docker's is. */
	if (!answer->result.local && answer->result.status == GRPC_UNIMPLEMENTED) {
		watched->no_cri = true;
		ask_version(watched);
		return;
	}
	if (!is_good(watched, ASK_VERSION, &answer->result))
		return;
	watched_process(watched, cri_client_peer(watched->cri));
	take_version(watched, answer->version.version);
}

static void on_own_version(const struct containerd_answer *answer, void *userdata)
{
	struct watched *watched = userdata;

	if (!is_good(watched, ASK_VERSION, &answer->result))
		return;
	watched_process(watched, containerd_client_peer(watched->containerd));
	take_version(watched, answer->version.version);
}

static void ask_version(struct watched *watched)
{
	int r = watched->no_cri && watched->containerd
			? containerd_version(watched->containerd, on_own_version, watched)
			: cri_version(watched->cri, on_version, watched);

	watched->open[ASK_VERSION] = r == 0;
}

/* "5m0s" of whatever spelling the runtime has. */
static void tell_duration(char value[static SETTING_VALUE_MAX], const char *told)
{
	unsigned long long us;
	char text[32] = "";

	if (told && containerd_duration_parse(told, &us) == 0)
		runtime_duration_text(us, text);
	copy_text(value, SETTING_VALUE_MAX, text);
}

static void on_status(const struct cri_answer *answer, void *userdata)
{
	struct watched *watched = userdata;
	struct runtime_one *one = watched->one;
	const struct cri_running_config *config = &answer->status.config;

	if (!is_good(watched, ASK_STATUS, &answer->result))
		return;
	one->told_downloads[0] = '\0';
	if (config->max_concurrent_downloads >= 0)
		snprintf(one->told_downloads, SETTING_VALUE_MAX, "%lld",
			(long long)config->max_concurrent_downloads);
	tell_duration(one->told_timeout, config->image_pull_progress_timeout);
	copy_text(one->told_directory, SETTING_VALUE_MAX,
		config->registry_config_path ? config->registry_config_path : "");
	copy_text(one->store.driver, sizeof(one->store.driver),
		config->snapshotter ? config->snapshotter : "");
}

static int compare_pods(const void *a, const void *b)
{
	const struct watch_pod *one = a, *other = b;

	return strcmp(one->sandbox, other->sandbox);
}

static struct watch_pod *find_pod(struct watched *watched, const char *sandbox)
{
	struct watch_pod wanted;

	copy_text(wanted.sandbox, sizeof(wanted.sandbox), sandbox);
	return watched->n_pods > 0 ? bsearch(&wanted, watched->pods, watched->n_pods,
					     sizeof(*watched->pods), compare_pods)
				   : NULL;
}

static void fill_pod(struct watch_pod *pod, const struct cri_sandbox *sandbox)
{
	struct workload *workload = &pod->entry.workload;

	workload->kind = WORKLOAD_POD;
	copy_text(pod->sandbox, sizeof(pod->sandbox), sandbox->id);
	copy_text(workload->name, sizeof(workload->name), sandbox->name);
	copy_text(workload->namespace, sizeof(workload->namespace), sandbox->namespace);
	copy_text(workload->id, sizeof(workload->id), sandbox->uid);
}

static void on_address(const struct cri_answer *answer, void *userdata)
{
	struct watched *watched = userdata;
	struct watch_pod *pod;

	if (answer->result.status != GRPC_OK)
		return;
	pod = find_pod(watched, answer->sandbox.sandbox.id);
	if (pod)
		pod->answered = true;
	if (!pod || answer->sandbox.host_network || answer->sandbox.n_ips == 0)
		return;
	copy_text(pod->entry.address, sizeof(pod->entry.address), answer->sandbox.ips[0]);
	watched_tell_names(watched);
}

static void ask_addresses(struct watched *watched)
{
	int asked = 0;

	for (size_t i = 0; i < watched->n_pods && asked < ADDRESSES_AT_ONCE; i++) {
		struct watch_pod *pod = &watched->pods[i];

		if (pod->asked)
			continue;
		pod->asked =
			cri_sandbox_status(watched->cri, pod->sandbox, on_address, watched) == 0;
		asked++;
	}
}

/* All pods anew; what is known of an address stays, and who gave no answer is asked again. */
static void on_sandboxes(const struct cri_answer *answer, void *userdata)
{
	struct watched *watched = userdata;
	struct watch_pod *pods;
	size_t n = 0;

	if (!is_good(watched, ASK_SANDBOXES, &answer->result))
		return;
	pods = calloc(MIN(answer->sandboxes.n, (size_t)WATCH_PODS_MAX) + 1, sizeof(*pods));
	for (size_t i = 0; pods && i < answer->sandboxes.n && n < WATCH_PODS_MAX; i++) {
		const struct cri_sandbox *sandbox = &answer->sandboxes.list[i];
		const struct watch_pod *known;

		if (!sandbox->ready)
			continue;
		known = find_pod(watched, sandbox->id);
		if (known)
			pods[n] = *known;
		pods[n].asked = known && known->answered;
		fill_pod(&pods[n++], sandbox);
	}
	if (!pods)
		return;
	qsort(pods, n, sizeof(*pods), compare_pods);
	free(watched->pods);
	watched->pods = pods;
	watched->n_pods = n;
	watched_tell_names(watched);
}

/* Where a container's cgroup lies outside its pod's, its own id leads to the pod. */
static void on_containers(const struct cri_answer *answer, void *userdata)
{
	struct watched *watched = userdata;
	struct name_entry *entries;
	size_t n = 0, limit;

	if (!is_good(watched, ASK_CONTAINERS, &answer->result))
		return;
	limit = MIN(answer->containers.n, (size_t)WATCH_CONTAINERS_MAX);
	entries = limit > 0 ? calloc(limit, sizeof(*entries)) : NULL;
	for (size_t i = 0; entries && i < limit; i++) {
		const struct cri_container *container = &answer->containers.list[i];
		const struct watch_pod *pod = find_pod(watched, container->sandbox_id);

		if (!pod || !container->running)
			continue;
		entries[n].workload = pod->entry.workload;
		copy_text(entries[n].workload.id, sizeof(entries[n].workload.id), container->id);
		n++;
	}
	free(watched->containers);
	watched->containers = entries;
	watched->n_containers = n;
	watched_tell_names(watched);
}

static void on_store(const struct cri_answer *answer, void *userdata)
{
	struct watched *watched = userdata;
	struct runtime_store *store = &watched->one->store;

	if (!is_good(watched, ASK_STORE, &answer->result) || answer->filesystems.n == 0)
		return;
	copy_text(
		store->directory, sizeof(store->directory), answer->filesystems.list[0].mountpoint);
	store->image_bytes = answer->filesystems.list[0].used_bytes;
}

static uint64_t pace(const struct watched *watched, enum ask ask)
{
	static const uint64_t paces[ASKS] = {
		[ASK_VERSION] = VERSION_EVERY_US,
		[ASK_STATUS] = STATUS_EVERY_US,
		[ASK_SANDBOXES] = NAMES_EVERY_US,
		[ASK_CONTAINERS] = NAMES_EVERY_US,
		[ASK_STORE] = STORE_EVERY_US,
		[ASK_NAMESPACES] = NAMESPACES_EVERY_US,
		[ASK_CONTENT] = CONTENT_EVERY_US,
	};

	return ask == ASK_INGESTS ? watched_pulls_pace(watched) : paces[ask];
}

static void start(struct watched *watched, enum ask ask)
{
	cri_callback done = NULL;
	int (*call)(struct cri_client *, cri_callback, void *) = NULL;

	switch (ask) {
	case ASK_VERSION:
		ask_version(watched);
		return;
	case ASK_NAMESPACES:
		watched_ask_namespaces(watched);
		return;
	case ASK_INGESTS:
		watched_ask_ingests(watched);
		return;
	case ASK_CONTENT:
		watched_ask_content(watched);
		return;
	case ASK_STATUS:
		call = cri_status, done = on_status;
		break;
	case ASK_SANDBOXES:
		call = cri_list_sandboxes, done = on_sandboxes;
		break;
	case ASK_CONTAINERS:
		call = cri_list_containers, done = on_containers;
		break;
	default:
		call = cri_image_fs_info, done = on_store;
		break;
	}
	if (!watched->no_cri)
		watched->open[ask] = call(watched->cri, done, watched) == 0;
}

/* A daemon that was restarted is not waited for until its next turn. */
static void notice_end(struct watched *watched)
{
	struct runtime_one *one = watched->one;
	uint64_t started;

	if (one->pid <= 0 || one->answer != RUNTIME_ANSWERS ||
		runtime_process_started(one->pid, &started) != -ESRCH)
		return;
	one->pid = 0;
	watched->no_cri = false;
	watched->due_us[ASK_VERSION] = 0;
}

void watched_turn_cri(struct watched *watched, uint64_t now)
{
	notice_end(watched);
	for (int ask = 0; ask < ASKS; ask++) {
		bool may = ask == ASK_VERSION ||
			   (ask == ASK_STATUS && watched->one->answer != RUNTIME_SILENT) ||
			   watched->one->answer == RUNTIME_ANSWERS;

		if (!may || watched->open[ask] || now < watched->due_us[ask])
			continue;
		watched->due_us[ask] = now + pace(watched, (enum ask)ask);
		start(watched, (enum ask)ask);
	}
	if (watched->one->answer == RUNTIME_ANSWERS && !watched->no_cri)
		ask_addresses(watched);
}
