/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/bpf.h"

#include "base/log.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

/* Logs each line: a message may be the whole log of the verifier. */
static int PRINTF_LIKE(2, 0) log_libbpf(enum libbpf_print_level, const char *format, va_list args)
{
	_cleanup_free_ char *text = NULL;
	char *state = NULL;

	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
		return 0;
	}
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
		log_debug("bpf", "%s", line);
	return 0;
}

void bpf_quiet_libbpf(void)
{
	libbpf_set_print(log_libbpf);
}

void bpf_explain_failure(int error, char *why, size_t size)
{
	const char *cure = "HEADROOM_LOG_LEVEL=debug shows the messages of the kernel";

	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		cure = "the kernel's types are not at /sys/kernel/btf/vmlinux; it needs "
		       "CONFIG_DEBUG_INFO_BTF=y and an unmasked /sys";
	else if (!capability_have(CAP_SYS_ADMIN) &&
		 (!capability_have(CAP_BPF) || !capability_have(CAP_PERFMON)))
		/* Root begins with all capabilities: the agent has dropped the missing ones. */
		cure = geteuid() == 0 && cap_get_bound(CAP_BPF) > 0 &&
				       cap_get_bound(CAP_PERFMON) > 0
			       ? "restart the agent: it drops the capabilities to load programs after its start"
			       : "give CAP_BPF and CAP_PERFMON";
	else if (error == -EPERM && !capability_have(CAP_NET_ADMIN))
		cure = "give CAP_NET_ADMIN";
	else if (error == -EPERM)
		cure = "something denies bpf(2): seccomp, lockdown or an LSM";
	else if (error == -EINVAL)
		cure = "lockdown in confidentiality mode refuses programs that read kernel memory; "
		       "else HEADROOM_LOG_LEVEL=debug shows the messages of the kernel";
	snprintf(why, size, "BPF: %s: %s", strerror(-error), cure);
}

int capability_keep(const cap_value_t *kept, size_t n)
{
	cap_t caps = cap_init();
	int r = caps ? 0 : -errno;

	for (size_t i = 0; caps && i < n; i++) {
		if (!capability_have(kept[i]))
			continue;
		cap_set_flag(caps, CAP_PERMITTED, 1, &kept[i], CAP_SET);
		cap_set_flag(caps, CAP_EFFECTIVE, 1, &kept[i], CAP_SET);
	}
	if (caps && cap_set_proc(caps) < 0)
		r = -errno;
	cap_free(caps);
	return r;
}

bool bpf_kernel_has_function(const char *name)
{
	struct btf *types = btf__load_vmlinux_btf();
	bool has = types && btf__find_by_name_kind(types, name, BTF_KIND_FUNC) > 0;

	btf__free(types);
	return has;
}

/* Elements per system call; more than a bucket of a hash table has. */
#define AT_ONCE 256

int bpf_each(int map, size_t key_size, size_t value_size, bpf_visit *visit, void *userdata)
{
	_cleanup_free_ char *keys = must(calloc(AT_ONCE, key_size));
	_cleanup_free_ char *values = must(calloc(AT_ONCE, value_size));
	uint32_t position, *from = NULL; /* in a hash table: the number of a bucket */
	int r;

	do {
		uint32_t n = AT_ONCE;

		r = bpf_map_lookup_batch(map, from, &position, keys, values, &n, NULL);
		if (r < 0 && r != -ENOENT)
			return r;
		for (uint32_t i = 0; i < n; i++)
			visit(userdata, keys + i * key_size, values + i * value_size);
		from = &position;
	} while (r == 0);
	return 0;
}
