/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_plan.h"

#include "base/cleanup.h"
#include "base/parse.h"

#include <errno.h>

/* Files that another program writes anew, whenever it starts. */
static const struct {
	const char *path; /* part of it */
	const char *text; /* in a comment at the beginning */
	const char *cure;
} generated[] = {
	{"/rancher/", NULL, "k3s and RKE2 write it: use config.toml.tmpl beside it"},
	{"/snap.docker/", NULL, "dockerd writes it: use Docker's daemon.json"},
	{"/docker/containerd/", NULL, "dockerd writes it: use Docker's daemon.json"},
	{"/microk8s/", NULL, "MicroK8s writes it: use containerd-template.toml beside it"},
	{"/run/k0s/", NULL, "k0s writes it: use /etc/k0s/containerd.d"},
	{NULL, "k0s_managed=true", "k0s writes it: use /etc/k0s/containerd.d"},
	{NULL, "DO NOT EDIT", "it says that it is generated: change what it is made from"},
};

#define COMMENT_MAX 512 /* bytes in which such a comment begins */

static const struct containerd_file *files_of(const struct containerd_plan *plan)
{
	return plan->config->files.files;
}

char *plan_value(const struct containerd_file *file, const char *table, const char *key)
{
	struct toml_value value;

	return toml_get(file->text, file->len, table, key, &value, NULL) == 0 ? value.text : NULL;
}

bool plan_has_table(const struct containerd_file *file, const char *table)
{
	_cleanup_(toml_value_clear) struct toml_value value = {0};

	return toml_get(file->text, file->len, "", table, &value, NULL) == -EEXIST;
}

long long plan_version(const struct containerd_file *file)
{
	_cleanup_free_ char *text = plan_value(file, "", "version");
	uint64_t version;

	if (!text)
		return 0;
	return parse_count(text, &version) == 0 && version < 1000 ? (long long)version : -1;
}

/* The version that the names in a file follow. file may be NULL: one that is to be made. */
static long long version_in_force(
	const struct containerd_plan *plan, const struct containerd_file *file)
{
	long long version = 0;

	if (plan->generation->versions == CONTAINERD_VERSION_EACH)
		return file ? plan_version(file) : 0;
	if (plan->generation->versions == CONTAINERD_VERSION_SPREAD)
		version = plan->generation->newest;
	for (size_t i = 0; i < plan->config->files.n; i++) {
		long long own = plan_version(&files_of(plan)[i]);
		long long least = plan->generation->versions == CONTAINERD_VERSION_SPREAD ? 2 : 1;

		if (own >= least)
			version = own;
	}
	if (plan->config->files.n == 0)
		return plan->generation->versions == CONTAINERD_VERSION_LAST ? 2 : 3;
	return MAX(version, 1);
}

const char *plan_cri_table(const struct containerd_plan *plan, const struct containerd_file *file)
{
	long long version = version_in_force(plan, file);

	if (plan->generation->versions == CONTAINERD_VERSION_LAST)
		return version < 2 ? CRI_TABLE_1 : CRI_TABLE_2;
	if (version == 2)
		return CRI_TABLE_2;
	/* 2.3 and later migrate old names even in a file without a version, over the new ones. */
	if (version < 2 && file && plan->generation->versions == CONTAINERD_VERSION_EACH) {
		if (plan_has_table(file, CRI_TABLE_1))
			return CRI_TABLE_1;
		if (plan_has_table(file, CRI_TABLE_2))
			return CRI_TABLE_2;
	}
	return IMAGES_TABLE;
}

void plan_table(const struct containerd_plan *plan, const struct containerd_file *file,
	char table[static PLAN_TABLE_MAX])
{
	snprintf(table, PLAN_TABLE_MAX, "%s%s",
		plan->transfer ? TRANSFER_TABLE : plan_cri_table(plan, file),
		plan->transfer ? "" : plan->row->sub);
}

void plan_dump_table(const struct containerd_plan *plan, char table[static PLAN_TABLE_MAX])
{
	const char *cri = plan->generation->merges ? IMAGES_TABLE : CRI_TABLE_2;

	snprintf(table, PLAN_TABLE_MAX, "%s%s", plan->transfer ? TRANSFER_TABLE : cri,
		plan->transfer ? "" : plan->row->sub);
}

bool plan_sets_the_key(const struct containerd_plan *plan, const struct containerd_file *file)
{
	_cleanup_free_ char *text = NULL;
	char table[PLAN_TABLE_MAX];

	plan_table(plan, file, table);
	text = plan_value(file, table, plan->row->key);
	return text != NULL;
}

