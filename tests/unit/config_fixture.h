/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A table of options like a tuner's, loading, and comparing what was loaded. */

#include "directory.h"

#include "config_text.h"
#include "tuners/table.h"

static const char *const fixture_modes[] = {"enforce", "observe", "off", NULL};
static const char *const fixture_keep[] = {"keep", NULL};
static const char *const fixture_auto[] = {"auto", NULL};
static const char *const fixture_off[] = {"off", NULL};
static const char *const fixture_kinds[] = {"upstream", "cluster", NULL};

#define CHOICE(title, of, preset)                                                \
	{                                                                        \
		.name = title, .type = OPTION_CHOICE, .words = of, .def = preset \
	}
#define COUNT(title, least, most, of, of_what, preset)                                       \
	{                                                                                    \
		.name = title, .type = OPTION_COUNT, .min = least, .max = most, .words = of, \
		.unit = of_what, .def = preset                                               \
	}
#define LIST(title, of, most, preset, rows)                                                  \
	{                                                                                    \
		.name = title, .type = OPTION_LIST, .words = of, .max = most, .def = preset, \
		.items = rows                                                                \
	}

static const struct config_option fixture_text_item[] = {
	{.name = "", .type = OPTION_TEXT, .min = 1, .max = 20}, {0}};
static const struct config_option fixture_count_item[] = {
	COUNT("", 0, 65535, fixture_auto, NULL, NULL), {0}};
static const struct config_option fixture_budget[] = {
	{.name = "server", .type = OPTION_TEXT, .min = 1},
	COUNT("qps", 1, 9999, fixture_auto, NULL, NULL),
	{.name = "tcp", .type = OPTION_BOOL, .def = "true"},
	{.name = "every", .type = OPTION_DURATION, .words = fixture_off, .def = "1s"},
	CHOICE("kind", fixture_kinds, "upstream"),
	{0},
};

static const struct config_option fixture_options[] = {
	CHOICE("neighbor.mode", fixture_modes, "enforce"),
	CHOICE("neighbor.ipv4", fixture_keep, NULL),
	COUNT("neighbor.ipv4.gc_thresh1", 1, INT32_MAX, NULL, "entries", "80000"),
	COUNT("neighbor.ipv4.gc_thresh3", 1, INT32_MAX, NULL, "entries", "100000"),
	{.name = "neighbor.grow", .type = OPTION_BOOL, .def = "true"},
	COUNT("neighbor.ceiling", 1, 1048576, fixture_auto, "entries", "auto"),
	{.name = "sysctl", .type = OPTION_SYSCTLS},
	CHOICE("sysctl.mode", fixture_modes, "enforce"),
	{.name = "watch.timeout",
		.type = OPTION_DURATION,
		.min = 1000000,
		.max = UINT64_C(86400000000),
		.words = fixture_off,
		.def = "30m"},
	LIST("watch.domains", NULL, 3, "[cluster.local]", fixture_text_item),
	LIST("watch.servers", fixture_auto, 0, "auto", fixture_text_item),
	LIST("watch.ports", NULL, 0, NULL, fixture_count_item),
	LIST("watch.budgets", NULL, 0, "[{server: auto}]", fixture_budget),
	{.name = "later", .type = OPTION_RESERVED},
	{.name = "much_later", .type = OPTION_RESERVED},
	{0},
};

static const struct config_option *const fixture_tables[] = {core_options, fixture_options, NULL};

static inline struct loaded load_text(const char *text)
{
	return load_bytes(fixture_tables, text, strlen(text));
}

/* With the options of the program. */
static inline struct loaded load_options(const char *text)
{
	return load_bytes(option_tables, text, strlen(text));
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
