/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headroom plan, apply and restore. The parts, in order: printing of changes; the plan, which
 * changes nothing; apply and restore in this process, under the lock of a writer; the commands,
 * which ask the running agent first.
 */
#include "cli/cli.h"

#include "base/file.h"
#include "report/report.h"
#include "tuners/table.h"

/* ---- changes ---- */

/* Shows an empty value as "". */
static const char *shown(const char *value)
{
	return value[0] ? value : "\"\"";
}

/*
 * Prints a document of report_plan(): a line for each change with its name, old and new value and
 * reason, then an explanation of each reason. Failures go to stderr. Returns an exit code.
 */
static int print_changes(cJSON *document, const char *nothing)
{
	const cJSON *changes = json_at(document, "changes"), *change;
	struct screen screen = screen_open();
	int width = 0, r = EXIT_OK;
	bool explained[REASONS] = {false};

	if (!cJSON_IsArray(changes))
		return cli_fail("agent", "the answer has an unknown form");
	json_make_printable(document);
	cJSON_ArrayForEach (change, changes)
		width = MAX(width, MIN((int)strlen(json_text_at(change, "name")), 60));
	cJSON_ArrayForEach (change, changes) {
		const char *name = json_text_at(change, "name");
		const char *reason = json_text_at(change, "reason");
		const char *old = json_text_at(change, "old"), *new = json_text_at(change, "new");
		const char *error = json_text_at(change, "error");

		if (error[0])
			r = cli_fail(
				name, "not %s%s: %s", new[0] ? "set to " : "removed", new, error);
		else if (!cJSON_IsString(json_at(change, "new")))
			printf("%-*s  %s left  (%s)\n", width, name, shown(old), reason);
		else if (!streq(old, new) || reason_parse(reason) != REASON_ORIGINAL)
			printf("%-*s  %s -> %s  (%s)\n", width, name, shown(old), shown(new),
				reason);
		/* Else restore found the original in place. */
	}
	cJSON_ArrayForEach (change, changes) {
		const char *cost = json_text_at(change, "cost");
		const char *note = json_text_at(change, "note");

		if (!cost[0] && !note[0])
			continue;
		draw(&screen, cost[0] ? COLOR_WARNING : COLOR_NONE,
			"  %s: ", json_text_at(change, "name"));
		draw_wrapped(&screen, 4, "%s%s%s", cost, cost[0] && note[0] ? "; " : "", note);
	}
	cJSON_ArrayForEach (change, changes) {
		enum reason reason = reason_parse(json_text_at(change, "reason"));

		if (reason == REASON_NONE || explained[reason])
			continue;
		explained[reason] = true;
		draw(&screen, COLOR_NONE, "  %s: ", reason_rows[reason].slug);
		draw_wrapped(&screen, 4, "%s", reason_rows[reason].help);
	}
	if (cJSON_GetArraySize(changes) == 0)
		puts(nothing);
	return r;
}

/* ---- plan ---- */

/* Adds a setting that stays as it is, because nothing asks for it any more. */
static void add_removed(const struct cli *cli, struct plan *plan, const char *name,
	const char *tuner, const char *actual)
{
	struct change *change;

	if (cli->only && !streq(cli->only, tuner))
		return;
	change = plan_add(plan, NULL, name, tuner, actual, "");
	change->reason = REASON_NO_LONGER_CONFIGURED;
	change->left = true;
}

static int print_plan(const struct cli *cli, const struct plan *plan, const char *nothing)
{
	cJSON *document = report_plan(plan, false);
	int r = EXIT_OK;

	for (size_t i = 0; i < plan->n; i++)
		if (!plan->changes[i].left)
			r = EXIT_ATTENTION;

	if (cli->json) {
		json_put(stdout, document, true);
	} else {
		print_changes(document, nothing);
		cJSON_Delete(document);
	}
	return r;
}

/*
 * The configuration on disk has a fault. An apply would use the configuration that the running
 * agent has loaded, so the plan lists the agent's settings that are not in sync.
 */
