/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: the core with a loop. Its parts, in this order: tasks that are due; requests of
 * clients and changes of files; polls, of all tuners each second and of one when its BPF programs
 * ask for it; endpoints; the configuration and its reload; capabilities; the loop; start and end.
 * Nothing in the loop waits for a disk, another program or a child: tasks do.
 */
#include "agent/core.h"
#include "agent/syscalls.h"
#include "apply/reconcile.h"
#include "base/build.h"
#include "base/file.h"
#include "base/log.h"
#include "config/web.h"
#include "kernel/bpf.h"
#include "report/http.h"
#include "report/recorder.h"
#include "report/report.h"

#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#define REQUESTS_MAX 8

#define KEPT_MAX 64 /* rows of capabilities of all tuners */

/* The interval of polls: drift is found within it. */
#define TICK_US USEC_PER_SEC

/* Lets the kernel coalesce the tick with other timers. */
#define TICK_ACCURACY_US (75 * USEC_PER_MSEC)

/* The lowest real-time priority precedes all ordinary processes only. */
#define URGENT_PRIORITY 1

/* A port in use may become free. */
#define HTTP_RETRY_US (10 * USEC_PER_SEC)

/* A table that fills while it grows may have to grow again at once. */
#define GROWTH_STEPS_MAX 4

/* Threads that need longer to end hang in the kernel. */
#define END_US (3 * USEC_PER_SEC)

/* A request of a client of the unix socket. */
struct change_request {
	bool restore;  /* else apply */
	char only[32]; /* a tuner; empty for all */
	struct http_connection *client;
};

/* A TCP address or the path of a socket. If one is in use, the other still serves. */
struct endpoint {
	struct http_server *server; /* NULL: none is configured, or see error */
	char address[PATH_MAX];     /* configured */
	uint32_t web_checksum;      /* identifies the web configuration in use */
	int error;                  /* 0 or -errno */
	uint64_t retry_us;
};

/* The sources of a tuner that is polled between ticks. */
struct tuner_watch {
	struct agent *agent;
	struct tuner_status *tuner;
	sd_event_source *wakeup; /* for its BPF programs, or NULL */
	sd_event_source *timer;  /* for proposal.poll_us, or NULL */
};

struct agent {
	struct core core;
	sd_event *event;
	sd_event_source *tick;
	struct tuner_watch *watches;  /* one for each tuner */
	struct endpoint endpoints[2]; /* TCP, and the unix socket */
	struct web_config *web;       /* from http.web_config, for TCP; NULL: none, or not valid */
	bool urgent;                  /* it has real-time priority */
	bool never_urgent;            /* it may not have that priority */

	struct recorder *recorder; /* NULL: see record_incidents() */
	uint64_t resume_us;        /* when to resume restarts whose end is not known */
	struct change_request requests[REQUESTS_MAX];
	size_t n_requests;
	struct plan done; /* changes made for requests[0] */

	uint64_t source_signature; /* identifies the configuration files as loaded */
	uint64_t source_seen;      /* their signature at the last tick */
	uint64_t source_seen_us;   /* CLOCK_MONOTONIC: when it changed */
	uint64_t records_seen;     /* core_records_signature() of an agent that observes */
	bool unsaved;              /* last_good_save() is due */
	bool ready;                /* READY=1 was sent */
	bool reloaded; /* send READY=1 again at the next tick, in case systemd missed it */
	char status[STATUS_LINE_MAX]; /* the last STATUS= */
};

/* ---- tasks that are due ---- */

/*
 * Cancels the transfers of a tuner that was closed or does not enforce. Returns whether it may
 * begin others: not before the old ones have ended.
 */
static bool cancel_transfers(struct core *core, const struct tuner_status *tuner)
{
	bool may = tuner->mode == MODE_ENFORCE && core_may_write(core), is_clear = true;

	for (struct tuner_task *task = core->tasks; task < core->tasks + TASKS_MAX; task++) {
		bool is_old = task->generation != tuner->generation;

		if (!task->task || task->tuner != tuner || task->kind != TASK_TRANSFER)
			continue;
		is_clear &= !is_old;
		if (is_old || !may ||
			(task->ops->cancels && task->ops->cancels(task->request, tuner->memory)))
			task_cancel(task->task);
	}
	return is_clear && may;
}

/* Begins only loads, which need the privileges of the start. */
static void begin_loads(struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (core->node.tuners[i].under_way[TASK_LOAD] == 0)
			(void)core_begin_task(core, &core->node.tuners[i], TASK_LOAD);
}

