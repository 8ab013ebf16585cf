/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/build.h"
#include "base/log.h"
#include "kernel/bpf.h"

#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

/* A port in use may become free. */
#define HTTP_RETRY_US (10 * USEC_PER_SEC)

/* Threads that need longer to end hang in the kernel. */
#define END_US (3 * USEC_PER_SEC)

void agent_serve(struct agent *agent)
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
				&core->node, agent_request, agent, &endpoint->server);
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

/* Changes with the files of the configuration and of http.web_config. */
static uint64_t signature(const struct agent *agent, const struct config_source *source)
{
	return config_source_signature(source) ^ web_config_signature(agent->web) << 32;
}

/* On success it replaces agent->web, which is NULL without http.web_config. */
static int load_web(
	struct agent *agent, const struct config *config, struct config_fault_list *faults)
{
	const char *path = config_text(config, "http.web_config");
	struct web_config *web = NULL;
	int r = path[0] ? web_config_load(path, faults, &web) : 0;

	if (r < 0)
		return r;
	web_config_unref(agent->web);
	agent->web = web;
	return 0;
}

/* old: the configuration in use; NULL at the start. */
static int load(struct agent *agent, const struct config_source *source, const struct config *old,
	struct config **config)
{
	char *fault = agent->core.config_fault;
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0};
	struct config_position position = {.line = 1, .column = 1};
	struct stat st;
	int r = -EINVAL;

	/*
	 * A file may be empty or missing for a moment: an editor, a full disk, a ConfigMap. Do not
	 * fall back to the defaults, which nobody asked for.
	 */
	for (size_t i = 0; old && (position.file = config_file(old, i)); i++)
		if (stat(position.file, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size == 0))
			config_fault_add(&faults, &position,
				"gone or empty since it was loaded: restore it, or restart the "
				"agent to do without it");
	if (faults.n == 0)
		r = core_load_config(source, config, &faults);
	if (r == 0) {
		r = load_web(agent, *config, &faults);
		if (r < 0)
			config_free(*config);
	}
	for (size_t i = 0; old && i < faults.n; i++)
		log_error("config", "%s:%u:%u: %s", faults.faults[i].file, faults.faults[i].line,
			faults.faults[i].column, faults.faults[i].message);
	if (!old) /* like a compiler: the agent does not start */
		config_faults_print(stderr, &faults, "");
	fault[0] = '\0';
	if (faults.n > 0)
		snprintf(fault, CONDITION_MESSAGE_MAX, "%.80s:%u:%u: %s", faults.faults->file,
			faults.faults->line, faults.faults->column, faults.faults->message);
	else if (r < 0)
		log_error("config", "not loaded: %s", strerror(-r));
	return r;
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
	r = core_become_writer(&agent->core, "agent");
	if (r == -EBUSY)
		log_error("/run/headroom", "the lock is held by %s: stop it, or run with --observe",
			agent->core.holder);
	else if (r < 0)
		log_warning("/run/headroom",
			"%s: originals of values cannot be recorded, so values are only observed",
			core_describe_values_error(r));
	return r;
}

static void reload(struct agent *agent)
{
	struct core *core = &agent->core;
	struct config *config;
	char changed[512];
	int r;

	/* Type=notify-reload requires the time; systemd before 253 ignores it. */
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_us());
	agent->source_signature = signature(agent, &core->source);
	r = load(agent, &core->source, core->node.is_last_good ? NULL : core->config, &config);
	core->node.reload_failed = r < 0;
	if (r == 0) {
		core->node.is_last_good = false;
		agent->unsaved = true;
		core->node.reloaded_us = realtime_us();
		if (core->job)
			atomic_store(&core->job->stale, true);
		config_changes(core->config, config, changed, sizeof(changed));
		core_reconfigure(core, config);
		become_writer(agent);
		agent_serve(agent);
		log_info("config", "loaded, changed: %s", changed[0] ? changed : "nothing");
	} else {
		log_warning("config", "the configuration loaded before stays in use");
	}
	agent_poll(agent);
	if (agent->ready)
		sd_notify(0, "READY=1");
	agent->reloaded = agent->ready;
}

/*
 * Checking the files at every tick finds each kind of replacement, such as the symbolic link of a
 * ConfigMap. A change must last for a second, so that no half-written file is loaded.
 */
void agent_watch_config(struct agent *agent)
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

