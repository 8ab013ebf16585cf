/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

static void __attribute__((noreturn)) PRINTF_LIKE(2, 3)
	fail(const struct scenario *scenario, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%u: ", scenario->path, scenario->line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

const char *scenario_word(struct scenario *scenario)
{
	return scenario->next < scenario->n_words ? scenario->words[scenario->next++] : NULL;
}

bool scenario_is(struct scenario *scenario, const char *word)
{
	bool is =
		scenario->next < scenario->n_words && streq(scenario->words[scenario->next], word);

	scenario->next += is;
	return is;
}

bool scenario_number(struct scenario *scenario, uint64_t *number)
{
	const char *word = scenario_word(scenario);

	return word && parse_count(word, number) == 0;
}

bool scenario_value(struct scenario *scenario, char *value, size_t size)
{
	const char *word = scenario_word(scenario);

	return word && copy_text(value, size, streq(word, "-") ? "" : word);
}

/* Skips the one or two words of a row. Returns false for other words. */
static bool matches_row(struct scenario *scenario, const char *row)
{
	const char *second = strchr(row, ' ');
	char first[64];

	if (!second)
		return scenario_is(scenario, row);
	snprintf(first, sizeof(first), "%.*s", (int)(second - row), row);
	if (!scenario_is(scenario, first))
		return false;
	if (scenario_is(scenario, second + 1))
		return true;
	scenario->next--;
	return false;
}

bool scenario_parse(struct scenario *scenario, const struct scenario_word *words, void *base)
{
	while (scenario->next < scenario->n_words) {
		const struct scenario_word *word = words;
		bool good = true;

		while (word->word && !matches_row(scenario, word->word))
			word++;
		if (!word->word && !word->parse)
			return false;
		if (word->parse)
			good = word->parse(scenario, base);
		else if (word->kind == SCENARIO_NUMBER)
			good = scenario_number(scenario, (uint64_t *)((char *)base + word->offset));
		else if (word->kind == SCENARIO_TEXT)
			good = scenario_value(scenario, (char *)base + word->offset, word->size);
		else
			memcpy((char *)base + word->offset, &word->value, word->size);
		if (!good)
			return false;
	}
	return true;
}

static const char *need(struct scenario *scenario, const char *what)
{
	const char *word = scenario_word(scenario);

	if (!word)
		fail(scenario, "no %s", what);
	return streq(word, "-") ? "" : word;
}

bool scenario_mode(struct scenario *scenario, void *)
{
	for (int i = 0; i <= MODE_RELEASED; i++)
		if (scenario_is(scenario, mode_names[i])) {
			scenario->mode = (enum mode)i;
			return true;
		}
	return false;
}

static uint64_t need_number(struct scenario *scenario, const char *what)
{
	uint64_t number;

	if (!scenario_number(scenario, &number))
		fail(scenario, "no %s", what);
	return number;
}

/* Splits a line into words, in place. */
static void split(struct scenario *scenario, char *line)
{
	scenario->n_words = scenario->next = 0;
	line[strcspn(line, "\n")] = '\0';
	for (char *p = line + strspn(line, " \t"); *p && *p != '#'; p += strspn(p, " \t")) {
		size_t len;

		if (scenario->n_words == SCENARIO_WORDS_MAX)
			fail(scenario, "too many words");
		p += *p == '"';
		scenario->words[scenario->n_words++] = p;
		len = strcspn(p, p > line && p[-1] == '"' ? "\"" : " \t");
		p += len;
		if (*p)
			*p++ = '\0';
	}
}

static void no_news(void *, const struct finding *, enum finding_news)
{
}

static void decide(struct scenario *scenario, const struct scenario_tuner *tuner, void *self)
{
	const struct tuner_status itself = {.ops = tuner->ops,
		.held_by = scenario->mode == MODE_OBSERVE    ? HELD_BY_MODE
			   : scenario->mode == MODE_RELEASED ? HELD_BY_RELEASE
							     : 0U};
	struct decide_input input = {.values = scenario->values,
		.n_values = scenario->n_values,
		.keys = scenario->keys,
		.n_keys = scenario->n_keys,
		.pins = scenario->pins,
		.n_pins = scenario->n_pins,
		.settings = &scenario->held,
		.n_settings = scenario->held.name[0] != '\0',
		.findings = scenario->findings.findings,
		.n_findings = scenario->findings.n,
		.config_file = "/etc/headroom/headroom.yaml",
		.tuners = &itself,
		.n_tuners = 1,
		.now_us = scenario->now_us,
		.mode = scenario->mode,
		.force = scenario->force};

	if (scenario->decided)
		return;
	proposal_clear(&scenario->proposal);
	if (tuner->decide)
		tuner->decide(self, &input, &scenario->proposal);
	else
		tuner->ops->decide(self, &input, scenario->memory, &scenario->proposal);
	findings_observe(&scenario->findings, tuner->ops->name, &scenario->proposal,
		&(struct finding_clock){.mono_us = input.now_us}, no_news, NULL);
	findings_sort(&scenario->findings);
	scenario->force = false;
	scenario->decided = true;
}

static void expect_setting(struct scenario *scenario, bool there)
{
	const struct proposal *proposal = &scenario->proposal;
	const char *name = need(scenario, "name");
	const struct want *want = find_named(proposal->wants, proposal->n_wants, name);
	bool is_failed;

	if (!want != !there)
		fail(scenario, "%s: %s", name,
			want ? "there is such a setting" : "no such setting");
	if (!want)
		return;
	if (!streq(want->wanted, need(scenario, "value")) ||
		!streq(reason_rows[want->reason].slug, need(scenario, "reason")))
		fail(scenario, "%s: wants '%s', %s", name, want->wanted,
			reason_rows[want->reason].slug);
	is_failed = want->requested && (want->error == -ENOENT || want->error == -EOPNOTSUPP);
	if (scenario_is(scenario, "failed")) {
		if (!is_failed || !strstr(want->why, need(scenario, "text")))
			fail(scenario, "%s: '%s'", name, want->why);
	} else if (is_failed && want->kind != SETTING_VALUE) {
		fail(scenario, "%s fails: '%s'", name, want->why);
	}
	if (scenario_is(scenario, "on-disk") &&
		!streq(want->file ? want->file->on_disk : want->actual, need(scenario, "text")))
		fail(scenario, "%s: on disk is '%s'", name,
			want->file ? want->file->on_disk : want->actual);
}

/* explain and the manual show the reasons of a condition. */
static bool has_reason(const struct condition_type *type, enum reason reason)
{
	const enum reason *row = type->reasons;

	while (*row && *row != reason)
		row++;
	return *row;
}

static void expect_condition(struct scenario *scenario)
{
	const char *name = need(scenario, "type");
	const char *status = need(scenario, "status"), *expected = need(scenario, "reason");
	const char *words = scenario_word(scenario);

	for (size_t i = 0; i < scenario->proposal.n_conditions; i++) {
		const struct condition_reading *judged = &scenario->proposal.conditions[i];
		struct condition is = {.type = judged->type};
		const char *word;

		if (!streq(judged->type->name, name))
			continue;
		(void)findings_judge(&scenario->findings, judged, &is);
		word = is.status != CONDITION_TRUE || is.severity == is.type->severity
			       ? condition_status_names[is.status]
		       : is.severity == SEVERITY_WARNING ? "Warning"
							 : "Advice";
		if (!streq(word, status) || !streq(is.slug, expected) ||
			(words && !strstr(is.message, words)))
			fail(scenario, "%s is %s, %s: '%s'", name, word, is.slug, is.message);
		if (is.reason != REASON_NONE && !has_reason(is.type, is.reason))
			fail(scenario, "%s does not list %s", name, is.slug);
		free(is.message);
		return;
	}
	fail(scenario, "%s: no such condition", name);
}

/* SLUG SEVERITY [TEXT] [now TEXT|no-now] [keep TEXT|no-keep] [hint TEXT]: each has these words. */
static void expect_finding(struct scenario *scenario, bool there)
{
	const char *slug = need(scenario, "slug");
	const struct finding *finding = NULL;
	char text[FINDING_TEXT_MAX];

	for (size_t i = 0; i < scenario->findings.n && !finding; i++)
		if (streq(scenario->findings.findings[i].slug, slug))
			finding = &scenario->findings.findings[i];
	if (!finding != !there)
		fail(scenario, "%s: %s", slug, finding ? "there is such a finding" : "not found");
	if (!finding)
		return;
	finding_text(finding, text, sizeof(text));
	if (!streq(severity_names[finding->severity], need(scenario, "severity")))
		fail(scenario, "%s is %s: %s", slug, severity_names[finding->severity], text);
	while (scenario->next < scenario->n_words) {
		bool has_none = true;
		const char *is = scenario_is(scenario, "no-now")    ? finding->now
				 : scenario_is(scenario, "no-keep") ? finding->keep
								    : (has_none = false, NULL);

		if (has_none && is)
			fail(scenario, "%s: '%s'", slug, is);
		if (has_none)
			continue;
		is = scenario_is(scenario, "now")    ? finding->now
		     : scenario_is(scenario, "keep") ? finding->keep
		     : scenario_is(scenario, "hint") ? finding->hint
						     : text;
		if (!is || !strstr(is, need(scenario, "text")))
			fail(scenario, "%s: '%s'", slug, is ? is : "none");
	}
}

static void expect_limit(struct scenario *scenario, bool there)
{
	const struct proposal *proposal = &scenario->proposal;
	const char *name = need(scenario, "name");
	const struct limit_reading *limit = find_named(proposal->limits, proposal->n_limits, name);

	if (!limit != !there)
		fail(scenario, "%s: %s", name, limit ? "there is such a limit" : "no such limit");
	if (limit && (limit->used != need_number(scenario, "used") ||
			     limit->max != need_number(scenario, "max") ||
			     limit->hits != need_number(scenario, "hits") ||
			     !streq(limit->upper_bound ? "upper-bound" : "exact",
				     need(scenario, "exact or upper-bound"))))
		fail(scenario, "%s: %" PRIu64 " of %" PRIu64 ", %" PRIu64 " hits, %s", name,
			limit->used, limit->max, limit->hits,
			limit->upper_bound ? "upper-bound" : "exact");
}

static void expect(struct scenario *scenario, const struct scenario_tuner *tuner, void *self)
{
	bool there = !scenario_is(scenario, "no");

	scenario->expectations++;
	if (scenario_is(scenario, "setting"))
		expect_setting(scenario, there);
	else if (scenario_is(scenario, "condition"))
		expect_condition(scenario);
	else if (scenario_is(scenario, "finding"))
		expect_finding(scenario, there);
	else if (scenario_is(scenario, "limit"))
		expect_limit(scenario, there);
	else if (!tuner->expect || !scenario_parse(scenario, tuner->expect, self))
		fail(scenario, "it is not so");
}

/* Clears or adds the record whose name is the next word. */
static void *add_record(struct scenario *scenario, void *records, size_t *n, size_t size)
{
	const char *name = need(scenario, "name");
	void *record = (void *)find_element(records, *n, size, name);

	if (!record && *n == SCENARIO_RECORDS_MAX)
		fail(scenario, "too many records");
	if (!record)
		record = (char *)records + size * (*n)++;
	memset(record, 0, size);
	copy_text(record, SETTING_NAME_MAX, name);
	return record;
}

static void add_value(struct scenario *scenario)
{
	struct value_record *record = add_record(
		scenario, scenario->values, &scenario->n_values, sizeof(scenario->values[0]));

	copy_text(record->original, SETTING_VALUE_MAX, need(scenario, "original"));
	copy_text(record->before, SETTING_VALUE_MAX, need(scenario, "before"));
	copy_text(record->wanted, SETTING_VALUE_MAX, need(scenario, "wanted"));
	record->grown = scenario_is(scenario, "grown");
}

static void add_file(struct scenario *scenario, const char *tuner)
{
	struct key_record *record =
		add_record(scenario, scenario->keys, &scenario->n_keys, sizeof(scenario->keys[0]));

	set_text(record->tuner, tuner);
	copy_text(record->in_force_originally, SETTING_VALUE_MAX, need(scenario, "original"));
	copy_text(record->on_disk_originally, SETTING_VALUE_MAX, need(scenario, "text"));
	copy_text(record->value_before, SETTING_VALUE_MAX, need(scenario, "before"));
	copy_text(record->wanted, SETTING_VALUE_MAX, need(scenario, "wanted"));
}

static void forget_value(struct scenario *scenario)
{
	const char *name = need(scenario, "name");
	struct value_record *record = find_named(scenario->values, scenario->n_values, name);

	if (!record)
		fail(scenario, "%s: no such record", name);
	*record = scenario->values[--scenario->n_values];
}

/* "90s" or "1500ms". Time never goes back. */
static void parse_time(struct scenario *scenario, const struct scenario_tuner *tuner, void *self)
{
	const char *word = need(scenario, "time");
	char *unit;
	uint64_t at = strtoull(word, &unit, 10);

	if (streq(unit, "s"))
		at *= USEC_PER_SEC;
	else if (streq(unit, "ms"))
		at *= USEC_PER_MSEC;
	else
		fail(scenario, "%s: no time", word);
	if (at < scenario->now_us)
		fail(scenario, "%s: is earlier than the line before", word);
	if (at > scenario->now_us && scenario->now_us > 0)
		decide(scenario, tuner, self);
	scenario->now_us = at;
}

static void parse_line(struct scenario *scenario, const struct scenario_tuner *tuner, void *self)
{
	const struct scenario_word *words = NULL;
	bool expects = scenario_is(scenario, "expect");

	if (expects) {
		decide(scenario, tuner, self);
		expect(scenario, tuner, self);
	} else if (scenario_is(scenario, "at")) {
		parse_time(scenario, tuner, self);
		words = tuner->at;
	} else if (scenario_is(scenario, "record")) {
		add_value(scenario);
	} else if (scenario_is(scenario, "file-record")) {
		add_file(scenario, tuner->ops->name);
	} else if (scenario_is(scenario, "held")) {
		copy_text(scenario->held.name, SETTING_NAME_MAX, need(scenario, "name"));
		scenario->held.reason = reason_parse(need(scenario, "reason"));
		copy_text(scenario->held.why, SETTING_WHY_MAX, need(scenario, "why"));
	} else if (scenario_is(scenario, "forget")) {
		forget_value(scenario);
	} else {
		words = scenario_is(scenario, "config") ? tuner->config : tuner->line;
		if (!words)
			fail(scenario, "unknown line");
	}
	if (words && !scenario_parse(scenario, words, self))
		fail(scenario, "unknown words");
	if (scenario->next < scenario->n_words)
		fail(scenario, "%s: one word too many", scenario->words[scenario->next]);
	scenario->decided = expects;
}

static int replay(struct scenario *scenario, const struct scenario_tuner *tuner, FILE *file)
{
	_cleanup_free_ void *self = calloc(1, tuner->size);
	_cleanup_free_ void *memory = calloc(1, MAX(tuner->ops->memory_size, 1));
	char line[512];

	if (!self || !memory)
		return 1;
	scenario->memory = memory;
	if (tuner->open)
		tuner->open(self);
	while (fgets(line, sizeof(line), file)) {
		scenario->line++;
		if (scenario->line == 1 && !starts_with(line, "# "))
			fail(scenario, "the first line must be a comment with the behaviour");
		split(scenario, line);
		if (scenario->n_words > 0)
			parse_line(scenario, tuner, self);
	}
	if (scenario->expectations == 0)
		fail(scenario, "expects nothing");
	if (tuner->close)
		tuner->close(self, memory);
	proposal_clear(&scenario->proposal);
	findings_clear(&scenario->findings);
	return 0;
}

/* test_scenario .../TUNER-NAME.txt */
int main(int argc, char **argv)
{
	static const struct scenario_tuner *const tuners[] = {&neighbor_scenario, &thp_scenario,
		&dns_scenario, &sysctl_scenario, &kubelet_scenario, &runtime_scenario,
		&images_scenario, &storage_scenario};
	struct scenario scenario = {.path = argc == 2 ? argv[1] : ""};
	_cleanup_fclose_ FILE *file = fopen(scenario.path, "re");
	const char *name = strrchr(scenario.path, '/') ? strrchr(scenario.path, '/') + 1 : "";

	for (size_t i = 0; file && i < ARRAY_SIZE(tuners); i++)
		if (starts_with(name, tuners[i]->ops->name) &&
			name[strlen(tuners[i]->ops->name)] == '-')
			return replay(&scenario, tuners[i], file);
	fprintf(stderr, "usage: %s DIRECTORY/TUNER-NAME.txt\n", argv[0]);
	return 64;
}
