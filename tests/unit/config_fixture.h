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

static const struct config_option fixture_options[] = {
	{"neighbor.mode", OPTION_CHOICE, 0, 0, fixture_modes, NULL, "enforce", "mode"},
	{"neighbor.ipv4", OPTION_CHOICE, 0, 0, fixture_keep, NULL, NULL, "keep"},
	{"neighbor.ipv4.gc_thresh1", OPTION_COUNT, 1, INT32_MAX, NULL, "entries", "80000", "one"},
	{"neighbor.ipv4.gc_thresh3", OPTION_COUNT, 1, INT32_MAX, NULL, "entries", "100000",
		"three"},
	{"neighbor.grow", OPTION_BOOL, 0, 0, NULL, NULL, "true", "grow"},
	{"neighbor.ceiling", OPTION_COUNT, 1, 1048576, fixture_auto, "entries", "auto", "ceiling"},
	{"sysctl", OPTION_SYSCTLS, 0, 0, NULL, NULL, NULL, "sysctls"},
	{"sysctl.mode", OPTION_CHOICE, 0, 0, fixture_modes, NULL, "enforce", "mode"},
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
