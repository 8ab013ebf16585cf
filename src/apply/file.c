/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a transaction. In this order: files of the host; copies of them in the state
 * directory; the journal, which says what the copies are for. The caller decides about the content.
 */
#include "apply/file.h"

#include "base/build.h"
#include "base/file.h"
#include "base/json.h"

#include <sys/xattr.h>

/* ---- files of the host ---- */

_Static_assert(FILE_HASH_MAX == HASH_TEXT_MAX, "a hash");

#define KEPT            "files"
#define DIRECTORIES_MAX 16

void file_bytes_clear(struct file_bytes *file)
{
	free(steal(file->bytes));
}

int file_locate(const struct host *host, const char *path, struct file_bytes *file)
{
	struct file_bytes found = {0};
	char above[PATH_MAX];
	unsigned up = 0; /* levels above it, to the first that exists */
	int r;

	if (!set_text(above, path))
		return -ENAMETOOLONG;
	while ((r = locate_in_root(host->root, above[0] ? above : "/", 0, found.directory)) ==
			-ENOENT &&
		above[0] && up++ < DIRECTORIES_MAX) {
		if (locate_in_root(host->root, above, O_NOFOLLOW, found.full) == 0)
			return -ELOOP;
		*strrchr(above, '/') = '\0';
	}
	if (r < 0)
		return r;
	if (streq(found.directory, "/"))
		found.directory[0] = '\0';
	if (up == 0 && !found.directory[0])
		return -EISDIR;
	if (snprintf(found.full, PATH_MAX, "%s%s", found.directory, path + strlen(above)) >=
		PATH_MAX)
		return -ENAMETOOLONG;
	if (up == 0)
		*strrchr(found.directory, '/') = '\0';
	found.missing = up > 0 ? up - 1 : 0;
	*file = found;
	return 0;
}

static int read_at(struct file_bytes *file)
{
	int r = read_file(file->full, FILE_BYTES_MAX, &file->bytes, &file->len);

	set_text(file->hash, FILE_HASH_NONE);
	if (r == 0)
		hash_bytes(file->bytes, file->len, file->hash);
	return r == -ENOENT ? 0 : r;
}

int file_read(const struct host *host, const char *path, struct file_bytes *file)
{
	int r = file_locate(host, path, file);

	return r < 0 ? r : read_at(file);
}

/*
 * Copies an extended attribute, or removes it from the new file if the old one lacks it, such as
 * the default ACL of the directory. EPERM for security.* is ignored: no security module uses it,
 * and only CAP_SYS_ADMIN may set it. A security module refuses with EACCES.
 */
static int match_attribute(int from, int to, const char *name)
{
	char value[4096], present[4096];
	ssize_t n_present = fgetxattr(to, name, present, sizeof(present));
	ssize_t n = fgetxattr(from, name, value, sizeof(value));
	bool security = starts_with(name, "security.");
	int r = 0;

	/* These are a measurement and a signature of the old content. */
	if (streq(name, "security.ima") || streq(name, "security.evm"))
		return 0;
	if (n < 0 && errno != ENODATA)
		return -errno;
	if (n < 0 && !security)
		r = fremovexattr(to, name);
	else if (n >= 0 && (n != n_present || memcmp(value, present, (size_t)n) != 0))
		r = fsetxattr(to, name, value, (size_t)n, 0);
	if (r == 0 || errno == EOPNOTSUPP || (n < 0 && errno == ENODATA))
		return 0;
	return errno == EPERM && security ? 0 : -errno;
}

/*
 * Without CAP_FOWNER the mode can only be set before the owner changes. CAP_CHOWN is needed only
 * for another owner, and CAP_FOWNER only for setuid bits, which a change of owner clears.
 */
