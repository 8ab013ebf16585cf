/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The passes over processes and files. census.c runs them, tally.c adds up what rows count. */

#include "tuners/limits/limits.h"

#include <headroom/bpf/census.h>

/* A use of a limit that a record shows. */
struct limit_use {
	uint64_t key[2];    /* the user or cgroup that the kernel counts for; zero: the process */
	uint64_t used, max; /* max 0: the row's own */
	bool adds;          /* used adds up over the records with this key */
	uint32_t pid, last_pid;
	uint32_t uid;          /* if by_uid */
	bool by_uid, by_netns; /* by_netns: pid is any process of the network namespace */
	bool is_remote;        /* address and port are of the remote end */
	uint16_t family, port; /* port 0: none */
	uint8_t address[16];
	char comm[CENSUS_COMM]; /* the name of a process */
};

/* The uses by their keys, or the fullest TALLY_CANDIDATES uses without a key. Zeroed: none. */
struct tally {
	struct limit_use *uses;
	size_t n, allocated;
	struct element_index index;
};

#define TALLY_CANDIDATES 32 /* uses that are named; several may belong to one workload */

void tally_free(struct tally *tally);

void tally_add(struct tally *tally, const struct limit_use *use);

/* Finds the use with this key, or adds one without users. */
struct limit_use *tally_at(struct tally *tally, uint64_t high, uint64_t low);

/*
 * Sets used and max to the numbers of the fullest use, and top to the workloads of the fullest
 * uses. max is the row's. Frees the tally.
 */
void tally_finish(struct tally *tally, const struct host *host, uint64_t max, unsigned named,
	struct limit_reading *reading);

/* Members of struct bpf_ops: programs is an allocated struct census. */
int census_load(const struct host *host, void **programs, char why[static TUNER_WHY_MAX]);
void census_unload(void *programs);

void census_close(struct census *census);

/* Reads all records of an iterator. Returns 0 or -errno. */
typedef void census_visit(void *userdata, const void *record);
int census_each(int link, size_t size, census_visit *visit, void *userdata);

/* Reads the tracked connections of these network namespaces. reading gets the fullest one. */
int limits_sample_namespaces(const struct host *host, struct tally *namespaces,
	struct limit_reading *reading, struct limit_reading *users);

/* Write the use that a process or an open file adds to a row. False: none. */
bool census_count(
	const struct census_record *record, enum census_count count, struct limit_use *use);
bool census_count_file(
	const struct census_file *file, enum census_count_file count, struct limit_use *use);
