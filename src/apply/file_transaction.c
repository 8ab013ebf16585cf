/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transaction of configuration files. In this order: the states of a change; writing a file;
 * restoring a file; restarts of a daemon, and the roll-back if it does not come back; reloads and
 * activation; the job. Each step is durable before the next. The plan decides about the values,
 * and may_restart() about restarts.
 */
#include "apply/file_transaction.h"

#include "apply/edit.h"
#include "apply/load_file.h"
#include "base/file.h"
#include "base/log.h"
#include "base/toml.h"
#include "runtime/cri.h"
#include "runtime/driver.h"
#include "runtime/systemd.h"

#include <dirent.h>

#define NEVER     UINT64_MAX
#define TRIES     3 /* when someone writes the file during the restore */
#define RELOAD_US (3 * USEC_PER_SEC)
#define ANSWER_US (5 * USEC_PER_SEC)

#define ORIGINAL      "original-"         /* begins the names of keep_original() */
#define ORIGINALS_MAX (UINT64_C(2) << 20) /* bytes */

#define MOUNTED                                                                              \
	"%.200s is a mount point, such as a bind mount, so no new file can take its place: " \
	"change the file that is mounted there"
#define READ_ONLY "%.200s is on a read-only file system: remount that read-write"

/* In memory only: a file that the job works on. */
struct work_file {
	struct file_record record; /* as it is to be in the journal */
	struct file_bytes old, new;
	char why[EDIT_WHY_MAX]; /* explains an error */

	struct change *changes[JOURNAL_KEYS_MAX]; /* to this file, in the job's plan */
	size_t n_changes;

	/* For a restore: */
	bool left[JOURNAL_KEYS_MAX]; /* the key was changed by someone else */
	bool plan_only;              /* nothing is written */
	bool record_ends;            /* after the restore: see keep_original() */
	bool written;
	int lost; /* 0, or -errno of reading the original bytes */
};

static void work_file_clear(struct work_file *file)
{
	file_bytes_clear(&file->old);
	file_bytes_clear(&file->new);
}

/* ---- the states of a change ---- */

static const struct {
	const char *name;
	enum reason failed; /* for a change that does not get there */
} states[] = {
	[FILE_WANTED] = {"wanted", REASON_UNREADABLE},
	[FILE_VERIFIED] = {"verified", REASON_VERIFY_REFUSED},
	[FILE_RECORDED] = {"recorded", REASON_NOT_RECORDED},
	[FILE_WRITTEN] = {"written", REASON_WRITE_REFUSED},
	[FILE_ACTIVATED] = {"activated", REASON_DID_NOT_COME_BACK},
	[FILE_CONFIRMED] = {"confirmed", REASON_NO_EFFECT},
	[FILE_RESTORING] = {"restoring", REASON_NOT_RESTORED},
};

void file_result(
	struct change *change, enum reason reason, int error, const char *why, uint64_t retry_us)
{
	change->error = error;
	change->reason = reason;
	change->retry_us = retry_us;
	change->held = REASON_NONE;
	free(change->why);
	change->why = why && why[0] ? must(strdup(why)) : NULL;
}

/* Moves a change to its next state or, with r below 0, fails it on the way there. */
static void advance(struct change *change, enum file_state to, int r, const char *why)
{
	enum reason reason = states[to].failed;

	if (r == 0) {
		change->file->state = to;
		log_line(LOG_DEBUG, change->name, "%s in %s", states[to].name, change->file->path);
		return;
	}
	/* The tuner reads the file differently: another write would not help. */
	if (to == FILE_VERIFIED && r == -ERANGE)
		reason = REASON_NOT_TAKEN;
	file_result(change, reason, r, why,
		to >= FILE_ACTIVATED ? NEVER
		: r == -ESTALE
			? 0
			: now_us() + (reason_rows[reason].retry ? FILE_RETRY_US : FILE_REFUSED_US));
}

bool file_is_chosen(const struct file_job *job, const char *tuner)
{
	return !job->only[0] || streq(job->only, tuner);
}

int file_store(struct file_job *job)
{
	return job->error = file_journal_store(job->journal);
}

static struct restart_history *history_of(const struct file_job *job, const struct daemon *daemon)
{
	return find_named(job->journal->restarts, job->journal->n_restarts, daemon->unit);
}

static uint64_t now_s(void)
{
	return realtime_us() / USEC_PER_SEC;
}

/* ---- a file of an earlier write ---- */

