/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_plan.h"

#include "base/cleanup.h"
#include "base/parse.h"

#include <errno.h>
#include <stdarg.h>

static const struct containerd_row rows[CONTAINERD_SETTINGS] = {
	[CONTAINERD_DOWNLOADS] = {"", "max_concurrent_downloads"},
	[CONTAINERD_PROGRESS_TIMEOUT] = {"", "image_pull_progress_timeout"},
	[CONTAINERD_REGISTRY_DIRECTORY] = {".registry", "config_path"},
};

static void refuse(struct containerd_plan *plan, enum containerd_refusal refusal,
	const char *format, ...) PRINTF_LIKE(3, 4);

static void refuse(
	struct containerd_plan *plan, enum containerd_refusal refusal, const char *format, ...)
{
	struct containerd_edit *edit = plan->edit;
	va_list args;

	edit->method = CONTAINERD_UNSUPPORTED;
	edit->refusal = refusal;
	va_start(args, format);
	vsnprintf(edit->why, sizeof(edit->why), format, args);
	va_end(args);
}

static int write_literal(struct containerd_plan *plan, const char *value)
{
	_cleanup_free_ char *quoted = NULL;
	unsigned long long us;
	uint64_t count;
	int r;

	if (plan->setting == CONTAINERD_DOWNLOADS) {
		if (parse_count(value, &count) < 0 || count == 0 || count > INT_MAX)
			return -EINVAL;
		copy_text(plan->edit->literal, sizeof(plan->edit->literal), value);
		return 0;
	}
	if (plan->setting == CONTAINERD_PROGRESS_TIMEOUT &&
		containerd_duration_parse(value, &us) < 0)
		return -EINVAL;
	if (plan->setting == CONTAINERD_REGISTRY_DIRECTORY && value[0] != '/')
		return -EINVAL;
	r = toml_quote(value, &quoted);
	if (r < 0)
		return r;
	return copy_text(plan->edit->literal, sizeof(plan->edit->literal), quoted) ? 0 : -EINVAL;
}

static void write_effective(struct containerd_plan *plan)
{
	_cleanup_(toml_value_clear) struct toml_value value = {0};
	struct containerd_edit *edit = plan->edit;
	const char *dump = plan->config->dump;
	char table[PLAN_TABLE_MAX];

	plan_dump_table(plan, table);
	snprintf(
		edit->effective_path, sizeof(edit->effective_path), "%s.%s", table, plan->row->key);
	if (!dump || toml_get(dump, strlen(dump), table, plan->row->key, &value, NULL) < 0)
		return;
	copy_text(edit->effective, sizeof(edit->effective), value.text);
	if (plan->setting == CONTAINERD_REGISTRY_DIRECTORY && edit->effective[0] == '\0' &&
		plan->generation->registry_default &&
		!plan_any_below(plan, "registry.mirrors", "") &&
		!plan_any_below(plan, "registry.configs", "") &&
		!plan_any_below(plan, "registry.auths", ""))
		copy_text(edit->effective, sizeof(edit->effective),
			plan->generation->registry_default);
}

/* Writes where, what stands there, and refuses what may not be written. */
static void write_place(
	struct containerd_plan *plan, const char *path, const struct containerd_file *file)
{
	struct containerd_edit *edit = plan->edit;
	const char *cure = plan_generated(plan, path, file);
	_cleanup_free_ char *on_disk = NULL;

	copy_text(edit->path, sizeof(edit->path), path);
	copy_text(edit->key, sizeof(edit->key), plan->row->key);
	plan_table(plan, file, edit->table);
	on_disk = file ? plan_value(file, edit->table, edit->key) : NULL;
	if (on_disk)
		copy_text(edit->on_disk, sizeof(edit->on_disk), on_disk);
	if (cure)
		refuse(plan, CONTAINERD_GENERATED, "%s: %s", path, cure);
	else if (file ? file->read_only : plan->config->read_only)
		refuse(plan, CONTAINERD_READ_ONLY, "%s is on a read-only file system", path);
}

static void find_place(struct containerd_plan *plan)
{
	const struct containerd_file *file = NULL;
	char own[PATH_MAX];

	plan->edit->method = CONTAINERD_IN_PLACE;
	if (plan->generation->merges && plan_own_path(plan, own)) {
		file = plan_winner_over(plan, own);
		if (!file) {
			file = plan_find(plan, own);
			plan->edit->method = CONTAINERD_OWN_FILE;
			if (!file)
				copy_text(plan->edit->begin, sizeof(plan->edit->begin),
					CONTAINERD_OURS);
			write_place(plan, own, file);
			return;
		}
	} else {
		file = plan_file_that_counts(plan);
	}
	if (!file)
		copy_text(plan->edit->begin, sizeof(plan->edit->begin), plan->generation->begin);
	write_place(plan, file ? file->path : plan->config->main_path, file);
}

/* True when nothing about the whole configuration speaks against it. */
static bool check_config(struct containerd_plan *plan)
{
	for (size_t i = 0; i < plan->config->files.n; i++) {
		const struct containerd_file *file = &plan->config->files.files[i];
		long long version = plan_version(file);

		if (version < 0 || version > plan->generation->newest) {
			refuse(plan, CONTAINERD_NOT_TOML,
				"%s is of a version that containerd %s does not read", file->path,
				plan->config->version);
			return false;
		}
	}
	if (plan_cri_is_off(plan)) {
		refuse(plan, CONTAINERD_CRI_OFF, "%s: disabled_plugins has the CRI plugin",
			plan->config->main_path);
		return false;
	}
	return true;
}

/* With these config_path keeps the CRI plugin from starting: its ValidatePluginConfig. */
static bool check_registry(struct containerd_plan *plan)
{
	const char *what = NULL;

	if (plan_any_below(plan, "registry.mirrors", ""))
		what = "registry.mirrors";
	else if (!plan->generation->merges && plan_any_below(plan, "registry.configs", ".tls"))
		what = "tls in registry.configs";
	if (!what)
		return true;
	refuse(plan, CONTAINERD_EXCLUDED,
		"%s: %s excludes config_path: move it to hosts.toml files first",
		plan->config->main_path, what);
	return false;
}

int containerd_config_plan(const struct containerd_config *config, enum containerd_setting setting,
	const char *value, struct containerd_edit *edit)
{
	struct containerd_edit result = {.method = CONTAINERD_UNSUPPORTED};
	struct containerd_plan plan = {
		.config = config,
		.generation = containerd_generation_of(config->version),
		.setting = setting,
		.row = &rows[setting],
		.edit = &result,
	};
	int r = strlen(config->main_path) < sizeof(result.path) ? write_literal(&plan, value)
								: -ENAMETOOLONG;

	if (r < 0)
		return r;
	if (!plan.generation) {
		refuse(&plan, CONTAINERD_UNKNOWN_VERSION,
			"containerd \"%.32s\": this program knows 1.6 to 2.x",
			config->version ? config->version : "");
	} else if (setting == CONTAINERD_PROGRESS_TIMEOUT && !plan.generation->progress) {
		refuse(&plan, CONTAINERD_NO_SUCH_KEY,
			"containerd %.32s has no %s: it came with 1.7", config->version,
			plan.row->key);
	} else if (check_config(&plan)) {
		plan.transfer = setting == CONTAINERD_DOWNLOADS && plan.generation->transfer &&
				!plan_pulls_the_old_way(&plan);
		write_effective(&plan);
		if (setting != CONTAINERD_REGISTRY_DIRECTORY || check_registry(&plan))
			find_place(&plan);
	}
	*edit = result;
	return 0;
}
