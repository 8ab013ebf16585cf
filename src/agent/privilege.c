/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"
#include "kernel/capability.h"

#include <sys/prctl.h>

/* A record may be of a setting that the configuration names no more: a restore writes it. */
static bool is_managed(const struct core *core, const char *prefix)
{
	size_t n = 0;
	const struct value_record *records =
		core->values ? value_store_records(core->values, &n) : NULL;

	for (size_t i = 0; i < core->node.n_settings; i++)
		if (starts_with(core->node.settings[i].name, prefix))
			return true;
	for (size_t i = 0; i < n; i++)
		if (starts_with(records[i].name, prefix))
			return true;
	return false;
}

/* A tuner may change files, or a record of one is to be restored. */
static bool edits_files(const struct core *core, size_t tuner)
{
	enum mode mode = core->node.tuners[tuner].mode;

	return mode == MODE_ENFORCE || mode == MODE_RELEASED || core->n_files > 0;
}

static bool is_needed(const struct core *core, size_t tuner, const struct capability_row *row)
{
	switch (row->use) {
	case CAPABILITY_TO_OPEN:
		return false;
	case CAPABILITY_TO_RUN: /* also of a tuner that a reload may switch on */
		return true;
	case CAPABILITY_TO_ENFORCE:
		return edits_files(core, tuner);
	case CAPABILITY_TO_CHROOT:
		return edits_files(core, tuner) && core->host.root[0];
	case CAPABILITY_TO_SET:
		return is_managed(core, row->setting);
	}
	return false;
}

/* Where the unit or the pod does not give a capability, it is not had, and cannot be kept. */
void agent_drop_privileges(const struct agent *agent)
{
	const struct node *node = &agent->core.node;
	cap_value_t kept[CAP_LAST_CAP + 1];
	uint64_t taken = 0;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < node->n_tuners; i++)
		for (const struct capability_row *row = node->tuners[i].ops->capabilities;
			row && row->name; row++) {
			if ((taken >> row->capability & 1) || !is_needed(&agent->core, i, row))
				continue;
			taken |= UINT64_C(1) << row->capability;
			kept[n++] = row->capability;
		}
	r = capability_keep_only(kept, n);
	if (r < 0)
		log_warning("privileges", "not dropped: %s", strerror(-r));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		log_warning("privileges", "no_new_privs not set");
}