/* Cancels unwanted transfers and begins the tasks that are due. */
static void begin_tasks(struct core *core)
{
	bool is_urgent = core->job != NULL;
	/* A restart would interrupt it. */
	bool may_transfer = !core->job && !node_restart_due(&core->node);

	/* Both need memory for a moment: a load twice the size of the kernel's types. */
	for (size_t i = 0; i < core->node.n_tuners; i++)
		may_transfer &= core->node.tuners[i].under_way[TASK_LOAD] == 0 ||
				core_task_hangs(&core->node.tuners[i], TASK_LOAD, now_us());
	begin_loads(core);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		struct tuner_status *tuner = &core->node.tuners[i];
		bool transfers = cancel_transfers(core, tuner);

		if (!tuner->self || tuner->mode == MODE_OFF)
			continue;
		while (transfers && may_transfer && core_begin_task(core, tuner, TASK_TRANSFER))
			;
		/* A sample while files are changed would show half of it. */
		if (!core->job && tuner->under_way[TASK_SAMPLE] == 0)
			(void)core_begin_task(core, tuner, TASK_SAMPLE);
		/* A tuner without a request does not delay the start. */
		tuner->sampled |= !core->job && tuner->under_way[TASK_SAMPLE] == 0;
		is_urgent |= tuner->under_way[TASK_SAMPLE] > 0 &&
			     (!tuner->sampled || tuner->files_stale);
	}
	/* The results of other samples are adopted at the next tick. */
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (core->tasks[i].task && core->tasks[i].kind == TASK_SAMPLE)
			task_wakes_loop(core->tasks[i].task, is_urgent);
}

/* ---- requests, and changes of files ---- */

/* Replies to the client of the first request. error: of recording the restore, or 0. */
static void answer_request(struct agent *agent, int error)
{
	const struct change_request *request = &agent->requests[0];
	const struct core *core = &agent->core;
	_cleanup_(cleanup_cJSON_Delete) cJSON *plan = NULL;
	_cleanup_free_ char *json = NULL;

	agent->core.node.revision++; /* the client may read the result now */
	if (!request->restore)
		core_add_unset(&agent->core, request->only[0] ? request->only : NULL, &agent->done);
	plan = report_plan(&agent->done, true);
	if (request->restore && (core->journal_error < 0 || core->values_error < 0)) {
		must_do(asprintf(&json, "{\"error\": \"%s: %s\"}",
				core->values_error < 0 ? "files were restored, values were not"
						       : "values were restored, files were not",
				core->values_error < 0 ? core_describe_values_error(core)
						       : core_describe_journal_error(core)) >= 0);
		http_reply(request->client, 500, json);
	} else if (request->restore && error < 0) {
		must_do(asprintf(&json,
				"{\"error\": \"values were restored, but that could not be recorded: "
				"%s: %s %s; headroom's log says more\"}",
				strerror(-error), write_cure(error), core_state_name()) >= 0);
		http_reply(request->client, 507, json);
	} else {
		http_reply(request->client, 200, json = must(cJSON_Print(plan)));
	}
	plan_clear(&agent->done);
	agent->n_requests--;
	memmove(&agent->requests[0], &agent->requests[1], agent->n_requests * sizeof(*request));
}

static void adopt_files(void *job, void *userdata)
{
	struct agent *agent = userdata;
	struct core *core = &agent->core;
	/* Only jobs of a request are forced or restore. */
	bool requested = core->job->forced || core->job->task == FILE_RESTORE;
	int r;

	/* Samples under way began before this change. */
	for (size_t i = 0; i < TASKS_MAX; i++)
		core->tasks[i].is_after_files = false;
	agent->resume_us = core->job->n_open > 0 || core->job->error < 0 ? now_us() + FILE_RETRY_US
									 : UINT64_MAX;
	r = core_adopt_files(core, job, requested ? &agent->done : NULL);
	if (r < 0)
		log_error("journal.json", "not stored: %s: %s %s", strerror(-r), write_cure(r),
			core_state_name());
	if (!requested)
		return;
	core_poll(core);
	answer_request(agent, r);
}

static int begin_files(struct agent *agent, enum file_task task, const char *only, bool forced)
{
	struct core *core = &agent->core;
	struct file_job *job = core_file_job(core, task, only, forced);
	int r;

	if (!job)
		return core->journal_error < 0 ? core->journal_error : -EBUSY;
	r = task_start(&core->file_task, agent->event,
		&(struct task){file_transaction, adopt_files, job, agent, UINT64_MAX});
	if (r == 0)
		return 0;
	core->job = NULL;
	plan_clear(&job->plan);
	free(job);
	return r;
}

