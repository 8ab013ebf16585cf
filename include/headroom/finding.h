/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A finding is one problem of the node, with all that a reader needs: which instance of a limit,
 * how much of it was used at the worst moment, by whom, and what to type. A tuner makes it in
 * decide(); the core keeps the list. Conditions, documents, metrics and the log render findings
 * with the functions below, and make no text of their own.
 */

#include <headroom/limit.h>
#include <headroom/setting.h>

/* The kinds of instances that findings are about. The text is in JSON. */
#define INSTANCE_KINDS_LIST(X)                                                                     \
	X(NODE, "node")                                                                            \
	X(CGROUP, "cgroup")         /* id: inode; name: its path */                                \
	X(UID, "uid")               /* id: the user */                                             \
	X(NETNS, "netns")           /* id: inode */                                                \
	X(MNTNS, "mntns")           /* id: inode */                                                \
	X(PROCESS, "process")       /* id: inode of its cgroup; name: comm: a crash loop is one */ \
	X(SOCKET, "socket")         /* name: "port 80" */                                          \
	X(BPF_MAP, "bpf-map")       /* id: the kernel's; name: at most 15 characters, or empty */  \
	X(DEVICE, "device")         /* name: "nvme0n1"; id: of one among its workloads */          \
	X(FILE, "file")             /* name: its path on the host */                               \
	X(FILESYSTEM, "filesystem") /* id: st_dev; name: the path that is on it */                 \
	X(SERVER, "server")         /* name: an address */                                         \
	X(ADDRESS, "address")       /* name: "10.0.0.7 on eth0" */                                 \
	X(RUNTIME, "runtime")       /* name: "containerd" */                                       \
	X(IMAGE, "image")                                                                          \
	X(REGISTRY, "registry")                                                                    \
	X(SETTING, "setting")                                                                      \
	X(UNIT, "unit")                                                                            \
	X(TUNER, "tuner")

#define INSTANCE_KIND(name, text) INSTANCE_##name,
enum instance_kind { INSTANCE_KINDS_LIST(INSTANCE_KIND) INSTANCE_KINDS };
#undef INSTANCE_KIND

extern const char *const instance_kind_names[];

struct instance {
	enum instance_kind kind;
	uint64_t id; /* 0: the name says it all */
	char name[SETTING_PATH_MAX];
	/* The workload that it belongs to. Not part of the key: it may become known later. */
	struct workload owner;
};

/*
 * The kernel gives the inode of a removed namespace to the next one. Identifies the object behind
 * such a key by its owner; 0: the owner is not known, or the key is enough.
 */
uint64_t instance_object(const struct instance *instance);

/* Returns whether both are known, and differ. */
bool is_other_object(uint64_t known, uint64_t now);

/* How a finding is at this poll. */
enum finding_phase {
	FINDING_OVER,    /* not any more: an open one stays for its hold */
	FINDING_LASTS,   /* within the hysteresis: an open one goes on, a new one does not begin */
	FINDING_HAPPENS, /* now */
};

/* How much is known about the cause. */
enum finding_who {
	WHO_NOBODY,  /* a user makes no sense */
	WHO_UNKNOWN, /* the node does not show which workload it is */
	WHO_KNOWN,   /* set by finding_user_add() */
};

struct finding_use {
	uint64_t used, max; /* in the finding's unit; max 0: not known */
	uint64_t hits;      /* refusals and the like since the last poll */
	uint64_t at_us;     /* CLOCK_MONOTONIC; 0: of this poll */
};

/* Pressure stall information: the resource that tasks wait for. */
enum pressure_kind { PRESSURE_IO, PRESSURE_CPU, PRESSURE_MEMORY, PRESSURES };

extern const char *const pressure_names[PRESSURES];

/* The share of the last ten seconds in which some tasks waited, 0..1. */
struct pressure {
	bool is_known[PRESSURES];
	double some[PRESSURES];
};

#define FINDING_SLUG_MAX  SETTING_NAME_MAX
#define FINDING_USERS_MAX 3
#define FINDING_TEXT_MAX  1024

struct finding {
	char slug[FINDING_SLUG_MAX]; /* the limit, setting or check, else the reason's */
	const struct condition_type *condition;
	enum reason reason; /* REASON_NONE: its limit is the reason */
	enum severity severity;
	enum finding_phase phase;
	struct instance instance;

	/* decide() sets what it knows of these; the strings are static. */
	const char *unit;    /* of the numbers; NULL: the finding lacks them */
	const char *happens; /* what a hit is: "refused"; NULL: "reached" */
	bool hits_are_seconds;
	const char *breaks; /* what fails; NULL: nothing known */
	uint64_t hold_us;   /* it stays for so long after it is over */
	bool counts_hits;   /* the kernel counts hits; otherwise the time at the maximum counts */
	bool is_recorded;   /* an incident begins with it; also if it is critical */
	struct finding_use use; /* of this poll */
	enum finding_who knows;
	struct limit_user *who; /* by share, the largest first, at most FINDING_USERS_MAX; owned */
	unsigned n_who;
	/* Of the node, and of the cgroup of the instance's owner or of the agent: why it is slow.
	 */
	struct pressure node_pressure, own_pressure;
	uint64_t who_us; /* CLOCK_MONOTONIC when they were counted; 0: at the moment of the use */

	/* Owned. Set by the functions below; NULL: none. */
	char *message; /* what the numbers do not say */
	char *now;     /* a command, or if now_is_edit "FILE:LINE: write X" */
	char *keep;    /* lines of configuration */
	char *keep_in; /* the file of these lines, or the chart's values */
	char *hint;    /* why nothing can be typed, or where to look */
	const char
		*needs; /* of keep, besides configuration: the hint ends with it; NULL: nothing */
	bool now_is_edit;

