/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include "base/file.h"
#include "config/merge.h"
#include "config/source.h"
#include "config/store.h"

#include <errno.h>
#include <limits.h>
#include <zlib.h>

struct loading {
	struct config *config;
	struct config_fault_list *faults, *notices;
};

static int take_text(const struct loading *loading, const char *file, const char *text, size_t len)
{
	_cleanup_(cleanup_node_free) struct node *root = NULL;
	const char *name = store_name(loading->config, file);
	int r;

	if (!name)
		return -ENOMEM;
	r = document_parse(name, text, len, &root, loading->faults);
	if (r < 0 || !root)
		return r;
	return merge_document(loading->config, name, root, loading->faults, loading->notices);
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

/* 0, or -EINVAL with a fault: the others are read all the same, so that all faults are told at
 * once. */
static int take_file(const struct loading *loading, const char *path, bool optional)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = read_file(path, CONFIG_FILE_MAX, &text, &len);

	if (r == -ENOENT && optional)
		return 0;
	if (r < 0)
		return file_fault(loading, path, r);
	return take_text(loading, path, text, len);
}

static int take_directory(const struct loading *loading, const char *directory)
{
	_cleanup_(source_list_clear) struct source_list list = {0};
	int result = 0;
	int r = source_list_read(directory, &list);

	if (r < 0)
		return file_fault(loading, directory, r);
	for (size_t i = 0; i < list.n; i++) {
		r = take_file(loading, list.paths[i], false);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			result = r;
	}
	return result;
}

/* Hands the configuration out if nothing was found wrong with it. */
static int settle(struct config **config, size_t faults_before, struct config_fault_list *faults,
	struct config **ret)
{
	int r;

	if (faults->n > faults_before)
		return -EINVAL;
	r = store_settle(*config);
	if (r < 0)
		return r;
	if (!rules_check(*config, faults))
		return faults->n > faults_before ? -EINVAL : -ENOMEM;
	*ret = steal(*config);
	return 0;
}

int config_load_text(const char *name, const char *text, size_t len,
	const struct config_option *const *tables, struct config **ret,
	struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	size_t before = faults->n;
	int r = store_new(tables, &config);

	if (r < 0)
		return r;
	r = take_text(&(struct loading){config, faults, notices}, name, text, len);
	if (r < 0)
		return r == -EINVAL && faults->n == before ? -ENOMEM : r;
	return settle(&config, before, faults, ret);
}

int config_load(const struct config_source *source, const struct config_option *const *tables,
	struct config **ret, struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	struct loading loading = {.faults = faults, .notices = notices};
	size_t before = faults->n;
	int of_file = 0, of_directory = 0;
	int r = store_new(tables, &config);

	if (r < 0)
		return r;
	loading.config = config;
	if (source->file)
		of_file = take_file(&loading, source->file, source->optional);
	if (of_file != -ENOMEM && source->directory)
		of_directory = take_directory(&loading, source->directory);
	if (of_file == -ENOMEM || of_directory == -ENOMEM)
		return -ENOMEM;
	if (of_file < 0 || of_directory < 0)
		return faults->n > before ? -EINVAL : -ENOMEM;
	return settle(&config, before, faults, ret);
}

/* The value of a row that the caller knows to exist, with one of two types. */
static const struct value *need(const struct config *config, const char *name, unsigned types)
{
	const struct value *value = store_find(config, name);

	if (!value || !(types & 1U << value->option->type))
		abort();
	return value;
}

bool config_bool(const struct config *config, const char *name)
{
	return need(config, name, 1U << OPTION_BOOL)->parsed.flag;
}

static const char *effective_text(const struct value *value)
{
	if (value->text)
		return value->text;
	return value->option->def ? value->option->def : "";
}

const char *config_text(const struct config *config, const char *name)
{
	return effective_text(need(config, name,
		1U << OPTION_TEXT | 1U << OPTION_CHOICE | 1U << OPTION_COUNT |
			1U << OPTION_DURATION));
}

int config_choice(const struct config *config, const char *name)
{
	return need(config, name,
		1U << OPTION_CHOICE | 1U << OPTION_COUNT | 1U << OPTION_DURATION |
			1U << OPTION_LIST)
		->parsed.choice;
}

uint64_t config_count(const struct config *config, const char *name, uint64_t fallback)
{
	const struct value *value = need(config, name, 1U << OPTION_COUNT);

	return value->parsed.choice >= 0 || *effective_text(value) == '\0' ? fallback
									   : value->parsed.count;
}