/* Handles the requests one after the other, then begins what the plan or the journal asks for. */
static void handle_requests(struct agent *agent)
{
	const struct change_request *request = &agent->requests[0];
	struct core *core = &agent->core;

	while (!core->job && agent->n_requests > 0) {
		const char *only = request->only[0] ? request->only : NULL;
		int r;

		if (request->restore) {
			core_restore_values(core, only, &agent->done);
		} else {
			core_reset(core, only);
			core_poll(core);
			core_plan_only(core, only);
			core_apply_values(core, only, &agent->done);
		}
		r = begin_files(agent, request->restore ? FILE_RESTORE : FILE_APPLY, only,
			!request->restore);
		/* Update limits and conditions now, not at the next tick. */
		core_poll(core);
		if (r < 0)
			answer_request(agent, r);
	}
	if (core->job || !core_may_write(core) || !core->journal)
		return;
	if (now_us() >= agent->resume_us)
		(void)begin_files(agent, FILE_RESUME, NULL, false);
	else if (core->plan.n > 0)
		(void)begin_files(agent, FILE_APPLY, NULL, false);
}

/* Queues a change that a client asks for, or says why it cannot be made. */
static void on_request(void *userdata, bool restore, const char *only, const char *owner,
	struct http_connection *client)
{
	struct agent *agent = userdata;
	const struct core *core = &agent->core;
	struct change_request *request = &agent->requests[agent->n_requests];
	bool wants = core_wants_to_write(core);
	const char *why = NULL;
	char foreign[256], newer[sizeof(core->node.newer) + 16];

	snprintf(foreign, sizeof(foreign),
		"{\"error\": \"the values of this node belong to %s: restore there, or use --force\"}",
		core_owner());
	snprintf(newer, sizeof(newer), "{\"error\": \"%s\"}", core->node.newer);
	if (core->lock < 0 && wants)
		why = "{\"error\": \"the running agent cannot record originals and writes nothing: "
		      "headroom status says why\"}";
	else if (core->lock < 0 && restore) /* the command restores */
		why = "{\"error\": \"the running agent only observes\", \"observes\": true}";
	else if (core->lock < 0)
		why = "{\"error\": \"the running agent only observes and writes nothing: "
		      "start it without --observe and with mode: enforce\"}";
	else if (restore && owner && !streq(owner, core_owner()))
		why = foreign;
	else if (restore && core->values_error < 0 && core->journal_error < 0)
		why = "{\"error\": \"the records cannot be read, so nothing is restored: "
		      "headroom status says why\"}";
	else if (!restore && core->node.newer[0])
		why = newer;
	else if (!restore && !wants)
		why = "{\"error\": \"the configuration says mode: observe: nothing is written\"}";
	if (why) {
		http_reply(client, 409, why);
		return;
	}
	if (agent->n_requests == REQUESTS_MAX) {
		http_reply(client, 503, "{\"error\": \"too many requests are waiting\"}");
		return;
	}
	*request = (struct change_request){.restore = restore, .client = client};
	set_text(request->only, only ? only : "");
	agent->n_requests++;
	agent->core.poll_due = true;
}

/* ---- capabilities ---- */

static bool is_needed(const struct core *core, size_t tuner, const struct capability_row *row)
{
	enum mode mode = core->node.tuners[tuner].mode;
	bool needed[] = {
		[CAPABILITY_TO_OPEN] = false,
		[CAPABILITY_TO_RUN] = true, /* a reload may switch the tuner on */
		/* It may change files, or restore one, also once newer records are gone. */
		[CAPABILITY_TO_ENFORCE] = mode == MODE_ENFORCE || mode == MODE_RELEASED ||
					  core->n_keys > 0 || core->n_pins > 0 ||
					  core->node.newer[0],
		[CAPABILITY_TO_CHROOT] = core->host->root[0], /* to observe too */
		[CAPABILITY_TO_SET] = false,
	};

	for (size_t i = 0; row->setting && i < core->node.n_settings; i++)
		needed[CAPABILITY_TO_SET] |= starts_with(core->node.settings[i].name, row->setting);
	/* A restore also writes settings that are no longer configured. */
	for (size_t i = 0; row->setting && core->values && i < core->values->n; i++)
		needed[CAPABILITY_TO_SET] |=
			starts_with(core->values->records[i].name, row->setting);
	return needed[row->use];
}

