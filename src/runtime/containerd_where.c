/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_plan.h"

#include "base/cleanup.h"

#include <fnmatch.h>

bool plan_own_path(const struct containerd_plan *plan, char path[static PATH_MAX])
{
	_cleanup_free_ char *literal = NULL;
	const struct containerd_file *main_file = plan->config->files.files;
	char **imports = NULL;
	size_t n = 0;
	bool found = false;

	literal = plan->config->files.n > 0 ? plan_value(main_file, "", "imports") : NULL;
	if (!literal || toml_strings(literal, &imports, &n) < 0)
		return false;
	for (size_t i = n; i > 0 && !found; i--) {
		char *name;

		if (containerd_import_path(main_file->path, imports[i - 1], path) < 0)
			continue;
		name = strrchr(path, '/') + 1;
		*(name - 1) = '\0';
		found = !strpbrk(path, "*?[") && strchr(name, '*') &&
			fnmatch(name, CONTAINERD_DROP_IN, 0) == 0 &&
			strlen(path) + sizeof("/" CONTAINERD_DROP_IN) <= SETTING_PATH_MAX;
		if (found)
			strcat(path, "/" CONTAINERD_DROP_IN);
	}
	toml_strings_free(imports, n);
	return found;
}

const struct containerd_file *plan_find(const struct containerd_plan *plan, const char *path)
{
	for (size_t i = 0; i < plan->config->files.n; i++)
		if (streq(plan->config->files.files[i].path, path))
			return &plan->config->files.files[i];
	return NULL;
}

/* True when the file is read after our own one, or may be. */
static bool is_after(
	const struct containerd_plan *plan, const struct containerd_file *file, const char *own)
{
	const struct containerd_file *ours = plan_find(plan, own);
	size_t directory = (size_t)(strrchr(own, '/') - own) + 1;

	if (ours)
		return file > ours;
	if (strncmp(file->path, own, directory) == 0 && !strchr(file->path + directory, '/'))
		return strcmp(file->path, own) > 0;
	return file != plan->config->files.files; /* from another import, whose turn is not known */
}

const struct containerd_file *plan_winner_over(const struct containerd_plan *plan, const char *own)
{
	for (size_t i = plan->config->files.n; i > 0; i--) {
		const struct containerd_file *file = &plan->config->files.files[i - 1];

		if (!streq(file->path, own) && is_after(plan, file, own) &&
			plan_sets_the_key(plan, file))
			return file;
	}
	return NULL;
}

const struct containerd_file *plan_file_that_counts(const struct containerd_plan *plan)
{
	for (size_t i = plan->config->files.n; i > 0; i--) {
		const struct containerd_file *file = &plan->config->files.files[i - 1];

		if (plan->generation->merges ? plan_sets_the_key(plan, file)
					     : plan_has_table(file, plan_cri_table(plan, file)))
			return file;
	}
	return plan->config->files.n > 0 ? plan->config->files.files : NULL;
}
