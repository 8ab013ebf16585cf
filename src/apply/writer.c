/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/writer.h"

#include "base/util.h"
#include "kernel/neightbl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/vfs.h>

#include <linux/magic.h>
#include <linux/neighbour.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

DEFINE_CLEANUP(struct nl_sock, nl_socket_free)
DEFINE_CLEANUP(struct nl_msg, nlmsg_free)

static int write_text(const struct host *host, const char *path, const char *value)
{
	_cleanup_close_ int fd = -1;
	char full[PATH_MAX];

	if (!host_path(host, path, full))
		return -ENAMETOOLONG;
	fd = open(full, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Writing nothing changes nothing: a value that is empty is an empty line. */
	if (value[0] == '\0')
		value = "\n";
	/* One write(2): procfs and sysfs take a value whole or not at all. */
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

/* libnl folds many errors into one of its own: take the kernel's. */
static int keep_errno(struct sockaddr_nl *peer, struct nlmsgerr *error, void *arg)
{
	(void)peer;
	*(int *)arg = error->error;
	return NL_STOP;
}

static struct nl_msg *threshold_message(const struct value_target *target, uint32_t value)
{
	static const int attributes[] = {0, NDTA_THRESH1, NDTA_THRESH2, NDTA_THRESH3};
	const char *table = neightbl_name(target->family);
	struct ndtmsg header = {.ndtm_family = (uint8_t)target->family};
	_cleanup_(cleanup_nlmsg_free) struct nl_msg *message =
		nlmsg_alloc_simple(RTM_SETNEIGHTBL, NLM_F_REQUEST | NLM_F_ACK);

	if (!message || nlmsg_append(message, &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
		nla_put_string(message, NDTA_NAME, table) < 0 ||
		nla_put_u32(message, attributes[target->level], value) < 0)
		return NULL;
	return steal(message);
}

static int send_and_wait(struct nl_msg *message)
{
	_cleanup_(cleanup_nl_socket_free) struct nl_sock *socket = nl_socket_alloc();
	int kernel_error = 0, r;

	if (!socket)
		return -ENOMEM;
	if (nl_connect(socket, NETLINK_ROUTE) < 0)
		return errno ? -errno : -EPROTONOSUPPORT;
	nl_socket_modify_err_cb(socket, NL_CB_CUSTOM, keep_errno, &kernel_error);
	r = nl_send_auto(socket, message);
	if (r >= 0)
		r = nl_wait_for_ack(socket);
	if (kernel_error < 0)
		return kernel_error;
	return r < 0 ? -EIO : 0;
}

static int set_threshold(const struct value_target *target, const char *value)
{
	_cleanup_(cleanup_nlmsg_free) struct nl_msg *message = NULL;
	uint64_t number;

	if (target->level < 1 || target->level > 3 || parse_count(value, &number) < 0 ||
		number > INT32_MAX)
		return -EINVAL;
	message = threshold_message(target, (uint32_t)number);
	return message ? send_and_wait(message) : -ENOMEM;
}

/* Netlink speaks to the kernel we run on: a root directory that is no node's is left to its files.
 */
static bool is_procfs(const struct host *host, const char *path)
{
	char full[PATH_MAX];
	struct statfs fs;

	return host_path(host, path, full) && statfs(full, &fs) == 0 &&
	       fs.f_type == PROC_SUPER_MAGIC;
}

int writer_set(
	const struct host *host, const struct value_target *target, const char *value, bool urgent)
{
	int r;

	if (target->kind == VALUE_FILE)
		return write_text(host, target->path, value);
	if (urgent && write_text(host, target->path, value) == 0)
		return 0;
	r = is_procfs(host, target->path) ? set_threshold(target, value) : -EOPNOTSUPP;
	if (r == 0 || r == -EINVAL)
		return r;
	return write_text(host, target->path, value) == 0 ? 0 : r;
}
