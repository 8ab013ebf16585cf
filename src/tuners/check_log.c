/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of the kernel's log: counts the faults of each process, cgroup or device, then reports
 * each class with its own cure. Lines of programs never count: kmsg_classify() leaves them out.
 */
#include "tuners/checks.h"

#include "base/text.h"
#include "kernel/kmsg.h"
#include "workload/cgroup.h"

#include <sys/sysmacros.h>

#define RECENT_US  (3600 * USEC_PER_SEC) /* an older fault is advice */
#define GROUPS_MAX 64
#define SHOWN_MAX  5 /* findings of a class */

/* The same fault of the same process or device. */
struct fault_group {
	struct kmsg_fault last;
	unsigned times;
	bool is_over;               /* the file system was mounted after the last one */
	uint64_t first_us, last_us; /* CLOCK_REALTIME; 0: not known */
};

struct fault_groups {
	struct fault_group groups[GROUPS_MAX];
	size_t n;
	unsigned n_left_out[KMSG_CLASSES];
};

static uint64_t realtime_of(uint64_t monotonic_us)
{
	uint64_t now = now_us();

	return monotonic_us == 0 ? 0 : realtime_us() - (now - MIN(monotonic_us, now));
}

/* Returns the group to give up for a newer one. */
static struct fault_group *oldest_group(struct fault_groups *all)
{
	struct fault_group *oldest = all->groups;

	for (size_t i = 1; i < all->n; i++)
		if (all->groups[i].last_us < oldest->last_us)
			oldest = &all->groups[i];
	all->n_left_out[oldest->last.class] += oldest->times;
	return oldest;
}

static void count_fault(
	struct fault_groups *all, const struct kmsg_fault *fault, uint64_t monotonic_us)
{
	struct fault_group *group = all->groups;

	while (group < all->groups + all->n &&
		(group->last.class != fault->class || !streq(group->last.subject, fault->subject) ||
			!streq(group->last.cgroup, fault->cgroup)))
		group++;
	if (fault->is_over && group < all->groups + all->n)
		group->is_over = true;
	if (fault->is_over)
		return;
	if (group == all->groups + all->n) {
		group = all->n < GROUPS_MAX ? &all->groups[all->n++] : oldest_group(all);
		*group = (struct fault_group){.first_us = realtime_of(monotonic_us)};
	}
	group->last = *fault;
	group->is_over = false;
	group->last_us = realtime_of(monotonic_us);
	group->times++;
}

/* ---- the cure of each class ---- */

static void cure_oom(
	const struct host *host, const struct kmsg_fault *fault, struct check_finding *finding)
{
	char path[PATH_MAX], quoted[SHELL_WORD_MAX], line[KMSG_CGROUP_MAX + 8];
	char amount[AMOUNT_MAX];
	uint64_t maximum = cgroup_memory_maximum(host, fault->full, path);
	struct workload workload = {WORKLOAD_HOST};
	const char *name = strrchr(fault->full, '/');

	if (!fault->in_cgroup) {
		check_set(finding->hint,
			"the node's memory was used up: ps axo rss,pid,args --sort=-rss shows who uses "
			"it; set memory limits for pods");
		return;
	}
	if (fault->limit > 0 && fault->limit < CGROUP_NO_MAXIMUM)
		text_append(finding->message, sizeof(finding->message), "; its cgroup %s use %s",
			maximum > fault->limit ? "could" : "may",
			amount_text((double)fault->limit, "memory", amount));
	if (maximum >= CGROUP_NO_MAXIMUM) {
		text_append(finding->message, sizeof(finding->message),
			"; now its cgroup has no maximum");
		finding->severity = SEVERITY_ADVICE;
		return;
	}
	if (maximum > fault->limit && fault->limit > 0) {
		text_append(finding->message, sizeof(finding->message), ", raised to %s since",
			amount_text((double)maximum, "memory", amount));
		finding->severity = SEVERITY_ADVICE;
		return;
	}
	snprintf(line, sizeof(line), "0::%s", fault->full);
	(void)cgroup_file_workload(line, &workload);
	if (workload.kind == WORKLOAD_POD || workload.kind == WORKLOAD_CONTAINER)
		check_set(finding->hint, "raise the memory limit of the %s, or find why it grew",
			workload.kind == WORKLOAD_POD ? "pod's container" : "container");
	else if (maximum == 0)
		check_set(finding->hint, "its cgroup has ended: raise the memory limit for its "
					 "next start");
	else if (workload.kind == WORKLOAD_UNIT && name && strstr(name, ".service") &&
		 !strstr(fault->full, ".service/") && !strstr(fault->full, ".scope/"))
		check_set(finding->now, "systemctl set-property --runtime %s MemoryMax=%" PRIu64,
			shell_word(quoted, name + 1), 2 * maximum);
	else
		check_set(finding->now, "echo %" PRIu64 " > %s", 2 * maximum,
			shell_word(quoted, path));
}

