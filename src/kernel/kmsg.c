/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's log, in this order: the formats of its two sources; the reader; the table of
 * patterns and the classes.
 */
#include "kernel/kmsg.h"

#include "base/text.h"

#include <fcntl.h>
#include <regex.h>
#include <sys/klog.h>

#define RECORD_MAX (16 * 1024) /* bytes; the kernel's own limit is 8 KiB */
#define GROUPS_MAX 5

enum { SYSLOG_READ_ALL = 3, SYSLOG_SIZE_BUFFER = 10 }; /* syslog(2) */

enum kmsg_note { KMSG_NOTE_NONE, KMSG_NOTE_LIMIT, KMSG_NOTE_VICTIM, KMSG_NOTE_OVER };

struct kmsg {
	int fd;             /* -1: syslog(2) */
	char *text, *next;  /* of syslog(2), and its first unread line */
	uint64_t read_us;   /* when it was read */
	uint64_t sequence;  /* of the last record */
	bool is_positioned; /* sequence is set */
	uint64_t lost;

	unsigned rate, n_second;
	uint64_t second; /* in which n_second lines were read */

	regex_t *patterns;
	uint64_t limit;           /* of the last full cgroup */
	struct kmsg_fault victim; /* of the last "oom-kill:" line */
};

/* ---- formats ---- */

static void set_priority(struct kmsg_record *record, unsigned long priority)
{
	record->level = priority & 7;
	record->of_kernel = priority >> 3 == 0; /* the kernel forbids facility 0 to programs */
}

/* "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,...];TEXT\n KEY=VALUE\n", Documentation/ABI: dev-kmsg. */
bool kmsg_parse_record(const char *text, struct kmsg_record *record)
{
	const char *message = strchr(text, ';');
	unsigned long priority;

	if (!message || sscanf(text, "%lu,%" SCNu64 ",%" SCNu64 ",", &priority, &record->sequence,
				&record->time_us) != 3)
		return false;
	set_priority(record, priority);
	snprintf(record->text, sizeof(record->text), "%.*s", (int)strcspn(message + 1, "\n"),
		message + 1);
	text_make_printable(record->text);
	return true;
}

/* "<PRIORITY>[SECONDS.MICROSECONDS][CALLER] TEXT"; a boot option removes time and caller. */
bool kmsg_parse_line(const char *text, struct kmsg_record *record)
{
	unsigned long priority, seconds = 0, microseconds = 0;
	int len = 0, time = 0;

	if (sscanf(text, "<%lu>%n", &priority, &len) != 1 || len == 0)
		return false;
	text += len;
	if (sscanf(text, "[%lu.%6lu]%n", &seconds, &microseconds, &time) == 2 && time > 0)
		text += time;
	if (time > 0 && text[0] == '[')
		text += strcspn(text, "]") + (strchr(text, ']') != NULL);
	text += text[0] == ' ';
	record->time_us = seconds * USEC_PER_SEC + microseconds;
	record->sequence = record->time_us;
	set_priority(record, priority);
	set_text(record->text, text);
	text_make_printable(record->text);
	return true;
}

/* ---- the reader ---- */

static int open_device(const char *path, uint64_t after)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	/* A file that cannot seek is another kind of file. */
	if (fd >= 0 && lseek(fd, 0, after == KMSG_NEW ? SEEK_END : SEEK_SET) < 0) {
		close(fd);
		return -EINVAL;
	}
	return fd < 0 ? -errno : fd;
}

static int read_syslog(struct kmsg *kmsg, uint64_t now_us)
{
	int size = klogctl(SYSLOG_SIZE_BUFFER, NULL, 0), n;

	if (size < 0)
		return -errno;
	free(kmsg->text);
	kmsg->text = must(calloc(1, (size_t)size + 1));
	kmsg->next = kmsg->text;
	kmsg->read_us = now_us;
	n = klogctl(SYSLOG_READ_ALL, kmsg->text, size);
	return n < 0 ? -errno : 0;
}

static void compile_patterns(struct kmsg *kmsg);

int kmsg_open(const struct host *host, uint64_t after, unsigned rate, struct kmsg **ret)
{
	_cleanup_(cleanup_kmsg_close) struct kmsg *kmsg = must(calloc(1, sizeof(*kmsg)));
	char path[PATH_MAX];
	int r;

	kmsg->fd = open_device(host_path(host, "/dev/kmsg", path), after);
	kmsg->rate = rate;
	kmsg->sequence = after == KMSG_NEW ? 0 : after;
	kmsg->is_positioned = after != KMSG_NEW && after != KMSG_ALL;
	if (kmsg->fd < 0) {
		r = read_syslog(kmsg, now_us());
		if (r < 0)
			return r;
		if (after == KMSG_NEW) {
			struct kmsg_record record;

			while (kmsg_next(kmsg, 0, &record) > 0)
				kmsg->n_second = 0;
		}
	}
	compile_patterns(kmsg);
	*ret = steal(kmsg);
	return 0;
}

