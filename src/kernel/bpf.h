/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_BPF_H
#define KERNEL_BPF_H

#include <stddef.h>

/*
 * What every user of libbpf needs: its messages go to the log at debug level, and an error of
 * opening, loading or attaching becomes one sentence with errno and cure in why.
 */
void bpf_quiet_libbpf(void);

/* error is -errno as libbpf returned it. */
void bpf_explain_failure(int error, char *why, size_t size);

#endif