static int copy_metadata(int from, int to)
{
	const int files[] = {to, from};
	struct stat old, new;

	if (fstat(from, &old) < 0)
		return -errno;
	/* Attributes before the mode, which would activate an inherited ACL. */
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char names[4096];
		ssize_t n = flistxattr(files[i], names, sizeof(names));
		int r = n < 0 && errno != EOPNOTSUPP ? -errno : 0;

		for (const char *name = names; r == 0 && name < names + n; name += strlen(name) + 1)
			r = match_attribute(from, to, name);
		if (r < 0)
			return r;
	}
	if (fchmod(to, old.st_mode & 0777) < 0 || fstat(to, &new) < 0 ||
		((old.st_uid != new.st_uid || old.st_gid != new.st_gid) &&
			fchown(to, old.st_uid, old.st_gid) < 0) ||
		((old.st_mode & 07000) && fchmod(to, old.st_mode & 07777) < 0))
		return -errno;
	return 0;
}

/* Writes a new file. like: durably, with the metadata of that file; NULL: readable by root only. */
static int write_beside(const char *path, const struct file_bytes *new, const char *like)
{
	_cleanup_close_ int to = -1, from = -1;
	int r;

	unlink(path);
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0)
		return -errno;
	r = write_all(to, new->bytes, new->len);
	if (r < 0 || !like)
		return r;
	from = open(like, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (from < 0 && errno != ENOENT)
		return -errno;
	r = from >= 0 ? copy_metadata(from, to) : fchmod(to, 0644);
	if (r == 0)
		r = fsync(to);
	return r == -1 ? -errno : r;
}

/* The time changes with the content, the mode, the owner and each extended attribute. */
static struct timespec changed_at(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? st.st_ctim : (struct timespec){0};
}

int file_put(const struct file_bytes *old, const struct file_bytes *new)
{
	_cleanup_(file_bytes_clear) struct file_bytes now = {0};
	const struct timespec before = changed_at(old->full);
	struct timespec after;
	_cleanup_close_ int directory = -1;
	char path[PATH_MAX], *end = path + strlen(old->directory);
	int r = 0;

	if (snprintf(path, sizeof(path), "%s" FILE_NEW, old->full) >= PATH_MAX)
		return -ENAMETOOLONG;
	/* chmod() because of the umask: other users read files in these directories. */
	for (unsigned i = 0; r == 0 && i < old->missing && new->bytes; i++) {
		end = strchr(end + 1, '/');
		*end = '\0';
		if (mkdir(path, 0755) == 0 ? chmod(path, 0755) < 0 : errno != EEXIST)
			r = -errno;
		*end = '/';
	}
	if (r == 0 && new->bytes)
		r = write_beside(path, new, old->full);
	set_text(now.full, old->full);
	if (r == 0)
		r = read_at(&now);
	after = changed_at(old->full);
	if (r == 0 && (!streq(now.hash, old->hash) || before.tv_sec != after.tv_sec ||
			      before.tv_nsec != after.tv_nsec))
		r = -ESTALE;
	if (r == 0 && (new->bytes ? rename(path, old->full) : unlink(old->full)) < 0 &&
		(new->bytes || errno != ENOENT))
		r = -errno;
	if (r < 0) {
		unlink(path);
		return r;
	}
	*strrchr(path, '/') = '\0';
	directory = open(path[0] ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0 || fsync(directory) < 0)
		return errno == ENOENT && !new->bytes ? 0 : -errno;
	return 0;
}

int file_remove(const struct file_bytes *old, unsigned directories)
{
	const struct file_bytes none = {0};
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s" FILE_NEW, old->full) < PATH_MAX)
		unlink(path);
	r = file_put(old, &none);
	copy_text(path, sizeof(path), old->full);
	for (; r == 0 && directories > 0; directories--) {
		*strrchr(path, '/') = '\0';
		if (path[0] == '\0' || (rmdir(path) < 0 && errno != ENOENT))
			break;
	}
	return r;
}

/* ---- copies, and trial files ---- */

