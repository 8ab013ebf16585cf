/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Helpers and headers of the C library that nearly every file needs. */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

#define USEC_PER_SEC  UINT64_C(1000000)
#define USEC_PER_MSEC UINT64_C(1000)
#define NSEC_PER_SEC  UINT64_C(1000000000)

#define PRINTF_LIKE(fmt, args) __attribute__((__format__(__printf__, fmt, args)))

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Copies src, truncated and terminated. Returns whether it fits. */
bool copy_text(char *dst, size_t size, const char *src);

/* The same to an array of characters. A pointer does not compile. */
#define set_text(array, src) \
	copy_text(*_Generic(&(array), char(*)[sizeof(array)]: &(array)), sizeof(array), src)

/*
 * Says so and ends the process, and systemd restarts the agent: half a list would look like a whole
 * one.
 */
_Noreturn void out_of_memory(void);

/* Returns allocated memory, or does not return. */
void *must(void *memory);

/* Returns if ok: for a call without a pointer that fails only without memory or threads. */
void must_do(int ok);

/* Appends a zeroed element to *array, which may move, and returns the element. */
#define add_element(array, n, allocated) \
	((__typeof__(*(array)))add_bytes(array, n, allocated, sizeof(**(array))))
void *add_bytes(void *array, size_t *n, size_t *allocated, size_t size);

/* Returns the first of n elements with that name, or NULL. The name is their first member. */
#define find_named(array, n, name) \
	((__typeof__(&(array)[0]))find_element(array, n, sizeof((array)[0]), name))
void *find_element(const void *array, size_t n, size_t size, const char *name);

/*
 * Finds an element of a growing array by its key, the first member, in constant time. Zeroed:
 * empty; the caller frees positions. Elements that it has seen keep their keys and their positions:
 * after a removal, index_reset().
 */
struct element_index {
	uint32_t *positions; /* from 1; 0: free */
	size_t n, size;
};

/* The key is a text, as for find_named(). */
#define find_indexed(index, array, n, name) \
	((__typeof__(&(array)[0]))find_by_index(index, array, n, sizeof((array)[0]), name, 0))

/* The key is what *key has, without padding. */
#define find_keyed(index, array, n, key)         \
	((__typeof__(&(array)[0]))find_by_index( \
		index, array, n, sizeof((array)[0]), key, sizeof(*(key))))

/* Takes key_size 0 for a text. */
void *find_by_index(struct element_index *index, const void *array, size_t n, size_t size,
	const void *key, size_t key_size);

/* Forgets all elements and keeps the memory. */
void index_reset(struct element_index *index);

/*
 * Keeps the first max elements in the order of compare, a function for qsort(3). The array
 * has room for max elements.
 */
void keep_first(void *array, size_t *n, size_t max, size_t size, const void *element,
	int (*compare)(const void *, const void *));

/* Smoothed rates: an amount counts half after each half-life. */
struct smoothing {
	double keep;    /* the share that the rate before keeps, 0..1 */
	double seconds; /* since the last reading; infinite at the first: rates begin at 0 */
};

/* Takes the time of the last reading, or 0, and of this one. */
struct smoothing smoothing_since(uint64_t before_us, uint64_t now_us, double half_life_s);

/* Returns the new rate per second, from the rate before and the amount since the last reading. */
double smooth(const struct smoothing *smoothing, double rate, double amount);

/*
 * Parses a decimal number without sign, space, leading zero or unit. Returns 0, -EINVAL, or -ERANGE
 * above UINT64_MAX. value is written only on success.
 */
int parse_count(const char *text, uint64_t *value);

static inline uint64_t us_of(struct timespec ts)
{
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

static inline struct timespec timespec_of(uint64_t us)
{
	return (struct timespec){
		.tv_sec = (time_t)(us / USEC_PER_SEC), .tv_nsec = (long)(us % USEC_PER_SEC * 1000)};
}

/* Returns the next multiple of a period: tasks with the same period are due together. */
static inline uint64_t next_turn_us(uint64_t now_us, uint64_t every_us)
{
	return (now_us / every_us + 1) * every_us;
}

uint64_t now_us(void);      /* CLOCK_MONOTONIC, microseconds */
uint64_t realtime_us(void); /* CLOCK_REALTIME, microseconds since the epoch */
uint64_t cpu_us(void);      /* CPU time of this thread, microseconds */

/* Release at the end of the scope, on every path. */
#define _cleanup_(fn) __attribute__((cleanup(fn)))

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_free_   _cleanup_(cleanup_free)
#define _cleanup_close_  _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)

/* Defines cleanup_NAME(type **) for a release function of the form void release(type *). */
#define DEFINE_CLEANUP(type, release)                  \
	static inline void cleanup_##release(type **p) \
	{                                              \
		if (*p)                                \
			release(*p);                   \
	}

/* Returns a pointer and sets the variable to NULL, to pass ownership on. */
#define steal(p)                             \
	({                                   \
		__typeof__(p) _stolen = (p); \
		(p) = NULL;                  \
		_stolen;                     \
	})

static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}