	/* The list sets these. */
	const char *tuner;
	/* The use, and who is of that moment. decide() sets it if that moment is not this poll. */
	struct finding_use worst;
	uint64_t since_us;     /* CLOCK_REALTIME of the begin; 0: a single poll cannot tell */
	uint64_t last_us;      /* CLOCK_REALTIME of the last time it happened or lasted */
	uint64_t last_mono_us; /* CLOCK_MONOTONIC of the same */
	uint64_t times;        /* hits since the begin */
	uint64_t full_us;      /* time at the maximum since the begin */
	bool is_over;          /* last_us is the end; otherwise it lasts */
	enum severity highest; /* its severity since the begin */
	bool ignored;          /* by doctor.ignore */
};

struct proposal;
struct decide_input;
struct cJSON;

/*
 * Adds a finding at the node to a proposal. slug NULL: the reason's slug. instance NULL: the node.
 * Returns NULL for FINDING_OVER if no such finding is open, and if the proposal has
 * FINDINGS_A_TUNER of them: then nothing is to be reported. The severity and is_recorded are the
 * condition's until the caller changes them.
 */
#define FINDINGS_A_TUNER 32
#define FINDINGS_MAX     64
struct finding *proposal_finding(struct proposal *proposal, const struct decide_input *input,
	const struct condition_type *condition, enum reason reason, const char *slug,
	const struct instance *instance, enum finding_phase phase);

/* Returns such a finding if it is open: it happened, and its hold has not ended. Otherwise NULL. */
const struct finding *finding_find(
	const struct decide_input *input, const char *slug, const struct instance *instance);

/* Keeps the users with the largest shares of their own maximum, or of the finding's. */
void finding_user_add(struct finding *finding, const struct limit_user *user);

/* Set a text; the last call counts. Secrets and control characters are removed. */
void finding_message(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void finding_now(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void finding_edit(struct finding *finding, const char *path, unsigned line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void finding_hint(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Sets the configuration that keeps the cure, one line of YAML such as "thp: {enabled: never}",
 * for where this agent has its configuration: a file, or the values of the chart. writer is the
 * tuner that applies it: where it does not write, the lines make it write, or the hint tells how.
 */
void finding_keep(struct finding *finding, const struct decide_input *input, const char *writer,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Returns what keeps a tuner from writing: 0, or of enum held_by. */
unsigned finding_held_by(const struct decide_input *input, const char *writer);

/* The lines must stand in this file, which has the key already. Has no effect with a chart. */
void finding_keep_in(struct finding *finding, const struct decide_input *input, const char *file);

void finding_release(struct finding *finding);

/* ---- the list ---- */

struct finding_list {
	struct finding *findings;
	size_t n, allocated;
	size_t n_left_out; /* findings beyond the bounds, of the last poll */
};

/* FINDING_ROSE: it is more severe than ever since its begin. */
enum finding_news { FINDING_BEGAN, FINDING_ROSE, FINDING_NAMED, FINDING_ENDED };
typedef void finding_news_fn(void *userdata, const struct finding *finding, enum finding_news news);

/* When a proposal was made. */
struct finding_clock {
	uint64_t mono_us, wall_us;
	bool is_single;   /* a command polls once: no hysteresis, no times */
	uint64_t hold_us; /* tests only: the longest hold; 0: that of each finding */
};

/* Takes over what a tuner has found. Its findings without a reading are over. */
void findings_observe(struct finding_list *list, const char *tuner, struct proposal *proposal,
	const struct finding_clock *clock, finding_news_fn *news, void *userdata);

/*
 * Renames users by the key of their cgroup, and owners, whose key is 0: name() returns false if it
 * knows no better name.
 */
void findings_name(struct finding_list *list,
	bool (*name)(void *userdata, uint64_t id, struct workload *workload), finding_news_fn *news,
	void *userdata);

/* Puts the worst first. */
void findings_sort(struct finding_list *list);

void findings_clear(struct finding_list *list);

/*
 * Sets the condition: True with the worst findings that are not ignored, else as it was judged.
 * The list is sorted. Returns whether the status has changed; since_us is the caller's to set.
 */
bool findings_judge(const struct finding_list *list, const struct condition_reading *judged,
	struct condition *condition);

/* ---- for each medium ---- */

#define FINDING_ID_MAX (FINDING_SLUG_MAX + SETTING_PATH_MAX + 32)

/* Writes "conntrack@netns:4026531840": unique among the findings. The node has the slug alone. */
void finding_id(const struct finding *finding, char id[static FINDING_ID_MAX]);

/* Returns the reason that users see: a slug of a reason, or of the limit. */
const char *finding_reason(const struct finding *finding);

/* The used share at the worst moment, by which findings are sorted; 0 without numbers. */
double finding_share(const struct finding *finding);

/* Writes "pod shop/api", "uid 1000", "port 80 of pod a/b"; empty for the node. */
void instance_describe(const struct instance *instance, char *text, size_t size);

/* Writes the text of the finding's instance; empty if the slug has it already. */
void finding_about(const struct finding *finding, char *text, size_t size);

/*
 * Writes "262144 of 262144 connections, refused 9231 times, until 14:03 UTC; now 90112": without
 * slug, instance and users.
 */
void finding_describe(const struct finding *finding, char *text, size_t size);

/* Writes user i: "pod shop/crawler-7 180000 (69 %)". */
void finding_describe_user(const struct finding *finding, unsigned i, char *text, size_t size);

/* Writes one line for conditions, the log and incidents: "conntrack: host: ...; pod shop/x 9 (3
 * %)". */
void finding_text(const struct finding *finding, char *text, size_t size);

/* Appends the finding to an array. */
void finding_json(struct cJSON *array, const struct finding *finding);