/* Keeps the capabilities that are needed after the start, as far as the unit or the pod gave them.
 */
static void drop_privileges(const struct core *core)
{
	const struct node *node = &core->node;
	cap_value_t kept[KEPT_MAX];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < node->n_tuners; i++)
		for (const struct capability_row *row = node->tuners[i].ops->tables->capabilities;
			row && row->name && n < ARRAY_SIZE(kept); row++)
			if (is_needed(core, i, row))
				kept[n++] = row->capability;
	r = capability_keep(kept, n);
	if (r < 0)
		log_warning("privileges", "not dropped: %s", strerror(-r));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		log_warning("privileges", "no_new_privs not set");
}

/* ---- polls ---- */

static void poll_one(struct tuner_watch *watch);

static int on_wakeup(sd_event_source *, int, uint32_t, void *userdata)
{
	poll_one(userdata);
	return 0;
}

static int on_timer(sd_event_source *, uint64_t, void *userdata)
{
	poll_one(userdata);
	return 0;
}

/* Waits for the next time when the tuner must be polled before a tick. */
static void watch_tuner(struct tuner_watch *watch)
{
	const struct tuner_status *tuner = watch->tuner;
	const struct bpf_ops *bpf = tuner->ops->bpf;
	int fd = tuner->self && bpf && bpf->wakeup_fd ? bpf->wakeup_fd(tuner->self) : -1;
	sd_event *event = watch->agent->event;

	if (!watch->wakeup && fd >= 0 &&
		sd_event_add_io(event, &watch->wakeup, fd, EPOLLIN, on_wakeup, watch) >= 0)
		/* Before a scrape that came at the same moment. */
		(void)sd_event_source_set_priority(watch->wakeup, SD_EVENT_PRIORITY_IMPORTANT);
	if (!watch->timer && tuner->proposal.poll_us > 0 &&
		sd_event_add_time(event, &watch->timer, CLOCK_MONOTONIC, UINT64_MAX, USEC_PER_MSEC,
			on_timer, watch) >= 0)
		(void)sd_event_source_set_enabled(watch->timer, SD_EVENT_ON);
	if (watch->timer)
		(void)sd_event_source_set_time(watch->timer,
			tuner->proposal.poll_us > 0 ? tuner->proposal.poll_us : UINT64_MAX);
}

/* Drops the sources, before a tuner may close a descriptor. */
static void unwatch_tuners(struct agent *agent)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_watch *watch = &agent->watches[i];

		watch->wakeup = sd_event_source_disable_unref(watch->wakeup);
		watch->timer = sd_event_source_disable_unref(watch->timer);
	}
}

/* Polls a tuner, writes its values, and shows them at once. */
static void poll_one(struct tuner_watch *watch)
{
	struct core *core = &watch->agent->core;
	uint64_t now = now_us();
	int steps = 0;

	core_poll_tuner(core, watch->tuner, now);
	/* Each poll arms the BPF programs for the values that it plans: write them too. */
	while (core_apply_values(core, NULL, NULL) > 0 && steps++ < GROWTH_STEPS_MAX) {
		core_poll_tuner(core, watch->tuner, now);
		core->node.revision++;
	}
	/* What a wake-up asks for does not wait for the tick. */
	if (watch->agent->ready && !core->job && watch->tuner->under_way[TASK_SAMPLE] == 0)
		(void)core_begin_task(core, watch->tuner, TASK_SAMPLE);
	watch_tuner(watch);
}

/* Polls all tuners, writes values, and begins changes of files and other tasks. */
static void poll_all(struct agent *agent)
{
	struct core *core = &agent->core;
	char line[STATUS_LINE_MAX];

	core_finish_tasks(core);
	core->poll_due = false;
	core_poll(core);
	/* Update limits and metrics now, not at the next tick. */
	if (core_apply_values(core, NULL, NULL) > 0)
		core_poll(core);
	core->node.applied = true;
	/* Before tasks begin, whose threads inherit the remaining capabilities. */
	if (!agent->ready) {
		drop_privileges(core);
		syscalls_restrict();
		sd_notify(0, "READY=1");
	}
	agent->ready = true;
	handle_requests(agent);
	if (agent->unsaved && core_may_write(core) && core->journal && !core->save_task)
		agent->unsaved = last_good_save(core) < 0;
	begin_tasks(core);
	for (size_t i = 0; i < core->node.n_tuners; i++)
		watch_tuner(&agent->watches[i]);
	report_line(&core->node, line);
	if (streq(line, agent->status))
		return;
	set_text(agent->status, line);
	sd_notifyf(0, "STATUS=%s", line);
}

