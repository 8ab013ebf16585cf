/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of incidents in the state directory: names and small documents, the days' counts,
 * pruning, writing an incident, the marks of the agent's start and stop, and reading for commands
 * and the HTTP server. Everything here blocks: only tasks and commands call it. It writes nothing
 * outside its directory, keeps no state in memory, and must be safe when two processes write.
 */
#include "report/incidents.h"

#include "base/file.h"
#include "base/text.h"

#include <sys/file.h>
#include <sys/statvfs.h>

#define SUFFIX      ".jsonl"
#define PART        ".part"
#define COUNTS      "counts.json"
#define MARK        "agent.json"
#define SMALL_MAX   (1024 * 1024) /* for MARK and COUNTS */
#define DAYS_MAX    7             /* in COUNTS */
#define OBJECTS_MAX 64            /* in a day that are not recorded; the others are one */
#define CAUSES_MAX  256           /* in a day; the others are one */

/* More than any first or last line. */
#define LINE_MAX_BYTES (32 * 1024)

#define STAMP 16 /* length of the time in an id: 20261126T062306Z */

/* Files are pruned each time one of them grew by so much: the open ones stay below 1 MiB more. */
#define PRUNE_EVERY (64 * 1024)

struct incident_file {
	char id[INCIDENT_ID_MAX];
	bool part;            /* while it is written */
	uint64_t size, cause; /* cause: a hash */
};

/* Writes the path of a file. suffix is PART or "". */
static void make_path(
	const char *directory, const char *id, const char *suffix, char path[static PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s" SUFFIX "%s", directory, id, suffix);
}

/* Reads a JSON document, such as COUNTS: an empty one without the file. */
static cJSON *read_small(const char *directory, const char *name)
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

/* Names may contain a slash, which json_at() takes for a path. */
static double number_of(const cJSON *row, const char *name)
{
	const cJSON *number = cJSON_GetObjectItemCaseSensitive(row, name);

	return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

/* Adds 1 to a number of an object. */
static void add_one(cJSON *row, const char *name)
{
	double n = number_of(row, name) + 1;

	cJSON_DeleteItemFromObjectCaseSensitive(row, name);
	must(cJSON_AddNumberToObject(row, name, n)); /* copies the name */
}

/* Returns the member with this name, or that of all others if there are max already. */
static cJSON *member_of(cJSON *parent, const char *name, int max)
{
	bool is_full = cJSON_GetArraySize(parent) >= max;

	return member(parent,
		is_full && !cJSON_GetObjectItemCaseSensitive(parent, name) ? "other" : name);
}

/* Returns today's counts. Other days keep only the incidents that were not recorded. */
static cJSON *today_of(cJSON *counts)
{
	char today[TIME_TEXT_MAX];
	cJSON *day, *other;

	time_text(realtime_us(), today);
	today[strlen("YYYY-MM-DD")] = '\0';
	day = member(counts, today);
	while (cJSON_GetArraySize(counts) > DAYS_MAX)
		cJSON_Delete(cJSON_DetachItemFromArray(counts, 0));
	cJSON_ArrayForEach (other, counts)
		if (other != day)
			cJSON_DeleteItemFromObjectCaseSensitive(other, "causes");
	return day;
}

/*
 * Counts an incident of a cause, for the limit of its object: without the instance, because one
 * user may have any number of these. Returns false if the day has enough.
 */
static bool count_cause(cJSON *day, const char *object, const char *cause)
{
	cJSON *limits = member_of(member(day, "causes"), cause, CAUSES_MAX), *limit;
	char slug[INCIDENT_OBJECT_MAX];
	double all = 0;

	copy_text(slug, MIN(strcspn(object, "@") + 1, sizeof(slug)), object);
	cJSON_ArrayForEach (limit, limits)
		all += limit->valuedouble;
	if (all >= INCIDENTS_CAUSE || number_of(limits, slug) >= INCIDENTS_A_DAY)
		return false;
	add_one(limits, slug);
	return true;
}

/*
 * Counts an incident of today. why: it was not recorded for this reason. NULL: it is recorded, or
 * the day has enough: -EDQUOT.
 */
static int count(const char *directory, const char *object, const char *cause, const char *why)
{
	cJSON *counts = read_small(directory, COUNTS), *day = today_of(counts), *skipped;
	int r = 0;

	if (!why && !count_cause(day, object, cause)) {
		why = "20 a day of a cause are recorded for a limit, and 60 in all";
		r = -EDQUOT;
	}
	if (why) {
		skipped = member_of(member(day, "skipped"), object, OBJECTS_MAX);
		add_one(skipped, "count");
		cJSON_DeleteItemFromObjectCaseSensitive(skipped, "why");
		json_text(skipped, "why", why);
	}
	(void)write_small(directory, COUNTS, counts);
	return r;
}

void incident_skip(const char *directory, const char *object, const char *why)
{
	(void)count(directory, object, "", why);
}

/* Returns whether a file is an incident; id gets its name without suffixes. */
static bool parse_name(const char *name, char id[static INCIDENT_ID_MAX], bool *part)
{
	size_t len = strlen(name), suffix = strlen(SUFFIX);

	*part = len > strlen(PART) && streq(name + len - strlen(PART), PART);
	if (*part)
		len -= strlen(PART);
	if (len <= STAMP + 1 + suffix || len - suffix >= INCIDENT_ID_MAX ||
		!starts_with(name + len - suffix, SUFFIX) || name[0] == '.')
		return false;
	copy_text(id, len - suffix + 1, name);
	return id[STAMP] == '-';
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct incident_file *)a)->id, ((const struct incident_file *)b)->id);
}

