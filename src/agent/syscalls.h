/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Allows this process, all its threads and the programs that it runs only the system calls of a
 * table, from now on. Any other call fails with ENOSYS, as on an older kernel, and the kernel logs
 * it (audit type 1326). It needs no privileges. Without seccomp in the kernel it logs a line, and
 * all calls stay allowed.
 */
void syscalls_restrict(void);