/* ---- endpoints ---- */

/* Opens and closes the configured endpoints. */
static void serve(struct agent *agent)
{
	static const char *const options[] = {"listen", "socket"};
	struct core *core = &agent->core;
	char socket_path[PATH_MAX], error[CONDITION_MESSAGE_MAX] = "", user[128] = "";
	const char *addresses[] = {config_text(core->config, "http.listen"), socket_path};
	struct web_config *web[] = {agent->web, NULL};

	core_socket_path(core->config, socket_path);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		struct endpoint *endpoint = &agent->endpoints[i];

		/* Without a valid http.web_config nobody may read over TCP. */
		if (i == 0 && !web[i] && config_text(core->config, "http.web_config")[0])
			addresses[i] = "";
		if (!streq(addresses[i], endpoint->address) ||
			endpoint->web_checksum != (web[i] ? web[i]->checksum : 0)) {
			if (endpoint->server)
				http_server_close(endpoint->server);
			*endpoint = (struct endpoint){0};
			set_text(endpoint->address, addresses[i]);
			endpoint->web_checksum = web[i] ? web[i]->checksum : 0;
		}
		if (!endpoint->server && endpoint->address[0] && now_us() >= endpoint->retry_us) {
			endpoint->error = http_server_open(agent->event, endpoint->address, web[i],
				&core->node, on_request, agent, &endpoint->server);
			endpoint->retry_us = now_us() + HTTP_RETRY_US;
		}
		if (endpoint->error == -EADDRINUSE && core_other_writer(core))
			snprintf(user, sizeof(user), ", probably by %s", core->holder);
		if (endpoint->error < 0)
			text_append(error, sizeof(error),
				"%shttp.%s: %.100s: %s%s: choose another or free it",
				error[0] ? "; " : "", options[i], endpoint->address,
				strerror(-endpoint->error), user);
	}
	if (error[0] && !streq(error, core->agent_error))
		log_error("http", "%s", error);
	set_text(core->agent_error, error);
}

/* ---- the configuration ---- */

/* Changes with the files of the configuration and of http.web_config. */
static uint64_t signature(const struct agent *agent, const struct config_source *source)
{
	return config_source_signature(source) ^ web_config_signature(agent->web) << 32;
}

static void set_log_form(const struct config *config)
{
	log_set_json(streq(config_text(config, "log"), "json"));
}

static void log_faults(enum log_kind kind, int level, const struct config_fault_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct config_fault *fault = &list->faults[i];

		log_as(kind, level, "config", "%s:%u:%u: %s", fault->file, fault->line,
			fault->column, fault->message);
	}
}

/* Replaces agent->web on success; it is NULL without http.web_config. */
static int load_web(
	struct agent *agent, const struct config *config, struct config_fault_list *faults)
{
	const char *path = config_text(config, "http.web_config");
	const struct config_position option = config_where(config, "http.web_config");
	struct web_config *web = NULL;
	int r = path[0] ? web_config_load(path, &option, faults, &web) : 0;

	if (r < 0)
		return r;
	if (web)
		log_faults(LOG_OTHER, LOG_WARNING, &web->warnings);
	web_config_unref(agent->web);
	agent->web = web;
	return 0;
}

/* Loads and checks a configuration. old: the one in use; NULL at the start. */
static int load_config(struct agent *agent, const struct config_source *source,
	const struct config *old, struct config **config, struct config_fault_list *faults)
{
	struct config_fault *fault = &agent->core.config_fault;
	struct config_position position = {.line = 1, .column = 1};
	int r = core_load_config(source, config, faults);

	/*
	 * A file may be empty or missing for a moment: an editor, a full disk, a ConfigMap. Do not
	 * fall back to the defaults, which nobody asked for.
	 */
	if (r == 0 && old && (position.file = config_lost_file(*config, config_texts(old)))) {
		config_fault_add(faults, &position,
			"gone or empty since it was loaded: restore it, or restart the agent to do "
			"without it");
		config_free(*config);
		r = -EINVAL;
	}
	if (r == 0) {
		r = load_web(agent, *config, faults);
		if (r < 0)
			config_free(*config);
	}
	if (r == 0) {
		set_log_form(*config);
		log_faults(LOG_OTHER, LOG_WARNING, config_warnings(*config));
	}
	*fault = faults->n > 0 ? faults->faults[0] : (struct config_fault){0};
	if (faults->n == 0 && r < 0)
		log_error("config", "not loaded: %s", strerror(-r));
	return r;
}