/* Lists all files, oldest first. The caller frees the array. */
static struct incident_file *list_files(const char *directory, size_t *n)
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

/* Parses the line at the begin or, if last, at the end of a file. A torn last line is ignored. */
static cJSON *read_line(int fd, off_t size, bool last)
{
	_cleanup_free_ char *text = must(malloc(LINE_MAX_BYTES + 1));
	off_t at = last && size > LINE_MAX_BYTES ? size - LINE_MAX_BYTES : 0;
	ssize_t n = pread(fd, text, LINE_MAX_BYTES, at);
	char *line = text, *end;

	if (n <= 0)
		return NULL;
	text[n] = '\0';
	end = last ? strrchr(text, '\n') : strchr(text, '\n');
	if (!end)
		return NULL;
	*end = '\0';
	if (last && strrchr(text, '\n'))
		line = strrchr(text, '\n') + 1;
	return cJSON_Parse(line);
}

/* Returns the hash of who is charged with a file. */
static uint64_t cause_of(const char *directory, const struct incident_file *file)
{
	_cleanup_close_ int fd = -1;
	_cleanup_(cleanup_cJSON_Delete) cJSON *first = NULL;
	char path[PATH_MAX];

	make_path(directory, file->id, file->part ? PART : "", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0)
		first = read_line(fd, (off_t)file->size, false);
	return hash_text(HASH_START, json_text_at(first, "cause"));
}

/* Returns the oldest file of the cause that has most bytes; n: none. */
static size_t find_largest(const struct incident_file *files, size_t n)
{
	uint64_t most = 0;
	size_t oldest = n;

	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = 0;

		for (size_t k = 0; k < n; k++)
			bytes += !files[k].part && files[k].cause == files[i].cause ? files[k].size
										    : 0;
		if (!files[i].part && bytes > most) { /* the first of them is the oldest */
			most = bytes;
			oldest = i;
		}
	}
	return oldest;
}

/*
 * Removes files until they have at most max bytes: each time the oldest of the cause that has most
 * bytes.
 */