static int open_kept(int state, bool make)
{
	int fd;

	if (make && mkdirat(state, KEPT, 0700) == 0 && fsync(state) < 0)
		return -errno;
	fd = openat(state, KEPT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

void file_drop_trial(int state, const char *name, const struct host *host)
{
	_cleanup_close_ int kept = open_kept(state, false);
	char path[PATH_MAX], full[PATH_MAX];
	ssize_t n = kept < 0 ? -1 : readlinkat(kept, name, path, sizeof(path) - 1);

	if (n < 0)
		return;
	path[n] = '\0';
	unlink(host_path(host, path, full));
	unlinkat(kept, name, 0);
}

int file_put_trial(int state, const char *name, const struct host *host,
	const struct file_bytes *real, const struct file_bytes *new, char path[static PATH_MAX])
{
	_cleanup_close_ int kept = open_kept(state, true);
	size_t root = strlen(host->root);
	char full[PATH_MAX];
	const char *inside = full;
	int r;

	if (kept < 0)
		return kept;
	if (snprintf(full, PATH_MAX, "%s%s" FILE_NEW, real->directory, strrchr(real->full, '/')) >=
		PATH_MAX)
		return -ENAMETOOLONG;
	if (strncmp(full, host->root, root) == 0 && full[root] == '/')
		inside += root;
	/* After a crash, a process that sees the host's root elsewhere may remove the file. */
	if (symlinkat(inside, kept, name) < 0)
		return -errno;
	r = write_beside(full, new, NULL);
	if (r < 0)
		file_drop_trial(state, name, host);
	else
		copy_text(path, PATH_MAX, inside);
	return r;
}

int file_recall(int state, const char *hash, struct file_bytes *bytes)
{
	_cleanup_(file_bytes_clear) struct file_bytes read = {0};
	char path[64 + HASH_TEXT_MAX];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" KEPT "/%s", state, hash);
	r = read_file(path, FILE_BYTES_MAX, &read.bytes, &read.len);
	if (r < 0)
		return r;
	hash_bytes(read.bytes, read.len, read.hash);
	if (!streq(read.hash, hash))
		return -EBADMSG;
	*bytes = read;
	read.bytes = NULL;
	return 0;
}

int file_keep(int state, const struct file_bytes *bytes)
{
	_cleanup_close_ int kept = open_kept(state, true);
	_cleanup_(file_bytes_clear) struct file_bytes there = {0};

	if (kept < 0)
		return kept;
	/* An earlier process may have been killed before it synced the directory. */
	if (file_recall(state, bytes->hash, &there) == 0)
		return fsync(kept) < 0 ? -errno : 0;
	return replace_file(kept, bytes->hash, bytes->bytes, bytes->len, true);
}

/* Returns whether files/ has a copy. */
static bool has_copies(int state)
{
	int kept = open_kept(state, false);
	struct dirent *entry = NULL;
	DIR *directory;

	if (kept < 0)
		return false;
	directory = fdopendir(kept);
	if (!directory) {
		close(kept);
		return true; /* perhaps */
	}
	while ((entry = readdir(directory)) && strlen(entry->d_name) != HASH_TEXT_MAX - 1)
		;
	closedir(directory);
	return entry;
}

void file_sweep(const struct file_journal *journal, const struct host *host)
{
	int kept = open_kept(journal->dir, false);
	bool agrees = true;
	struct dirent *entry;
	DIR *directory;

	file_drop_trial(journal->dir, TRIAL, host);
	file_drop_trial(journal->dir, TRIAL_MAIN, host);
	if (kept < 0)
		return;
	for (size_t i = 0; i < journal->n_files; i++)
		agrees = agrees &&
			 (streq(journal->files[i].original, FILE_HASH_NONE) ||
				 faccessat(kept, journal->files[i].original, F_OK, 0) == 0);
	directory = fdopendir(kept);
	if (!directory) {
		close(kept);
		return;
	}
	while (agrees && (entry = readdir(directory))) {
		const char *hash = entry->d_name;
		bool needed = hash[0] == '.';

		for (size_t i = 0; !needed && i < journal->n_files; i++)
			needed = streq(journal->files[i].original, hash) ||
				 file_is_ours(&journal->files[i], hash);
		if (!needed)
			unlinkat(kept, hash, 0);
	}
	closedir(directory);
}

/* ---- the journal ---- */

#define JOURNAL_FILE_MAX (4 * 1024 * 1024)

/*
 * {"schema": 7, "version": "0.1.0", "checksum": "...", "body": {...}}. The version is that of the
 * program that wrote it, and stays in each later schema. Earlier versions wrote schema 7 without it
 * and the checksum, and ignore both; schema 6 has no owner either. Schema 8 is this one, by another
 * number, and always has a checksum.
 */
#define SCHEMA            7
#define SCHEMA_OLDEST     6
#define SCHEMA_NEWEST     8
#define SCHEMA_CHECKSUM   8
#define SCHEMA_ALL_FIELDS 7

#define SECONDS_MAX 1e12 /* fits into 64 bits as microseconds */

bool file_is_ours(const struct file_record *record, const char *hash)
{
	return streq(record->ours[0], hash) || streq(record->ours[1], hash);
}

void file_journal_put(struct file_journal *journal, const struct file_record *record)
{
	struct file_record *slot = find_named(journal->files, journal->n_files, record->path);

	if (!slot)
		slot = add_element(&journal->files, &journal->n_files, &journal->files_allocated);
	*slot = *record;
	free(steal(journal->stored));
}

void file_journal_forget(struct file_journal *journal, const char *path)
{
	struct file_record *record = find_named(journal->files, journal->n_files, path);

	if (!record)
		return;
	journal->n_files--;
	memmove(record, record + 1,
		(size_t)(&journal->files[journal->n_files] - record) * sizeof(*record));
}

/* A setting that moved to another file is recorded in both: the newer record has precedence. */
struct key_record *file_journal_snapshot(const struct file_journal *journal, size_t *n)
{
	struct key_record *list =
		must(calloc(journal->n_files * JOURNAL_KEYS_MAX + 1, sizeof(*list)));

	*n = 0;
	for (size_t i = journal->n_files; i-- > 0;)
		for (size_t k = 0; k < journal->files[i].n_keys; k++) {
			const struct file_record *record = &journal->files[i];

			if (find_named(list, *n, record->keys[k].name))
				continue;
			list[*n] = record->keys[k];
			set_text(list[*n].path, record->path);
			set_text(list[(*n)++].tuner, record->tuner);
		}
	return list;
}

void release_set(struct release_list *list, const char *tuner, bool released)
{
	struct release *there = find_named(list->tuners, list->n, tuner);

	if (!released && there) {
		*there = list->tuners[--list->n];
	} else if (released && !there && list->n < JOURNAL_RELEASED_MAX) {
		there = &list->tuners[list->n++];
		set_text(there->tuner, tuner);
		there->since_s = realtime_us() / USEC_PER_SEC;
	}
}

void file_journal_try_again(struct file_journal *journal, const char *name)
{
	for (size_t i = 0; i < journal->n_files; i++) {
		struct file_record *record = &journal->files[i];
		struct key_record *key = find_named(record->keys, record->n_keys, name);

		if (key)
			key->failed[0] = '\0';
	}
	for (size_t i = 0; i < journal->n_restarts; i++) {
		struct restart_history *history = &journal->restarts[i];
		struct restart_value *tried = find_named(history->tried, history->n_tried, name);

		if (tried)
			*tried = history->tried[--history->n_tried];
	}
}

/* A member of a struct and of its JSON object. */
struct field {
	const char *name;
	enum {
		TEXT,   /* char[] */
		FLAG,   /* bool */
		NUMBER, /* unsigned or an enum; a time is uint64_t */
		LIST,   /* an array of structs, or a pointer to it: size is below stride */
	} kind;
	size_t offset, size;
	/* LIST: fields and size of an element, offset of the number of elements. */
	const struct field *fields;
	size_t stride, count;
};

#define FIELD(type, kind, name, member) \
	{name, kind, offsetof(type, member), sizeof(((type *)0)->member), NULL, 0, 0}
#define FIELD_LIST(type, name, member, number, fields)                            \
	{name, LIST, offsetof(type, member), sizeof(((type *)0)->member), fields, \
		sizeof(((type *)0)->member[0]), offsetof(type, number)}

static const struct field key_fields[] = {
	FIELD(struct key_record, TEXT, "name", name),
	FIELD(struct key_record, TEXT, "table", table),
	FIELD(struct key_record, TEXT, "key", key),
	FIELD(struct key_record, TEXT, "in_force_originally", in_force_originally),
	FIELD(struct key_record, TEXT, "on_disk_originally", on_disk_originally),
	FIELD(struct key_record, TEXT, "value_before", value_before),
	FIELD(struct key_record, TEXT, "wanted", wanted),
	FIELD(struct key_record, TEXT, "failed", failed),
	{0},
};

static const struct field file_fields[] = {
	FIELD(struct file_record, TEXT, "path", path),
	FIELD(struct file_record, TEXT, "tuner", tuner),
	FIELD(struct file_record, NUMBER, "format", format),
	FIELD(struct file_record, FLAG, "restoring", restoring),
	FIELD(struct file_record, NUMBER, "directories", directories),
	FIELD(struct file_record, TEXT, "original", original),
	FIELD(struct file_record, TEXT, "ours", ours[0]),
	FIELD(struct file_record, TEXT, "ours_next", ours[1]),
	FIELD(struct file_record, NUMBER, "activation", activation),
	FIELD(struct file_record, NUMBER, "restart", restart),
	FIELD(struct file_record, TEXT, "driver", daemon.driver),
	FIELD(struct file_record, TEXT, "unit", daemon.unit),
	FIELD(struct file_record, TEXT, "socket", daemon.socket),
	FIELD(struct file_record, TEXT, "binary", daemon.program),
	FIELD(struct file_record, TEXT, "version", daemon.version),
	FIELD(struct file_record, TEXT, "config", daemon.config),
	FIELD(struct file_record, TEXT, "directory", daemon.directory),
	FIELD_LIST(struct file_record, "keys", keys, n_keys, key_fields),
	{0},
};

static const struct field pin_fields[] = {
	FIELD(struct pin_record, TEXT, "name", name),
	FIELD(struct pin_record, TEXT, "tuner", tuner),
	FIELD(struct pin_record, TEXT, "image", target.image),
	FIELD(struct pin_record, TEXT, "driver", target.driver),
	FIELD(struct pin_record, TEXT, "socket", target.socket),
	{0},
};

static const struct field release_fields[] = {
	FIELD(struct release, TEXT, "tuner", tuner),
	FIELD(struct release, NUMBER, "since", since_s),
	{0},
};

static const struct field tried_fields[] = {
	FIELD(struct restart_value, TEXT, "name", name),
	FIELD(struct restart_value, TEXT, "value", value),
	FIELD(struct restart_value, FLAG, "last", last),
	{0},
};

static const struct field time_fields[] = {
	{"at", NUMBER, 0, sizeof(uint64_t), NULL, 0, 0},
	{0},
};

static const struct field history_fields[] = {
	FIELD(struct restart_history, TEXT, "unit", unit),
	FIELD_LIST(struct restart_history, "times", times, n_times, time_fields),
	FIELD(struct restart_history, FLAG, "open", open),
	FIELD(struct restart_history, NUMBER, "answered", answered),
	FIELD_LIST(struct restart_history, "tried", tried, n_tried, tried_fields),
	{0},
};

static const struct field journal_fields[] = {
	FIELD(struct file_journal, TEXT, "owner", owner),
	FIELD_LIST(struct file_journal, "files", files, n_files, file_fields),
	FIELD_LIST(struct file_journal, "pins", pins, n_pins, pin_fields),
	FIELD_LIST(struct file_journal, "released", released.tuners, released.n, release_fields),
	FIELD_LIST(struct file_journal, "restarts", restarts, n_restarts, history_fields),
	{0},
};

static void print_fields(cJSON *object, const struct field *field, const void *from)
{
	for (; field->name; field++) {
		const void *member = (const char *)from + field->offset;
		const size_t *n = (const void *)((const char *)from + field->count);
		const char *element = member;
		cJSON *list;

		switch (field->kind) {
		case TEXT: /* json_text() would alter it */
			json_adopt(object, field->name, cJSON_CreateString(member));
			break;
		case FLAG:
			json_bool(object, field->name, *(const bool *)member);
			break;
		case NUMBER:
			json_number(object, field->name,
				field->size == sizeof(unsigned)
					? *(const unsigned *)member
					: (double)*(const uint64_t *)member);
			break;
		case LIST:
			list = json_array(object, field->name);
			if (field->size < field->stride)
				element = *(char *const *)member;
			for (size_t i = 0; i < *n; i++, element += field->stride)
				print_fields(json_append(list), field->fields, element);
		}
	}
}

/* Returns false for any form that no version wrote. lenient: a field may be missing. */
static bool read_fields(const cJSON *object, const struct field *field, bool lenient, void *to)
{
	bool good = true;

	for (; good && field->name; field++) {
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field->name), *part;
		char *member = (char *)to + field->offset;
		bool is_time = field->size > sizeof(unsigned);
		double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
		size_t *n = (void *)((char *)to + field->count), there;

		if (!item && lenient)
			continue;
		switch (field->kind) {
		case TEXT:
			good = cJSON_IsString(item) &&
			       copy_text(member, field->size, item->valuestring);
			break;
		case FLAG:
			good = cJSON_IsBool(item);
			*(bool *)member = cJSON_IsTrue(item);
			break;
		case NUMBER:
			good = number >= 0 && number <= (is_time ? SECONDS_MAX : UINT32_MAX);
			if (good && is_time)
				*(uint64_t *)member = (uint64_t)number;
			else if (good)
				*(unsigned *)member = (unsigned)number;
			break;
		case LIST:
			*n = 0;
			there = (size_t)cJSON_GetArraySize(item);
			good = cJSON_IsArray(item) && (field->size < field->stride ||
							      there <= field->size / field->stride);
			if (good && field->size < field->stride)
				member = *(char **)member = must(calloc(there + 1, field->stride));
			cJSON_ArrayForEach (part, item)
				good = good && read_fields(part, field->fields, lenient,
						       member + (*n)++ * field->stride);
		}
	}
	return good;
}

static void sum_body(const cJSON *body, char sum[static HASH_TEXT_MAX])
{
	_cleanup_free_ char *text = must(cJSON_PrintUnformatted(body));

	hash_bytes(text, strlen(text), sum);
}

/* Returns the text of the journal; the caller frees it. */
static char *print(const struct file_journal *journal)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = must(cJSON_CreateObject());
	cJSON *body = must(cJSON_CreateObject());
	char sum[HASH_TEXT_MAX];

	print_fields(body, journal_fields, journal);
	sum_body(body, sum);
	json_number(root, "schema", SCHEMA);
	json_text(root, "version", HEADROOM_VERSION);
	json_text(root, "checksum", sum);
	json_adopt(root, "body", body);
	return must(cJSON_Print(root));
}

