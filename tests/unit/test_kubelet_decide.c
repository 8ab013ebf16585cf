/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/kubelet/kubelet.h"

TEST(advice_fits_the_values)
{
	static const struct {
		enum kubelet_field field;
		const char *value;
		size_t n;          /* with what was changed before */
		const char *first; /* advice */
	} steps[] = {
		{KUBELET_IMAGE_GC_LOW, "80", 2,
			"registryPullQPS is 5 with registryBurst 10: of 60 images that a node "
			"needs at once, the last begins 10 s"},
		{KUBELET_REGISTRY_PULL_QPS, "0", 1, "From 85 %"},
		{KUBELET_IMAGE_GC_HIGH, "100", 0, NULL},
		{KUBELET_IMAGE_MAXIMUM_GC_AGE, "24h", 1, "imageMaximumGCAge is 24h"},
		{KUBELET_IMAGE_MAXIMUM_GC_AGE, "0h0m", 0, NULL},
	};
	char advices[KUBELET_ADVICES_MAX][CONDITION_MESSAGE_MAX];
	struct kubelet_seen seen = {.presence = KUBELET_RUNNING};

	kubelet_fill_defaults(&seen.values, false);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		size_t n;

		strcpy(seen.values.field[steps[i].field].text, steps[i].value);
		n = kubelet_advise(&seen, advices);
		assert_int_equal(n, steps[i].n);
		for (size_t a = 0; a < n; a++)
			assert_true(strlen(advices[a]) < CONDITION_MESSAGE_MAX - 1);
		if (steps[i].first)
			assert_true(starts_with(advices[0], steps[i].first));
	}
	strcpy(seen.values.field[KUBELET_IMAGE_GC_HIGH].text, "85");
	strcpy(seen.why, "broken");
	assert_int_equal(kubelet_advise(&seen, advices), 0);
}
