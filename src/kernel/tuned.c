/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what the active profile of TuneD sets. A profile is an ini file, tuned.conf, which may
 * include others. The last profile has precedence, and a file has it over its includes.
 */
#include "base/text.h"
#include "kernel/host.h"

#define FILE_MAX      ((size_t)256 * 1024)
#define NAMES_MAX     512
#define INCLUDES_MAX  8 /* levels */
#define PROFILE_FILES 4

/* A question, and its answer. */
struct profile_search {
	const struct host *host;
	const char *section, *key;
	char *value; /* of SETTING_VALUE_MAX bytes */
	char *where; /* of SETTING_WHY_MAX bytes */
};

/* Splits "KEY = VALUE" and folds blanks. False for a comment or a line without a key. */
static bool split_line(char *line, char **key, char **value)
{
	char *equals = strchr(line, '=');

	line += strspn(line, " \t");
	if (!equals || line >= equals || line[0] == '#' || line[0] == ';')
		return false;
	*equals = '\0';
	text_fold_blanks(line);
	text_fold_blanks(equals + 1);
	*key = line;
	/* ">N" sets at least N. */
	*value = equals + 1 + strspn(equals + 1, "<>");
	return true;
}

/* Reads the section of the question, and [main]. Returns whether the file answers it. */
static bool read_profile(const struct profile_search *search, const char *name, const char *path,
	char *text, char includes[static NAMES_MAX])
{
	char section[64] = "", *key, *value, *rest = text;
	unsigned number = 0;
	bool found = false;

	for (char *line; (line = strsep(&rest, "\n"));) {
		number++;
		line += strspn(line, " \t");
		if (line[0] == '[') {
			copy_text(section, MIN(strcspn(line + 1, "]") + 1, sizeof(section)),
				line + 1);
			continue;
		}
		if (!split_line(line, &key, &value))
			continue;
		if (streq(section, "main") && streq(key, "include"))
			copy_text(includes, NAMES_MAX, value);
		for (char *slash = key; (slash = strchr(slash, '/'));)
			*slash = '.';
		if (!streq(section, search->section) || !streq(key, search->key) ||
			!copy_text(search->value, SETTING_VALUE_MAX, value))
			continue;
		snprintf(search->where, SETTING_WHY_MAX,
			"set by the profile %.60s of TuneD (%.150s:%u)", name, path, number);
		found = true;
	}
	return found;
}

static bool find_in_profiles(const struct profile_search *search, char *names, unsigned level);

static bool find_in_profile(const struct profile_search *search, const char *name, unsigned level)
{
	static const char *const directories[PROFILE_FILES] = {
		"/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"};
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], includes[NAMES_MAX] = "";

	for (size_t i = 0; !text && i < PROFILE_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s/tuned.conf", directories[i], name);
		(void)host_read_file(search->host, path, FILE_MAX, &text);
	}
	return text &&
	       (read_profile(search, name, path, text, includes) ||
		       (level < INCLUDES_MAX && find_in_profiles(search, includes, level + 1)));
}

/* names are separated by blanks or commas; the last one has precedence. */
static bool find_in_profiles(const struct profile_search *search, char *names, unsigned level)
{
	for (size_t end = strlen(names); end > 0;) {
		size_t start;

		while (end > 0 && strchr(" \t\r\n,", names[end - 1]))
			end--;
		names[end] = '\0';
		for (start = end; start > 0 && !strchr(" \t\r\n,", names[start - 1]);)
			start--;
		if (start < end && !strchr(names + start, '/') &&
			find_in_profile(search, names + start, level))
			return true;
		end = start;
	}
	return false;
}

bool host_find_tuned(const struct host *host, const char *section, const char *key,
	char value[static SETTING_VALUE_MAX], char where[static SETTING_WHY_MAX])
{
	const struct profile_search search = {host, section, key, value, where};
	_cleanup_free_ char *names = NULL;

	return host_read_file(host, "/etc/tuned/active_profile", NAMES_MAX, &names) == 0 &&
	       find_in_profiles(&search, names, 0);
}

bool host_tuned_is_chosen(const struct host *host)
{
	char mode[SETTING_VALUE_MAX];

	return host_read_value(host, "/etc/tuned/profile_mode", mode) < 0 || !streq(mode, "auto");
}
