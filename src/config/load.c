/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#define FNV_OFFSET UINT64_C(14695981039346656037)
#define FNV_PRIME  UINT64_C(1099511628211)

struct loading {
	struct config *config;
	struct config_fault_list *faults, *notices;
};

/* A copy of a name that lives as long as the configuration; NULL without memory. */
static const char *keep_name(struct config *config, const char *prefix, const char *name)
{
	if (grow_array(&config->names, config->n_names, &config->names_allocated,
		    sizeof(*config->names)) < 0 ||
		asprintf(&config->names[config->n_names], "%s%s", prefix, name) < 0)
		return NULL;
	return config->names[config->n_names++];
}

struct node *node_child(const struct node *map, const char *key)
{
	for (struct node *child = map->kind == NODE_MAP ? map->children : NULL; child;
		child = child->next)
		if (streq(child->key, key))
			return child;
	return NULL;
}

/* Lays one file's tree over another: maps merge, everything else replaces. Takes the nodes over. */
static void merge(struct node *into, struct node *from)
{
	for (struct node *child = steal(from->children), *next; child; child = next) {
		struct node **at = &into->children;

		next = child->next;
		while (*at && !streq((*at)->key, child->key))
			at = &(*at)->next;
		if (*at && (*at)->kind == NODE_MAP && child->kind == NODE_MAP && !child->whole) {
			merge(*at, child);
			node_free(child);
			continue;
		}
		child->next = NULL;
		if (*at) {
			child->cleared = true;
			child->next = (*at)->next;
			node_free(*at);
		}
		*at = child;
	}
}

static int take_text(const struct loading *loading, const char *file, const char *text, size_t len)
{
	_cleanup_(cleanup_node_free) struct node *root = NULL;
	struct config *config = loading->config;
	const char *name = keep_name(config, "", file);
	int r = name ? document_parse(name, text, len, &root, loading->faults) : -ENOMEM;

	if (r < 0 || !root)
		return r;
	check_document(config->tables, config->root, root, loading->faults, loading->notices);
	if (!config->root)
		config->root = steal(root);
	else
		merge(config->root, root);
	return 0;
}

static int file_fault(const struct loading *loading, const char *path, int error)
{
	struct config_place place = {.file = path, .line = 1, .column = 1};
	struct config_fault_list *faults = loading->faults;

	switch (error) {
	case -ENOMEM:
		return error;
	case -ENOENT:
		config_fault_add(faults, &place, "no such file: make it, or name another one");
		break;
	case -EFBIG:
		config_fault_add(faults, &place,
			"the file is larger than %d kB: this is no configuration of headroom",
			CONFIG_FILE_MAX / 1024);
		break;
	case -EISDIR:
		config_fault_add(faults, &place, "a directory, not a file: remove or rename it");
		break;
	case -EINVAL:
	case -ENXIO: /* a socket */
		config_fault_add(
			faults, &place, "neither a file nor a link to one: put a plain file here");
		break;
	default:
		config_fault_add(faults, &place,
			"cannot be read: %s: check the path and give read access to it",
			strerror(-error));
	}
	return -EINVAL;
}

static int take_file(const struct loading *loading, const char *path, bool optional)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = read_file(path, CONFIG_FILE_MAX, &text, &len);

	if (r == -ENOENT && optional)
		return 0;
	return r < 0 ? file_fault(loading, path, r) : take_text(loading, path, text, len);
}

/* Hidden names are not files of a person's: editors' backups, and a ConfigMap's ..data. */
static int is_source(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > strlen(".yaml") &&
	       streq(entry->d_name + len - strlen(".yaml"), ".yaml");
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/*
 * Calls take for the *.yaml of a directory in name order; a missing directory has none. All are
 * taken, so that all faults are reported at once: the first result that is no 0, or -errno.
 */
static int for_each_source(
	const char *directory, int (*take)(const char *path, void *userdata), void *userdata)
{
	struct dirent **entries = NULL;
	int n = scandir(directory, &entries, is_source, by_bytes), result = 0;

	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];
		int r;

		snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
		free(entries[i]);
		r = take(path, userdata);
		result = result == 0 ? r : result;
	}
	free(entries);
	return result;
}

static int take_source(const char *path, void *userdata)
{
	int r = take_file(userdata, path, false);

	return r == -EINVAL ? 0 : r; /* told as a fault */
}

/* ---- from the tree to the rows ---- */

/* True when the row's default is one of its words. */
static bool default_is_word(const struct config_option *option)
{
	for (const char *const *word = option->words; word && *word && option->def; word++)
		if (streq(*word, option->def))
			return true;
	return false;
}

/* The list of a row's default, [] without one. A row that is wrong is found by the tables' tests.
 */
