/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "cli/cli.h"

#include "base/util.h"
#include "cli/changes.h"
#include "cli/client.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>

#include <cjson/cJSON.h>

static int say_error(const char *json, long status)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_Parse(json);
	const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "error"));

	return error ? cli_fail("agent", "%s", error)
		     : cli_fail("agent", "answered with HTTP status %ld", status);
}

static int print_done(const char *json, const char *nothing)
{
	int failed = print_changes(json);

	if (failed < 0)
		return cli_fail("agent", "answered in an unknown form");
	if (failed == 0 && strstr(json, "\"name\"") == NULL)
		puts(nothing);
	return failed > 0 ? EXIT_FAILED : EXIT_OK;
}

/* -ENOTCONN when no agent runs; else an exit code. */
static int ask_agent(
	const char *socket_path, const char *what, const char *only, const char *nothing)
{
	_cleanup_free_ char *json = NULL;
	char path[64];
	long status;
	int r;

	snprintf(path, sizeof(path), "/v1/%s%s%s", what, only ? "?only=" : "", only ? only : "");
	r = client_call(socket_path, NULL, true, path, &json, &status);
	if (r == -ENOTCONN)
		return r;
	if (r < 0)
		return cli_fail(socket_path, "%s%s", strerror(-r),
			r == -EACCES ? ": only root may change the node" : "");
	return status == 200 ? print_done(json, nothing) : say_error(json, status);
}

static int become_writer(struct core *core, const char *who)
{
	char holder[64];
	int r = core_become_writer(core, who, holder, sizeof(holder));

	if (r == -EBUSY)
		return cli_fail("/run/headroom",
			"the lock is held by %s: try again later, or stop it", holder);
	if (r < 0)
		return cli_fail("/run/headroom",
			"%s: nothing is written while originals cannot be recorded: %s",
			r == -EBADMSG ? "values is no file of this version" : strerror(-r),
			r == -ENOSPC ? "make room in it" : "give write access to it");
	if (core->journal_error < 0)
		return cli_fail(
			core_state_directory(), "%s", file_journal_describe(core->journal_error));
	return EXIT_OK;
}

static int print_plan(struct plan *plan, const char *nothing)
{
	_cleanup_free_ char *json = NULL;
	int r = report_plan(plan, true, &json);

	plan_clear(plan);
	return r < 0 ? cli_fail("plan", "%s", strerror(ENOMEM)) : print_done(json, nothing);
}

/* The file's part, in this process: it may take as long as a program takes to answer again. */
static int change_files(struct core *core, enum file_task task, const char *only, struct plan *done)
{
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	struct file_job *job = core_file_job(core, task, only, task != FILE_RESTORE);

	if (!job)
		return -ENOMEM;
	file_transaction(job, &wait);
	return core_take_files(core, job, done);
}

static int apply_locally(const struct cli *cli, struct core *core)
{
	struct plan done = {0};
	int r = become_writer(core, "apply"), failed;

	if (r != EXIT_OK)
		return r;
	if (!core_wants_to_write(core))
		return cli_fail(
			"apply", "the configuration says mode: observe: nothing is written");
	core_reset(core, cli->only);
	/* First what a killed process left open: after the reset, for what fails in it has failed.
	 */
	r = change_files(core, FILE_RESUME, cli->only, NULL);
	core_sample(core);
	if (r == 0)
		r = core_poll(core);
	core_plan_only(core, cli->only);
	if (r == 0) {
		core_apply_values(core, &done);
		r = change_files(core, FILE_APPLY, cli->only, &done);
	}
	core_add_unset(core, cli->only, &done);
	failed = print_plan(&done, "Nothing to change.");
	return r < 0 ? cli_fail("apply", "%s", strerror(-r)) : failed;
}

static int restore_locally(const struct cli *cli, struct core *core)
{
	struct plan done = {0};
	int r = become_writer(core, "restore"), stored;

	if (r != EXIT_OK)
		return r;
	r = core_restore_values(core, cli->only, &done);
	stored = change_files(core, FILE_RESTORE, cli->only, &done);
	r = r < 0 ? cli_fail("restore", "%s", strerror(-r))
		  : print_plan(&done, "Nothing to restore.");
	if (core->journal_lost)
		return cli_fail("journal.json", "%s", core->journal_note);
	if (stored < 0)
		return cli_fail("journal.json",
			"values were restored, but that could not be recorded: make room in %s",
			core_state_directory());
	return r;
}

/* Asks the running agent, else does it here under the same lock. Takes ownership of config. */
static int change_node(const struct cli *cli, struct config *config, const char *what,
	const char *nothing, int (*locally)(const struct cli *cli, struct core *core))
{
	char socket_path[PATH_MAX];
	struct core core = {0};
	int r;

	core_socket_path(config, socket_path);
	r = ask_agent(socket_path, what, cli->only, nothing);
	if (r != -ENOTCONN) {
		config_free(config);
		return r;
	}
	r = core_open(&core, &cli->core, config);
	r = r < 0 ? cli_fail("node", "%s", strerror(-r)) : locally(cli, &core);
	core_close(&core);
	return r;
}

int cli_apply(const struct cli *cli)
{
	struct config *config = cli_load_config(cli);

	if (!config)
		return EXIT_FAILED;
	return change_node(cli, config, "apply", "Nothing to change.", apply_locally);
}

/* It must work whatever became of the configuration. */
int cli_restore(const struct cli *cli)
{
	struct config *config = cli_any_config(cli, NULL);

	if (!config)
		return EXIT_FAILED;
	return change_node(cli, config, "restore", "Nothing to restore.", restore_locally);
}