/* The value of a key of the CRI plugin's images part, by the last file that has it. */
static char *value_in_files(const struct containerd_plan *plan, const char *key)
{
	const struct containerd_config *config = plan->config;
	char *text = NULL;

	for (size_t i = config->files.n; i > 0 && !text; i--) {
		const struct containerd_file *file = &config->files.files[i - 1];
		const char *cri = plan_cri_table(plan, file);
		char table[PLAN_TABLE_MAX];

		text = plan_value(file, cri, key);
		/* Before version 3 some of them stood a table lower: migrateConfig(). */
		snprintf(table, sizeof(table), "%s.containerd", cri);
		if (!text && !streq(cri, IMAGES_TABLE))
			text = plan_value(file, table, key);
	}
	return text;
}

/* Its effective value, by the dump where there is one. */
static char *cri_value(const struct containerd_plan *plan, const char *key)
{
	const char *dump = plan->config->dump;
	struct toml_value value;

	if (!dump)
		return value_in_files(plan, key);
	return toml_get(dump, strlen(dump), IMAGES_TABLE, key, &value, NULL) == 0 ? value.text
										  : NULL;
}

static bool cri_value_is(const struct containerd_plan *plan, const char *key, const char *wanted)
{
	_cleanup_free_ char *text = cri_value(plan, key);

	return text && streq(text, wanted);
}

struct below {
	const char *table;
	const char *part;
};

static int is_below(const char *path, const struct toml_value *value, void *userdata)
{
	const struct below *below = userdata;
	size_t n = strlen(below->table);

	(void)value;
	return strncmp(path, below->table, n) == 0 && path[n] == '.' &&
	       strstr(path + n, below->part);
}

bool plan_any_below(const struct containerd_plan *plan, const char *sub, const char *part)
{
	for (size_t i = 0; i < plan->config->files.n; i++) {
		const struct containerd_file *file = &files_of(plan)[i];
		char table[PLAN_TABLE_MAX];
		struct below below = {table, part};

		snprintf(table, sizeof(table), "%s.%s", plan_cri_table(plan, file), sub);
		if (toml_walk(file->text, file->len, is_below, &below, NULL) == 1)
			return true;
	}
	return false;
}

/*
 * What makes 2.1 and later pull the old way, by the client and the CRI key:
 * CheckLocalImagePullConfigs in internal/cri/config/config.go.
 */
bool plan_pulls_the_old_way(const struct containerd_plan *plan)
{
	_cleanup_free_ char *downloads = cri_value(plan, "max_concurrent_downloads");

	return (downloads && !streq(downloads, "3")) ||
	       cri_value_is(plan, "use_local_image_pull", "true") ||
	       cri_value_is(plan, "disable_snapshot_annotations", "false") ||
	       cri_value_is(plan, "discard_unpacked_layers", "true") ||
	       cri_value_is(plan, "image_pull_with_sync_fs", "true") ||
	       plan_any_below(plan, "registry.mirrors", "") ||
	       plan_any_below(plan, "registry.configs", "") ||
	       plan_any_below(plan, "registry.auths", "");
}

bool plan_cri_is_off(const struct containerd_plan *plan)
{
	static const char *const names[] = {
		"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images"};
	bool found = false;

	for (size_t i = 0; i < plan->config->files.n; i++) {
		_cleanup_free_ char *literal =
			plan_value(&files_of(plan)[i], "", "disabled_plugins");
		char **plugins = NULL;
		size_t n = 0;

		if (!literal || toml_strings(literal, &plugins, &n) < 0)
			continue;
		for (size_t j = 0; j < n; j++)
			for (size_t k = 0; k < ARRAY_SIZE(names); k++)
				found = found || streq(plugins[j], names[k]);
		toml_strings_free(plugins, n);
	}
	return found;
}

/* True when the beginning of the text is a comment that has these words. */
static bool comment_says(const struct containerd_file *file, const char *words)
{
	size_t at = 0;

	while (at < file->len && at < COMMENT_MAX && strchr("#\r\n", file->text[at])) {
		const char *line = file->text + at;
		const char *end = memchr(line, '\n', file->len - at);
		size_t n = end ? (size_t)(end - line) : file->len - at;

		if (memmem(line, n, words, strlen(words)))
			return true;
		at += n + 1;
	}
	return false;
}

const char *plan_generated(
	const struct containerd_plan *plan, const char *path, const struct containerd_file *file)
{
	if (strstr(plan->config->version, "-k3s"))
		return generated[0].cure;
	for (size_t i = 0; i < ARRAY_SIZE(generated); i++)
		if ((generated[i].path && strstr(path, generated[i].path)) ||
			(generated[i].text && file && comment_says(file, generated[i].text)))
			return generated[i].cure;
	return NULL;
}
