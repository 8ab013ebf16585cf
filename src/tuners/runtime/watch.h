/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_RUNTIME_WATCH_H
#define TUNERS_RUNTIME_WATCH_H

/* How the two kinds of clients share the watch. All of it happens in the loop. */

#include "runtime/containerd.h"
#include "runtime/cri.h"
#include "runtime/docker.h"
#include "runtime/fetch.h"
#include "tuners/runtime/runtime.h"
#include "workload/names.h"

#define WATCH_NAMESPACES_MAX 8

/* Far above what a kubelet runs: what a runtime tells beyond that is left out. */
#define WATCH_PODS_MAX       2048
#define WATCH_CONTAINERS_MAX 8192

/* What is asked of a runtime, each at its own pace. */
enum ask {
	ASK_VERSION,
	ASK_STATUS,    /* of the CRI: what is in force */
	ASK_SANDBOXES, /* pods; the addresses of new ones after that */
	ASK_CONTAINERS,
	ASK_STORE,
	ASK_NAMESPACES, /* containerd's own */
	ASK_INGESTS,    /* what is being fetched, namespace by namespace */
	ASK_CONTENT,    /* whose layers these are */
	ASKS,
};

struct watch_pod {
	char sandbox[DOCKER_ID_MAX];
	struct name_entry entry;
	bool asked;    /* for its address */
	bool answered; /* whether or not it has one */
};

/* One runtime and its clients. */
struct watched {
	struct runtime_watch *watch;
	struct runtime_one *one;
	struct cri_client *cri;
	struct containerd_client *containerd;
	struct docker *docker;
	bool no_cri; /* it says that it has none */
	bool open[ASKS];
	uint64_t due_us[ASKS];

	struct watch_pod *pods; /* sorted by sandbox */
	size_t n_pods;
	struct name_entry *containers; /* of no pod */
	size_t n_containers;

	char namespaces[WATCH_NAMESPACES_MAX][64];
	size_t n_namespaces, at_namespace;
	struct pull_piece pieces[PULL_LAYERS_MAX];
	size_t n_pieces;
	size_t content_turn; /* which nameless layer is asked about next */
};

struct runtime_watch {
	const struct host *host;
	struct runtime_seen *seen;
	const struct runtime_config *config;
	sd_event *event; /* NULL before attach */
	struct fetcher *fetcher;
	struct mirrors *mirrors;
	struct watched watched[RUNTIME_MAX];
	uint64_t discover_due_us;
};

/* An answer came, or why none does; the one place where that is noted. */
void watched_answered(struct watched *watched);
void watched_silent(struct watched *watched, const char *why);

/* The daemon behind a client: a new process has read its files anew. */
void watched_process(struct watched *watched, pid_t pid);

/* All names that this runtime knows, in place of those from before. */
void watched_tell_names(struct watched *watched);

/* watch_cri.c: containerd and whatever speaks the CRI. */
int watched_open_cri(struct watched *watched);
void watched_turn_cri(struct watched *watched, uint64_t now_us);

/* watch_pulls.c */
uint64_t watched_pulls_pace(const struct watched *watched); /* microseconds between two looks */
void watched_ask_namespaces(struct watched *watched);
void watched_ask_ingests(struct watched *watched);
void watched_ask_content(struct watched *watched);

/* watch_docker.c */
int watched_open_docker(struct watched *watched);
void watched_turn_docker(struct watched *watched, uint64_t now_us);

void watched_close(struct watched *watched);

#endif