static int plan_of_agent(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct plan plan = {0};
	const cJSON *setting;
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, false, &status, alone);

	if (r != EXIT_OK)
		return r;
	cli_print_faults(cli); /* without an agent they are printed already */
	cJSON_ArrayForEach (setting, json_at(status, "settings")) {
		const char *wanted = json_text_at(setting, "wanted");
		const char *actual = json_text_at(setting, "actual");
		enum reason reason = reason_parse(json_text_at(setting, "reason"));
		struct change *change;

		if (reason == REASON_NO_LONGER_CONFIGURED && !wanted[0])
			add_removed(cli, &plan, json_text_at(setting, "name"),
				json_text_at(setting, "tuner"), actual);
		if (!wanted[0] || value_equal(wanted, actual) ||
			streq(json_text_at(setting, "state"), "unsupported") ||
			(cli->only && !streq(cli->only, json_text_at(setting, "tuner"))))
			continue;
		change = plan_add(&plan, NULL, json_text_at(setting, "name"),
			json_text_at(setting, "tuner"), actual, wanted);
		change->reason = reason;
	}
	r = print_plan(cli, &plan, "Nothing to change.");
	plan_clear(&plan);
	return r;
}

int cli_plan(const struct cli *cli)
{
	bool faulty;
	struct config *config = cli_load_config(cli, &faulty);
	struct core core = {0};
	struct plan hidden = {0};
	int r;

	if (faulty) {
		config_free(config);
		return plan_of_agent(cli);
	}
	/* Like apply: released tuners enforce, and drifted settings are set again. */
	r = local_poll(cli, config, false, true, &core);
	if (r != EXIT_OK)
		return r;
	core_plan_only(&core, cli->only);
	for (size_t i = 0; i < core.node.n_settings; i++) {
		const struct setting *setting = &core.node.settings[i];

		if (setting->reason == REASON_NO_LONGER_CONFIGURED && !setting->wanted[0])
			add_removed(
				cli, &core.plan, setting->name, setting->tuner, setting->actual);
	}
	core_add_hidden(&core, cli->only, &hidden);
	r = print_plan(cli, &core.plan,
		hidden.n > 0 ? "Nothing can be changed now." : "Nothing to change.");
	for (size_t i = 0; i < hidden.n; i++) {
		cli_fail(hidden.changes[i].name, "%s", hidden.changes[i].why);
		r = r == EXIT_OK ? EXIT_FAILED : r;
	}
	plan_clear(&hidden);
	core_close(&core);
	return r;
}

/* ---- apply and restore ---- */

/* A removal stops the agent and restores at once. A pod or unit stops within this time. */
#define PURGE_TIMEOUT_S 20

/* Waits up to timeout_s for another writer to end. Returns an exit code. */
static int become_writer(struct core *core, const char *name, unsigned timeout_s)
{
	uint64_t until_us = now_us() + timeout_s * USEC_PER_SEC;
	int r;

	while ((r = core_become_writer(core, name, true)) == -EBUSY && now_us() < until_us)
		usleep(100 * 1000);
	if (r == -EBUSY)
		return cli_fail("/run/headroom",
			"the lock is held by %s: try again later, or stop it", core->holder);
	if (r < 0 && core->lock >= 0 && streq(name, "restore"))
		return cli_fail("/run/headroom", "values are not restored: %s: %s",
			core_describe_values_error(core), core_values_cure(core));
	if (r == -EPROTO)
		return cli_fail("/run/headroom", "%s", core_describe_values_error(core));
	if (r < 0)
		return cli_fail("/run/headroom",
			"%s: nothing is written because originals cannot be recorded: %s",
			core_describe_values_error(core), core_values_cure(core));
	return EXIT_OK;
}

static int print_done(struct plan *done, const char *nothing)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = report_plan(done, true);

	plan_clear(done);
	return print_changes(document, nothing);
}

/* Runs the file job in this process. It can last until a restarted program answers. */
static int change_files(struct core *core, enum file_task task, const char *only, struct plan *done)
{
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	struct file_job *job = core_file_job(core, task, only, task != FILE_RESTORE);

	if (!job)
		return -ENOMEM;
	file_transaction(job, &wait);
	return core_adopt_files(core, job, done);
}

