/* SPDX-License-Identifier: Apache-2.0 */

/* Loads any bytes as a configuration. The result is a configuration or a fault. */

#include "../unit/config_text.h"
#include "tuners/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every field of every item can be read. */
static void use_list(const struct config *config, const struct config_option *option)
{
	size_t n = config_list(config, option->name);

	if (n > (option->max > 0 ? option->max : OPTION_ITEMS_MAX))
		abort();
	for (size_t i = 0; i < n; i++)
		for (const struct config_option *row = option->items; row->name; row++)
			if (!config_item(config, option->name, i, row->name) ||
				!config_item_where(config, option->name, i, row->name).file)
				abort();
}

static void use(const struct config *config)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	(void)config_checksum(config);
	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++)
			if (row->type == OPTION_LIST)
				use_list(config, row);
	for (size_t i = 0; i < n; i++)
		if (sysctls[i].name[0] == '\0' || sysctls[i].value[0] == '\0')
			abort();
}

static void check_faults(const struct config_fault_list *faults)
{
	if (faults->n == 0 || faults->n > CONFIG_FAULTS_MAX)
		abort();
	for (size_t i = 0; i < faults->n; i++) {
		const struct config_fault *fault = &faults->faults[i];

		if (fault->line == 0 || fault->column == 0 || strpbrk(fault->message, "\n\r\033"))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_loaded_ struct loaded loaded = {0};

	if (size > CONFIG_FILE_MAX)
		return -1;
	loaded = load_bytes(option_tables, data, size);
	if (loaded.config) {
		use(loaded.config);
		tuners_validate(loaded.config, &loaded.faults);
	} else {
		check_faults(&loaded.faults);
	}
	return 0;
}
