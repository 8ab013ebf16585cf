/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reason.h"

#include "base/util.h"

const struct reason reason_table[] = {
	{"in-sync", "The value read back from the node is the wanted one."},
	{"configured", "The configuration or its defaults ask for this value."},
	{"profile", "The chosen profile asks for this value."},
	{"configured-over-boot-line",
		"The configuration asks for this value; the kernel's boot line sets another at "
		"each boot, and is the place to change for the time before the agent starts."},
	{"administrator-higher",
		"The administrator's own value is higher than the configured one and stands: "
		"values are only raised, unless the configuration says lower: true or exact: true."},
	{"growing", "The table is filling: raised ahead of need, before an entry is refused."},
	{"kept", "The configuration says keep: the value is looked at and never written."},
	{"observe-mode", "The mode is observe: nothing is written."},
	{"restored",
		"headroom restore put the original back; nothing is written until headroom apply "
		"or a new configuration."},
	{"drift", "Someone else changed the value; it is put back, as on_drift: enforce asks."},
	{"left-by-on-drift", "Someone else changed the value, and on_drift says to leave it."},
	{"rewritten-too-often",
		"Someone else rewrote the value each time it was put back, so it is left to them. "
		"headroom apply, a reload or a restart tries again."},
	{"not-in-this-kernel", "The running kernel has no such setting."},
	{"unreadable", "The value could not be read."},
	{"not-recorded",
		"The original could not be stored in the journal, so nothing was written. Make "
		"room in, or give write access to, the state folder."},
	{"write-refused", "The kernel refused the write."},
	{"not-taken",
		"The write succeeded but another value was read back: the kernel rounds or limits it."},
	{"original", "The value found before the first write is put back."},
	{"changed-since",
		"Someone else changed the value since it was last written: it is left as it is."},
	{"within-limit", "There is room left."},
	{"near-full", "More than 80 % of the table is in use."},
	{"at-ceiling", "The table is filling, and growth has reached neighbor.ceiling."},
	{"entries-refused", "The kernel refused new entries because the table was full."},
	{"counters-unavailable", "The table's counters could not be read."},
	{"none-in-use", "No memory is backed by transparent huge pages."},
	{"still-mapped",
		"Memory mapped before the switch is still backed by transparent huge pages; it is "
		"given back as its processes unmap it or end."},
	{"wanted-in-use", "Huge pages are in use, as the configuration allows."},
	{"meminfo-unavailable", "/proc/meminfo could not be read."},
	{"all-in-sync", "No managed setting was changed by someone else."},
	{"none-failed", "Every managed setting could be read and written."},
	{"config-valid", "The configuration on disk is the one in use."},
	{"config-fault", "The configuration on disk has a fault; the previous one is in use."},
	{"tuner-off", "The tuner that would know is switched off."},
	{"all-active", "Every enabled tuner can do all that it is for."},
	{"tuner-degraded", "A tuner lacks something on this node."},
	{"journal-unusable", "The journal of original values could not be read or written."},
	{0},
};

const char *reason_sentence(const char *slug)
{
	for (const struct reason *reason = reason_table; reason->slug; reason++)
		if (streq(reason->slug, slug))
			return reason->sentence;
	return NULL;
}
