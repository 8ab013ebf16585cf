/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/sysctl/sysctl.h"

#include "base/util.h"

#include <errno.h>

/* Raises only: the larger, field by field, of what is configured and what the administrator had. */
static void want_value(
	const struct sysctl_key *key, const struct decide_input *input, struct value_want *want)
{
	char floor[SETTING_VALUE_MAX];

	copy_text(want->wanted, SETTING_VALUE_MAX, key->configured);
	want->reason = key->from_profile ? "profile" : "configured";
	if (key->exact || key->error < 0)
		return;
	value_floor(
		value_record_find(input->values, input->n_values, key->name), key->actual, floor);
	if (value_max(key->configured, floor, want->wanted) == 0 &&
		!value_equal(want->wanted, key->configured))
		want->reason = "administrator-higher";
}

int sysctl_decide(const struct sysctl_key *keys, size_t n, const struct decide_input *input,
	struct proposal *proposal)
{
	for (size_t i = 0; i < n; i++) {
		struct value_want *want = proposal_value(proposal);

		if (!want)
			return -ENOMEM;
		copy_text(want->name, SETTING_NAME_MAX, keys[i].name);
		want->target.kind = VALUE_FILE;
		copy_text(want->target.path, SETTING_PATH_MAX, keys[i].file.path);
		copy_text(want->actual, SETTING_VALUE_MAX, keys[i].actual);
		want->error = keys[i].error;
		want_value(&keys[i], input, want);
	}
	return 0;
}
