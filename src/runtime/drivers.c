/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/driver.h"

/* In the order in which they are asked. */
const struct runtime_driver *const runtime_drivers[] = {
	&containerd_driver, &docker_driver, &crio_driver, NULL};

const char *const runtime_choices[] = {"auto", "containerd", "docker", "crio", NULL};

const struct runtime_driver *runtime_driver_choose(int choice)
{
	return choice > 0 ? runtime_drivers[choice - 1] : NULL;
}

const struct runtime_driver *runtime_driver_find(const char *name)
{
	for (const struct runtime_driver *const *driver = runtime_drivers; *driver; driver++)
		if (streq((*driver)->name, name))
			return *driver;
	return NULL;
}
