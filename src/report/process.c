/* SPDX-License-Identifier: Apache-2.0 */
#include "report/process.h"

#include "base/cleanup.h"
#include "base/exposition.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

static void put_cpu(struct metric_sink *sink)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return;
	metric_family(sink, "process_cpu_seconds_total");
	metric_sample(sink, (double)ts.tv_sec + (double)ts.tv_nsec / (double)NSEC_PER_SEC, NULL);
}

static void put_memory(struct metric_sink *sink)
{
	_cleanup_close_ int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	double page = (double)sysconf(_SC_PAGESIZE);
	uint64_t virtual, resident;
	char text[128];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return;
	text[n] = '\0';
	if (sscanf(text, "%" SCNu64 " %" SCNu64, &virtual, &resident) != 2)
		return;
	metric_family(sink, "process_virtual_memory_bytes");
	metric_sample(sink, (double)virtual * page, NULL);
	metric_family(sink, "process_resident_memory_bytes");
	metric_sample(sink, (double)resident * page, NULL);
}

/* One by one, less ".", ".." and the descriptor that is looking. */
static double count_entries(void)
{
	DIR *dir = opendir("/proc/self/fd");
	double n = -3;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void put_descriptors(struct metric_sink *sink)
{
	struct rlimit limit;
	struct stat st;
	double n;

	/* Linux 6.2 (f1f1f2569901) counts them in the directory's size; before it is 0. */
	n = stat("/proc/self/fd", &st) == 0 && st.st_size > 0 ? (double)st.st_size
							      : count_entries();
	if (n >= 0) {
		metric_family(sink, "process_open_fds");
		metric_sample(sink, n, NULL);
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		metric_family(sink, "process_max_fds");
		metric_sample(sink, (double)limit.rlim_cur, NULL);
	}
}

void process_metrics(struct metric_sink *sink, uint64_t started_us)
{
	put_cpu(sink);
	put_memory(sink);
	put_descriptors(sink);
	metric_family(sink, "process_start_time_seconds");
	metric_sample(sink, (double)started_us / (double)USEC_PER_SEC, NULL);
}
