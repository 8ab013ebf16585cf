/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/values.h"

#include "base/log.h"
#include "kernel/neightbl.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/vfs.h>

#include <linux/magic.h>
#include <linux/neighbour.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

/* ---- one value ---- */

DEFINE_CLEANUP(struct nl_sock, nl_socket_free)
DEFINE_CLEANUP(struct nl_msg, nlmsg_free)

static int write_text(const struct host *host, const char *path, const char *value)
{
	_cleanup_close_ int fd = -1;
	char full[PATH_MAX];

	fd = open(host_path(host, path, full), O_WRONLY | O_CLOEXEC);
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

int value_set(
	const struct host *host, const struct value_target *target, const char *value, bool urgent)
{
	char full[PATH_MAX];
	struct statfs fs;
	int r = -EOPNOTSUPP;

	if (target->kind == VALUE_FILE)
		return write_text(host, target->path, value);
	if (urgent && write_text(host, target->path, value) == 0)
		return 0;
	/* Netlink speaks to the kernel we run on: a root that is no node's is left to its files. */
	if (statfs(host_path(host, target->path, full), &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC)
		r = set_threshold(target, value);
	if (r == 0 || r == -EINVAL)
		return r;
	return write_text(host, target->path, value) == 0 ? 0 : r;
}

/* ---- plans ---- */

/*
 * before is what a crash between the record and the write leaves behind: ours to restore. A value
 * that someone else wrote is not, so it never gets in there.
 */
static int record_change(struct value_store *store, const struct change *change)
{
	const struct value_record *known =
		value_record_find(store->records, store->n, change->name);
	struct value_record record = {.target = change->target, .grown = change->grown};

	if (known) {
		record = *known;
		if (streq(record.wanted, change->new) && record.grown == change->grown &&
			(value_equal(change->old, record.original) ||
				value_equal(change->old, record.before)))
			return 0;
		copy_text(record.before, sizeof(record.before),
			value_is_foreign(known, change->old) ? known->wanted : change->old);
		record.grown = change->grown;
	} else {
		copy_text(record.name, sizeof(record.name), change->name);
		copy_text(record.tuner, sizeof(record.tuner), change->tuner);
		copy_text(record.original, sizeof(record.original), change->old);
		copy_text(record.before, sizeof(record.before), change->old);
	}
	copy_text(record.wanted, sizeof(record.wanted), change->new);
	return value_store_put(store, &record);
}

/*
 * Where the kernel rounds or limits what is written, what was read back is ours to restore. In a
 * fight it may be someone else's, and is not recorded.
 */
static void record_actual(struct value_store *store, const struct change *change)
{
	const struct value_record *known =
		value_record_find(store->records, store->n, change->name);
	struct value_record record;

	if (!known || streq(change->reason, "drift") || !value_is_foreign(known, change->actual))
		return;
	record = *known;
	copy_text(record.before, sizeof(record.before), change->actual);
	(void)value_store_put(store, &record);
}

/* -ERANGE: the write succeeded, and another value is read. */
static int write_and_read_back(const struct host *host, struct change *change)
{
	/* The path that never waits for other users of rtnetlink is for what is urgent. */
	int r = value_set(host, &change->target, change->new, change->grown);
	int read = host_read_value(host, change->target.path, change->actual);

	if (r < 0 || read < 0)
		return r < 0 ? r : read;
	return value_equal(change->actual, change->new) ? 0 : -ERANGE;
}

void values_apply(const struct host *host, struct value_store *store, struct plan *plan)
{
	plan_sort(plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (change->file)
			continue;
		copy_text(change->actual, sizeof(change->actual), change->old);
		change->error = record_change(store, change);
		if (change->error < 0)
			change->reason = "not-recorded";
	}
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (change->file || change->error < 0)
			continue;
		change->error = write_and_read_back(host, change);
		if (change->error == -ERANGE)
			record_actual(store, change);
		if (change->error < 0)
			change->reason = change->error == -ERANGE ? "not-taken" : "write-refused";
	}
}

/*
 * A thing that has gone (a device, a module) took its value with it; or it cannot be seen from
 * where we are. Either way its record stays until the next boot ends it.
 */
static void plan_restore(
	const struct host *host, const struct value_record *record, struct plan *plan)
{
	struct change *change = plan_add(plan, NULL, record->name, record->tuner, "", "");
	int r;

	r = host_read_value(host, record->target.path, change->old);
	copy_text(change->actual, sizeof(change->actual), change->old);
	change->target = record->target;
	change->gone = r == -ENOENT;
	change->error = change->gone ? 0 : r;
	change->left = change->gone || (r == 0 && value_is_foreign(record, change->old));
	change->reason = change->gone   ? "not-in-this-kernel"
			 : change->left ? "changed-since"
					: "original";
	if (!change->left)
		copy_text(change->new, sizeof(change->new), record->original);
}

void values_restore(
	const struct host *host, struct value_store *store, const char *tuner, struct plan *plan)
{
	for (size_t i = 0; i < store->n; i++)
		if (!tuner || streq(tuner, store->records[i].tuner))
			plan_restore(host, &store->records[i], plan);
	plan_sort(plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (change->error == 0 && !change->left && !value_equal(change->old, change->new))
			change->error = write_and_read_back(host, change);
		if (change->error == 0 && !change->gone)
			value_store_forget(store, change->name);
		if (change->error < 0)
			log_error(change->name, "not restored to %s: %s", change->new,
				strerror(-change->error));
		else if (change->left)
			log_notice(change->name, "left at %s: someone else changed it since",
				change->old);
		else if (!value_equal(change->old, change->new))
			log_info(change->name, "%s -> %s (%s)", change->old, change->new,
				change->reason);
	}
}
