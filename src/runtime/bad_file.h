/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* This module finds out about a file that would keep a program from starting. */

#include "kernel/host.h"

#define BAD_REPAIR_MAX 320
#define BAD_WRITER_MAX 160

struct bad_file {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	unsigned line;               /* 0: not known */
	char repair[BAD_REPAIR_MAX]; /* the whole line that repairs it; "": not known */
	bool removes;                /* the line is to be removed; repair is the line */
	char writer[BAD_WRITER_MAX]; /* "the package containerd.io"; "": not known */
};

/* Finds who has probably written the file: a header, a package, the owner. */
void bad_file_find_writer(const struct host *host, struct bad_file *bad);

/* Returns the line of a fault that begins with "LINE:COLUMN:"; 0: it begins otherwise. */
unsigned bad_file_line(const char *fault);