/* Reads a key from the copy with this hash; *literal is NULL without the key. False: unreadable. */
static bool kept_literal(const struct file_job *job, const struct file_record *record,
	const char *hash, const char *table, const char *key, char **literal)
{
	_cleanup_(file_bytes_clear) struct file_bytes kept = {0};
	char why[EDIT_WHY_MAX];

	return file_recall(job->journal->dir, hash, &kept) == 0 &&
	       edit_get(record->format, &kept, table, key, literal, why) == 0;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

/*
 * Finds the table to which others have moved our value: an upgraded containerd has the key in
 * another table, and "containerd config migrate" writes the file anew. Returns false if no table or
 * several tables have the value, or if the table had the key beside ours.
 */
static bool find_moved(const struct file_job *job, const struct file_record *record,
	const char *hash, const struct file_bytes *text, const char *key,
	char table[static FILE_TABLE_MAX])
{
	_cleanup_free_ char *kept = NULL, *beside = NULL;
	struct toml_scan scan = {.text = text->bytes, .len = text->len};
	struct toml_item item;
	size_t n = 0;

	if (record->format != EDIT_TOML || !kept_literal(job, record, hash, table, key, &kept) ||
		!kept)
		return false;
	while (toml_next(&scan, &item) > 0)
		if (!item.header && streq(item.key, key) &&
			item.value_end - item.value == strlen(kept) &&
			memcmp(text->bytes + item.value, kept, strlen(kept)) == 0 && n++ == 0)
			copy_text(table, FILE_TABLE_MAX, item.table);
	return n == 1 && kept_literal(job, record, hash, table, key, &beside) && !beside;
}

/*
 * Replaces our values in a text that someone else changed with the original ones. Keys that they
 * changed are left. 0 or -errno, with why in file.
 */
static int remove_ours(const struct file_job *job, struct work_file *file, struct file_bytes *text)
{
	const struct file_record *record = &file->record;

	for (size_t i = 0; i < record->n_keys; i++) {
		_cleanup_free_ char *literal = NULL, *original = NULL;
		bool ours = file_is_ours(record, file->old.hash);
		const char *key = record->keys[i].key;
		char table[FILE_TABLE_MAX];
		int r;

		set_text(table, record->keys[i].table);
		r = edit_get(record->format, text, table, key, &literal, file->why);
		if (r < 0)
			return r;
		(void)kept_literal(job, record, record->original, table, key, &original);
		for (size_t h = 0; !literal && !ours && h < ARRAY_SIZE(record->ours); h++)
			ours = find_moved(job, record, record->ours[h], text, key, table);
		if (!ours && same_text(literal, original))
			continue;
		/* A value is ours if a text in ours[] has it. */
		for (size_t h = 0; !ours && h < ARRAY_SIZE(record->ours); h++) {
			_cleanup_free_ char *kept = NULL;

			ours = kept_literal(job, record, record->ours[h], table, key, &kept) &&
			       same_text(literal, kept);
		}
		file->left[i] = !ours;
		if (ours)
			r = edit_set(record->format, text, table, key, original, file->why);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_old(struct file_job *job, struct work_file *file)
{
	int r;

	file_bytes_clear(&file->old);
	r = file_read(&job->host, file->record.path, &file->old);
	if (r == -ELOOP)
		set_text(file->why, "it is a symbolic link to a file that does not exist");
	return r;
}

/*
 * Replaces the file with these bytes, or removes it and the directories that were made for it. 0 or
 * -errno, with why for some errors.
 */
static int replace_old(struct work_file *file, const struct file_bytes *new, unsigned directories)
{
	int r = file->plan_only ? 0
		: new->bytes    ? file_put(&file->old, new)
				: file_remove(&file->old, directories);

	if (r == -EPERM)
		snprintf(file->why, sizeof(file->why),
			"%.200s may be immutable: see lsattr, and chattr -i", file->record.path);
	else if (r == -EBUSY)
		snprintf(file->why, sizeof(file->why), MOUNTED, file->record.path);
	else if (r == -EROFS)
		snprintf(file->why, sizeof(file->why), READ_ONLY, file->record.path);
	else if (r == -ESTALE)
		set_text(file->why, "someone else is changing the file now: try again");
	file->written = r == 0;
	return r;
}

/* ---- writing a file ---- */

/*
 * A new file takes the place of the old one, which is not possible for a mount point, and would
 * leave the old content to the other names of a file with hard links. 0 or -errno with why.
 */
static int check_replaceable(struct work_file *file)
{
	struct statx st;

	if (statx(AT_FDCWD, file->old.full, AT_SYMLINK_NOFOLLOW, STATX_NLINK, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) {
		snprintf(file->why, sizeof(file->why), MOUNTED, file->record.path);
		return -EBUSY;
	}
	if (st.stx_nlink > 1) {
		snprintf(file->why, sizeof(file->why),
			"%.200s has %u hard links, and the others would keep the old content: make "
			"it a file of its own (cp -p, then mv), or change it yourself",
			file->record.path, (unsigned)st.stx_nlink);
		return -EMLINK;
	}
	if (faccessat(AT_FDCWD, file->old.directory, W_OK, AT_EACCESS) < 0 && errno == EROFS) {
		snprintf(file->why, sizeof(file->why), READ_ONLY, file->record.path);
		return -EROFS;
	}
	return 0;
}

static int verify_new(struct file_job *job, struct work_file *file)
{
	const struct editor editor = {&job->host, job->journal->dir, &file->record.daemon,
		file->record.path, &file->old, job->wait};
	int r = check_replaceable(file);

	if (r < 0)
		return r;
	if (file->old.bytes)
		text_copy(&file->new, file->old.bytes, file->old.len);
	r = edit_make(&editor, file->changes, file->n_changes, &file->new, file->why);
	return r == 0 && streq(file->new.hash, file->old.hash) ? -ERANGE : r;
}

static int record_key(
	const struct file_job *job, struct file_record *record, const struct change *change)
{
	const char *on_disk = change->file->on_disk, *before = on_disk;
	struct key_record *key = find_named(record->keys, record->n_keys, change->name);
	const struct key_record *older = NULL;

	if (!key && record->n_keys == JOURNAL_KEYS_MAX)
		return -ENOSPC;
	if (!key) {
		/* The setting may have moved here from another file. */
		for (size_t i = 0; i < job->journal->n_files && !older; i++)
			older = find_named(job->journal->files[i].keys,
				job->journal->files[i].n_keys, change->name);
		key = &record->keys[record->n_keys++];
		if (older)
			*key = *older;
		copy_text(key->name, SETTING_NAME_MAX, change->name);
		if (!older) {
			/* If the value in force is unknown, it is the one in the file. */
			copy_text(key->in_force_originally, SETTING_VALUE_MAX,
				change->old[0] ? change->old : on_disk);
			copy_text(key->on_disk_originally, SETTING_VALUE_MAX, on_disk);
		}
	} else if (!value_equal(on_disk, key->on_disk_originally) &&
		   !value_equal(on_disk, key->value_before)) {
		/* Someone else's value is in the bytes that a restore writes from now on. */
		if (!value_equal(on_disk, key->wanted) && record->format != EDIT_OWN) {
			copy_text(key->in_force_originally, SETTING_VALUE_MAX, on_disk);
			copy_text(key->on_disk_originally, SETTING_VALUE_MAX, on_disk);
		}
		before = key->wanted;
	}
	copy_text(key->value_before, SETTING_VALUE_MAX, before);
	/* An upgraded program may have the key in another table. */
	copy_text(key->table, FILE_TABLE_MAX, change->file->table);
	copy_text(key->key, FILE_KEY_MAX, change->file->key);
	copy_text(key->wanted, SETTING_VALUE_MAX, change->new);
	return 0;
}

/*
 * Records durably what a restore needs. It restores the bytes from before our first write or, if
 * someone else has changed the file since, their bytes without our values. The new bytes are kept
 * too: they identify our values.
 */
static int record_new(struct file_job *job, struct work_file *file)
{
	_cleanup_(file_bytes_clear) struct file_bytes theirs = {0};
	struct file_record *record = &file->record;
	const struct file_bytes *old = &file->old, *original = NULL;
	bool own = record->format == EDIT_OWN, ours = file_is_ours(record, old->hash);
	int dir = job->journal->dir, r = 0;

	if (!ours && record->original[0] && old->bytes && !streq(old->hash, record->original)) {
		if (!own) {
			text_copy(&theirs, old->bytes, old->len);
			r = remove_ours(job, file, &theirs);
			hash_bytes(theirs.bytes, theirs.len, theirs.hash);
			original = &theirs;
		}
	} else if (!ours) {
		original = old;
	}
	if (r == 0 && original)
		copy_text(record->original, HASH_TEXT_MAX, original->hash);
	if (r == 0 && original && original->bytes)
		r = file_keep(dir, original);
	if (r == 0 && file->new.bytes && !own)
		r = file_keep(dir, &file->new);
	for (size_t i = 0; r == 0 && i < file->n_changes; i++)
		r = record_key(job, record, file->changes[i]);
	if (r < 0)
		return r;
	record->restoring = false;
	copy_text(record->ours[0], HASH_TEXT_MAX, ours ? old->hash : "");
	copy_text(record->ours[1], HASH_TEXT_MAX, file->new.hash);
	record->directories = MAX(record->directories, file->new.bytes ? old->missing : 0);
	file_journal_put(job->journal, record);
	for (size_t i = 0; i < file->n_changes; i++)
		file_journal_try_again(job->journal, file->changes[i]->name);
	r = file_store(job);
	if (r == 0 && atomic_load(&job->stale)) {
		set_text(file->why, FILE_STALE);
		return -ESTALE;
	}
	return r;
}

static int write_new(struct file_job *, struct work_file *file)
{
	return replace_old(file, &file->new, 0);
}

/* Changes the file of the first change, and all other changes that have this file. */
static void apply_file(struct file_job *job, const struct change *first)
{
	static const struct {
		enum file_state to;
		int (*run)(struct file_job *job, struct work_file *file);
	} steps[] = {
		{FILE_WANTED, read_old},
		{FILE_VERIFIED, verify_new},
		{FILE_RECORDED, record_new},
		{FILE_WRITTEN, write_new},
	};
	static const enum reason pending[] = {
		[ACTIVATE_RELOAD] = REASON_RELOAD_PENDING,
		[ACTIVATE_RESTART] = REASON_RESTART_PENDING,
	};
	_cleanup_(work_file_clear) struct work_file file = {0};
	const struct file_change *wanted = first->file;
	const struct file_record *known =
		find_named(job->journal->files, job->journal->n_files, wanted->path);
	int r = 0;

	if (known)
		file.record = *known;
	set_text(file.record.path, wanted->path);
	set_text(file.record.tuner, first->tuner);
	file.record.format = wanted->format;
	file.record.activation = wanted->activation;
	file.record.restart = wanted->restart;
	file.record.daemon = wanted->daemon;
	for (size_t i = 0; i < job->plan.n && file.n_changes < JOURNAL_KEYS_MAX; i++) {
		struct change *change = &job->plan.changes[i];

		if (change->file && change->error == 0 && change->file->state == FILE_WANTED &&
			streq(change->file->path, wanted->path))
			file.changes[file.n_changes++] = change;
	}
	for (size_t s = 0; r == 0 && s < ARRAY_SIZE(steps); s++) {
		r = steps[s].run(job, &file);
		for (size_t i = 0; i < file.n_changes; i++)
			advance(file.changes[i], steps[s].to, r, file.why);
	}
	for (size_t i = 0; r == 0 && i < file.n_changes; i++) {
		struct change *change = file.changes[i];

		log_as(LOG_SETTING_CHANGED, LOG_INFO, change->name, "%s -> %s in %s (%s)",
			change->file->on_disk[0] ? change->file->on_disk : "nothing", change->new,
			file.record.path, reason_rows[change->reason].slug);
		change->held = pending[file.record.activation];
		if (change->held)
			continue;
		copy_text(change->actual, SETTING_VALUE_MAX, change->new);
		advance(change, FILE_CONFIRMED, 0, NULL);
	}
}

/* ---- restoring a file ---- */

static bool is_changed_by_others(const struct work_file *file)
{
	return !streq(file->old.hash, file->record.original) &&
	       !file_is_ours(&file->record, file->old.hash);
}

/* Returns the bytes of all originals that were kept by keep_original(). */
static uint64_t size_of_originals(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	uint64_t size = 0;
	struct stat st;

	while (directory && (entry = readdir(directory)))
		if (starts_with(entry->d_name, ORIGINAL) &&
			fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			size += (uint64_t)st.st_size;
	if (directory)
		closedir(directory);
	else if (copy >= 0)
		close(copy);
	return size;
}

static void name_original(const struct file_record *record, char name[static NAME_MAX])
{
	snprintf(name, NAME_MAX, ORIGINAL "%.8s-%.200s", record->original,
		strrchr(record->path, '/') + 1);
}

/*
 * Keeps the original of a file that others have changed, until the purge: the record ends, and
 * nobody else may have these bytes. 0; or -errno with why, and the record has to stay.
 */
static int keep_original(struct file_job *job, struct work_file *file)
{
	const struct file_bytes *original = &file->new;
	int dir = job->journal->dir, r = -ENOSPC;
	char name[NAME_MAX];
	struct stat st;

	name_original(&file->record, name);
	if (!original->bytes ||
		(fstatat(dir, name, &st, 0) == 0 && st.st_size == (off_t)original->len))
		return 0;
	if (size_of_originals(dir) + original->len <= ORIGINALS_MAX)
		r = replace_file(dir, name, original->bytes, original->len, true);
	if (r < 0)
		snprintf(file->why, sizeof(file->why),
			"changed by someone else since, and the state directory has no room for the original (%s): move its files original-* elsewhere, then restore again",
			strerror(-r));
	return r;
}

static int restore_once(struct file_job *job, struct work_file *file)
{
	_cleanup_(file_bytes_clear) struct file_bytes text = {0};
	const struct file_bytes *old = &file->old;
	const char *original = file->record.original;
	bool own = file->record.format == EDIT_OWN;
	int r = read_old(job, file);
	char left[PATH_MAX];

	if (r < 0)
		return r;
	/* A crash during an earlier write may have left this. */
	if (!file->plan_only && snprintf(left, sizeof(left), "%s" FILE_NEW, old->full) < PATH_MAX)
		unlink(left);
	if (streq(old->hash, original))
		return old->bytes || file->plan_only ? 0
						     : file_remove(old, file->record.directories);
	file_bytes_clear(&file->new);
	memset(file->left, false, sizeof(file->left));
	if (!streq(original, FILE_HASH_NONE))
		file->lost = file_recall(job->journal->dir, original, &file->new);
	if (file->lost < 0 && file->lost != -ENOENT && file->lost != -EBADMSG)
		return file->lost;
	if (file->lost == 0 && !is_changed_by_others(file))
		return replace_old(file, &file->new, file->record.directories);
	/* Someone else changed the file, or its original is lost: restore only our own keys. */
	r = file->record_ends ? keep_original(job, file) : 0;
	if (r < 0)
		return r;
	if (!old->bytes || (own && !file_is_ours(&file->record, old->hash))) {
		memset(file->left, true, sizeof(file->left));
		return 0;
	}
	if (own)
		return replace_old(file, &text, 0);
	text_copy(&text, old->bytes, old->len);
	r = remove_ours(job, file, &text);
	if (r < 0 || (text.len == old->len && memcmp(text.bytes, old->bytes, old->len) == 0))
		return r;
	return replace_old(file, &text, 0);
}

/* Returns what a restore does, or would do, with the bytes of a file. */
static const char *describe_bytes(const struct work_file *file)
{
	if (is_changed_by_others(file))
		return !file->written    ? "changed by someone else since: the file is unchanged"
		       : file->plan_only ? "changed by someone else since: only our own keys go"
					 : "changed by someone else since: only our own keys were "
					   "removed";
	if (!file->written)
		return "it has its original bytes";
	if (file->plan_only)
		return file->new.bytes ? "it gets its original bytes"
				       : "it goes, because it was made for us";
	return file->new.bytes ? "the original bytes are restored"
			       : "removed, because it was made for us";
}

static int restore_bytes(struct file_job *job, struct work_file *file)
{
	const char *path = file->record.path;
	int r = -ESTALE;

	for (int i = 0; r == -ESTALE && i < TRIES; i++)
		r = restore_once(job, file);
	if (r == 0)
		file->why[0] = '\0'; /* of an earlier try */
	if (r == 0 && file->lost < 0)
		snprintf(file->why, sizeof(file->why),
			"the original bytes of %.120s are lost from the state directory (%s): %s",
			path, strerror(-file->lost),
			file->plan_only ? "a restore removes only our own keys"
			: file->written ? "only our own keys were removed"
					: "the file is unchanged");
	if (file->plan_only)
		return r;
	if (r < 0)
		log_as(LOG_SETTING_CHANGED, LOG_ERR, path, "not restored: %s",
			file->why[0] ? file->why : strerror(-r));
	else if (file->lost < 0)
		log_as(LOG_SETTING_CHANGED, LOG_ERR, path, "%s", file->why);
	else
		log_as(LOG_SETTING_CHANGED,
			is_changed_by_others(file) ? LOG_NOTICE
			: file->written            ? LOG_INFO
						   : LOG_DEBUG,
			path, "%s", describe_bytes(file));
	return r;
}

static struct change *add_change(struct file_job *job, const struct file_record *record,
	const struct key_record *key, const char *old, const char *new)
{
	struct file_change file = {.format = record->format,
		.activation = record->activation,
		.restart = job->restart,
		.daemon = record->daemon};

	file.daemon.pid = 0; /* it may have restarted since the write */
	set_text(file.path, record->path);
	set_text(file.table, key->table);
	set_text(file.key, key->key);
	return plan_add(&job->plan, &file, key->name, record->tuner, old, new);
}

/* The restored file is not all: another program may have copied our values to its own. */
static int find_copies(struct file_job *job, struct work_file *file)
{
	const struct file_record *record = &file->record;
	const struct runtime_driver *driver = runtime_driver_find(record->daemon.driver);
	int r = 0;

	for (size_t i = 0; driver && driver->find_copy && i < record->n_keys && r == 0; i++) {
		const struct key_record *key = &record->keys[i];

		if (record->format != EDIT_TOML || file->left[i] || !key->wanted[0] ||
			streq(key->on_disk_originally, key->wanted))
			continue;
		r = driver->find_copy(&job->host, &record->daemon, record->path, key->key,
			key->wanted, job->wait, file->why);
	}
	if (r < 0)
		log_as(LOG_SETTING_CHANGED, LOG_ERR, record->path, "restored, but %s", file->why);
	return r;
}

/* Says what a restore would do with a file and with its program. */
static void note_plan(const struct work_file *file, struct change *change)
{
	const struct file_record *record = &file->record;
	const char *unit = record->daemon.unit[0] ? record->daemon.unit : record->daemon.driver;
	char note[EDIT_WHY_MAX];

	snprintf(note, sizeof(note), "%s: %s", record->path, describe_bytes(file));
	if (file->written && record->activation != ACTIVATE_NOTHING)
		text_append(note, sizeof(note), ", and %s %s", unit,
			record->activation == ACTIVATE_RELOAD ? "reloads it"
			: change->reason == REASON_ORIGINAL_AT_NEXT_START
				? "reads it when it starts"
				: "is restarted");
	change->why = must(strdup(note));
}

/* Restores the bytes, and adds the changes to the plan. 0 or -errno, with why in file. */
static int restore_keys(struct file_job *job, struct work_file *file, bool resumed)
{
	bool activate, others;
	char name[NAME_MAX];
	int r, error;

	file->record_ends = !file->plan_only;
	r = restore_bytes(job, file);
	if (r == 0 && file->lost == 0 && !file->plan_only)
		r = find_copies(job, file);
	error = r < 0 ? r : file->lost;
	activate = file->written || resumed;
	others = is_changed_by_others(file);
	name_original(&file->record, name);
	if (others && error == 0 && file->record_ends &&
		!streq(file->record.original, FILE_HASH_NONE)) {
		snprintf(file->why, sizeof(file->why),
			"the original of %.120s is kept as %.120s in the state directory",
			file->record.path, name);
		log_as(LOG_SETTING_CHANGED, LOG_NOTICE, file->record.path, "%s", file->why);
	}
	for (size_t i = 0; i < file->record.n_keys; i++) {
		const struct key_record *key = &file->record.keys[i];
		bool left = file->left[i] && error == 0;
		struct change *change = add_change(job, &file->record, key,
			file->written || left ? key->wanted : key->in_force_originally,
			left ? "" : key->in_force_originally);

		change->left = left;
		advance(change, activate ? FILE_RESTORING : FILE_CONFIRMED, 0, NULL);
		file_result(change,
			left                      ? REASON_CHANGED_SINCE
			: file->written && others ? REASON_FILE_CHANGED_SINCE
						  : REASON_ORIGINAL,
			error, file->why, 0);
	}
	return error;
}

/*
 * Restores the original bytes, or only our keys if someone else changed the file, and adds the
 * changes to the plan. On success the record is removed, or is restoring until the daemon was
 * activated.
 */
static void restore_file(struct file_job *job, const struct file_record *record)
{
	_cleanup_(work_file_clear) struct work_file file = {.record = *record};
	bool resumed = record->restoring;
	int error;

	/* Kept before the write: if the process is killed after it, the next one restarts the
	 * program. */
	file.record.restoring = record->activation != ACTIVATE_NOTHING;
	if (file.record.restoring && !resumed) {
		file_journal_put(job->journal, &file.record);
		(void)file_store(job);
	}
	error = restore_keys(job, &file, resumed);
	/* The record of a lost original stays: every restore reports it. */
	file.record.refused = error < 0;
	file.record.restoring =
		error < 0 ? resumed : (file.written || resumed) && file.record.restoring;
	if (error < 0 || file.record.restoring)
		file_journal_put(job->journal, &file.record);
	else
		file_journal_forget(job->journal, file.record.path);
}

/*
 * Restores the file of a daemon that did not come back; the record stays. If the daemon rejects the
 * changes of others, the original bytes replace them, and a copy of theirs is kept in the state
 * directory. 0 or -errno.
 */
static int roll_back_file(struct file_job *job, const struct file_record *record)
{
	_cleanup_(work_file_clear) struct work_file file = {.record = *record};
	char why[EDIT_WHY_MAX] = "", name[NAME_MAX];
	int r = restore_bytes(job, &file);

	/* The program did accept the original bytes. */
	if (r == 0 && file.lost == 0 && !is_changed_by_others(&file))
		return 0;
	if (r == 0)
		r = edit_check(&job->host, &record->daemon, job->wait, why);
	else
		set_text(why, file.why[0] ? file.why : strerror(-r));
	if (r == 0 || r == -ECANCELED || file.lost < 0 || !file.old.bytes)
		return r;
	r = read_old(job, &file);
	if (r == 0) {
		snprintf(name, sizeof(name), "rejected-%.200s", strrchr(record->path, '/') + 1);
		if (replace_file(job->journal->dir, name, file.old.bytes, file.old.len, true) < 0)
			set_text(name, "nowhere");
		log_as(LOG_SETTING_CHANGED, LOG_ERR, record->path,
			"does not load with the changes of others (%s): the bytes from before our change replace it; theirs are kept as %s in the state directory",
			why, name);
		r = replace_old(&file, &file.new, file.record.directories);
	}
	if (r < 0)
		log_as(LOG_SETTING_CHANGED, LOG_ERR, record->path, "not restored: %s",
			strerror(-r));
	return r;
}

/* ---- restarts ---- */

/* Returns whether one restart or reload puts both files in force. */
static bool is_with(const struct file_change *a, const struct file_change *b)
{
	return a->activation == b->activation && streq(a->daemon.driver, b->daemon.driver) &&
	       streq(a->daemon.unit, b->daemon.unit) && a->daemon.pid == b->daemon.pid;
}

/*
 * Returns the next change without error, from *i on, that is put in force with this file; or NULL.
 */
static struct change *next_change(
	const struct file_job *job, const struct file_change *file, size_t *i)
{
	while (*i < job->plan.n) {
		struct change *change = &job->plan.changes[(*i)++];

		if (change->file && change->error == 0 && is_with(change->file, file))
			return change;
	}
	return NULL;
}

/*
 * Makes the changes that are put in force with this file wait, 0: until something changes. why may
 * be NULL.
 */
static void hold(const struct file_job *job, const struct file_change *file, enum reason reason,
	const char *why, uint64_t wait_us)
{
	struct change *change;

	for (size_t i = 0; (change = next_change(job, file, &i));) {
		if (job->task == FILE_APPLY)
			change->reason = reason;
		else if (file->activation == ACTIVATE_RESTART && change->reason == REASON_ORIGINAL)
			change->reason = REASON_ORIGINAL_AT_NEXT_START;
		change->held = reason;
		change->retry_us = wait_us > 0 && wait_us < NEVER ? now_us() + wait_us : 0;
		if (why) {
			free(change->why);
			change->why = must(strdup(why));
		}
	}
}

/*
 * Fails the values that an earlier restart did not put in force: only another value or `headroom
 * apply` may cause another restart. True when no value remains.
 */
static bool all_tried(
	const struct file_job *job, const struct file_change *file, struct restart_history *history)
{
	struct change *change;
	char why[EDIT_WHY_MAX];
	bool any = false;

	snprintf(why, sizeof(why),
		"%.60s was restarted with it and does not run with it: see which file it reads; "
		"it is not restarted again for this value",
		history->unit);
	for (size_t i = 0; (change = next_change(job, file, &i));) {
		const struct restart_value *tried =
			find_named(history->tried, history->n_tried, change->name);

		if (tried && streq(tried->value, change->new))
			advance(change, FILE_CONFIRMED, -ERANGE, why);
		else
			any = true;
	}
	return !any;
}

/* Returns whether policy and earlier restarts allow a restart; if not, the changes wait. */
static bool policy_allows(const struct file_job *job, const struct file_change *file)
{
	struct restart_history *history = history_of(job, &file->daemon);
	bool applies = job->task == FILE_APPLY;
	uint64_t wait_us;
	enum reason reason = may_restart(&file->daemon, history,
		applies || file->restart == RESTART_NEVER ? file->restart : RESTART_TO_UNDO,
		now_s(), &wait_us);
	char why[EDIT_WHY_MAX];

	if (history && applies && reason != REASON_RESTART_REFUSED && wait_us < NEVER &&
		(reason == REASON_NONE || wait_us > 0) && all_tried(job, file, history))
		return false;
	if (reason == REASON_NONE)
		return true;
	restart_describe(history, now_s(), reason, why);
	hold(job, file, reason, why[0] ? why : NULL, wait_us);
	return false;
}

/* Asks the runtime itself: the last sample may be older than a pull. False: no answer. */
static bool is_idle(const struct file_job *job, const struct daemon *daemon)
{
	const struct runtime_driver *driver = runtime_driver_find(daemon->driver);
	const struct wait answer = wait_at_most(job->wait, ANSWER_US);
	_cleanup_free_ struct node_runtime *runtime = must(calloc(1, sizeof(*runtime)));
	struct pull_counts counts = {0};
	char path[PATH_MAX];
	struct runtime_reading reading = {.host = &job->host,
		.runtime = runtime,
		.pulled = &counts,
		.socket = host_path(&job->host, daemon->socket, path),
		.wait = &answer,
		.slow = true};

	runtime->found = (struct runtime){.driver = driver, .config = daemon->config};
	runtime->no_cri = true; /* the CRI knows no pulls */
	if (driver)
		driver->read(&reading);
	return runtime->pulls_at_us > 0 && runtime->pulls.n == 0;
}

/* Records a restart durably, before systemd is asked. NULL when it could not be recorded. */
static struct restart_history *open_restart(
	struct file_job *job, const struct file_change *file, unsigned answered)
{
	struct file_journal *journal = job->journal;
	struct restart_history *history = history_of(job, &file->daemon), before;
	const struct change *change;

	if (!history && journal->n_restarts == JOURNAL_UNITS_MAX)
		return NULL;
	if (!history) {
		history = &journal->restarts[journal->n_restarts++];
		*history = (struct restart_history){0};
		set_text(history->unit, file->daemon.unit);
	}
	before = *history;
	history->answered = answered;
	history->open = true;
	for (size_t t = 0; t < history->n_tried; t++)
		history->tried[t].last = false;
	for (size_t i = 0; (change = next_change(job, file, &i));) {
		struct restart_value *tried =
			find_named(history->tried, history->n_tried, change->name);

		if (!tried && history->n_tried == RESTART_TRIED_MAX)
			break;
		if (!tried)
			tried = &history->tried[history->n_tried++];
		set_text(tried->name, change->name);
		set_text(tried->value, change->new);
		tried->last = true;
	}
	restart_add(history, now_s());
	if (file_store(job) == 0)
		return history;
	*history = before;
	return NULL;
}

/* Skips the name of the unit at the begin of a text: the log has it as the object. */
static const char *without_unit(const char *why, const char *unit)
{
	return starts_with(why, unit) && why[strlen(unit)] == ' ' ? why + strlen(unit) + 1 : why;
}

/* Leaves a restart to a later job: its result is unknown, or the roll-back failed. */
static void leave_open(struct file_job *job, const struct restart_history *history, const char *why)
{
	job->n_open++;
	log_as(LOG_RESTART, LOG_WARNING, history->unit,
		"the result of its restart is not known: %s", without_unit(why, history->unit));
}

/* Rolls back the files with settings of the last restart. Returns their number. */
static size_t roll_back_files(struct file_job *job, const struct restart_history *history,
	const char *why, size_t *failed)
{
	size_t n = 0;

	for (size_t i = 0; i < job->journal->n_files; i++) {
		struct file_record *record = &job->journal->files[i];
		bool due = false;

		for (size_t k = 0; k < record->n_keys && streq(record->daemon.unit, history->unit);
			k++) {
			struct key_record *key = &record->keys[k];
			const struct restart_value *tried =
				find_named(history->tried, history->n_tried, key->name);
			struct change *change;

			if (!tried || !tried->last)
				continue;
			due = true;
			copy_text(key->failed, SETTING_VALUE_MAX, tried->value);
			/* The plan may lack the setting of a resumed restart. */
			change = find_named(job->plan.changes, job->plan.n, key->name);
			if (!change)
				change = add_change(job, record, key, "", tried->value);
			advance(change, FILE_ACTIVATED, -ETIMEDOUT, why);
		}
		n += due;
		*failed += due && roll_back_file(job, record) < 0;
	}
	return n;
}

/*
 * Restores the old files of a daemon that does not answer, and restarts it once more if the budget
 * allows it. Else why gets what to do.
 */
static int roll_back(struct file_job *job, const struct daemon *daemon,
	struct restart_history *history, char *why)
{
	char again[EDIT_WHY_MAX] = "";
	size_t failed = 0, n = strlen(why);
	uint64_t wait_us;
	bool spent;
	int r;

	history->open = false; /* its result is known */
	spent = may_restart(daemon, history, RESTART_TO_UNDO, now_s(), &wait_us) != REASON_NONE;
	if (spent)
		snprintf(why + n, EDIT_WHY_MAX - n,
			"; after %zu restarts within a day it is not restarted with its old file: systemctl restart %.60s",
			restarts_today(history, now_s()), history->unit);
	log_as(LOG_RESTART, LOG_ERR, history->unit,
		"%s: its old file is restored%s; the value is not tried again until another one is configured",
		without_unit(why, history->unit), spent ? "" : " and it is restarted once more");
	n = roll_back_files(job, history, why, &failed);
	history->open = n > 0;
	(void)file_store(job);
	if (n == 0)
		log_as(LOG_RESTART, LOG_ERR, history->unit,
			"nothing was restored: the file is not ours");
	else if (failed == n)
		leave_open(job, history, "no file could be restored");
	/* With unchanged files it would fail again. */
	if (failed == n)
		return -ETIMEDOUT;
	r = spent ? -EPERM : edit_check(&job->host, daemon, job->wait, again);
	if (r == 0) {
		restart_add(history, now_s());
		r = file_store(job);
		if (r < 0)
			set_text(again, "the restart could not be recorded in the journal");
	}
	if (r == 0)
		r = systemd_restart(&job->host, daemon, true, job->wait, again);
	if (r == 0)
		r = systemd_await(&job->host, daemon, history->answered, true, job->wait, again);
	if (r == -ECANCELED)
		return r;
	if (r == 0)
		log_as(LOG_RESTART, LOG_NOTICE, history->unit,
			"it answers again, with its old file");
	else if (!spent)
		log_as(LOG_RESTART, LOG_ERR, history->unit,
			"the restart with the old file failed too: %s",
			without_unit(again, history->unit));
	if (r < 0 && (failed > 0 || (r != -ETIMEDOUT && r != -EPERM)))
		leave_open(job, history, again);
	else
		history->open = false;
	(void)file_store(job);
	return -ETIMEDOUT;
}

/*
 * Closes a restart, given the result of systemd_await(), or leaves it open. undo: roll back a
 * daemon that does not come back. 0; -ETIMEDOUT when it did not come back with the new file; or
 * another error of systemd_await().
 */
static int close_restart(struct file_job *job, const struct daemon *daemon,
	struct restart_history *history, int r, bool undo, char *why)
{
	if (r == -ECANCELED)
		return r;
	if (r == -ETIMEDOUT && undo)
		return roll_back(job, daemon, history, why);
	if (r < 0 && r != -EPERM && r != -ETIMEDOUT) {
		leave_open(job, history, why);
		return r;
	}
	if (r == 0)
		log_as(LOG_RESTART, LOG_NOTICE, history->unit,
			"restarted: it answers, with its file as it is now");
	else
		log_as(LOG_RESTART, LOG_WARNING, history->unit, "%s%s",
			without_unit(why, history->unit),
			r == -EPERM ? "" : ": its file is left as it is");
	history->open = false;
	(void)file_store(job);
	return r;
}

/*
 * Returns whether the daemon loads its files, and systemd may restart it; if not, the changes wait.
 */
static bool daemon_allows(const struct file_job *job, const struct file_change *file)
{
	const struct daemon *daemon = &file->daemon;
	char why[EDIT_WHY_MAX] = "", refusal[EDIT_WHY_MAX + 128];
	int r = edit_check(&job->host, daemon, job->wait, why);

	if (r < 0 && r != -ECANCELED) {
		snprintf(refusal, sizeof(refusal),
			"%.60s is not restarted, its files do not load: %s", daemon->unit, why);
		log_as(LOG_RESTART, LOG_WARNING, daemon->unit, "%s",
			without_unit(refusal, daemon->unit));
		hold(job, file, REASON_DOES_NOT_LOAD, refusal, FILE_RETRY_US);
		return false;
	}
	if (r == 0)
		r = systemd_may_restart(&job->host, daemon, job->wait, why);
	if (r < 0 && r != -ECANCELED) {
		log_as(LOG_RESTART, LOG_WARNING, daemon->unit, "%s",
			without_unit(why, daemon->unit));
		hold(job, file, r == -ENOTCONN ? REASON_NO_SYSTEMD : REASON_RESTART_REFUSED, why,
			RESTART_REFUSED_US);
	}
	return r == 0;
}

/*
 * Marks the values that a restart has lost: something writes the files when the program starts. The
 * agent finds that in its next sample, and an apply would end without a word.
 */
static void find_lost(struct file_job *job, const struct file_change *file)
{
	const struct daemon *daemon = &file->daemon;
	const struct runtime_driver *driver = runtime_driver_find(daemon->driver);
	_cleanup_free_ char *dump = NULL;
	char why[EDIT_WHY_MAX], value[SETTING_VALUE_MAX];
	struct change *change;

	if (!driver || !driver->dump ||
		driver->dump(&job->host, daemon, daemon->config, job->wait, &dump, why) < 0)
		return;
	for (size_t i = 0; (change = next_change(job, file, &i));) {
		if (edit_dump_has(dump, change->file, value))
			continue;
		snprintf(why, sizeof(why),
			"%.60s was restarted, and its files have %.60s now: something writes %.160s "
			"when it starts, such as ExecStartPre of the unit",
			daemon->unit, value[0] ? value : "no value", change->file->path);
		free(change->why);
		change->why = must(strdup(why));
		change->lost = true;
	}
}

static void restart(struct file_job *job, const struct file_change *file)
{
	const struct daemon *daemon = &file->daemon;
	bool undo = job->task == FILE_APPLY;
	char why[EDIT_WHY_MAX] = "";
	struct restart_history *history;
	struct change *change;
	unsigned answered;
	int r;

	if (!policy_allows(job, file))
		return;
	/* It may take seconds, in which others change the file: the check follows. */
	answered = systemd_probe(&job->host, daemon, job->wait);
	if (!daemon_allows(job, file) || (undo && atomic_load(&job->stale)))
		return;
	if (file->restart == RESTART_WHEN_IDLE && !is_idle(job, daemon)) {
		hold(job, file, REASON_RESTART_PENDING, NULL, 0);
		return;
	}
	history = open_restart(job, file, answered);
	if (!history) {
		log_as(LOG_RESTART, LOG_ERR, daemon->unit,
			"not restarted, because it could not be recorded in the journal");
		hold(job, file, REASON_RESTART_REFUSED, NULL, FILE_RETRY_US);
		return;
	}
	r = systemd_restart(&job->host, daemon, false, job->wait, why);
	if (r == 0) {
		r = systemd_await(&job->host, daemon, history->answered, false, job->wait, why);
		/* The restart was requested, so any other error means that it is not back. */
		if (r < 0 && r != -EPERM && r != -ECANCELED)
			r = -ETIMEDOUT;
	} else if (r != -ECANCELED) {
		r = -EPERM; /* it did not begin */
	}
	r = close_restart(job, daemon, history, r, undo, why);
	if (r != -ECANCELED && r != 0 && (r != -ETIMEDOUT || !undo))
		hold(job, file, REASON_RESTART_REFUSED, why, RESTART_REFUSED_US);
	/* After a restart the tuner reads the value in force. */
	for (size_t i = 0;
		(r == 0 || (r == -ETIMEDOUT && undo)) && (change = next_change(job, file, &i));) {
		advance(change, FILE_ACTIVATED, r, why);
		if (r == 0) {
			change->held = REASON_RESTART_PENDING;
			change->retry_us = now_us() + FILE_SEEN_US;
		}
	}
	if (r == 0 && job->task == FILE_APPLY)
		find_lost(job, file);
}

/* ---- reloads, activation ---- */

static void reload(struct file_job *job, const struct file_change *file)
{
	const struct daemon *daemon = &file->daemon;
	const struct runtime_driver *driver = runtime_driver_find(daemon->driver);
	const char *unit = daemon->unit[0] ? daemon->unit : daemon->driver;
	const struct wait answer = wait_at_most(job->wait, RELOAD_US);
	uint64_t since = realtime_us();
	struct change *change;
	char path[PATH_MAX];
	int r = -ESRCH;

	if (driver && driver->program)
		r = runtime_reload(&job->host, driver, daemon->socket, daemon->pid, &answer);
	if (r < 0) {
		log_as(LOG_RESTART, LOG_WARNING, unit, "did not reload its configuration: %s",
			r == -ESRCH ? "its process cannot be seen from here" : strerror(-r));
		hold(job, file, REASON_RELOAD_PENDING, NULL, FILE_RETRY_US);
		return;
	}
	log_as(LOG_RESTART, LOG_INFO, unit, "asked to reload its configuration");
	hold(job, file, REASON_RELOAD_PENDING, NULL, FILE_RELOAD_AGAIN_US);
	if (!daemon->socket[0] || !driver->await_reload)
		return;
	host_path(&job->host, daemon->socket, path);
	for (size_t i = 0; (change = next_change(job, file, &i));) {
		char value[SETTING_VALUE_MAX];

		if (driver->await_reload(path, since, change->file->key, value, &answer) < 0)
			return;
		set_text(change->actual, value);
		if (!value_equal(value, change->new))
			continue;
		advance(change, FILE_CONFIRMED, 0, NULL);
		change->held = REASON_NONE;
	}
}

static bool needs_activation(const struct change *change)
{
	return change->file &&
	       (change->file->state == FILE_WRITTEN || change->file->state == FILE_RESTORING);
}

/* Restarts or reloads each daemon of the plan once. */
static void activate_all(struct file_job *job)
{
	_cleanup_free_ const struct file_change **due = must(calloc(job->plan.n + 1, sizeof(*due)));
	bool applies = job->task == FILE_APPLY; /* a restore goes on */
	size_t n = 0;

	for (size_t i = 0, k; i < job->plan.n; i++) {
		if (!needs_activation(&job->plan.changes[i]))
			continue;
		due[n] = job->plan.changes[i].file;
		for (k = 0; !is_with(due[k], due[n]); k++)
			;
		n += k == n;
	}
	for (size_t i = 0; i < n && !(applies && atomic_load(&job->stale)); i++) {
		if (due[i]->activation == ACTIVATE_RELOAD)
			reload(job, due[i]);
		else if (due[i]->activation == ACTIVATE_RESTART)
			restart(job, due[i]);
	}
}

/* ---- the job ---- */

/* Awaits the restarts that an earlier process began. Returns their number, or -ECANCELED. */
static int resume_restarts(struct file_job *job)
{
	const struct file_journal *journal = job->journal;
	int n = 0, r = 0;

	for (size_t i = 0; i < journal->n_restarts && r != -ECANCELED; i++) {
		struct restart_history *history = &job->journal->restarts[i];
		const struct daemon *daemon = NULL;
		char why[EDIT_WHY_MAX] = "";

		for (size_t k = journal->n_files; history->open && k-- > 0;)
			if (streq(journal->files[k].daemon.unit, history->unit))
				daemon = &journal->files[k].daemon;
		if (daemon) {
			log_as(LOG_RESTART, LOG_NOTICE, history->unit,
				"its restart was under way when this program last ended: waiting for an answer");
			r = systemd_await(
				&job->host, daemon, history->answered, false, job->wait, why);
			r = close_restart(job, daemon, history, r, job->undo, why);
			n++;
		} else if (history->open) { /* its files are restored, or never were ours */
			history->open = false;
			(void)file_store(job);
		}
	}
	return r == -ECANCELED ? r : n;
}

static void apply_all(struct file_job *job, bool resumed)
{
	for (size_t i = 0; i < job->plan.n; i++) {
		struct change *change = &job->plan.changes[i];

		if (job->forced && !resumed)
			file_journal_try_again(job->journal, change->name);
		if (change->error < 0)
			continue;
		if (resumed) /* the plan was made before that */
			file_result(change, REASON_NOT_RECORDED, -ESTALE,
				"an earlier restart had to finish first: try again", 0);
		else if (change->kind == SETTING_PIN)
			pin_apply(job, change);
		else if (change->file && change->file->state == FILE_WANTED)
			apply_file(job, change);
	}
}

/* Restores files, also those that an earlier process began with; resume: only those. */
static void restore_all(struct file_job *job, bool resume)
{
	const struct file_journal *journal = job->journal;

	/* A record may be removed, and then the next one moves to its index. */
	for (size_t i = 0, n; i < journal->n_files; i += journal->n_files == n) {
		const struct file_record *record = &journal->files[i];

		n = journal->n_files;
		if (record->restoring || (!resume && file_is_chosen(job, record->tuner)))
			restore_file(job, record);
	}
}

/* Adds what a restore would do to the plan. */
static void plan_restore(struct file_job *job)
{
	const struct file_journal *journal = job->journal;

	for (size_t i = 0; i < journal->n_files; i++) {
		_cleanup_(work_file_clear) struct work_file file = {
			.record = journal->files[i], .plan_only = true};
		size_t first = job->plan.n;

		if (!file_is_chosen(job, file.record.tuner))
			continue;
		(void)restore_keys(job, &file, file.record.restoring);
		for (size_t k = first; k < job->plan.n; k++) {
			struct change *change = &job->plan.changes[k];

			if (change->error == 0 && file.record.activation == ACTIVATE_RESTART)
				(void)policy_allows(job, change->file);
			if (change->error == 0 && !change->why)
				note_plan(&file, change);
		}
	}
	pins_restore(job);
}

/*
 * Forgets the restored files, unless the process ends before their daemons were activated. No
 * daemon restarts without a record, so in a full state directory a later job resumes the restore.
 */
static void end_restore(struct file_job *job)
{
	const struct wait now = wait_at_most(job->wait, 0);
	struct file_journal *journal = job->journal;

	if (file_store(job) < 0)
		return;
	for (size_t i = journal->n_files; wait_for(&now, -1, 0) != -ECANCELED && i-- > 0;)
		if (journal->files[i].restoring && !journal->files[i].refused)
			file_journal_forget(journal, journal->files[i].path);
	if (file_store(job) == 0)
		file_sweep(journal, &job->host);
}

void file_transaction(void *userdata, const struct wait *wait)
{
	struct file_job *job = userdata;
	struct file_journal *journal = job->journal;
	int r;

	job->wait = wait;
	if (job->task == FILE_PLAN_RESTORE) {
		plan_restore(job);
		return;
	}
	/* The next plan retries failed values. Failures of the resume itself stay recorded. */
	for (size_t i = 0; job->forced && job->task == FILE_RESUME && i < journal->n_files; i++)
		for (size_t k = 0; k < journal->files[i].n_keys; k++)
			if (file_is_chosen(job, journal->files[i].tuner))
				journal->files[i].keys[k].failed[0] = '\0';
	for (size_t i = 0; i < journal->n_restarts; i++)
		restart_set_clock(&journal->restarts[i], now_s());
	if (file_store(job) == 0)
		file_sweep(journal, &job->host);
	r = resume_restarts(job);
	if (job->task == FILE_APPLY)
		apply_all(job, r != 0);
	else if (r >= 0 && (job->task == FILE_RESTORE || !job->forced))
		restore_all(job, job->task == FILE_RESUME);
	if (job->task == FILE_RESTORE && r >= 0) {
		pins_restore(job);
		if (file_is_chosen(job, IMAGES_TUNER))
			(void)load_file_put(&job->host, NULL, NULL);
		(void)file_store(job);
	}
	if ((job->task != FILE_APPLY && r >= 0) || (job->task == FILE_APPLY && r == 0))
		activate_all(job);
	if (job->task != FILE_APPLY && !job->forced)
		end_restore(job);
	(void)file_store(job);
}