int kmsg_fd(const struct kmsg *kmsg)
{
	return kmsg->fd;
}

uint64_t kmsg_lost(const struct kmsg *kmsg)
{
	return kmsg->lost;
}

static int next_of_device(struct kmsg *kmsg, struct kmsg_record *record)
{
	char text[RECORD_MAX];

	for (;;) {
		ssize_t n = read(kmsg->fd, text, sizeof(text) - 1);

		if (n < 0 && errno == EAGAIN)
			return 0;
		/* EPIPE: the kernel has overwritten the next record, and continues with its oldest.
		 */
		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		text[n] = '\0';
		if (!kmsg_parse_record(text, record))
			continue;
		if (kmsg->is_positioned && record->sequence <= kmsg->sequence)
			continue;
		if (kmsg->is_positioned)
			kmsg->lost += record->sequence - kmsg->sequence - 1;
		return 1;
	}
}

static int next_of_syslog(struct kmsg *kmsg, uint64_t now_us, struct kmsg_record *record)
{
	uint64_t read = kmsg->sequence;
	char *line;

	if (!kmsg->next && now_us >= kmsg->read_us + USEC_PER_SEC) {
		int r = read_syslog(kmsg, now_us);

		if (r < 0)
			return r;
		while ((line = strsep(&kmsg->next, "\n")))
			if (kmsg_parse_line(line, record) && record->sequence > read)
				break;
		return line ? 1 : 0;
	}
	while ((line = strsep(&kmsg->next, "\n")))
		if (kmsg_parse_line(line, record))
			return 1;
	return 0;
}

int kmsg_next(struct kmsg *kmsg, uint64_t now_us, struct kmsg_record *record)
{
	int r;

	if (now_us / USEC_PER_SEC != kmsg->second) {
		kmsg->second = now_us / USEC_PER_SEC;
		kmsg->n_second = 0;
	}
	if (kmsg->rate > 0 && kmsg->n_second >= kmsg->rate)
		return 0;
	r = kmsg->fd >= 0 ? next_of_device(kmsg, record) : next_of_syslog(kmsg, now_us, record);
	if (r > 0) {
		kmsg->n_second++;
		kmsg->sequence = record->sequence;
		kmsg->is_positioned = true;
	}
	return r;
}

/* ---- classes ---- */

#define KMSG_CLASS_ROW(name, slug, meaning) {slug, meaning},
const struct kmsg_class_row kmsg_classes[KMSG_CLASSES] = {KMSG_CLASSES_LIST(KMSG_CLASS_ROW)};
#undef KMSG_CLASS_ROW

#define BLOCK_ERROR                                                                                \
	"(I/O|critical [a-z]+|critical space allocation|protection|timeout|recoverable transport|" \
	"device resource) error, dev "

/* The first pattern that matches counts. */
static const struct {
	enum kmsg_class class; /* KMSG_CLASSES: no fault */
	enum kmsg_note note;
	const char *regex; /* POSIX extended */
	unsigned subject, pid, cgroup, full;
} patterns[] = {
	/* mm/memcontrol.c and mm/oom_kill.c: the cgroup, the choice, and the kill. */
	{KMSG_CLASSES, KMSG_NOTE_LIMIT, "^memory: usage [0-9]+kB, limit ([0-9]+)kB", 1, 0, 0, 0},
	{KMSG_CLASSES, KMSG_NOTE_VICTIM,
		"^oom-kill:.*,oom_memcg=(.*),task_memcg=(.*),task=.*,pid=([0-9]+),uid=[0-9]+$", 0,
		3, 2, 1},
	{KMSG_CLASSES, KMSG_NOTE_VICTIM,
		"^oom-kill:.*,global_oom,task_memcg=(.*),task=.*,pid=([0-9]+),uid=[0-9]+$", 0, 2, 1,
		0},
	{KMSG_OOM, 0, ": Killed process ([0-9]+) \\((.*)\\),? total-vm:", 2, 1, 0, 0},
	/* kernel/hung_task.c */
	{KMSG_HUNG_TASK, 0, "^INFO: task (.+):([0-9]+) blocked .*for more than [0-9]+ seconds", 1,
		2, 0, 0},
	/* block/blk-core.c. An empty drive is ordinary, and a disk may refuse some requests. */
	{KMSG_CLASSES, 0, "[Ee]rror,? (on )?dev(ice)? (fd|sr)[0-9]+,", 0, 0, 0, 0},
	{KMSG_CLASSES, 0, BLOCK_ERROR ".* op 0x[0-9a-f]+:\\((DISCARD|SECURE_ERASE|WRITE_ZEROES)\\)",
		0, 0, 0, 0},
	{KMSG_IO_ERROR, 0, BLOCK_ERROR "([^ ,]+), sector", 2, 0, 0, 0},
	{KMSG_IO_ERROR, 0, "^Buffer I/O error on dev(ice)? ([^ ,]+), logical block", 2, 0, 0, 0},
	{KMSG_IO_ERROR, 0, "^nvme (nvme[0-9]+): I/O .*timeout", 1, 0, 0, 0},
	/* fs/ext4, xfs, btrfs, f2fs */
	{KMSG_READ_ONLY, 0, "^(EXT[234]|F2FS)-fs \\(([^)]+)\\): Remounting filesystem read-only", 2,
		0, 0, 0},
	{KMSG_READ_ONLY, 0,
		"^XFS \\(([^)]+)\\): .*([Ss]hutting down filesystem|has been shut down due to)", 1,
		0, 0, 0},
	{KMSG_READ_ONLY, 0, "^BTRFS[a-z ]* \\(device ([^ ):]+)[^)]*\\).*forced readonly", 1, 0, 0,
		0},
	/* Mounted again, which needs a working file system. */
	{KMSG_READ_ONLY, KMSG_NOTE_OVER,
		"^EXT[234]-fs \\(([^)]+)\\): (mounted filesystem|re-mounted [^ ]+ r/w)", 1, 0, 0,
		0},
	{KMSG_READ_ONLY, KMSG_NOTE_OVER, "^XFS \\(([^)]+)\\): Ending (clean mount|recovery)", 1, 0,
		0, 0},
	{KMSG_READ_ONLY, KMSG_NOTE_OVER,
		"^BTRFS[a-z ]* \\(device ([^ ):]+)[^)]*\\).*first mount of filesystem", 1, 0, 0, 0},
	{KMSG_READ_ONLY, KMSG_NOTE_OVER, "^F2FS-fs \\(([^)]+)\\): Mounted with checkpoint", 1, 0, 0,
		0},
	{KMSG_IO_ERROR, 0, "^EXT[234]-fs error \\(device ([^)]+)\\)", 1, 0, 0, 0},
	{KMSG_IO_ERROR, 0, "^XFS \\(([^)]+)\\): .*(I/O error|[Cc]orruption)", 1, 0, 0, 0},
	{KMSG_IO_ERROR, 0, "^BTRFS (error|critical) \\(device ([^ ):]+)[^)]*\\).*(errs:|corrupt)",
		2, 0, 0, 0},
};