static bool is_needed(const struct core *core, size_t tuner, const struct capability_row *row)
{
	enum mode mode = core->node.tuners[tuner].mode;
	bool needed[] = {
		[CAPABILITY_TO_OPEN] = false,
		[CAPABILITY_TO_RUN] = true, /* a reload may switch the tuner on */
		/* It may change files, or restore one. */
		[CAPABILITY_TO_ENFORCE] = mode == MODE_ENFORCE || mode == MODE_RELEASED ||
					  core->n_files > 0 || core->n_pins > 0,
		[CAPABILITY_TO_CHROOT] = core->host.root[0], /* to observe too */
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

/* Keep only capabilities that the unit or the pod has given. */
void agent_drop_privileges(const struct agent *agent)
{
	const struct node *node = &agent->core.node;
	cap_t caps = cap_init();

	for (size_t i = 0; caps && i < node->n_tuners; i++)
		for (const struct capability_row *row = node->tuners[i].ops->tables->capabilities;
			row && row->name; row++) {
			if (!capability_have(row->capability) || !is_needed(&agent->core, i, row))
				continue;
			cap_set_flag(caps, CAP_PERMITTED, 1, &row->capability, CAP_SET);
			cap_set_flag(caps, CAP_EFFECTIVE, 1, &row->capability, CAP_SET);
		}
	if (!caps || cap_set_proc(caps) < 0)
		log_warning("privileges", "not dropped: %s", strerror(errno));
	cap_free(caps);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		log_warning("privileges", "no_new_privs not set");
}

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
	if (r >= 0)
		r = worker_new(agent->event, &agent->worker);
	if (r < 0)
		return r;
	agent_begin_loads(agent);
	agent->source_signature = signature(agent, &core->source);
	agent_serve(agent);
	core_load_peaks(core);
	core_load_events(core);
	agent_poll(agent);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		released += core->node.tuners[i].mode == MODE_RELEASED;
		enforcing += core->node.tuners[i].mode == MODE_ENFORCE;
	}
	for (size_t i = 0; (file = config_file(core->config, i)); i++)
		text_append(files, sizeof(files), "%s%s", i > 0 ? ", " : "", file);
	log_info("agent", "version %s, %s, profile %s, on %s and %s; configuration: %s",
		HEADROOM_VERSION,
		enforcing > 0  ? "enforcing"
		: released > 0 ? "released"
			       : "observing",
		config_text(core->config, "profile"),
		agent->endpoints[0].server ? agent->endpoints[0].address : "no port",
		agent->endpoints[1].server ? agent->endpoints[1].address : "no socket",
		files[0] ? files : "none, the defaults");
	return 0;
}

int agent_run(const struct core_options *options)
{
	struct agent agent = {0};
	const struct config_source source = core_source(options->config_file);
	struct rlimit files;
	struct config *config;
	uint64_t deadline_us;
	int r;

	/* One arena: the threads need no heaps of their own. */
	mallopt(M_ARENA_MAX, 1);
	/* Large blocks come from mmap(2): unused parts take no memory, and freed ones leave no
	 * holes. */
	mallopt(M_MMAP_THRESHOLD, 16 * 1024);
	signal(SIGPIPE, SIG_IGN);
	/* Many slow clients need many descriptors. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = MIN(files.rlim_max, 4096);
		setrlimit(RLIMIT_NOFILE, &files);
	}
	agent.unsaved = load(&agent, &source, NULL, &config) == 0;
	if (!agent.unsaved && last_good_load(options, &config) < 0)
		return 1;
	if (!agent.unsaved) {
		_cleanup_(config_faults_clear) struct config_fault_list faults = {0};

		log_warning("config", "the last good configuration is in use");
		/* Its faults are logged already; without the file the port stays closed. */
		(void)load_web(&agent, config, &faults);
	}
	agent.core.node.is_last_good = agent.core.node.reload_failed = !agent.unsaved;
	r = sd_event_new(&agent.event);
	if (r >= 0)
		r = core_open(&agent.core, options,
			&(struct tuner_loop){
				agent.event, .poll = agent_poll_tuner, .agent = &agent},
			config);
	if (r == 0 && become_writer(&agent) == -EBUSY) {
		core_close(&agent.core);
		sd_event_unref(agent.event);
		/* A command ends by itself. */
		return starts_with(agent.core.holder, "agent") ? EX_TEMPFAIL : 1;
	}
	if (r == 0)
		r = start(&agent);
	if (r >= 0)
		r = agent_loop(&agent);
	if (r < 0)
		log_error("agent", "%s", strerror(-r));
	sd_notify(0, "STOPPING=1");
	for (size_t i = 0; i < ARRAY_SIZE(agent.endpoints); i++)
		if (agent.endpoints[i].server)
			http_server_close(steal(agent.endpoints[i].server));
	deadline_us = now_us() + END_US;
	agent_cancel_jobs(&agent);
	recorder_close(agent.recorder, deadline_us);
	if (!agent_join_jobs(&agent, deadline_us)) {
		log_notice("agent", "a thread has not ended: it ends with the process");
		_exit(r < 0);
	}
	worker_free(agent.worker);
	for (size_t i = 0; i < JOBS_MAX; i++)
		worker_free(agent.jobs[i].own);
	sd_event_source_disable_unref(steal(agent.tick));
	web_config_unref(agent.web);
	plan_clear(&agent.done);
	core_close(&agent.core);
	sd_event_unref(agent.event);
	return r < 0 ? 1 : 0;
}
