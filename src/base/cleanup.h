/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

/* Scope-bound release of what a function owns: the compiler runs these on every way out. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Hands ownership on: returns the pointer and forgets it. */
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

#endif