static void compile_patterns(struct kmsg *kmsg)
{
	kmsg->patterns = must(calloc(ARRAY_SIZE(patterns), sizeof(*kmsg->patterns)));
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		must_do(regcomp(&kmsg->patterns[i], patterns[i].regex, REG_EXTENDED) == 0);
}

void kmsg_close(struct kmsg *kmsg)
{
	for (size_t i = 0; kmsg->patterns && i < ARRAY_SIZE(patterns); i++)
		regfree(&kmsg->patterns[i]);
	if (kmsg->fd >= 0)
		close(kmsg->fd);
	free(kmsg->patterns);
	free(kmsg->text);
	free(kmsg);
}

static void copy_group(
	const char *text, const regmatch_t *groups, unsigned i, char *to, size_t size)
{
	to[0] = '\0';
	if (i > 0 && groups[i].rm_so >= 0)
		snprintf(to, size, "%.*s", (int)(groups[i].rm_eo - groups[i].rm_so),
			text + groups[i].rm_so);
}

/* Adds what the lines before say about the process. */
static void add_victim(struct kmsg *kmsg, const char *text, struct kmsg_fault *fault)
{
	fault->in_cgroup = starts_with(text, "Memory cgroup");
	if (kmsg->victim.pid != fault->pid)
		return;
	set_text(fault->cgroup, kmsg->victim.cgroup);
	set_text(fault->full, kmsg->victim.full);
	if (fault->full[0])
		fault->limit = kmsg->limit;
}

bool kmsg_classify(struct kmsg *kmsg, const struct kmsg_record *record, struct kmsg_fault *fault)
{
	regmatch_t groups[GROUPS_MAX];
	char number[24];
	size_t i = 0;

	if (!record->of_kernel)
		return false;
	while (i < ARRAY_SIZE(patterns) &&
		regexec(&kmsg->patterns[i], record->text, GROUPS_MAX, groups, 0) != 0)
		i++;
	if (i == ARRAY_SIZE(patterns))
		return false;
	*fault = (struct kmsg_fault){
		.class = patterns[i].class, .is_over = patterns[i].note == KMSG_NOTE_OVER};
	copy_group(
		record->text, groups, patterns[i].subject, fault->subject, sizeof(fault->subject));
	copy_group(record->text, groups, patterns[i].cgroup, fault->cgroup, sizeof(fault->cgroup));
	copy_group(record->text, groups, patterns[i].full, fault->full, sizeof(fault->full));
	copy_group(record->text, groups, patterns[i].pid, number, sizeof(number));
	fault->pid = atoi(number);
	if (patterns[i].note == KMSG_NOTE_LIMIT)
		kmsg->limit = strtoull(fault->subject, NULL, 10) * 1024;
	else if (patterns[i].note == KMSG_NOTE_VICTIM)
		kmsg->victim = *fault;
	else if (fault->class == KMSG_OOM)
		add_victim(kmsg, record->text, fault);
	return fault->class != KMSG_CLASSES;
}