static int apply_locally(const struct cli *cli, struct core *core)
{
	struct plan done = {0};
	int r = become_writer(core, "apply", 0), failed;

	if (r != EXIT_OK)
		return r;
	if (core->journal_error < 0)
		return cli_fail(core_state_name(), "%s", core_describe_journal_error(core));
	if (!core_wants_to_write(core))
		return cli_fail(
			"apply", "the configuration says mode: observe, so nothing is written");
	core_reset(core, cli->only);
	/* Finish what a killed process left, after the reset: a failure here must stay recorded. */
	r = change_files(core, FILE_RESUME, cli->only, NULL);
	core_sample(core, false);
	core_poll(core);
	core_plan_only(core, cli->only);
	if (r == 0) {
		core_apply_values(core, cli->only, &done);
		r = change_files(core, FILE_APPLY, cli->only, &done);
	}
	core_keep_drifts(core);
	core_add_unset(core, cli->only, &done);
	failed = print_done(&done, "Nothing to change.");
	return r < 0 ? cli_fail("apply", "%s", strerror(-r)) : failed;
}

/* An agent that only observes goes on without the records, and its socket stays. */
static int remove_runtime(const struct core *core, char path[static PATH_MAX])
{
	static const char *const records[] = {VALUE_STORE_FILE, DRIFTS_FILE, "lock"};
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	char socket_path[PATH_MAX], record[PATH_MAX + 16];
	int r = core_directory(core->host, CORE_RUNTIME, path);
	long status;

	core_socket_path(core->config, socket_path);
	if (r < 0)
		return r;
	/* A frozen agent does not answer, but goes on later. */
	if (client_call(socket_path, NULL, false, "/livez", &answer, &status) == -ENOTCONN)
		return remove_tree(path);
	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		snprintf(record, sizeof(record), "%s/%s", path, records[i]);
		if (unlink(record) < 0 && errno != ENOENT)
			r = -errno;
	}
	return r;
}

static int fail_foreign(const char *owner)
{
	return cli_fail("restore",
		"the values of this node belong to %s: restore there, or use --force", owner);
}

static int plan_from_records(const struct cli *cli, struct core *core)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	struct plan plan = {0};
	const char *owner;
	int r = EXIT_OK;

	core_read_records(core);
	owner = core_other_owner(core);
	if (owner && !cli->force)
		return fail_foreign(owner);
	if (!core->journal)
		return cli_fail(core_state_name(), "%s",
			core->journal_error < 0 ? core_describe_journal_error(core)
						: "its records cannot be read: run as root");
	core_plan_restore(core, cli->only, &plan);
	for (size_t i = 0; i < plan.n; i++)
		r = r == EXIT_FAILED || plan.changes[i].error < 0  ? EXIT_FAILED
		    : r == EXIT_ATTENTION || !plan.changes[i].left ? EXIT_ATTENTION
								   : EXIT_OK;
	document = report_plan(&plan, true);
	plan_clear(&plan);
	if (cli->json)
		json_put(stdout, steal(document), true);
	else
		print_changes(document, "Nothing to restore.");
	return r;
}

/* Needs no lock, so it works beside a running agent. Frees config. */
static int plan_restore(const struct cli *cli, struct config *config)
{
	struct core core = {0};
	int r = core_open(&core, &cli->core, NULL, config);

	r = r < 0 ? cli_fail("node", "%s", strerror(-r)) : plan_from_records(cli, &core);
	core_close(&core);
	return r;
}

