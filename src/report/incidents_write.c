/* SPDX-License-Identifier: Apache-2.0 */
#include "report/incidents.h"

#include "base/file.h"
#include "base/text.h"

#include <sys/statvfs.h>

#define MARK        "agent.json"
#define SMALL_MAX   (64 * 1024) /* of MARK and INCIDENT_COUNTS */
#define DAYS_MAX    7           /* in INCIDENT_COUNTS */
#define OBJECTS_MAX 64          /* of a day */

#define INCIDENT_STAMP 16 /* length of the time in an id: 20261126T062306Z */

/* Files are pruned each time one of them grew by so much: the open ones stay below 1 MiB more. */
#define PRUNE_EVERY (64 * 1024)

void incident_path(
	const char *directory, const char *id, const char *suffix, char path[static PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s" INCIDENT_SUFFIX "%s", directory, id, suffix);
}

cJSON *incident_read_small(const char *directory, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	cJSON *document = NULL;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (read_file(path, SMALL_MAX, &text, NULL) == 0)
		document = cJSON_Parse(text);
	if (cJSON_IsObject(document))
		return document;
	cJSON_Delete(document);
	return cJSON_CreateObject();
}

/* Deletes the document. */
static int write_small(const char *directory, const char *name, cJSON *document)
{
	_cleanup_free_ char *text = must(cJSON_PrintUnformatted(document));
	char path[PATH_MAX];

	cJSON_Delete(document);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return replace_path(path, text, strlen(text), false);
}

static cJSON *member(cJSON *parent, const char *key)
{
	cJSON *found = cJSON_GetObjectItemCaseSensitive(parent, key);

	if (cJSON_IsObject(found))
		return found;
	cJSON_DeleteItemFromObjectCaseSensitive(parent, key);
	found = must(cJSON_CreateObject());
	cJSON_AddItemToObject(parent, key, found); /* copies the key */
	return found;
}

/*
 * Counts an incident of today. why: it was not recorded for this reason. NULL: it is recorded, or
 * the day has enough: -EDQUOT.
 */
static int count(const char *directory, const char *object, const char *why)
{
	cJSON *counts = incident_read_small(directory, INCIDENT_COUNTS), *day, *row;
	char today[TIME_TEXT_MAX];
	const char *counted;
	double n;
	int r = 0;

	time_text(realtime_us(), today);
	today[strlen("YYYY-MM-DD")] = '\0';
	day = member(counts, today);
	if (!json_at(day, object) && cJSON_GetArraySize(day) >= OBJECTS_MAX)
		object = "other";
	while (cJSON_GetArraySize(counts) > DAYS_MAX)
		cJSON_Delete(cJSON_DetachItemFromArray(counts, 0));
	row = member(day, object);
	if (!why && json_number_at(row, "recorded") >= INCIDENTS_A_DAY) {
		why = "20 a day are recorded";
		r = -EDQUOT;
	}
	counted = why ? "skipped" : "recorded";
	n = json_number_at(row, counted) + 1;
	cJSON_DeleteItemFromObjectCaseSensitive(row, counted);
	json_number(row, counted, n);
	if (why) {
		cJSON_DeleteItemFromObjectCaseSensitive(row, "why");
		json_text(row, "why", why);
	}
	(void)write_small(directory, INCIDENT_COUNTS, counts);
	return r;
}

void incident_skip(const char *directory, const char *object, const char *why)
{
	(void)count(directory, object, why);
}

/* Whether a file name is that of an incident; id gets the name without suffixes. */
static bool parse_name(const char *name, char id[static INCIDENT_ID_MAX], bool *part)
{
	size_t len = strlen(name), suffix = strlen(INCIDENT_SUFFIX);

	*part = len > strlen(INCIDENT_PART) &&
		streq(name + len - strlen(INCIDENT_PART), INCIDENT_PART);
	if (*part)
		len -= strlen(INCIDENT_PART);
	if (len <= INCIDENT_STAMP + 1 + suffix || len - suffix >= INCIDENT_ID_MAX ||
		!starts_with(name + len - suffix, INCIDENT_SUFFIX) || name[0] == '.')
		return false;
	copy_text(id, len - suffix + 1, name);
	return id[INCIDENT_STAMP] == '-';
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct incident_file *)a)->id, ((const struct incident_file *)b)->id);
}

