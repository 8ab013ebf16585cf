/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/driver.h"

#define DRIVER_ROW(name) &name##_driver,
#define NAME_ROW(name)   #name,

const struct runtime_driver *const runtime_drivers[] = {RUNTIME_DRIVERS(DRIVER_ROW) NULL};

const char *const runtime_choices[] = {"auto", RUNTIME_DRIVERS(NAME_ROW) NULL};

const struct runtime_driver *runtime_driver_find(const char *name)
{
	for (const struct runtime_driver *const *driver = runtime_drivers; *driver; driver++)
		if (streq((*driver)->name, name))
			return *driver;
	return NULL;
}