/* Finds where a device is mounted. The host's root is not part of the path. */
static bool find_mount(const struct host *host, const char *device, char point[static PATH_MAX])
{
	_cleanup_fclose_ FILE *mounts = mounts_open(host->root);
	struct mount mount;

	while (mounts_next(mounts, &mount)) {
		const char *name = strrchr(mount.source, '/');
		char path[PATH_MAX], link[64], device_path[PATH_MAX];
		ssize_t n;

		/* The kernel says dm-0 where the mount has /dev/mapper/NAME. */
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(mount.device),
			minor(mount.device));
		n = readlink(host_path(host, path, device_path), link, sizeof(link) - 1);
		link[MAX(n, 0)] = '\0';
		if ((name && streq(name + 1, device)) ||
			(n > 0 && strrchr(link, '/') && streq(strrchr(link, '/') + 1, device))) {
			copy_text(point, PATH_MAX, mount.point);
			return true;
		}
	}
	return false;
}

static void cure_read_only(
	const struct host *host, const struct kmsg_fault *fault, struct check_finding *finding)
{
	char point[PATH_MAX], quoted[SHELL_WORD_MAX];

	if (!find_mount(host, fault->subject, point)) {
		text_append(finding->message, sizeof(finding->message), "; not mounted now");
		finding->severity = SEVERITY_ADVICE;
		return;
	}
	text_append(finding->message, sizeof(finding->message), "; mounted at %.200s", point);
	check_set(finding->hint,
		"drain the node, umount %s, check the file system with fsck (XFS: xfs_repair), and "
		"mount it again; kernel-log/io-error says whether the disk is the cause",
		shell_word(quoted, point));
}

/* ---- findings ---- */

static void describe_times(const struct fault_group *group, char *text, size_t size)
{
	char first[CHECK_TIME_MAX], last[CHECK_TIME_MAX];

	snprintf(text, size, group->times == 1 ? "once" : "%u times", group->times);
	if (group->first_us == 0)
		return;
	if (group->times == 1)
		text_append(text, size, " at %s", check_time(group->first_us, first));
	else
		text_append(text, size, " since %s, the last at %s",
			check_time(group->first_us, first), check_time(group->last_us, last));
}

static void set_instance(const struct kmsg_fault *fault, struct check_finding *finding)
{
	char line[KMSG_CGROUP_MAX + 8], owner[WORKLOAD_TEXT_MAX];
	struct workload workload;

	check_about(
		finding, fault->pid > 0 ? INSTANCE_PROCESS : INSTANCE_DEVICE, "%s", fault->subject);
	if (!fault->cgroup[0] || streq(fault->cgroup, "/"))
		return;
	snprintf(line, sizeof(line), "0::%s", fault->cgroup);
	if (cgroup_file_workload(line, &workload))
		workload_describe(&workload, owner, sizeof(owner));
	else
		set_text(owner, fault->cgroup);
	text_append(finding->instance.name, sizeof(finding->instance.name), " in %.120s", owner);
}

