/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <bpf/bpf.h>
#include <string.h>
#include <unistd.h>

/* This process's descriptor of the BPF program with this name, or -1. */
static inline int dns_program(const char *name)
{
	for (int fd = 3; fd < 256; fd++) {
		struct bpf_prog_info info = {0};
		unsigned size = sizeof(info);

		if (bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && strcmp(info.name, name) == 0)
			return fd;
	}
	return -1;
}