/* Loads what the agent begins with: its configuration, or the last good one. 0 or -EINVAL. */
static int load_first(
	struct agent *agent, const struct core_options *options, struct config **config)
{
	const struct config_source source = core_source(options->config_file);
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0}, web_faults = {0};

	agent->unsaved = load_config(agent, &source, NULL, config, &faults) == 0;
	if (agent->unsaved)
		return 0;
	agent->core.node.is_last_good = agent->core.node.reload_failed = true;
	if (last_good_load(options, config) < 0) {
		log_set_json(faults.log_json);
		log_faults(LOG_CONFIG_REFUSED, LOG_ERR, &faults);
		return -EINVAL;
	}
	set_log_form(*config);
	log_faults(LOG_CONFIG_REFUSED, LOG_ERR, &faults);
	log_as(LOG_CONFIG_REFUSED, LOG_WARNING, "config", "the last good configuration is in use");
	/* Its faults are logged already; without the file the port stays closed. */
	(void)load_web(agent, *config, &web_faults);
	return 0;
}

/*
 * Gets the lock and the records if a tuner enforces; else only reads the records. Returns 0, or
 * -errno after logging it; -EBUSY if another process holds the lock.
 */
static int become_writer(struct agent *agent)
{
	int r;

	if (agent->core.lock >= 0)
		return 0;
	if (!core_wants_to_write(&agent->core)) {
		core_read_records(&agent->core);
		return 0;
	}
	/* The loop waits for nobody. */
	r = core_become_writer(&agent->core, "agent", !agent->ready);
	if (r == -EBUSY)
		log_error("/run/headroom", "the lock is held by %s: stop it, or run with --observe",
			agent->core.holder);
	else if (r < 0)
		log_warning("/run/headroom",
			"%s: originals of values cannot be recorded, so values are only observed",
			core_describe_values_error(&agent->core));
	return r;
}

static void reload(struct agent *agent)
{
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0};
	struct core *core = &agent->core;
	struct config *config;
	char changed[512];
	int r;

	/* Type=notify-reload requires the time; systemd before 253 ignores it. */
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_us());
	agent->source_signature = signature(agent, &core->source);
	r = load_config(agent, &core->source, core->node.is_last_good ? NULL : core->config,
		&config, &faults);
	log_faults(LOG_CONFIG_REFUSED, LOG_ERR, &faults);
	core->node.reload_failed = r < 0;
	if (r == 0) {
		core->node.is_last_good = false;
		agent->unsaved = true;
		core->node.reloaded_us = realtime_us();
		if (core->job)
			atomic_store(&core->job->stale, true);
		config_changes(core->config, config, changed, sizeof(changed));
		unwatch_tuners(agent);
		core_reconfigure(core, config);
		become_writer(agent);
		serve(agent);
		log_as(LOG_CONFIG_LOADED, LOG_INFO, "config", "loaded, changed: %s",
			changed[0] ? changed : "nothing");
	} else {
		log_as(LOG_CONFIG_REFUSED, LOG_WARNING, "config",
			"the configuration loaded before stays in use");
	}
	poll_all(agent);
	if (agent->ready)
		sd_notify(0, "READY=1");
	agent->reloaded = agent->ready;
}

/*
 * Checking the files at every tick finds each kind of replacement, such as the symbolic link of a
 * ConfigMap. A change must last for a second, so that no half-written file is loaded.
 */
static void watch_config(struct agent *agent)
{
	uint64_t seen = signature(agent, &agent->core.source);

	if (seen != agent->source_seen) {
		agent->source_seen = seen;
		agent->source_seen_us = now_us();
	} else if (seen != agent->source_signature &&
		   now_us() - agent->source_seen_us >= USEC_PER_SEC) {
		reload(agent);
	}
}

static int on_hangup(sd_event_source *, const struct signalfd_siginfo *, void *userdata)
{
	reload(userdata);
	return 0;
}

/* ---- the loop ---- */

/* An agent that observes records incidents too: they change nothing on the node. */
static void record_incidents(struct agent *agent)
{
	struct core *core = &agent->core;
	char directory[PATH_MAX + sizeof(INCIDENTS_DIRECTORY)];

	if (!agent->recorder) {
		if (!core->state[0] || (core->lock < 0 && core_wants_to_write(core)))
			return;
		snprintf(directory, sizeof(directory), "%s" INCIDENTS_DIRECTORY, core->state);
		agent->recorder = recorder_open(agent->event, directory, core->boot);
	}
	recorder_tick(agent->recorder, &core->node, &core->facts.names, now_us());
}