static int restore_locally(const struct cli *cli, struct core *core)
{
	struct plan done = {0};
	char path[PATH_MAX];
	const char *owner;
	int r, stored = 0, unrecorded;

	core_read_records(core);
	owner = cli->force ? NULL : core_other_owner(core);
	if (owner && cli->purge)
		printf("Nothing to restore: the values of this node belong to %s.\n", owner);
	else if (owner)
		fail_foreign(owner);
	if (owner)
		return cli->purge ? EXIT_OK : EXIT_FAILED;
	/* Without the records of values, files are restored nevertheless. */
	unrecorded = become_writer(core, "restore", cli->purge ? PURGE_TIMEOUT_S : 0);
	if (core->lock < 0)
		return unrecorded;
	core_restore_values(core, cli->only, &done);
	if (core->journal)
		stored = change_files(core, FILE_RESTORE, cli->only, &done);
	r = print_done(&done, "Nothing to restore.");
	if (!core->journal)
		return cli_fail(core_state_name(), "%sfiles were not: %s",
			unrecorded ? "" : "values were restored, ",
			core_describe_journal_error(core));
	if (stored < 0)
		return cli_fail("journal.json",
			"originals are restored but the journal could not be updated: %s: %s %s",
			strerror(-stored), write_cure(stored), core_state_name());
	r = unrecorded ? unrecorded : r;
	if (r != EXIT_OK || !cli->purge)
		return r;
	r = core_directory(core->host, CORE_STATE, path);
	if (r == 0)
		r = remove_tree(path);
	if (r == 0)
		r = remove_runtime(core, path);
	return r < 0 ? cli_fail(path, "not removed: %s", strerror(-r)) : EXIT_OK;
}

/*
 * Asks the running agent or, if none runs, changes the node in this process under the same lock. A
 * purge never asks the agent, which would go on without its records. Frees the configuration.
 */
static int change_node(const struct cli *cli, struct cli_config given, const char *what,
	const char *nothing, int (*locally)(const struct cli *cli, struct core *core))
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	char socket_path[PATH_MAX], path[256], hung[CLI_ALONE_MAX];
	struct core core = {0};
	int r = -ENOTCONN;
	long status = 0;

	core_socket_path(given.config, socket_path);
	snprintf(path, sizeof(path), "/v1/%s?%s%s%s%s", what,
		cli->force ? "" : "owner=", cli->force ? "" : core_owner(),
		cli->only ? "&only=" : "", cli->only ? cli->only : "");
	if (!cli->purge)
		r = client_call(socket_path, NULL, false, "/livez", &answer, &status);
	if (r == 0)
		r = client_call(socket_path, NULL, true, path, &answer, &status);
	/* It does not hold the lock, and sees the records change. */
	if (r == 0 && cJSON_IsTrue(json_at(answer, "observes")))
		r = -ENOTCONN;
	if (r < 0 && given.faulty)
		cli_print_faults(cli);
	if (r == -ENOTCONN) {
		r = core_open(&core, &cli->core, NULL, given.config);
		r = r < 0 ? cli_fail("node", "%s", strerror(-r)) : locally(cli, &core);
		core_close(&core);
		return r;
	}
	config_free(given.config);
	if (r == -ETIMEDOUT)
		return cli_fail_hung(socket_path, hung);
	if (r < 0)
		return cli_fail(
			socket_path, "%s%s", strerror(-r), r == -EACCES ? ": run as root" : "");
	if (status == 200)
		return print_changes(answer, nothing);
	if (json_text_at(answer, "error")[0])
		return cli_fail("agent", "%s", json_text_at(answer, "error"));
	return cli_fail("agent", "the answer has HTTP status %ld", status);
}

int cli_apply(const struct cli *cli)
{
	struct cli_config loaded = {.config = cli_load_config(cli, NULL)};

	if (!loaded.config)
		return EXIT_FAILED;
	return change_node(cli, loaded, "apply", "Nothing to change.", apply_locally);
}

/* Works with a faulty configuration too. */
int cli_restore(const struct cli *cli)
{
	struct cli_config loaded = {0};

	if (cli->purge && cli->only) {
		cli_fail("--purge", "it removes the records of all tuners: leave out --only");
		return EXIT_USAGE;
	}
	if (cli->plan ? cli->purge : cli->json) {
		cli_fail(cli->plan ? "--purge" : "--json", "%s",
			cli->plan ? "--plan removes nothing: leave out one of them"
				  : "it needs --plan");
		return EXIT_USAGE;
	}
	loaded.config = cli_load_config(cli, &loaded.faulty);
	if (cli->plan && loaded.faulty)
		cli_print_faults(cli);
	if (cli->plan)
		return plan_restore(cli, loaded.config);
	return change_node(cli, loaded, "restore", "Nothing to restore.", restore_locally);
}