static int parse_default_list(struct row *row)
{
	struct config_option options[2] = {*row->option, {0}};
	const struct config_option *const tables[] = {options, NULL};
	_cleanup_(cleanup_node_free) struct node *root = NULL;
	_cleanup_free_ char *text = NULL;
	struct config_fault_list faults = {0};
	int r, len = asprintf(&text, "list: %s", row->option->def ? row->option->def : "[]");

	options[0].name = "list";
	r = len < 0 ? -ENOMEM : document_parse("default", text, (size_t)len, &root, &faults);
	if (r == 0)
		check_document(tables, NULL, root, &faults, &faults);
	if (faults.n > 0 || (root && root->children->kind != NODE_LIST))
		abort();
	if (r == 0)
		row->fallback = steal(root->children);
	return r;
}

static int add_row(struct config *config, const struct config_option *option)
{
	struct row *row = &config->rows[config->n_rows++];

	row->option = option;
	return option->type == OPTION_LIST && !default_is_word(option) ? parse_default_list(row)
								       : 0;
}

static int new_config(const struct config_option *const *tables, struct config **ret)
{
	_cleanup_(cleanup_config_free) struct config *config = calloc(1, sizeof(*config));
	size_t n = 0;

	if (!config)
		return -ENOMEM;
	for (size_t t = 0; tables[t]; t++)
		for (const struct config_option *option = tables[t]; option->name; option++)
			n++;
	config->tables = tables;
	config->rows = calloc(n + 1, sizeof(*config->rows));
	if (!config->rows)
		return -ENOMEM;
	for (; *tables; tables++)
		for (const struct config_option *option = *tables; option->name; option++) {
			int r = add_row(config, option);

			if (r < 0)
				return r;
		}
	*ret = steal(config);
	return 0;
}

void config_free(struct config *config)
{
	for (size_t i = 0; i < config->n_rows; i++)
		if (config->rows[i].fallback)
			node_free(config->rows[i].fallback);
	for (size_t i = 0; i < config->n_names; i++)
		free(config->names[i]);
	if (config->root)
		node_free(config->root);
	free(config->rows);
	free(config->names);
	free(config->sysctls);
	free(config);
}

/*
 * What the files say of a row; NULL for nothing. cleared: they have taken away what a profile may
 * say of it, by a null or by another value in its place or above it.
 */
static const struct node *find_node(const struct config *config, const char *name, bool *cleared)
{
	const struct node *node = config->root;
	char part[OPTION_NAME_MAX];

	*cleared = false;
	while (node && *name) {
		size_t n = strcspn(name, ".");

		snprintf(part, sizeof(part), "%.*s", (int)n, name);
		name += n + (name[n] == '.' ? 1 : 0);
		*cleared = *cleared || node->cleared || node->kind != NODE_MAP;
		node = node_child(node, part);
	}
	*cleared = *cleared || (node && node->kind == NODE_NULL);
	return node && node->kind != NODE_NULL ? node : NULL;
}

static const char *profile_of(const struct config *config)
{
	const struct row *row = config_row(config, "profile");

	return row && row->parsed.choice >= 0 ? row->option->words[row->parsed.choice] : NULL;
}

static const struct profile_row *find_in_profile(const char *profile, const char *name)
{
	for (const struct profile_row *row = profile_rows; profile && row->name; row++)
		if (streq(row->profile, profile) && streq(row->name, name))
			return row;
	return NULL;
}

/* A value that was checked, or is a table's own. */
static struct option_value parse_again(const struct config_option *option, const char *text)
{
	struct option_value value = {.choice = -1};
	char why[VALUE_WHY_MAX];

	if (value_parse(option, text, &value, why) < 0)
		abort();
	return value;
}

static void settle_row(struct config *config, struct row *row, const struct config_place *profile)
{
	const struct config_option *option = row->option;
	const struct profile_row *named = NULL;
	bool cleared;
	const struct node *node = find_node(config, option->name, &cleared);

	*row = (struct row){.option = option,
		.fallback = row->fallback,
		.list = row->fallback,
		.text = "",
		.parsed.choice = -1,
		.place.file = "default"};
	if (node)
		row->place = node_place(node);
	if (option->type == OPTION_SYSCTLS || option->type == OPTION_RESERVED)
		return;
	if (node && node->kind == NODE_MAP) { /* in the place of a word, such as keep */
		row->list = NULL;
		return;
	}
	if (node && node->kind == NODE_LIST) {
		row->list = node;
		return;
	}
	if (!node && !cleared && profile->file)
		named = find_in_profile(profile->file + strlen("profile "), option->name);
	if (named)
		row->place = *profile;
	row->text = node ? node->text : named ? named->value : option->def ? option->def : "";
	if (node || named)
		row->list = NULL;
	if (node || named || (option->def && !row->fallback))
		row->parsed = parse_again(option, row->text);
}