uint64_t config_duration(const struct config *config, const char *name)
{
	return need(config, name, 1U << OPTION_DURATION)->parsed.count;
}

size_t config_list(const struct config *config, const char *name)
{
	const struct list *list = store_list(need(config, name, 1U << OPTION_LIST));

	return list ? list->n : 0;
}

/* One field of an item, of one of some types, with its row. */
static const struct list_field *need_field(const struct config *config, const char *name, size_t i,
	const char *field, unsigned types, const struct config_option **row)
{
	const struct value *value = need(config, name, 1U << OPTION_LIST);
	const struct list *list = store_list(value);
	size_t index = 0;

	*row = list_row(value->option, field, &index);
	if (!list || i >= list->n || !*row || !(types & 1U << (*row)->type))
		abort();
	return &list->fields[i * list->n_fields + index];
}

const char *config_item(const struct config *config, const char *name, size_t i, const char *field)
{
	const struct config_option *row;
	const struct list_field *found = need_field(config, name, i, field, UINT_MAX, &row);

	if (found->text)
		return found->text;
	return row->def ? row->def : "";
}

static uint64_t item_number(const struct config *config, const char *name, size_t i,
	const char *field, enum option_type type, uint64_t fallback)
{
	const struct config_option *row;
	const struct list_field *found = need_field(config, name, i, field, 1U << type, &row);

	if (found->parsed.choice >= 0 || (!found->text && !row->def))
		return fallback;
	return found->parsed.count;
}

uint64_t config_item_count(const struct config *config, const char *name, size_t i,
	const char *field, uint64_t fallback)
{
	return item_number(config, name, i, field, OPTION_COUNT, fallback);
}

uint64_t config_item_duration(const struct config *config, const char *name, size_t i,
	const char *field, uint64_t fallback)
{
	return item_number(config, name, i, field, OPTION_DURATION, fallback);
}

bool config_item_bool(const struct config *config, const char *name, size_t i, const char *field)
{
	const struct config_option *row;

	return need_field(config, name, i, field, 1U << OPTION_BOOL, &row)->parsed.flag;
}

int config_item_choice(const struct config *config, const char *name, size_t i, const char *field)
{
	const struct config_option *row;

	return need_field(config, name, i, field,
		1U << OPTION_CHOICE | 1U << OPTION_COUNT | 1U << OPTION_DURATION, &row)
		->parsed.choice;
}

struct config_place config_item_where(
	const struct config *config, const char *name, size_t i, const char *field)
{
	const struct list *list = store_list(need(config, name, 1U << OPTION_LIST));
	const struct config_option *row;

	if (!list || i >= list->n)
		abort();
	return field ? need_field(config, name, i, field, UINT_MAX, &row)->place : list->places[i];
}

struct config_place config_where(const struct config *config, const char *name)
{
	const struct value *value = store_find(config, name);

	if (!value)
		abort();
	return value->place;
}

const struct config_sysctl *config_sysctls(const struct config *config, size_t *n)
{
	*n = config->n_sysctls;
	return config->sysctls;
}

static uLong mix_text(uLong sum, const char *text)
{
	return crc32(sum, (const Bytef *)text, (uInt)strlen(text) + 1);
}

static uLong mix_list(uLong sum, const struct config *config, const struct value *value)
{
	const char *name = value->option->name;
	size_t n = config_list(config, name);

	for (size_t i = 0; i < n; i++) {
		sum = mix_text(sum, "item");
		for (const struct config_option *row = value->option->items; row->name; row++)
			sum = mix_text(sum, config_item(config, name, i, row->name));
	}
	return sum;
}

uint32_t config_checksum(const struct config *config)
{
	uLong sum = crc32(0, NULL, 0);

	for (size_t i = 0; i < config->n_values; i++) {
		const struct value *value = &config->values[i];

		/* An unused section changes nothing. */
		if (value->option->type == OPTION_RESERVED)
			continue;
		sum = mix_text(sum, value->option->name);
		if (value->option->type == OPTION_LIST && store_list(value))
			sum = mix_list(sum, config, value);
		else
			sum = mix_text(sum, effective_text(value));
	}
	for (size_t i = 0; i < config->n_sysctls; i++) {
		sum = mix_text(sum, config->sysctls[i].name);
		sum = mix_text(sum, config->sysctls[i].value);
		sum = mix_text(sum, config->sysctls[i].exact ? "exact" : "");
	}
	return (uint32_t)sum;
}
