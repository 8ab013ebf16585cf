/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

/* From a text in a file to a checked value. */

#include <stdbool.h>
#include <stdint.h>

#include "config/option.h"

#include <headroom/setting.h>

#define VALUE_WHY_MAX 224

struct option_value {
	int choice;     /* index into the row's words, -1 for none */
	uint64_t count; /* when choice is -1 */
	bool flag;
};

/* 0 with *value, or -EINVAL with why: what is wrong with the text, and what is expected. */
int value_parse(const struct config_option *option, const char *text, struct option_value *value,
	char why[static VALUE_WHY_MAX]);

/* The index of a word of the row; -1 for none. */
int value_word(const struct config_option *option, const char *text);

/* Appends what the row takes: "a whole number from 1 to 2147483647 (entries), or keep". */
void value_describe(const struct config_option *option, char *buffer, size_t size);

#define OPTION_TEXT_MAX 1536

/* Sentences: what a row is for, what it takes, and its default. */
void option_describe(const struct config_option *option, char text[static OPTION_TEXT_MAX]);

/*
 * A sysctl's name as sysctl(8) prints it. The first separator of the name given tells its form:
 * net/ipv4/conf/eth0.100/rp_filter becomes net.ipv4.conf.eth0/100.rp_filter. -EINVAL with why for
 * what names no file below /proc/sys, or another than it seems to.
 */
int sysctl_name_parse(
	const char *text, char name[static SETTING_NAME_MAX], char why[static VALUE_WHY_MAX]);

/* Folds blanks to one space. -EINVAL with why for an empty or overlong value, or control
 * characters. */
int sysctl_value_parse(
	const char *text, char value[static SETTING_VALUE_MAX], char why[static VALUE_WHY_MAX]);

#define DURATION_TEXT_MAX 24

/*
 * "500ms", "20s", "30m" or "2h", without blanks, signs, fractions or leading zeros, as
 * microseconds. -EINVAL for anything else, -ERANGE above UINT64_MAX. *us is written only on
 * success.
 */
int duration_parse(const char *text, uint64_t *us);

/* The same in the largest unit that divides it; what is below a millisecond is cut. */
const char *duration_format(char text[static DURATION_TEXT_MAX], uint64_t us);

#endif
