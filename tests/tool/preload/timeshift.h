/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* world.py has the same layout. */
struct control {
	_Atomic int64_t monotonic, realtime, boottime; /* ns */
	_Atomic int64_t crash_pid;                     /* this process is killed */
	_Atomic int64_t crash_left;                    /* after this many changes of files */
	_Atomic int64_t crash_order;                   /* counts such orders of a test */
	_Atomic int64_t turns;                         /* threads wait for their turns */
};

#pragma GCC visibility push(hidden)
/* This process has it, or the pointer is NULL. */
extern struct control *control;

void files_init(void);
void files_closed(int fd);
#pragma GCC visibility pop
