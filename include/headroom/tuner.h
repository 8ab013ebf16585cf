/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tuner covers one concern: neighbour tables, transparent huge pages, sysctls. It senses and
 * decides; src/apply alone writes the node's configuration. The images tuner also asks the
 * runtime for images, and keeps a file of the state directory. A new tuner needs a directory below
 * src/tuners and a line in src/tuners/table.h.
 */

#include <headroom/finding.h>
#include <headroom/plan.h>
#include <headroom/tables.h>

#define TUNER_WHY_MAX 320

struct config;
struct config_fault_list;
struct facts;
struct host;
struct cJSON;
struct metric_sink;
struct sd_event;
struct tuner_status;
struct wait;

enum tuner_state {
	TUNER_ACTIVE,   /* all its features work */
	TUNER_DEGRADED, /* this node lacks something: why names it, the errno and the cure */
	TUNER_OFF,
};

/* Something that a tuner lacks. The kind decides who can cure it, and how loud it is. */
enum lack_kind {
	LACK_OTHER,  /* why says it */
	LACK_BPF,    /* its BPF programs do not run: capabilities, or the kernel */
	LACK_WRITE,  /* it may not write below /proc/sys or /sys */
	LACK_KERNEL, /* this kernel does not have it: advice, because nobody can change that */
	LACK_KINDS,
};

struct lack {
	enum lack_kind kind;
	char why[TUNER_WHY_MAX]; /* what, the errno and the cure */
};

/* The output of a tuner's decide(). It is cleared before each call. */
struct proposal {
	struct want *wants;
	size_t n_wants, wants_allocated;
	struct limit_reading *limits;
	size_t n_limits, limits_allocated;
	struct condition_reading *conditions;
	size_t n_conditions, conditions_allocated;
	struct finding *findings;
	size_t n_findings, findings_allocated;
	size_t n_left_out; /* findings beyond FINDINGS_A_TUNER */
	struct lack *lacks;
	size_t n_lacks, lacks_allocated;
	char why[TUNER_WHY_MAX]; /* all lacks; empty: the tuner is active */
	uint64_t poll_us; /* when to poll this tuner again, if before the next tick; 0: then */
};

/* Append a zeroed element and return it. */
struct want *proposal_value(struct proposal *proposal);
struct want *proposal_file(struct proposal *proposal, const char *text); /* edit.text, or NULL */
struct limit_reading *proposal_limit(struct proposal *proposal);
/* Appends a reading with status False and the given reason, and returns it. */
struct condition_reading *proposal_condition(
	struct proposal *proposal, const struct condition_type *type, enum reason reason);
/* Adds a lack, also to proposal->why; an empty why adds nothing. Each becomes a finding. */
void proposal_lack(struct proposal *proposal, enum lack_kind kind, const char *why);
void proposal_lacks(struct proposal *proposal, const char *why); /* LACK_OTHER */
void proposal_clear(struct proposal *proposal);

/* The input of decide() besides the sensed data. The arrays cover all tuners. */
struct decide_input {
	const struct value_record *values;
	size_t n_values;
	const struct key_record *keys; /* the keys of files */
	size_t n_keys;
	const struct restart_history *restarts;
	size_t n_restarts;
	const struct pin_record *pins;
	size_t n_pins;
	const struct setting *settings; /* after the last poll, as are the limits */
	size_t n_settings;
	const struct limit *limits;
	size_t n_limits;
	const struct finding *findings; /* those that are open */
	size_t n_findings;
	/* For the cure of a finding: the values that are configured, and where to add some. */
	const struct config *config;
	const char *config_file;           /* NULL: the values of the chart */
	const struct tuner_status *tuners; /* whether they write; none: they do */
	size_t n_tuners;
	uint64_t now_us; /* CLOCK_MONOTONIC */
	uint64_t realtime_us;
	enum mode mode; /* this tuner's; only MODE_ENFORCE changes anything */
	bool force;     /* `headroom apply`: retry failures now */
};

enum task_kind {
	TASK_LOAD, /* struct bpf_ops */
	/* Asks other programs, for 10 s at most; one at a time for each tuner, and none during a
	 * change of files. */
	TASK_SAMPLE,
	TASK_TRANSFER, /* may take hours; only while the tuner enforces */
	TASK_KINDS,
};

/* Blocking work beside the loop: see base/task.h. It shares nothing but the request. */
struct task_ops {
	/*
	 * In the loop, right after decide(), with its memory. Returns a request with copies of all
	 * that run() needs, or NULL when none is due. It is called until it returns NULL. now: a
	 * request is due, because the tuner's files were changed.
	 */
	void *(*request)(void *self, const void *memory, bool now);