/* Beside an agent that observes, a command may restore. */
static void watch_records(struct agent *agent)
{
	struct core *core = &agent->core;
	uint64_t seen;

	if (core->lock >= 0 || core_wants_to_write(core))
		return;
	seen = core_records_signature(core);
	if (seen != agent->records_seen)
		core_read_records(core);
	agent->records_seen = seen;
}

static int on_tick(sd_event_source *source, uint64_t, void *userdata)
{
	struct agent *agent = userdata;
	struct core *core = &agent->core;
	bool observing = core->values_error < 0;

	/* The directory may become writable later. */
	if ((observing || core->journal_error != 0) && now_us() >= core->writer_retry_us &&
		core_wants_to_write(core) && !core->job) {
		core->writer_retry_us = now_us() + RETRY_US;
		if (core_become_writer(core, "agent", false) == 0 && observing)
			log_notice("/run/headroom",
				"originals can be recorded: values are set from now on");
	}
	watch_config(agent);
	watch_records(agent);
	poll_all(agent);
	record_incidents(agent);
	serve(agent);
	if (agent->reloaded)
		sd_notify(0, "READY=1");
	agent->reloaded = false;
	/* Each message wakes the service manager. */
	if (sd_watchdog_enabled(0, NULL) > 0)
		sd_notify(0, "WATCHDOG=1");
	return sd_event_source_set_time(source, now_us() + TICK_US);
}

/*
 * A table of a thousand entries fills in two milliseconds. On a busy node, an ordinary process
 * waits longer for a CPU. So the loop sleeps and handles urgent events with a real-time priority.
 * All other work, above all for clients, has an ordinary priority.
 */
static void set_urgent(struct agent *agent, bool urgent)
{
	struct sched_param parameter = {.sched_priority = urgent ? URGENT_PRIORITY : 0};

	if (agent->never_urgent || agent->urgent == urgent)
		return;
	/* Threads do not inherit it. */
	if (sched_setscheduler(0, (urgent ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK,
		    &parameter) == 0) {
		agent->urgent = urgent;
		return;
	}
	log_info("agent",
		"no real-time priority: %s: on a busy node growth may come late: give CAP_SYS_NICE or RLIMIT_RTPRIO 1, "
		"and on cgroup v1 its cgroup a cpu.rt_runtime_us",
		strerror(errno));
	agent->never_urgent = true;
}

/* Returns whether BPF programs can wake the agent; pending: whether some have. */
static bool has_urgent(const struct agent *agent, bool pending)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		sd_event_source *source = agent->watches[i].wakeup;

		if (source && (!pending || sd_event_source_get_pending(source) > 0))
			return true;
	}
	return false;
}

/* Runs until SIGTERM or SIGINT. Returns 0 or -errno. */
static int run_loop(struct agent *agent)
{
	int r = sd_event_add_time(agent->event, &agent->tick, CLOCK_MONOTONIC, now_us() + TICK_US,
		TICK_ACCURACY_US, on_tick, agent);

	/* on_tick() sets the next time, after its work. */
	if (r >= 0)
		r = sd_event_source_set_enabled(agent->tick, SD_EVENT_ON);
	while (r >= 0 && sd_event_get_state(agent->event) != SD_EVENT_FINISHED) {
		r = sd_event_prepare(agent->event);
		if (r == 0) {
			set_urgent(agent, agent->core.lock >= 0 && has_urgent(agent, false));
			r = sd_event_wait(agent->event, UINT64_MAX);
		}
		if (r <= 0)
			continue;
		/* The loop dispatches urgent sources first. */
		if (!has_urgent(agent, true))
			set_urgent(agent, false);
		r = sd_event_dispatch(agent->event);
		/* A time in the past: now could be delayed by TICK_ACCURACY_US. */
		if (agent->core.poll_due)
			(void)sd_event_source_set_time(agent->tick, 0);
	}
	return r;
}

/* ---- start and end ---- */

