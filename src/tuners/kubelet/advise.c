/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/parse.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>

/* Images that a node may have to pull when it starts: what the advice reckons with. */
#define START_IMAGES 60

static uint64_t number_of(const struct kubelet_seen *seen, enum kubelet_field field)
{
	uint64_t number = 0;

	(void)parse_count(seen->values.field[field].text, &number);
	return number;
}

static bool advise_rate(const struct kubelet_seen *seen, char advice[CONDITION_MESSAGE_MAX])
{
	uint64_t qps = number_of(seen, KUBELET_REGISTRY_PULL_QPS);
	uint64_t burst = number_of(seen, KUBELET_REGISTRY_BURST);

	if (qps == 0 || burst >= START_IMAGES)
		return false;
	snprintf(advice, CONDITION_MESSAGE_MAX,
		"registryPullQPS is %" PRIu64 " with registryBurst %" PRIu64
		": of %d images that a node needs at once, the last begins %" PRIu64
		" s late, and pulls beyond it fail and are tried again later. It limits how many "
		"begin, not how many run: raise both, or set registryPullQPS: 0.",
		qps, burst, START_IMAGES, (START_IMAGES - burst + qps - 1) / qps);
	return true;
}

static bool advise_collection(const struct kubelet_seen *seen, char advice[CONDITION_MESSAGE_MAX])
{
	uint64_t high = number_of(seen, KUBELET_IMAGE_GC_HIGH);
	uint64_t low = number_of(seen, KUBELET_IMAGE_GC_LOW);

	if (high >= 100)
		return false;
	snprintf(advice, CONDITION_MESSAGE_MAX,
		"From %" PRIu64 " %% of the image file system on, the kubelet deletes images that "
		"no container uses, down to %" PRIu64
		" %%: preloaded ones too, unless they are pinned. Keep the preloaded images well "
		"below it, or raise imageGCHighThresholdPercent.",
		high, low);
	return true;
}

static bool advise_age(const struct kubelet_seen *seen, char advice[CONDITION_MESSAGE_MAX])
{
	const char *age = seen->values.field[KUBELET_IMAGE_MAXIMUM_GC_AGE].text;

	if (strspn(age, "0smh") == strlen(age))
		return false;
	snprintf(advice, CONDITION_MESSAGE_MAX,
		"imageMaximumGCAge is %s: the kubelet deletes images unused for so long, however "
		"much room there is; preloaded ones too, unless they are pinned. 0s switches it off.",
		age);
	return true;
}

size_t kubelet_advise(
	const struct kubelet_seen *seen, char (*advices)[CONDITION_MESSAGE_MAX], size_t n)
{
	static bool (*const all[])(const struct kubelet_seen *seen,
		char advice[CONDITION_MESSAGE_MAX]) = {advise_rate, advise_collection, advise_age};
	size_t used = 0;

	if (seen->presence == KUBELET_ABSENT || seen->why[0])
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(all) && used < n; i++)
		used += all[i](seen, advices[used]);
	return used;
}
