/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_FIXTURE_H
#define CONFIG_FIXTURE_H

/* What the tests of the configuration share: a table like a tuner's, and loading with its faults.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/config.h"

static const char *const fixture_modes[] = {"enforce", "observe", "off", NULL};
static const char *const fixture_keep[] = {"keep", NULL};
static const char *const fixture_auto[] = {"auto", NULL};

static const char *const fixture_off[] = {"off", NULL};
static const char *const fixture_kinds[] = {"upstream", "cluster", NULL};

static const struct config_option fixture_text_item[] = {
	{.name = "", .type = OPTION_TEXT, .min = 1, .max = 20},
	{0},
};

static const struct config_option fixture_count_item[] = {
	{.name = "", .type = OPTION_COUNT, .max = 65535, .words = fixture_auto},
	{0},
};

static const struct config_option fixture_budget[] = {
	{.name = "server", .type = OPTION_TEXT, .min = 1, .sentence = "server"},
	{.name = "qps", .type = OPTION_COUNT, .min = 1, .max = 9999, .words = fixture_auto},
	{.name = "tcp", .type = OPTION_BOOL, .def = "true"},
	{.name = "every", .type = OPTION_DURATION, .words = fixture_off, .def = "1s"},
	{.name = "kind", .type = OPTION_CHOICE, .words = fixture_kinds, .def = "upstream"},
	{0},
};

static const struct config_option fixture_options[] = {
	{
		.name = "neighbor.mode",
		.type = OPTION_CHOICE,
		.words = fixture_modes,
		.def = "enforce",
		.sentence = "mode",
	},
	{
		.name = "neighbor.ipv4",
		.type = OPTION_CHOICE,
		.words = fixture_keep,
		.sentence = "keep",
	},
	{
		.name = "neighbor.ipv4.gc_thresh1",
		.type = OPTION_COUNT,
		.min = 1,
		.max = INT32_MAX,
		.unit = "entries",
		.def = "80000",
		.sentence = "one",
	},
	{
		.name = "neighbor.ipv4.gc_thresh3",
		.type = OPTION_COUNT,
		.min = 1,
		.max = INT32_MAX,
		.unit = "entries",
		.def = "100000",
		.sentence = "three",
	},
	{
		.name = "neighbor.grow",
		.type = OPTION_BOOL,
		.def = "true",
		.sentence = "grow",
	},
	{
		.name = "neighbor.ceiling",
		.type = OPTION_COUNT,
		.min = 1,
		.max = 1048576,
		.words = fixture_auto,
		.unit = "entries",
		.def = "auto",
		.sentence = "ceiling",
	},
	{
		.name = "sysctl",
		.type = OPTION_SYSCTLS,
		.sentence = "sysctls",
	},
	{
		.name = "sysctl.mode",
		.type = OPTION_CHOICE,
		.words = fixture_modes,
		.def = "enforce",
		.sentence = "mode",
	},
	{
		.name = "watch.timeout",
		.type = OPTION_DURATION,
		.min = 1000000,
		.max = UINT64_C(86400000000),
		.words = fixture_off,
		.def = "30m",
		.sentence = "timeout",
	},
	{
		.name = "watch.domains",
		.type = OPTION_LIST,
		.max = 3,
		.def = "[cluster.local]",
		.sentence = "domains",
		.items = fixture_text_item,
	},
	{
		.name = "watch.servers",
		.type = OPTION_LIST,
		.words = fixture_auto,
		.def = "auto",
		.sentence = "servers",
		.items = fixture_text_item,
	},
	{.name = "watch.ports", .type = OPTION_LIST, .items = fixture_count_item},
	{
		.name = "watch.budgets",
		.type = OPTION_LIST,
		.def = "[{server: auto}]",
		.sentence = "budgets",
		.items = fixture_budget,
	},
	{.name = "later", .type = OPTION_RESERVED, .sentence = "later"},
	{.name = "much_later", .type = OPTION_RESERVED, .sentence = "much later"},
	{0},
};

static const struct config_option *const fixture_tables[] = {core_options, fixture_options, NULL};

struct loaded {
	struct config *config; /* NULL after a fault */
	int result;
	struct config_fault_list faults, notices;
};

static inline void loaded_clear(struct loaded *loaded)
{
	if (loaded->config)
		config_free(loaded->config);
	config_faults_clear(&loaded->faults);
	config_faults_clear(&loaded->notices);
}

#define _cleanup_loaded_ __attribute__((cleanup(loaded_clear)))

static inline struct loaded load_bytes(const char *text, size_t len)
{
	struct loaded loaded = {0};

	loaded.result = config_load_text(
		"F", text, len, fixture_tables, &loaded.config, &loaded.faults, &loaded.notices);
	return loaded;
}

static inline struct loaded load_text(const char *text)
{
	return load_bytes(text, strlen(text));
}

static inline struct loaded load_source(const char *file, bool optional, const char *directory)
{
	struct config_source source = {.file = file, .optional = optional, .directory = directory};
	struct loaded loaded = {0};

	loaded.result = config_load(
		&source, fixture_tables, &loaded.config, &loaded.faults, &loaded.notices);
	return loaded;
}

static inline void print_faults(const struct loaded *loaded)
{
	for (size_t i = 0; i < loaded->faults.n; i++) {
		const struct config_fault *fault = &loaded->faults.faults[i];

		print_message(
			"%s:%u:%u: %s\n", fault->file, fault->line, fault->column, fault->message);
	}
}

/* One fault at this place, whose message has these words. */
static inline void assert_one_fault(
	const struct loaded *loaded, unsigned line, unsigned column, const char *words)
{
	const struct config_fault *fault = loaded->faults.faults;

	print_faults(loaded);
	assert_int_equal(loaded->result, -22);
	assert_null(loaded->config);
	assert_int_equal(loaded->faults.n, 1);
	assert_int_equal(fault->line, line);
	assert_int_equal(fault->column, column);
	assert_non_null(strstr(fault->message, words));
	assert_null(strchr(fault->message, '\n'));
	assert_true(strlen(fault->message) < sizeof(fault->message) - 1);
}

static inline void assert_loaded(const struct loaded *loaded)
{
	print_faults(loaded);
	assert_int_equal(loaded->result, 0);
	assert_int_equal(loaded->faults.n, 0);
}

#endif
