/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks of `headroom doctor` that no tuner makes. Each row of node_checks has a slug, which
 * doctor.ignore takes, and a function that reads the node once. A finding has the instance, and a
 * cure made from its names and values.
 */

#include "kernel/host.h"
#include "tuners/table.h"

/* Adds a finding of the report's row with a message. It is valid until the next one. */
struct check_finding *check_add(struct check_report *report, enum check_result result,
	const char *format, ...) PRINTF_LIKE(3, 4);

/* The finding of a node without anything wrong. */
void check_add_fine(struct check_report *report);

/* The finding of a file that cannot be read: absent with ENOENT, else unknown with the cure. */
void check_add_unread(struct check_report *report, const char *path, int error);

/* Sets what the finding is about. */
void check_about(struct check_finding *finding, enum instance_kind kind, const char *format, ...)
	PRINTF_LIKE(3, 4);

#define check_set(array, ...) snprintf((array), sizeof(array), __VA_ARGS__)

/* Writes "13:05 UTC", with the date if it is older than a day. */
#define CHECK_TIME_MAX 32
const char *check_time(uint64_t realtime_us, char text[static CHECK_TIME_MAX]);

/* The functions of the rows. */
check_fn check_kernel_log;
check_fn check_resolver;
check_fn check_units;
check_fn check_clock;
check_fn check_swap;
check_fn check_cgroup_controllers;
check_fn check_ip_forward;
check_fn check_bridge_netfilter;