struct incident_file *incident_files(const char *directory, size_t *n)
{
	_cleanup_(cleanup_closedir) DIR *open_directory = opendir(directory);
	struct incident_file *files = NULL;
	size_t allocated = 0;
	const struct dirent *entry;

	*n = 0;
	while (open_directory && (entry = readdir(open_directory))) {
		struct incident_file file;
		struct stat st;

		if (!parse_name(entry->d_name, file.id, &file.part) ||
			fstatat(dirfd(open_directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		file.size = (uint64_t)st.st_size;
		*add_element(&files, n, &allocated) = file;
	}
	if (*n > 0)
		qsort(files, *n, sizeof(*files), by_id);
	return files;
}

static size_t count_like(
	const struct incident_file *files, size_t n, const struct incident_file *like)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += !files[i].part &&
			 streq(files[i].id + INCIDENT_STAMP, like->id + INCIDENT_STAMP);
	return found;
}

/*
 * Removes files until they have at most max bytes: each time the oldest of the object that has most
 * files.
 */
static void prune(const char *directory, uint64_t max)
{
	size_t n;
	_cleanup_free_ struct incident_file *files = incident_files(directory, &n);
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += files[i].size;
	while (bytes > max) {
		size_t most = 0, oldest = n;
		char path[PATH_MAX];

		for (size_t i = 0; i < n; i++) {
			size_t alike = files[i].part ? 0 : count_like(files, n, &files[i]);

			if (alike > most) { /* the first of them is the oldest */
				most = alike;
				oldest = i;
			}
		}
		if (oldest == n)
			return;
		incident_path(directory, files[oldest].id, "", path);
		unlink(path);
		bytes -= files[oldest].size;
		memmove(&files[oldest], &files[oldest + 1], (--n - oldest) * sizeof(*files));
	}
}

/* A reader must never see half a line followed by another. */
static int append(int fd, const char *directory, const char *text, uint64_t max)
{
	size_t len = strlen(text);
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : 0;

	if (r == 0 && (uint64_t)st.st_size + len > max)
		r = -EFBIG;
	if (r == 0)
		r = write_all(fd, text, len);
	if (r < 0 && r != -EFBIG)
		(void)!ftruncate(fd, st.st_size);
	if (r == 0 &&
		(uint64_t)st.st_size / PRUNE_EVERY != ((uint64_t)st.st_size + len) / PRUNE_EVERY)
		prune(directory, INCIDENTS_BYTES_MAX - INCIDENT_BYTES_MAX);
	return r;
}

int incident_begin(const char *directory, const char *id, const char *object, const char *text)
{
	_cleanup_close_ int fd = -1;
	char part[PATH_MAX], whole[PATH_MAX];
	struct statvfs fs;
	int r = make_directories(directory, 0700);

	if (r < 0)
		return r;
	incident_path(directory, id, INCIDENT_PART, part);
	incident_path(directory, id, "", whole);
	if (statvfs(directory, &fs) == 0 && fs.f_blocks > 0 &&
		fs.f_bavail < fs.f_blocks * INCIDENTS_FREE_MIN / 100) {
		incident_skip(directory, object, "less than 5 % of the disk is free");
		return -ENOSPC;
	}
	if (access(whole, F_OK) == 0)
		return -EEXIST;
	r = count(directory, object, NULL);
	if (r < 0)
		return r;
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : append(fd, directory, text, INCIDENT_BYTES_MAX);
	if (fd >= 0 && r < 0)
		unlink(part);
	return r;
}

static int append_to(const char *directory, const char *id, const char *text, uint64_t max)
{
	_cleanup_close_ int fd = -1;
	char part[PATH_MAX];

	incident_path(directory, id, INCIDENT_PART, part);
	fd = open(part, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : append(fd, directory, text, max);
}

int incident_append(const char *directory, const char *id, const char *text)
{
	return append_to(directory, id, text, INCIDENT_BYTES_MAX);
}

/* Makes the file durable under its final name. */
static int finish(const char *directory, const char *id)
{
	_cleanup_close_ int fd = -1, parent = -1;
	char part[PATH_MAX], whole[PATH_MAX];

	incident_path(directory, id, INCIDENT_PART, part);
	incident_path(directory, id, "", whole);
	fd = open(part, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || parent < 0 || fdatasync(fd) < 0 || rename(part, whole) < 0 ||
		fsync(parent) < 0)
		return -errno;
	return 0;
}

int incident_end(const char *directory, const char *id, const char *text)
{
	int r = append_to(directory, id, text, 2 * INCIDENT_BYTES_MAX), f;

	if (r == -ENOENT)
		return r;
	f = finish(directory, id);
	prune(directory, INCIDENTS_BYTES_MAX - INCIDENT_BYTES_MAX);
	return r < 0 ? r : f;
}

static void close_left(const char *directory, const char *id)
{
	_cleanup_free_ char *text = NULL, *last = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *line = NULL;
	char path[PATH_MAX], end[256];
	size_t len, whole;

	incident_path(directory, id, INCIDENT_PART, path);
	if (read_file(path, 2 * INCIDENT_BYTES_MAX, &text, &len) < 0)
		return;
	for (whole = len; whole > 0 && text[whole - 1] != '\n'; whole--)
		;
	if (whole == 0) {
		unlink(path);
		return;
	}
	(void)!truncate(path, (off_t)whole);
	text[whole - 1] = '\0';
	last = strrchr(text, '\n');
	last = must(strdup(last ? last + 1 : text));
	line = cJSON_Parse(last);
	if (!json_at(line, "end")) {
		snprintf(end, sizeof(end),
			"{\"t\":%.0f,\"end\":\"cut-short\",\"text\":\"the record ends here: the agent was "
			"killed, the node stopped, or the file could not be written\"}\n",
			json_number_at(line, "t"));
		(void)append_to(directory, id, end, 2 * INCIDENT_BYTES_MAX);
	}
	(void)finish(directory, id);
}

void incidents_close_left(const char *directory)
{
	size_t n;
	_cleanup_free_ struct incident_file *files = incident_files(directory, &n);

	for (size_t i = 0; i < n; i++)
		if (files[i].part)
			close_left(directory, files[i].id);
	prune(directory, INCIDENTS_BYTES_MAX);
}

int incidents_mark(const char *directory, const char *boot, bool stopped)
{
	cJSON *mark = cJSON_CreateObject();

	json_text(mark, "boot", boot);
	json_bool(mark, "stopped", stopped);
	json_time(mark, "at", realtime_us());
	return write_small(directory, MARK, mark);
}

int incidents_mark_start(const char *directory, const char *boot, char how[INCIDENTS_START_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *mark = incident_read_small(directory, MARK);
	bool same = streq(json_text_at(mark, "boot"), boot);
	bool stopped = cJSON_IsTrue(json_at(mark, "stopped"));
	int r = make_directories(directory, 0700);

	if (!json_at(mark, "boot"))
		copy_text(how, INCIDENTS_START_MAX, "for the first time on this node");
	else if (same)
		copy_text(how, INCIDENTS_START_MAX,
			stopped ? "after a stop"
				: "after the previous one was killed or crashed, without a reboot");
	else
		copy_text(how, INCIDENTS_START_MAX,
			stopped ? "after a reboot"
				: "after the node went down without a shutdown of the agent: a "
				  "crash, a reset or a loss of power");
	return r < 0 ? r : incidents_mark(directory, boot, false);
}