static int add_sysctl(struct config *config, const char *name, const char *value, bool exact,
	const struct config_place *place)
{
	struct config_sysctl *sysctl;
	char why[VALUE_WHY_MAX];

	if (grow_array(&config->sysctls, config->n_sysctls, &config->sysctls_allocated,
		    sizeof(*config->sysctls)) < 0)
		return -ENOMEM;
	sysctl = &config->sysctls[config->n_sysctls++];
	copy_text(sysctl->name, sizeof(sysctl->name), name);
	(void)sysctl_value_parse(value, sysctl->value, why);
	sysctl->exact = exact;
	sysctl->place = *place;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct config_sysctl *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int settle_sysctls(
	struct config *config, const char *map_name, const struct config_place *profile)
{
	bool cleared, exact;
	const struct node *map = find_node(config, map_name, &cleared), *value;
	char prefix[OPTION_NAME_MAX + 1];
	int r = 0;

	snprintf(prefix, sizeof(prefix), "%s.", map_name);
	cleared = cleared || (map && map->cleared);
	for (const struct profile_row *row = profile_rows; r == 0 && row->name; row++)
		if (profile->file && !cleared && starts_with(row->name, prefix) &&
			streq(row->profile, profile->file + strlen("profile ")) &&
			!option_find(config->tables, row->name) &&
			!(map && node_child(map, row->name + strlen(prefix))))
			r = add_sysctl(
				config, row->name + strlen(prefix), row->value, false, profile);
	for (const struct node *node = map ? map->children : NULL; r == 0 && node;
		node = node->next) {
		struct config_place place = node_place(node);

		if (!node->whole || node->kind == NODE_NULL)
			continue; /* an option beside the sysctls, or one that is not wanted */
		value = sysctl_value_node(node, &exact);
		place = node_place(value);
		r = add_sysctl(config, node->key, value->text, exact, &place);
	}
	if (config->n_sysctls > 1)
		qsort(config->sysctls, config->n_sysctls, sizeof(*config->sysctls), by_name);
	return r;
}

/* Hands the configuration out if nothing was found wrong with it. */
static int settle(struct config **config, size_t faults_before, struct config_fault_list *faults,
	struct config **ret)
{
	struct config_place profile = {0};
	const char *name;
	int r = 0;

	if (faults->n > faults_before)
		return -EINVAL;
	for (size_t i = 0; i < (*config)->n_rows; i++)
		if (streq((*config)->rows[i].option->name, "profile"))
			settle_row(*config, &(*config)->rows[i], &profile);
	name = profile_of(*config);
	if (name)
		profile.file = keep_name(*config, "profile ", name);
	if (name && !profile.file)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < (*config)->n_rows; i++) {
		struct row *row = &(*config)->rows[i];

		settle_row(*config, row, &profile);
		if (row->option->type == OPTION_SYSCTLS)
			r = settle_sysctls(*config, row->option->name, &profile);
	}
	if (r < 0)
		return r;
	rules_check(*config, faults);
	if (faults->n > faults_before)
		return -EINVAL;
	*ret = steal(*config);
	return 0;
}

int config_load_text(const char *name, const char *text, size_t len,
	const struct config_option *const *tables, struct config **ret,
	struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	size_t before = faults->n;
	int r = new_config(tables, &config);

	if (r == 0)
		r = take_text(&(struct loading){config, faults, notices}, name, text, len);
	return r < 0 ? r : settle(&config, before, faults, ret);
}

int config_load(const struct config_source *source, const struct config_option *const *tables,
	struct config **ret, struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	struct loading loading = {.faults = faults, .notices = notices};
	size_t before = faults->n;
	int r = new_config(tables, &config);

	loading.config = config;
	if (r == 0 && source->file)
		r = take_file(&loading, source->file, source->optional);
	if ((r == 0 || r == -EINVAL) && source->directory) {
		r = for_each_source(source->directory, take_source, &loading);
		if (r < 0 && r != -ENOMEM)
			r = file_fault(&loading, source->directory, r);
	}
	if (r < 0 && r != -EINVAL)
		return r;
	return faults->n > before ? -EINVAL : settle(&config, before, faults, ret);
}

/* ---- has it changed? ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * FNV_PRIME;
	return hash;
}

/* What cannot be read has a signature too: its errno. */
static int mix_file(const char *path, void *userdata)
{
	uint64_t *hash = userdata;
	struct stat st = {0};
	int error = stat(path, &st) < 0 ? errno : 0;

	*hash = mix(*hash, path, strlen(path) + 1);
	*hash = mix(*hash, &error, sizeof(error));
	*hash = mix(*hash, &st.st_dev, sizeof(st.st_dev));
	*hash = mix(*hash, &st.st_ino, sizeof(st.st_ino));
	*hash = mix(*hash, &st.st_size, sizeof(st.st_size));
	*hash = mix(*hash, &st.st_mtim, sizeof(st.st_mtim));
	*hash = mix(*hash, &st.st_ctim, sizeof(st.st_ctim));
	return 0;
}

int config_source_each(const struct config_source *source,
	int (*take)(const char *path, void *userdata), void *userdata)
{
	int r = source->file ? take(source->file, userdata) : 0;

	return r == 0 && source->directory ? for_each_source(source->directory, take, userdata) : r;
}

uint64_t config_source_signature(const struct config_source *source)
{
	uint64_t hash = FNV_OFFSET;

	if (source->directory)
		mix_file(source->directory, &hash);
	/* A directory that cannot be read has no files to read; loading says why. */
	(void)config_source_each(source, mix_file, &hash);
	return hash;
}
