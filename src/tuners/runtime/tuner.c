/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"
#include "tuners/table.h"

#include "config/config.h"
#include "workload/process.h"

/* After something was written samples come this often, for so long. */
#define SOON_US     (1 * USEC_PER_SEC)
#define SOON_FOR_US (20 * USEC_PER_SEC)

static const char *const kind_words[] = {"auto", "containerd", "docker", "crio", NULL};
static const char *const keep_words[] = {"keep", NULL};
static const char *const restart_words[] = {"never", "when-idle", "now", NULL};

static const struct config_option mirror_items[] = {
	{"registry", OPTION_TEXT, .max = REGISTRY_NAME_MAX - 1, .def = HOSTS_TOML_DEFAULT,
		.help = "The registry that it mirrors, such as docker.io or "
			"registry.example:5000; _default: every one without a mirror of its "
			"own."},
	{"url", OPTION_TEXT, .max = REGISTRY_URL_MAX - 1,
		.help = "Where the mirror is, such as http://127.0.0.1:30020."},
	{0},
};

const struct config_option runtime_options[] = {
	MODE_OPTION("runtime"),
	{"runtime.kind", OPTION_CHOICE, .words = kind_words, .def = "auto",
		.help = "Which container runtime to look after. auto: every one that is found."},
	{"runtime.max_concurrent_downloads", OPTION_COUNT, .min = 1, .max = 1000,
		.words = keep_words, .unit = "layers", .def = "10",
		.help = "How many layers the runtime fetches at once. As a default it only "
			"raises; given in a file it is set as it is. keep: leave what it has."},
	{"runtime.pull_progress_timeout", OPTION_DURATION, .min = 10 * USEC_PER_SEC,
		.max = 24 * UINT64_C(3600) * USEC_PER_SEC, .words = keep_words, .def = "30m",
		.help = "containerd gives up a pull that makes no progress for so long. As a "
			"default it only raises. keep: leave what it has."},
	{"runtime.restart", OPTION_CHOICE, .words = restart_words, .def = "never",
		.help = "containerd takes its configuration only when it starts. never: leave "
			"that to others, RuntimeRestartPending says that it is due. when-idle: "
			"restart it when nothing is being pulled, at most once an hour. now: "
			"at once. Containers go on running meanwhile; a unit that would stop "
			"them, or others with it, is never restarted."},
	{"runtime.mirrors", OPTION_LIST, .max = RUNTIME_MIRROR_MAX, .items = mirror_items,
		.def = "[]",
		.help = "Mirrors of registries, in the order in which to ask them; those on "
			"this node go first and the registry itself comes last. One that does "
			"not answer is taken out until it does."},
	{0},
};

static void check_mirror(const struct config *config, size_t i, const char *field, int error,
	struct config_fault_list *faults)
{
	struct config_place place = config_item_where(config, "runtime.mirrors", i, field);

	if (error < 0)
		config_fault_add(faults, &place, "runtime.mirrors.%s: \"%s\" is no %s", field,
			config_item(config, "runtime.mirrors", i, field),
			streq(field, "url")
				? "address of a mirror: give http[s]://HOST[:PORT][/PATH]"
				: "registry: give HOST[:PORT] or _default");
}

static void runtime_validate(const struct config *config, struct config_fault_list *faults)
{
	for (size_t i = 0; i < config_list(config, "runtime.mirrors"); i++) {
		const char *registry = config_item(config, "runtime.mirrors", i, "registry");

		check_mirror(config, i, "url",
			registry_check_url(config_item(config, "runtime.mirrors", i, "url")),
			faults);
		if (!streq(registry, HOSTS_TOML_DEFAULT))
			check_mirror(config, i, "registry", registry_check_name(registry), faults);
	}
}

static void *runtime_open(const struct host *host, bool watch)
{
	struct runtime_tuner *tuner = must(calloc(1, sizeof(*tuner)));

	tuner->host = host;
	tuner->once = !watch;
	return tuner;
}

static void runtime_configure(void *self, const struct config *config)
{
	struct runtime_tuner *tuner = self;
	struct runtime_config *ret = &tuner->config;

	*ret = (struct runtime_config){
		.kind = config_choice(config, "runtime.kind"),
		.numbers =
			{
				[CONTAINERD_DOWNLOADS] =
					{config_count(
						 config, "runtime.max_concurrent_downloads", 0),
						config_is_given(config,
							"runtime.max_concurrent_downloads")},
				[CONTAINERD_PROGRESS_TIMEOUT].exact =
					config_is_given(config, "runtime.pull_progress_timeout"),
			},
		.restart = (enum restart_policy)config_choice(config, "runtime.restart"),
		.n_mirrors = MIN(config_list(config, "runtime.mirrors"), RUNTIME_MIRROR_MAX),
	};
	if (config_choice(config, "runtime.pull_progress_timeout") < 0)
		ret->numbers[CONTAINERD_PROGRESS_TIMEOUT].value =
			config_duration(config, "runtime.pull_progress_timeout");
	for (size_t i = 0; i < ret->n_mirrors; i++) {
		struct runtime_mirror *mirror = &ret->mirrors[i];

		copy_text(mirror->registry, sizeof(mirror->registry),
			config_item(config, "runtime.mirrors", i, "registry"));
		(void)registry_copy_url(mirror->url, sizeof(mirror->url),
			config_item(config, "runtime.mirrors", i, "url"));
	}
	tuner->due = true;
}