static void add_group(struct check_report *report, const struct fault_group *group)
{
	static const char *const verbs[] = {[KMSG_OOM] = "killed for lack of memory",
		[KMSG_HUNG_TASK] = "hung",
		[KMSG_IO_ERROR] = "failed to read or write",
		[KMSG_READ_ONLY] = "became read-only"};
	const struct kmsg_fault *fault = &group->last;
	struct check_finding *finding;
	char times[128];

	describe_times(group, times, sizeof(times));
	finding = check_add(report, CHECK_FAULT, "%s %s", verbs[fault->class], times);
	if (fault->pid > 0)
		text_append(finding->message, sizeof(finding->message), "; %spid %d",
			group->times > 1 ? "last " : "", (int)fault->pid);
	finding->since_us = group->first_us;
	set_instance(fault, finding);
	if (group->is_over) {
		text_append(finding->message, sizeof(finding->message), "; mounted again since");
		finding->severity = SEVERITY_ADVICE;
	} else if (fault->class == KMSG_OOM)
		cure_oom(report->host, fault, finding);
	else if (fault->class == KMSG_READ_ONLY)
		cure_read_only(report->host, fault, finding);
	else if (fault->class == KMSG_HUNG_TASK)
		check_set(finding->hint,
			"dmesg shows where it waits, and headroom top storage which disk is slow; a "
			"file server that does not answer hangs its clients too");
	else
		check_set(finding->hint,
			"dmesg has the lines; smartctl -a shows the state of a disk: replace it, or "
			"detach and attach a volume of a cloud");
	if (group->last_us == 0 || group->last_us + RECENT_US < realtime_us())
		finding->severity = SEVERITY_ADVICE;
}

static int newest_first(const void *a, const void *b)
{
	const struct fault_group *x = a, *y = b;

	return (x->last_us < y->last_us) - (x->last_us > y->last_us);
}

/* Reports a class in its own row. */
static void add_class(
	struct check_report *report, const struct fault_groups *all, enum kmsg_class class)
{
	unsigned n = 0, left_out = all->n_left_out[class];
	char slug[64];

	snprintf(slug, sizeof(slug), "kernel-log/%s", kmsg_classes[class].slug);
	report->row = node_checks;
	while (!streq(report->row->name, slug))
		report->row++;
	for (size_t i = 0; i < all->n; i++) {
		if (all->groups[i].last.class != class)
			continue;
		if (n++ < SHOWN_MAX)
			add_group(report, &all->groups[i]);
		else
			left_out += all->groups[i].times;
	}
	if (n == 0)
		check_add_fine(report);
	else if (left_out > 0)
		text_append(report->findings[report->n - 1].message, CHECK_MESSAGE_MAX,
			"; and %u more of others", left_out);
}

static void add_unreadable(struct check_report *report, int error)
{
	struct check_finding *finding = check_add(
		report, CHECK_UNKNOWN, "the kernel's log cannot be read: %s", strerror(-error));
	const char *cure = "";

	if (error == -EPERM && geteuid() != 0)
		cure = "run the command as root: kernel.dmesg_restrict is 1";
	else if (error == -EPERM && report->host->root[0])
		cure = "in the chart, add SYSLOG to the Helm value capabilities";
	else if (error == -EPERM)
		cure = "CAP_SYSLOG is missing; in the unit, the drop-in examples/kernel-log.conf "
		       "gives it";
	if (cure[0])
		text_append(finding->message, sizeof(finding->message), ": %s", cure);
	check_set(finding->hint, "%s", cure);
}

void check_kernel_log(struct check_report *report)
{
	_cleanup_(cleanup_kmsg_close) struct kmsg *kmsg = NULL;
	_cleanup_free_ struct fault_groups *all = must(calloc(1, sizeof(*all)));
	struct kmsg_record record;
	struct kmsg_fault fault;
	int r = kmsg_open(report->host, KMSG_ALL, 0, &kmsg);

	while (r == 0 && (r = kmsg_next(kmsg, now_us(), &record)) > 0) {
		if (kmsg_classify(kmsg, &record, &fault))
			count_fault(all, &fault, record.time_us);
		r = 0;
	}
	if (r < 0)
		return add_unreadable(report, r);
	check_add_fine(report);
	qsort(all->groups, all->n, sizeof(all->groups[0]), newest_first);
	for (int class = 0; class < KMSG_CLASSES; class ++)
		add_class(report, all, (enum kmsg_class) class);
}