static bool is_hash(const char *text)
{
	return strlen(text) == HASH_TEXT_MAX - 1 &&
	       strspn(text, "0123456789abcdef") == strlen(text);
}

/* An absolute path, within the root and not the root itself. */
static bool is_path(const char *path)
{
	char clean[SETTING_PATH_MAX];

	return path[0] == '/' && set_text(clean, path) && path_clean(clean) && clean[1];
}

/* Nothing else would be found in the state directory, or on the host. */
static bool is_usable(const struct file_journal *journal)
{
	bool good = true;

	for (size_t i = 0; i < journal->n_files; i++) {
		const struct file_record *record = &journal->files[i];

		good = good && is_path(record->path) && record->format <= EDIT_OWN &&
		       record->activation <= ACTIVATE_RESTART &&
		       record->restart <= RESTART_TO_UNDO &&
		       (is_hash(record->original) || streq(record->original, FILE_HASH_NONE));
		for (size_t k = 0; k < ARRAY_SIZE(record->ours); k++)
			good = good && (!record->ours[k][0] || is_hash(record->ours[k]) ||
					       streq(record->ours[k], FILE_HASH_NONE));
	}
	return good;
}

static int parse(struct file_journal *journal, const char *text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_Parse(text);
	const cJSON *body = cJSON_GetObjectItemCaseSensitive(root, "body");
	double schema = json_number_at(root, "schema");
	bool is_summed = schema >= SCHEMA_CHECKSUM || cJSON_HasObjectItem(root, "checksum");
	char sum[HASH_TEXT_MAX];

	if (schema > SCHEMA_NEWEST)
		return -EPROTO;
	if (!body || schema < SCHEMA_OLDEST)
		return -EBADMSG;
	sum_body(body, sum);
	if ((is_summed && !streq(json_text_at(root, "checksum"), sum)) ||
		!read_fields(body, journal_fields, schema < SCHEMA_ALL_FIELDS, journal) ||
		!is_usable(journal))
		return -EBADMSG;
	journal->files_allocated = journal->n_files;
	journal->pins_allocated = journal->n_pins;
	return 0;
}