/* A daemon that was restarted is not waited for until its next turn: procfs is looked at. */
static bool has_ended(struct node_runtime *runtime)
{
	uint64_t started;

	if (runtime->pid <= 0 || runtime->answer != RUNTIME_ANSWERS ||
		process_start("", runtime->pid, &started) != -ESRCH)
		return false;
	runtime->pid = 0;
	runtime->no_cri = false;
	runtime->due_us = 0;
	return true;
}

static void *runtime_sample_request(void *self, bool at_once)
{
	struct runtime_tuner *tuner = self;
	struct runtime_tuner *request;
	uint64_t now = now_us(), next = tuner->sample.next_us;

	if (at_once) {
		tuner->due = true;
		tuner->soon_until_us = now + SOON_FOR_US;
	}
	for (size_t i = 0; i < tuner->sample.n; i++)
		if (has_ended(&tuner->sample.runtimes[i]))
			tuner->due = true;
	if (now < tuner->soon_until_us)
		next = MIN(next, tuner->sample.now_us + SOON_US);
	if (!tuner->once && !tuner->due && now < next)
		return NULL;
	request = must(malloc(sizeof(*request)));
	*request = *tuner;
	runtime_sample_copy(&tuner->sample, &request->sample);
	/* What was written may be in force already. */
	for (size_t i = 0; i < request->sample.n && (tuner->once || now < tuner->soon_until_us);
		i++)
		request->sample.runtimes[i].due_us = 0;
	if (tuner->due)
		request->sample.discover_due_us = 0;
	tuner->due = false;
	return request;
}

/* Gives the names on that were asked for, and forgets those of runtimes that are gone. */
static void pass_names(struct runtime_tuner *tuner, struct runtime_sample *sample)
{
	struct names *names = tuner->host->names;

	for (size_t i = 0; i < tuner->sample.n; i++)
		if (names && !runtime_find(sample, tuner->sample.runtimes[i].found.socket))
			names_replace(names, tuner->sample.runtimes[i].found.socket, NULL, 0);
	for (size_t i = 0; i < sample->n; i++) {
		struct node_runtime *runtime = &sample->runtimes[i];

		if (names && runtime->names.fresh)
			names_replace(names, runtime->found.socket, steal(runtime->names.entries),
				runtime->names.n);
		runtime->names.fresh = false;
	}
}

static void runtime_sample_take(void *self, void *data)
{
	struct runtime_tuner *tuner = self;
	struct runtime_tuner *request = data;

	if (tuner && !request->cancelled) {
		struct runtime_sample before = tuner->sample;

		pass_names(tuner, &request->sample);
		tuner->sample = request->sample;
		request->sample = before;
	}
	runtime_sample_clear(&request->sample);
	free(request);
}

static void runtime_arm(void *self, const void *memory)
{
	((struct runtime_tuner *)self)->recorded =
		((const struct runtime_memory *)memory)->recorded;
}

/* What the administrator could mend, so that the number of downloads can be set. */
static bool is_refused(const struct node_runtime *runtime, const struct runtime_config *config)
{
	const struct containerd_key *key = &runtime->containerd.keys[CONTAINERD_DOWNLOADS];
	uint64_t wanted = config->numbers[CONTAINERD_DOWNLOADS].value;

	return runtime->found.kind == RUNTIME_CONTAINERD && runtime->files_known &&
	       runtime->found.managed_by != RUNTIME_OF_DOCKER && wanted > 0 &&
	       runtime->downloads[0] && !streq(runtime->downloads, "0") &&
	       strtoull(runtime->downloads, NULL, 10) < wanted && key->refusal != CONTAINERD_FINE &&
	       key->refusal != CONTAINERD_CRI_OFF;
}

/* A silent runtime is a condition of its own; a broken file is what is missing. */
static void runtime_explain(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct runtime_tuner *tuner = self;

	for (size_t i = 0; i < tuner->sample.n && !why[0]; i++) {
		const struct node_runtime *runtime = &tuner->sample.runtimes[i];

		copy_text(why, TUNER_WHY_MAX, runtime_file_why(runtime));
		if (!why[0] && is_refused(runtime, &tuner->config))
			copy_text(why, TUNER_WHY_MAX,
				runtime->containerd.keys[CONTAINERD_DOWNLOADS].why);
	}
}

static void runtime_close(void *self)
{
	struct runtime_tuner *tuner = self;

	runtime_sample_clear(&tuner->sample);
	free(tuner);
}

const struct tuner_ops runtime_tuner = {
	.name = "runtime",
	.summary =
		"Sets how many layers the container runtime fetches at once and from which mirrors, "
		"and watches pulls and the image store.",
	.options = runtime_options,
	.limits = runtime_limits,
	.explanations = runtime_explanations,
	.conditions = runtime_conditions,
	.reasons = runtime_reasons,
	.metric_rows = runtime_metric_rows,
	.capabilities = runtime_capabilities,
	.validate = runtime_validate,
	.open = runtime_open,
	.configure = runtime_configure,
	.sample_request = runtime_sample_request,
	.sample = runtime_sample,
	.sample_take = runtime_sample_take,
	.memory_size = sizeof(struct runtime_memory),
	.decide = runtime_decide,
	.arm = runtime_arm,
	.explain = runtime_explain,
	.document_name = "runtime",
	.document = runtime_document,
	.view = &runtime_view,
	.metrics = runtime_metrics,
	.close = runtime_close,
};
