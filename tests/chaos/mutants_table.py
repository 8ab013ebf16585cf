# SPDX-License-Identifier: Apache-2.0
"""Mends taken out, to measure the power of the histories: name -> (file, text, its replacement).

tests/chaos/mutants [NAME...] applies each to a scratch copy and prints how soon a promise is broken.
"""

MUTANTS: dict[str, tuple[str, str, str]] = {
    "restart-without-end": (
        "src/model/restart.c",
        "budget_us = MAX(rest_us(history, RESTARTS_AN_HOUR - kept, HOUR_S, now_s),",
        "budget_us = 0 * MAX(rest_us(history, RESTARTS_AN_HOUR - kept, HOUR_S, now_s),",
    ),
    "roll-back-beyond-the-budget": (
        "src/model/restart.c",
        "budget_us = MAX(rest_us(history, RESTARTS_AN_HOUR - kept, HOUR_S, now_s),",
        "budget_us = !kept ? 0 : MAX(rest_us(history, RESTARTS_AN_HOUR - kept, HOUR_S, now_s),",
    ),
    "slow-drift": ("src/apply/reconcile.c", "FIGHT_ROUNDS + 1, FIGHT_US, now", "FIGHT_ROUNDS + 1, 60 * USEC_PER_SEC, now"),
    "fight-of-a-day": ("src/apply/reconcile.c", "FIGHT_ROUNDS + 1, FIGHT_US, now", "FIGHT_ROUNDS + 1, DAY_US, now"),
    "drift-forgotten-at-restart": ("src/agent/kept.c", "core->n_drifts = kept;", "core->n_drifts = 0 * kept;"),
    "drift-forgotten-at-reload": ("src/agent/core.c", "reconcile_reset(&core->node, NULL, false);", "reconcile_reset(&core->node, NULL, true);"),
    "package-against-daemonset": (
        "src/cli/apply.c",
        "owner = cli->force ? NULL : core_other_owner(core);",
        "owner = NULL;",
    ),
    "emptydir-instead-of-run": ("src/agent/core.c", "own.st_dev != hosts.st_dev || own.st_ino != hosts.st_ino)", "own.st_ino == 0)"),
    "emptydir-hides-release": ("src/agent/core.c", "		core->released = journal->released;\n}", "		(void)0;\n}"),
    "purge-deletes-originals": (
        "packaging/debian/postrm",
        "if [ -e /var/lib/headroom/journal.json ] || [ -e /var/lib/headroom/files ] || [ -e /run/headroom/values ]; then",
        "if false; then",
    ),
    "purge-takes-the-socket": (
        "src/cli/apply.c",
        'if (client_call(socket_path, NULL, false, "/livez", &answer, &status) == -ENOTCONN)',
        "status = 0;\n	if (status == 0 && !answer)",
    ),
    "restore-cut-short": ("src/apply/file_transaction.c", "file->written || resumed;", "file->written;"),
    "second-agent": ("src/apply/values.c", "flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {", "flock(fd, LOCK_UN) < 0; i++) {"),
    "floor-of-the-administrator": ("src/model/setting.c", ": record->chosen;", ': "";'),
    "status-waits-for-each-program": ("src/cli/cli.c", "? 900 : 1800) * USEC_PER_MSEC;", "? 0 : 0) * USEC_PER_MSEC;"),
    "restart-with-never": ("src/model/restart.c", "{policy == RESTART_NEVER, REASON", "{policy == RESTART_NEVER && !daemon, REASON"),
    "restart-during-a-pull": ("src/apply/file_transaction.c", "&& !is_idle(job, daemon)) {", "&& !is_idle(job, daemon) && !job) {"),
    "restart-with-a-refused-file": (
        "src/apply/file_transaction.c",
        "	int r = edit_check(&job->host, daemon, job->wait, why);\n\n	if (r < 0 && r != -ECANCELED) {\n		snprintf(refusal",
        "	int r = 0;\n\n	if (r < 0 && r != -ECANCELED) {\n		snprintf(refusal",
    ),
    "flag-of-dockerd": (
        "src/tuners/runtime/decide.c",
        "if (runtime->on_command[setting] && ours && want->file->on_disk[0] &&",
        "if (runtime->on_command[setting] && ours && false && want->file->on_disk[0] &&",
    ),
    "transfers-after-restore": ("src/agent/agent.c", "if (is_old || tuner->mode != MODE_ENFORCE ||", "if (is_old ||"),
    "clock-ahead": ("src/tuners/images/tuner.c", "MIN(preload->first_seen_us, now);", "preload->first_seen_us;"),
    "release-is-forgotten": ("src/agent/core.c", "core->journal->released = core->released;", "(void)0;"),
    "faulty-file-means-defaults": ("src/agent/agent.c", "if (faults.n == 0)\n		r = core_load_config(", "faults.n = 0;\n	if (faults.n == 0)\n		r = core_load_config("),
    "records-of-another-boot": ("src/apply/values.c", "	if (boot[0] && strncmp(", "	if (!boot[0] && strncmp("),
    "write-before-record": ("src/apply/values.c", "change->error = put_record(store, &record);", "change->error = known ? put_record(store, &record) : 0;"),
    "tag-moved-back": ("src/tuners/images/transfer.c", "		(changed || (", "		(known || changed || ("),
    "archive-of-others": ("src/tuners/images/transfer.c", "		(changed || (", "		(!known || changed || ("),
    "store-threshold": ("src/tuners/images/transfer.c", "preload->need > room) {", "preload->need > room && false) {"),
    "hung-file-system": (
        "src/agent/core.c",
        "	tuner->requested_us[kind] = now_us();\n",
        "	tuner->requested_us[kind] = now_us();\n	(void)task_end(&task->task, UINT64_MAX);\n",
    ),
}