	/* On a thread. Leaves the results in the request. */
	void (*run)(void *request, const struct wait *wait);

	/*
	 * In the loop: adopts the results and frees the request. self is NULL when the tuner that
	 * made the request was closed meanwhile.
	 */
	void (*adopt)(void *self, void *request);

	/* In the loop, while it runs: whether it is to be cancelled. May be NULL. */
	bool (*cancels)(void *request, const void *memory);
};

/* The BPF programs of a tuner. Loading needs the privileges of the start; nothing cancels it. */
struct bpf_ops {
	/*
	 * In the loop: whether to load now. *programs gets loaded ones that only need to be
	 * attached again, or NULL. Without this function they are loaded once, after open().
	 */
	bool (*due)(void *self, void **programs);

	/*
	 * On a thread: loads and attaches *programs. Returns 0, or -errno; then why is empty or
	 * names the cure, and *programs is NULL or what adopt() needs to try again.
	 */
	int (*load)(const struct host *host, void **programs, char why[static TUNER_WHY_MAX]);

	/* In the loop: programs belong to self now. why is empty, or load() failed. */
	void (*adopt)(void *self, void *programs, const char *why);

	/* Releases programs that no tuner has adopted. */
	void (*unload)(void *programs);

	/*
	 * Returns a descriptor that is readable when this tuner must be polled at once, with a
	 * real-time priority; -1 for none. sense() empties it. May be NULL.
	 */
	int (*wakeup_fd)(const void *self);
};

/* Each table is ended by a row without a name; NULL for none. */
struct tuner_tables {
	const char *summary; /* one sentence, for explain */
	const struct limit_row *limits;
	const struct help_entry *entries; /* settings, and what else needs an explanation */
	const struct condition_type *conditions;
	const struct metric_row *metric_rows;
	const struct capability_row *capabilities; /* with the purpose of each */
	const struct table_view *view; /* what the page and `top` show of its document */
};

struct tuner_ops {
	const char *name;
	const struct tuner_tables *tables;

	/* Checks what a row cannot: relations between merged options. */
	void (*validate)(const struct config *config, struct config_fault_list *faults);

	/*
	 * Probes the node, once. Returns self, for close. If the node lacks something, decide()
	 * reports it. facts is what tuners find for each other. event is the agent's
	 * loop; NULL: for a command, which polls once.
	 */
	void *(*open)(const struct host *host, struct facts *facts, struct sd_event *event);

	/* Copies the configured values, after open and at each reload. May be NULL. */
	void (*configure)(void *self, const struct config *config);

	/*
	 * Reads the node, without blocking. NULL where samples are enough. now_us is the time that
	 * decide() gets too.
	 */
	void (*sense)(void *self, uint64_t now_us);

	const struct bpf_ops *bpf;         /* NULL: none */
	struct task_ops tasks[TASK_KINDS]; /* without TASK_LOAD */

	/*
	 * Size of the memory that decide() keeps from call to call. The core zeroes it when it
	 * opens the tuner.
	 */
	size_t memory_size;
	size_t kept_size; /* so much of its begin also survives restarts of the agent, until the
			   * next boot */

	/*
	 * Pure: its input is self, input and memory, its output proposal and memory. It uses no
	 * clock, file, socket or BPF map. Pointers in a want stay valid until the next call.
	 */
	void (*decide)(const void *self, const struct decide_input *input, void *memory,
		struct proposal *proposal);

	/* After each decide(), with its memory: hands parameters to BPF programs. May be NULL. */
	void (*arm)(void *self, const void *memory);

	/*
	 * Makes the member of /v1/status with the tuner's name, which the caller deletes. trusted:
	 * the reader is root. May be NULL.
	 */
	struct cJSON *(*document)(const void *self, const void *memory, bool trusted);

	/* Writes the metrics of this tuner alone. May be NULL. */
	void (*metrics)(const void *self, const void *memory, struct metric_sink *sink);

	/*
	 * Appends what only `headroom top NAME` shows, because counting it costs too much for
	 * every poll. The command calls it in its own process. May be NULL.
	 */
	void (*count_when_asked)(char *text, size_t size);

	/*
	 * The configuration has switched the tuner off: ends its effects on the node, and keeps
	 * what needs the privileges of the start, for a configuration that switches it on again.
	 * NULL: close() is called instead.
	 */
	void (*pause)(void *self);

	/* Releases what self and memory own, and self. */
	void (*close)(void *self, void *memory);
};

/* All tuners, ended by NULL: src/tuners/table.c. */
extern const struct tuner_ops *const tuner_table[];

extern const char *const tuner_state_names[];