static int start(struct agent *agent)
{
	struct core *core = &agent->core;
	size_t released = 0, enforcing = 0;
	char files[512] = "";
	const char *file;
	/* SIGTERM and SIGINT end the loop with code 0. */
	int r = sd_event_set_signal_exit(agent->event, true);

	if (r >= 0)
		r = sd_event_add_signal(
			agent->event, NULL, SIGHUP | SD_EVENT_SIGNAL_PROCMASK, on_hangup, agent);
	if (r < 0)
		return r;
	agent->watches = must(calloc(core->node.n_tuners, sizeof(*agent->watches)));
	for (size_t i = 0; i < core->node.n_tuners; i++)
		agent->watches[i] =
			(struct tuner_watch){.agent = agent, .tuner = &core->node.tuners[i]};
	begin_loads(core);
	agent->source_signature = signature(agent, &core->source);
	serve(agent);
	core_load_peaks(core);
	core_load_histories(core);
	core_load_events(core);
	poll_all(agent);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		released += core->node.tuners[i].mode == MODE_RELEASED;
		enforcing += core->node.tuners[i].mode == MODE_ENFORCE;
	}
	for (size_t i = 0; (file = config_file(core->config, i)); i++)
		text_append(files, sizeof(files), "%s%s", i > 0 ? ", " : "", file);
	log_as(LOG_STARTED, LOG_INFO, "agent",
		"version %s, %s, profile %s, on %s and %s; configuration: %s", HEADROOM_VERSION,
		enforcing > 0  ? "enforcing"
		: released > 0 ? "released"
			       : "observing",
		config_text(core->config, "profile"),
		agent->endpoints[0].server ? agent->endpoints[0].address : "no port",
		agent->endpoints[1].server ? agent->endpoints[1].address : "no socket",
		files[0] ? files : "none, the defaults");
	return 0;
}

/* A process can end at any instant: its records are complete. */
static void end_at_once(int)
{
	_exit(0);
}

int agent_run(const struct core_options *options)
{
	struct agent agent = {0};
	struct rlimit files;
	struct config *config;
	uint64_t deadline_us;
	bool serves = false;
	int r;

	/*
	 * Large blocks come from mmap(2): unused parts take no memory, and freed ones leave no
	 * holes. The blocks of a scrape and of its compression are smaller.
	 */
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	signal(SIGPIPE, SIG_IGN);
	/* Until the loop takes them: the first process of a container ignores them by default. */
	signal(SIGTERM, end_at_once);
	signal(SIGINT, end_at_once);
	/* Kernels before 5.11 charge BPF maps to it. A thread that loads them may not raise it. */
	(void)setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
	/* Many slow clients need many descriptors. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = MIN(files.rlim_max, 4096);
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (load_first(&agent, options, &config) < 0)
		return 1;
	log_check_level();
	/*
	 * The threads need no heaps of their own. But TLS and passwords have idle threads: a thread
	 * without CPU within malloc() holds the lock of its heap, and the loop must not wait for
	 * it. glibc keeps the first number that it needs, so a later web_config changes nothing.
	 */
	mallopt(M_ARENA_MAX, config_text(config, "http.web_config")[0] ? 4 : 1);
	r = sd_event_new(&agent.event);
	if (r >= 0)
		r = core_open(&agent.core, options, agent.event, config);
	if (r < 0) {
		log_error("agent", "%s", strerror(-r));
		return 1; /* nothing has begun that must end */
	}
	if (become_writer(&agent) == -EBUSY) {
		core_close(&agent.core);
		sd_event_unref(agent.event);
		/* A command, and a child of an agent that was killed, end by themselves. */
		return starts_with(agent.core.holder, "agent") ? EX_TEMPFAIL : 1;
	}
	r = start(&agent);
	if (r >= 0)
		r = run_loop(&agent);
	if (r < 0)
		log_error("agent", "%s", strerror(-r));
	sd_notify(0, "STOPPING=1");
	for (size_t i = 0; i < ARRAY_SIZE(agent.endpoints); i++)
		if (agent.endpoints[i].server)
			serves |= !http_server_close(steal(agent.endpoints[i].server));
	core_keep_histories(&agent.core, true);
	deadline_us = now_us() + END_US;
	(void)core_end_tasks(&agent.core, 0); /* cancels them */
	recorder_close(agent.recorder, deadline_us);
	if (!core_end_tasks(&agent.core, deadline_us)) {
		log_notice("agent", "a thread has not ended: it ends with the process");
		_exit(r < 0);
	}
	if (agent.watches)
		unwatch_tuners(&agent);
	free(agent.watches);
	sd_event_source_disable_unref(steal(agent.tick));
	web_config_unref(agent.web);
	plan_clear(&agent.done);
	core_close(&agent.core);
	sd_event_unref(agent.event);
	if (serves)
		_exit(r < 0); /* a thread uses what exit() frees */
	return r < 0 ? 1 : 0;
}
