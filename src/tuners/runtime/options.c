/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"
#include "tuners/table.h"

#include "base/util.h"
#include "config/config.h"

#include <stdio.h>

static const char *const kind_words[] = {"auto", "containerd", "docker", "crio", NULL};
static const char *const keep_words[] = {"keep", NULL};
static const char *const restart_words[] = {"never", "when-idle", "now", NULL};

static const struct config_option mirror_items[] = {
	{.name = "registry",
		.type = OPTION_TEXT,
		.max = REGISTRY_NAME_MAX - 1,
		.def = HOSTS_TOML_DEFAULT,
		.sentence = "The registry that it stands in for, such as docker.io or "
			    "registry.example:5000; _default: every one without a mirror of its "
			    "own."},
	{.name = "url",
		.type = OPTION_TEXT,
		.max = REGISTRY_URL_MAX - 1,
		.sentence = "Where the mirror is, such as http://127.0.0.1:30020."},
	{0},
};

const struct config_option runtime_options[] = {
	{.name = "runtime.mode",
		.type = OPTION_CHOICE,
		.words = tuner_mode_words,
		.sentence = "This tuner's own mode; empty: the agent's."},
	{.name = "runtime.kind",
		.type = OPTION_CHOICE,
		.words = kind_words,
		.def = "auto",
		.sentence =
			"Which container runtime to look after. auto: every one that is found."},
	{.name = "runtime.max_concurrent_downloads",
		.type = OPTION_COUNT,
		.min = 1,
		.max = 1000,
		.words = keep_words,
		.unit = "layers",
		.def = "10",
		.sentence = "How many layers the runtime fetches at once. As a default it only "
			    "raises; given in a file it is set as it is. keep: leave what it has."},
	{.name = "runtime.pull_progress_timeout",
		.type = OPTION_DURATION,
		.min = 10 * USEC_PER_SEC,
		.max = 24 * UINT64_C(3600) * USEC_PER_SEC,
		.words = keep_words,
		.def = "30m",
		.sentence = "containerd gives up a pull that makes no progress for so long. As a "
			    "default it only raises. keep: leave what it has."},
	{.name = "runtime.restart",
		.type = OPTION_CHOICE,
		.words = restart_words,
		.def = "never",
		.sentence = "containerd takes its configuration only when it starts. never: leave "
			    "that to others, RuntimeRestartPending says that it is due. when-idle: "
			    "restart it when nothing is being pulled, at most once an hour. now: "
			    "at once. Containers go on running meanwhile; a unit that would stop "
			    "them, or others with it, is never restarted."},
	{.name = "runtime.mirrors",
		.type = OPTION_LIST,
		.max = RUNTIME_MIRROR_MAX,
		.items = mirror_items,
		.def = "[]",
		.sentence = "Mirrors of registries, in the order in which to ask them; those on "
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

void runtime_validate(const struct config *config, struct config_fault_list *faults)
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

static bool is_given(const struct config *config, const char *name)
{
	return config_where(config, name).line > 0;
}

void runtime_read_config(const struct config *config, struct runtime_config *ret)
{
	*ret = (struct runtime_config){
		.kind = config_choice(config, "runtime.kind"),
		.downloads = config_count(config, "runtime.max_concurrent_downloads", 0),
		.downloads_exact = is_given(config, "runtime.max_concurrent_downloads"),
		.timeout_exact = is_given(config, "runtime.pull_progress_timeout"),
		.restart = (enum restart_policy)config_choice(config, "runtime.restart"),
		.n_mirrors = MIN(config_list(config, "runtime.mirrors"), RUNTIME_MIRROR_MAX),
	};
	if (config_choice(config, "runtime.pull_progress_timeout") < 0)
		ret->timeout_us = config_duration(config, "runtime.pull_progress_timeout");
	for (size_t i = 0; i < ret->n_mirrors; i++) {
		struct runtime_mirror *mirror = &ret->mirrors[i];

		copy_text(mirror->registry, sizeof(mirror->registry),
			config_item(config, "runtime.mirrors", i, "registry"));
		(void)registry_copy_url(mirror->url, sizeof(mirror->url),
			config_item(config, "runtime.mirrors", i, "url"));
	}
}

bool runtime_is_wanted(const struct runtime_config *config, const struct runtime *runtime)
{
	return config->kind <= 0 ||
	       streq(kind_words[config->kind], runtime_kind_names[runtime->kind]);
}

bool runtime_mirror_is_dockers(const struct runtime_mirror *mirror)
{
	return streq(mirror->registry, HOSTS_TOML_DEFAULT) || streq(mirror->registry, "docker.io");
}
