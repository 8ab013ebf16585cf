/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of records, checked by SPIN in every interleaving: two owners, two values and one
 * file; agents, apply, restore, hands, reboots, and a kill before each step.
 *
 * Each inline has the name of its function in src/. An assertion has a name of promises.py.
 *
 * A kernel value has no compare-and-swap: no hand of this model writes between a record and the
 * write that follows within microseconds. After a kill in between, the original is the value that
 * was recorded.
 */

#define A 1 /* an owner, and the value that it wants */
#define B 2
#define HAND 3   /* the value that a hand writes */
#define KERNEL 0 /* the value after a boot */
#define NOBODY 0
#define NOTHING 7

#ifdef QUICK /* with one value */
#define OTHER(action) skip
#else
#define OTHER(action) action
#endif

typedef record {
	bool valid;
	byte original, before, wanted
}

typedef ghost { /* what really happened */
	byte first;  /* when the first write was recorded; NOTHING: none is */
	bool ours    /* the program wrote last */
}

byte value[2] = KERNEL;
record values[2];          /* in /run, with the boot id */
byte values_owner = NOBODY;
byte file = HAND;
bool note_valid = false;   /* in /var/lib: journal.json on the disk */
byte note_original, note_ours0, note_ours1;
byte disk_owner = NOBODY;
bool disk_released = false;
byte lock = NOBODY;        /* flock(2): a kill frees it */
byte writes = NOBODY;      /* who is between a record and its write */
bool boots = false;        /* everything ends now */

ghost seen[2];
ghost seen_file;
bool released[3];          /* a restore of this owner has ended, and no apply since */

/* Before each step the process may be killed. A reboot kills, too. */
#define STEP(action)                                                             \
	atomic {                                                                 \
		if                                                               \
		:: true -> goto killed                                            \
		:: !boots -> skip                                                \
		fi;                                                              \
		action                                                           \
	}

/* What is not valid has one form, which keeps the number of states small. */
#define FORGET(v) values[v].valid = false; values[v].original = 0; values[v].before = 0; values[v].wanted = 0
#define FORGET_NOTE note_valid = false; note_original = 0; note_ours0 = 0; note_ours1 = 0; seen_file.first = NOTHING
#define FORGET_MEMORY owner = NOBODY; memory_released = false

/* ---- src/model/setting.c ---- */

#define FOREIGN(v)                                                               \
	(value[v] != values[v].original && value[v] != values[v].before &&       \
		value[v] != values[v].wanted)

/* ---- src/apply/values.c ---- */

inline put_record(v, new)
{
	if
	:: !values[v].valid ->
		seen[v].first = value[v]; /* a kill may follow: the first write begins here */
		values[v].original = value[v];
		values[v].before = value[v];
		values[v].wanted = new;
		values[v].valid = true
	:: values[v].valid && (values[v].wanted != new ||
		(value[v] != values[v].original && value[v] != values[v].before)) ->
		values[v].before = (FOREIGN(v) -> values[v].wanted : value[v]);
		values[v].wanted = new
	:: else -> skip
	fi;
	writes = new
}

inline write_value(v, new, by_agent)
{
	assert(!by_agent || !released[new]);                       /* consent */
	assert(values[v].valid);                                   /* originals */
	value[v] = new;
	seen[v].ours = true;
	writes = NOBODY
}

inline values_apply(v, by_agent)
{
	if
	:: value[v] != me ->
		STEP(put_record(v, me));
		STEP(write_value(v, me, by_agent));
		STEP(values[v].before = value[v])
	:: else -> skip
	fi
}

/* The original is written, or the value of others is left; then the record goes. */
inline values_restore(v)
{
	if
	:: values[v].valid ->
		STEP(
			if
			:: FOREIGN(v) -> seen[v].first = NOTHING
			:: else ->
				/* originals */
				assert(!seen[v].ours || seen[v].first == NOTHING ||
					values[v].original == seen[v].first ||
					value[v] == values[v].original);
				value[v] = values[v].original;
				seen[v].first = NOTHING;
				seen[v].ours = false
			fi
		);
		STEP(FORGET(v))
	:: else -> skip
	fi
}

/* ---- src/apply/file_transaction.c ---- */

/* Bytes of others make a new original. The new bytes are known before they are written. */
inline file_record()
{
	if
	:: !note_valid || (file != note_ours0 && file != note_ours1) ->
		note_original = file;
		note_ours0 = NOTHING
	:: else -> note_ours0 = file
	fi;
	note_ours1 = me;
	note_valid = true;
	disk_owner = owner;
	disk_released = memory_released
}