static void prune(const char *directory, uint64_t max)
{
	size_t n, oldest;
	_cleanup_free_ struct incident_file *files = list_files(directory, &n);
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += files[i].size;
	for (size_t i = 0; i < n && bytes > max; i++)
		files[i].cause = cause_of(directory, &files[i]);
	while (bytes > max && (oldest = find_largest(files, n)) < n) {
		char path[PATH_MAX];

		make_path(directory, files[oldest].id, "", path);
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

int incidents_lock(const char *directory)
{
	_cleanup_close_ int fd = -1;
	char state[PATH_MAX];
	int r;

	set_text(state, directory);
	*strrchr(state, '/') = '\0';
	r = make_directories(state, 0755);
	if (r == 0)
		r = make_directories(directory, 0700);
	if (r < 0)
		return r;
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return steal_fd(&fd);
}

int incident_begin(const char *directory, const char *id, const char *object, const char *cause,
	const char *text)
{
	_cleanup_close_ int fd = -1;
	char part[PATH_MAX], whole[PATH_MAX];
	struct statvfs fs;
	int r = make_directories(directory, 0700);

	if (r < 0)
		return r;
	make_path(directory, id, PART, part);
	make_path(directory, id, "", whole);
	if (statvfs(directory, &fs) == 0 && fs.f_blocks > 0 &&
		fs.f_bavail < fs.f_blocks * INCIDENTS_FREE_MIN / 100) {
		incident_skip(directory, object, "less than 5 % of the disk is free");
		return -ENOSPC;
	}
	if (access(whole, F_OK) == 0)
		return -EEXIST;
	r = count(directory, object, cause, NULL);
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

	make_path(directory, id, PART, part);
	fd = open(part, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : append(fd, directory, text, max);
}

int incident_append(const char *directory, const char *id, const char *text)
{
	return append_to(directory, id, text, INCIDENT_BYTES_MAX);
}

/* Makes the file durable under its final name. */
static int finish_file(const char *directory, const char *id)
{
	_cleanup_close_ int fd = -1, parent = -1;
	char part[PATH_MAX], whole[PATH_MAX];

	make_path(directory, id, PART, part);
	make_path(directory, id, "", whole);
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
	f = finish_file(directory, id);
	prune(directory, INCIDENTS_BYTES_MAX - INCIDENT_BYTES_MAX);
	return r < 0 ? r : f;
}

static void close_left(const char *directory, const char *id)
{
	_cleanup_free_ char *text = NULL, *last = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *line = NULL;
	char path[PATH_MAX], end[256];
	size_t len, whole;

	make_path(directory, id, PART, path);
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
	(void)finish_file(directory, id);
}

void incidents_close_left(const char *directory)
{
	size_t n;
	_cleanup_free_ struct incident_file *files = list_files(directory, &n);

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
	_cleanup_(cleanup_cJSON_Delete) cJSON *mark = read_small(directory, MARK);
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

/* ---- reading ---- */

static const char *state_of(const cJSON *last, bool part)
{
	const char *end = json_text_at(last, "end");

	return streq(end, "cut-short") ? end : end[0] ? "complete" : part ? "open" : "cut-short";
}

void incident_copy(cJSON *to, const cJSON *from, const char *const *keys)
{
	for (; *keys; keys++)
		json_text(to, *keys, json_text_at(from, *keys));
}

/* Returns NULL for a file that is not an incident. */
static cJSON *summary(const char *directory, const struct incident_file *file)
{
	_cleanup_close_ int fd = -1;
	_cleanup_(cleanup_cJSON_Delete) cJSON *first = NULL, *last = NULL;
	char path[PATH_MAX];
	const char *text;
	struct stat st;
	cJSON *row;

	make_path(directory, file->id, file->part ? PART : "", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	first = read_line(fd, st.st_size, false);
	if (!streq(json_text_at(first, "id"), file->id))
		return NULL;
	last = read_line(fd, st.st_size, true);
	row = cJSON_CreateObject();
	incident_copy(row, first, (const char *const[]){"id", "at", "object", "trigger", NULL});
	text = json_text_at(last, "text");
	if (!json_at(last, "end") || streq(json_text_at(last, "end"), "cut-short") || !text[0])
		text = json_text_at(first, "text");
	json_text(row, "text", text);
	json_text(row, "state", state_of(last, file->part));
	json_number(row, "seconds", json_number_at(last, "t"));
	json_number(row, "bytes", (double)st.st_size);
	return row;
}

static void add_not_recorded(cJSON *root, const char *directory)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *counts = read_small(directory, COUNTS);
	cJSON *array = json_array(root, "not_recorded");
	const cJSON *day, *object;

	cJSON_ArrayForEach (day, counts)
		cJSON_ArrayForEach (object, json_at(day, "skipped")) {
			cJSON *row = json_append(array);

			json_text(row, "day", day->string);
			json_text(row, "object", object->string);
			json_number(row, "count", json_number_at(object, "count"));
			json_text(row, "why", json_text_at(object, "why"));
		}
}

cJSON *incidents_list(const char *directory)
{
	cJSON *root = cJSON_CreateObject(), *array, *row;
	size_t n;
	_cleanup_free_ struct incident_file *files = list_files(directory, &n);
	double bytes = 0;

	json_number(root, "schema", 1);
	array = json_array(root, "incidents");
	while (n-- > 0) {
		row = summary(directory, &files[n]);
		bytes += json_number_at(row, "bytes");
		cJSON_AddItemToArray(array, row); /* NULL adds nothing */
	}
	add_not_recorded(root, directory);
	JSON_NUMBERS(root, {"bytes", bytes}, {"max_bytes", (double)INCIDENTS_BYTES_MAX});
	return root;
}

/* Changes with the directory and all of its files, whoever writes them. */
static uint64_t signature(const char *directory)
{
	_cleanup_(cleanup_closedir) DIR *open_directory = opendir(directory);
	const struct dirent *entry;
	uint64_t sum = 1;

	while (open_directory && (entry = readdir(open_directory))) {
		char text[NAME_MAX + 64];
		struct stat st;

		if (fstatat(dirfd(open_directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		snprintf(text, sizeof(text), "%s %ju %jd %jd.%09ld", entry->d_name,
			(uintmax_t)st.st_ino, (intmax_t)st.st_size, (intmax_t)st.st_ctim.tv_sec,
			st.st_ctim.tv_nsec);
		sum += hash_text(HASH_START, text); /* in any order */
	}
	return sum;
}

const char *incidents_text(const char *directory, struct incidents_cache *cache)
{
	uint64_t now = signature(directory);
	cJSON *list;

	if (cache->text && cache->signature == now)
		return cache->text;
	list = incidents_list(directory);
	free(cache->text);
	cache->text = must(cJSON_PrintUnformatted(list));
	cache->signature = now; /* of before: a later change is seen the next time */
	cJSON_Delete(list);
	return cache->text;
}

int incident_read(const char *directory, const char *id, char **document)
{
	static const char *const suffixes[] = {"", PART};
	_cleanup_(cleanup_cJSON_Delete) cJSON *first = NULL, *last = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], *end, *tail;
	size_t len = 0, size;
	int r = -ENOENT, i;
	FILE *out;

	if (id[0] == '.' || strchr(id, '/') || strlen(id) >= INCIDENT_ID_MAX)
		return -EINVAL;
	for (i = 0; i < 2 && r == -ENOENT; i++) {
		make_path(directory, id, suffixes[i], path);
		r = read_file(path, 2 * INCIDENT_BYTES_MAX, &text, &len);
	}
	if (r < 0)
		return r;
	while (len > 0 && text[len - 1] != '\n') /* torn */
		len--;
	text[len] = '\0';
	end = strchr(text, '\n');
	if (!end)
		return -EBADMSG;
	*end++ = '\0';
	first = cJSON_Parse(text);
	if (!first)
		return -EBADMSG;
	if (*end)
		text[len - 1] = '\0';
	tail = strrchr(end, '\n');
	last = cJSON_Parse(tail ? tail + 1 : end);
	out = must(open_memstream(document, &size));
	fprintf(out, "{\"schema\":1,\"incident\":%s,\"state\":\"%s\",\"lines\":[", text,
		state_of(last, i == 2));
	for (const char *line = end; *line; line++) {
		if (*line == '\n')
			fputc(',', out);
		fputc(*line, out);
	}
	fputs("]}\n", out);
	return fclose(out) == 0 ? 0 : -ENOMEM;
}
