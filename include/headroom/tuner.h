/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tuner covers one concern: neighbour tables, transparent huge pages, sysctls. It senses and
 * decides; it never changes the node. A new tuner needs a directory below src/tuners and a line in
 * src/tuners/table.h.
 */

#include <headroom/limit.h>
#include <headroom/plan.h>
#include <headroom/tables.h>

#define TUNER_WHY_MAX 320

struct config;
struct config_fault_list;
struct host;
struct cJSON;
struct sd_event;
struct wait;

enum tuner_state {
	TUNER_ACTIVE,   /* all its features work */
	TUNER_DEGRADED, /* this node lacks something: why names it, the errno and the cure */
	TUNER_OFF,
};

/* The output of a tuner's decide(). It is cleared before each call. */
struct proposal {
	struct want *wants;
	size_t n_wants, wants_allocated;
	struct limit_reading *limits;
	size_t n_limits, limits_allocated;
	struct condition_reading *conditions;
	size_t n_conditions, conditions_allocated;
};

/* Each appends a zeroed element and returns it. */
struct want *proposal_value(struct proposal *proposal);
struct want *proposal_file(struct proposal *proposal, const char *text); /* edit.text, or NULL */
struct limit_reading *proposal_limit(struct proposal *proposal);
/* Its status is False, its reason as given. */
struct condition_reading *proposal_condition(
	struct proposal *proposal, const struct condition_type *type, const char *reason);
void proposal_clear(struct proposal *proposal);

/* The input of decide() besides the sensed data. The arrays cover all tuners. */
struct decide_input {
	const struct value_record *values;
	size_t n_values;
	const struct file_record *files;
	size_t n_files;
	const struct pin_record *pins;
	size_t n_pins;
	const struct setting *settings; /* after the last poll */
	size_t n_settings;
	uint64_t now_us; /* CLOCK_MONOTONIC */
	enum mode mode;  /* of this tuner; only MODE_ENFORCE changes anything */
	bool force;      /* `headroom apply`: retry failures now */
};

struct metric_sink;

struct tuner_ops {
	const char *name;
	const char *summary; /* one sentence, for explain */
	/* Tables, each ended by a row without a name; NULL for none. */
	const struct explanation
		*explanations; /* of its limits, settings, and what else needs one */
	const struct condition_type *conditions;
	const struct reason *reasons; /* of its settings; conditions have their own */
	const struct metric_row *metric_rows;
	const struct capability_row *capabilities; /* what it needs, and why */
	/* Sysctls that only this tuner may set: dotted names, a trailing '*' matches any rest. */
	const char *const *owned_sysctls;

	/* Checks what a row cannot: relations between merged options. */
	void (*validate)(const struct config *config, struct config_fault_list *faults);

	/*
	 * Probes the node, once, by doing. Returns self, which is given to close. Something missing
	 * on the node is no error: explain() reports it. watch is false for one-shot commands,
	 * which load no BPF.
	 */
	void *(*open)(const struct host *host, bool watch);

	/*
	 * The agent's loop, called once, after configure: for what has to be loaded with the
	 * privileges of the start, beside the loop. May be NULL.
	 */
	void (*attach)(void *self, struct sd_event *event);

	/* Takes the configured values, after open and at each reload. May be NULL. */
	void (*configure)(void *self, const struct config *config);

	/* Reads the node, without blocking. NULL where samples are enough. */
	void (*sense)(void *self);

	/*
	 * What may block, in three steps. In the loop: a self-contained request, or NULL when
	 * nothing is due; now: it is due, for its files were changed. On the worker, or at once in
	 * a command without an agent: asks the other programs, within the wait, and leaves the
	 * answers in the request. In the loop again: takes the answers over and frees the request;
	 * with self NULL it only frees. All or none are NULL.
	 */
	void *(*sample_request)(void *self, bool now);
	void (*sample)(void *request, const struct wait *wait);
	void (*sample_take)(void *self, void *request);

	/*
	 * What may take minutes, in the same three steps on workers of its own, while the tuner
	 * enforces. Right after decide(): a request that begins now, as often as there is one, else
	 * NULL. All or none are NULL.
	 */
	void *(*transfer_request)(void *self, void *memory);
	void (*transfer)(void *request, const struct wait *wait);
	void (*transfer_take)(void *self, void *request);

	/* Before that: a request under way that is to be cancelled, each once; else NULL. May be
	 * NULL. */
	const void *(*transfer_cancel)(void *self, const void *memory);

	/*
	 * What decide() keeps from call to call: that many bytes, zeroed by the core when the tuner
	 * is opened. memory_clear releases what it owns, not the bytes themselves; it may be NULL.
	 */
	size_t memory_size;
	void (*memory_clear)(void *memory);

	/*
	 * Pure: what was sensed and configured, input and memory in; proposal and memory out. No
	 * clock, file, socket or BPF map. What a want points to stays valid until the next call.
	 */
	void (*decide)(const void *self, const struct decide_input *input, void *memory,
		struct proposal *proposal);

	/* Hands the kernel the BPF parameters that decide() left in memory. May be NULL. */
	void (*arm)(void *self, const void *memory);

	/*
	 * A descriptor that becomes readable when the next poll cannot wait for the tick, and what
	 * takes note of it; -1 for none. Both may be NULL.
	 */
	int (*event_fd)(const void *self);
	void (*drain)(void *self);

	/* Microseconds until the next poll, when sooner than the tick; else 0. May be NULL. */
	uint64_t (*next_poll_us)(const void *self, const void *memory);

	/*
	 * Writes to why, which is empty, what open and sense found missing: then it is degraded,
	 * else active. May be NULL.
	 */
	void (*explain)(const void *self, char why[static TUNER_WHY_MAX]);

	/*
	 * The member of /v1/status that is this tuner's own, and its name there. trusted: its
	 * reader is root. The caller frees it. Both may be NULL.
	 */
	const char *document_name;
	struct cJSON *(*document)(const void *self, const void *memory, bool trusted);

	const struct table_view *view; /* what of it the page and `top` show; may be NULL */

	/* Metrics that are this tuner's own; may be NULL. */
	void (*metrics)(const void *self, const void *memory, struct metric_sink *sink);

	void (*close)(void *self);
};

/* All tuners, ended by NULL: src/tuners/table.c. */
extern const struct tuner_ops *const tuner_table[];

extern const char *const tuner_state_names[];
