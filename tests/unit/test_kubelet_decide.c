/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "tuners/kubelet/kubelet.h"
#include "tuners/table.h"

TEST(advice_fits_the_values)
{
	static const struct {
		enum kubelet_field field;
		const char *value;
		int n;             /* with what was changed before */
		const char *first; /* advice */
	} steps[] = {
		{KUBELET_IMAGE_GC_LOW, "80", 2,
			"registryPullQPS is 5 with registryBurst 10: of 60 images that a node "
			"needs at once, the last begins 10 s"},
		{KUBELET_REGISTRY_PULL_QPS, "0", 1, "From 85 %"},
		{KUBELET_IMAGE_GC_HIGH, "100", 0, ""},
		{KUBELET_IMAGE_MAXIMUM_GC_AGE, "24h", 1, "imageMaximumGCAge is 24h"},
		{KUBELET_IMAGE_MAXIMUM_GC_AGE, "0h0m", 0, ""},
	};
	struct kubelet kubelet = {.seen.presence = KUBELET_RUNNING};

	kubelet_fill_defaults(&kubelet.seen.values, false);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
		const cJSON *advice;

		strcpy(kubelet.seen.values.field[steps[i].field].text, steps[i].value);
		document = kubelet_tuner.document(&kubelet, NULL, false);
		assert_int_equal(cJSON_GetArraySize(json_at(document, "advice")), steps[i].n);
		assert_true(starts_with(json_text_at(document, "advice/0"), steps[i].first));
		cJSON_ArrayForEach (advice, json_at(document, "advice"))
			assert_true(strlen(json_text_at(advice, "")) < CONDITION_MESSAGE_MAX - 1);
	}
}