inline file_put(by_agent)
{
	assert(!by_agent || !released[me]);                        /* consent */
	assert(note_valid && note_ours1 == me);                    /* originals */
	if
	:: !seen_file.ours -> seen_file.first = file
	:: else -> skip
	fi;
	file = me;
	seen_file.ours = true
}

inline file_apply(by_agent)
{
	if
	:: file != me ->
		STEP(file_record());
		/* It reads the file again: a change of others since then stops it. */
		STEP(
			if
			:: file == note_original || file == note_ours0 -> file_put(by_agent)
			:: else -> skip
			fi
		)
	:: else -> skip
	fi
}

inline file_restore()
{
	if
	:: note_valid && (file == note_ours0 || file == note_ours1) ->
		assert(!seen_file.ours || note_original == seen_file.first); /* originals */
		STEP(file = note_original; seen_file.ours = false);
		STEP(FORGET_NOTE)
	:: note_valid && file != note_ours0 && file != note_ours1 ->
		STEP(FORGET_NOTE)
	:: else -> skip
	fi
}

/* ---- src/agent/core.c ---- */

/* The values belong to the new owner at once, the journal with its next store. */
inline core_become_writer()
{
	STEP(lock == NOBODY -> lock = me);
	STEP(owner = disk_owner; memory_released = disk_released);
	STEP(
		if
		:: owner != me ->
			memory_released = false;
			released[A + B - me] = false /* a takeover ends it */
		:: else -> skip
		fi;
		owner = me;
		values_owner = me
	)
}

#define journal_store() disk_owner = owner; disk_released = memory_released

proctype installation(byte me)
{
	byte owner;           /* of the journal in memory */
	bool memory_released;

idle:
	do
	:: boots -> !boots
	:: !boots && lock == NOBODY -> /* the agent */
		core_become_writer();
		do
		:: !memory_released ->
			values_apply(0, true);
			OTHER(values_apply(1, true));
			file_apply(true)
		:: true -> break
		:: boots -> goto killed
		od;
		STEP(lock = NOBODY; FORGET_MEMORY)
	:: !boots && lock == NOBODY -> /* headroom apply */
		core_become_writer();
		STEP(memory_released = false; released[me] = false);
		values_apply(0, false);
		OTHER(values_apply(1, false));
		file_apply(false);
		STEP(journal_store());
		STEP(lock = NOBODY; FORGET_MEMORY)
	:: !boots && lock == NOBODY && (values_owner == me ||
		(values_owner == NOBODY && (disk_owner == me || disk_owner == NOBODY))) ->
		/* headroom restore: by the owner only */
		core_become_writer();
		assert(values_owner == me);                        /* consent */
		values_restore(0);
		OTHER(values_restore(1));
		STEP(memory_released = true; journal_store());
		file_restore();
		atomic { /* originals: nothing of ours is in force, unless a hand chose it too */
			assert(!values[0].valid && !values[1].valid && !note_valid);
			assert(seen[0].first == NOTHING || !seen[0].ours);
			assert(seen[1].first == NOTHING || !seen[1].ours);
			assert(!seen_file.ours);
			released[me] = true
		};
		STEP(lock = NOBODY; FORGET_MEMORY)
	od;
killed:
	atomic {
		if
		:: writes == me -> writes = NOBODY
		:: else -> skip
		fi;
		FORGET_MEMORY;
		if
		:: lock == me -> lock = NOBODY
		:: else -> skip
		fi
	};
	goto idle
}

active proctype hands()
{
	do
	/* The other value has no hand, which keeps the number of states small. */
	:: atomic { writes == NOBODY && value[0] != HAND -> value[0] = HAND; seen[0].ours = false }
	:: atomic { file != HAND -> file = HAND; seen_file.ours = false }
	:: atomic { boots = true };
		atomic {
			lock == NOBODY -> /* all have ended */
			value[0] = KERNEL; value[1] = KERNEL;
			FORGET(0); FORGET(1);
			values_owner = NOBODY;
			seen[0].first = NOTHING; seen[1].first = NOTHING;
			seen[0].ours = false; seen[1].ours = false;
			boots = false
		}
	od
}

init
{
	atomic {
		seen[0].first = NOTHING; seen[1].first = NOTHING; seen_file.first = NOTHING;
		run installation(A);
		run installation(B)
	}
}
