/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include <linux/capability.h>

#define API "kubelet.config.k8s.io/v1beta1 KubeletConfiguration"

const struct explanation kubelet_explanations[] = {
	{KUBELET_SETTING, "setting",
		"Whether the kubelet pulls one image after the other. One large image then holds up "
		"all others. Read at the kubelet's start; with kubelet.manage: true headroom writes "
		"false as a drop-in file, which the kubelet takes when it is restarted.",
		NULL, "true; from 1.32 false where maxParallelImagePulls is 2 or more",
		"kubelet.manage", API},
	{"kubelet.maxParallelImagePulls", "kubelet option",
		"How many images the kubelet has pulled at once; from 1.27, and only with "
		"serializeImagePulls: false. Fewer than 3 let one slow registry hold up the others. "
		"headroom looks at it and never sets it.",
		"images", "no limit", NULL, API},
	{"kubelet.registryPullQPS", "kubelet option",
		"How many pulls the kubelet begins in a second, after a burst of registryBurst; "
		"what is above is refused and tried again with a growing delay. It limits requests "
		"and not pulls in flight, so it delays a node's start without sparing the registry "
		"much. Raise both on nodes that start many pods at once; 0: no limit.",
		"pulls/s", "5", NULL, API},
	{"kubelet.registryBurst", "kubelet option",
		"How many pulls may begin at once before registryPullQPS holds them back. Raise it "
		"to the number of images that a node needs at its start.",
		"pulls", "10", NULL, API},
	{"kubelet.imageGCHighThresholdPercent", "kubelet option",
		"From this share of the image file system on, the kubelet deletes images that no "
		"container uses, the longest unused first, and preloaded ones among them unless they "
		"are pinned. Keep the preloaded images well below it; 100 switches it off.",
		"percent", "85", NULL, API},
	{"kubelet.imageGCLowThresholdPercent", "kubelet option",
		"Down to this share the kubelet deletes images once it has begun. Close below the "
		"high threshold it deletes fewer images at a time.",
		"percent", "80", NULL, API},
	{"kubelet.imageMaximumGCAge", "kubelet option",
		"Images unused for this long are deleted however much room there is, preloaded ones "
		"too unless they are pinned; from 1.29. 0s: off.",
		"time", "0s", NULL, API},
	{0},
};

static const struct reason pull_reasons[] = {
	{"no-kubelet", "No kubelet and no configuration of one was found on this node."},
	{"kubelet-config-unreadable",
		"The kubelet's configuration could not be read: the message says where and why."},
	{"serial-pulls", "The kubelet pulls one image after the other."},
	{"few-parallel-pulls", "The kubelet pulls fewer than three images at once."},
	{"parallel-pulls", "The kubelet pulls at least three images at once."},
	{0},
};

const struct condition_type kubelet_conditions[] = {
	[KUBELET_SERIAL_PULLS] = {"KubeletSerialPulls", SEVERITY_ADVICE,
		"The kubelet pulls one image at a time, or very few: one large image delays all "
		"others. Set serializeImagePulls: false and maxParallelImagePulls in its "
		"configuration.",
		pull_reasons},
	{0},
};

const struct capability_row kubelet_capabilities[] = {
	{CAPABILITY(CAP_CHOWN), CAPABILITY_TO_ENFORCE, NULL,
		"keeps the owner of a configuration file that does not belong to root"},
	{0},
};