const char *file_journal_describe(int error)
{
#define CURE                                                                                      \
	": no configuration file is changed or restored, and the originals stay in files/: copy " \
	"back the files you need, then remove journal.json and files/"
	if (error == -EBADMSG)
		return "journal.json is damaged" CURE;
	if (error == -ENODATA)
		return "journal.json is missing, and files/ holds originals" CURE;
	if (error == -EKEYREJECTED)
		return "it or journal.json belongs to a user other than root, who may have changed "
		       "it, so files are only observed: find out who made it, and give it to root "
		       "(chown)";
	if (error == -EPROTO)
		return "a newer version wrote journal.json: install that version, or restore with it";
	if (error == -ENODEV)
		return "not the host's directory, so originals of files cannot be recorded "
		       "and files are only observed: mount the host's directory there, writable";
	return strerror(-error);
}

int file_journal_open(const char *directory, bool create, struct file_journal **ret)
{
	_cleanup_(cleanup_file_journal_close) struct file_journal *journal =
		must(calloc(1, sizeof(*journal)));
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	struct stat st;
	int r;

	journal->dir = create ? make_own_directory(directory)
			      : open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (journal->dir < 0 && create)
		return journal->dir;
	if (journal->dir < 0 && errno != ENOENT)
		return -errno;
	if (fstatat(journal->dir, FILE_JOURNAL_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		!is_own_file(&st))
		return -EKEYREJECTED;
	snprintf(path, sizeof(path), "%s/" FILE_JOURNAL_FILE, directory);
	r = read_file(path, JOURNAL_FILE_MAX, &text, NULL);
	if (r == 0) {
		r = parse(journal, text);
		journal->stored = r == 0 ? print(journal) : NULL;
	} else if (r == -ENOENT) {
		r = has_copies(journal->dir) ? -ENODATA : 0;
	}
	if (r == 0)
		*ret = steal(journal);
	return r;
}

void file_journal_program(const char *directory, char program[static RECORD_PROGRAM_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" FILE_JOURNAL_FILE, directory);
	if (read_file(path, JOURNAL_FILE_MAX, &text, NULL) < 0)
		return;
	root = cJSON_Parse(text);
	copy_text(program, RECORD_PROGRAM_MAX, json_text_at(root, "version"));
}

void file_journal_close(struct file_journal *journal)
{
	cleanup_close(&journal->dir);
	free(journal->files);
	free(journal->pins);
	free(journal->stored);
	free(journal);
}

int file_journal_store(struct file_journal *journal)
{
	_cleanup_free_ char *text = print(journal);
	int r;

	if (journal->stored && streq(text, journal->stored))
		return 0;
	free(steal(journal->stored));
	r = replace_file(journal->dir, FILE_JOURNAL_FILE, text, strlen(text), true);
	if (r == 0)
		journal->stored = steal(text);
	return r;
}
