/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/sysctl.h"

#include "base/util.h"

#include <stdio.h>

bool sysctl_path(const char *name, char path[static SETTING_PATH_MAX])
{
	int n = snprintf(path, SETTING_PATH_MAX, "/proc/sys/%s", name);

	if (n < 0 || n >= SETTING_PATH_MAX)
		return false;
	for (char *p = path + strlen("/proc/sys/"); *p; p++)
		*p = *p == '.' ? '/' : *p == '/' ? '.' : *p;
	return true;
}
