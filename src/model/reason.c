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
		"room in, or give write access to, the state directory."},
	{"write-refused", "The kernel refused the write."},
	{"not-taken",
		"The write succeeded but another value was read back: the kernel rounds or limits it."},
	{"restart-pending",
		"The file has the wanted value; the program takes it at its next start. "
		"runtime.restart says whether the agent restarts it."},
	{"reload-pending",
		"The file has the wanted value; the program was told to read it, and has not said "
		"that it did."},
	{"restart-refused",
		"The file has the wanted value, and the program was not restarted: systemd could "
		"not be asked, or the journal not be stored, or a restart would stop more than the "
		"program. The log says which."},
	{"verify-refused",
		"The program that the file belongs to, or a check of the new file, did not accept "
		"it: the file is as it was."},
	{"did-not-come-back",
		"The program did not answer again after its restart: the file from before was put "
		"back. Nothing is tried again until the configuration changes, or headroom apply."},
	{"original", "The value found before the first write is put back."},
	{"changed-since",
		"Someone else changed the value since it was last written: it is left as it is."},
	{"file-changed-since",
		"Someone else changed the file since: this value alone is put back in it."},
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
	{"runtime-unsupported",
		"This runtime or its version has no such key, or another program writes its "
		"configuration: /v1/status says which."},
	{"file-unusable",
		"The runtime's configuration file cannot be read or is broken: it is left "
		"as it is."},
	{"on-command-line",
		"The daemon was started with an option for it: the same in its file would keep it "
		"from starting. Take the option away."},
	{"process-not-seen",
		"The runtime's process is not seen from here, and so not the program that could "
		"try out a new file: share the host's process IDs."},
	{"file-of-others", "The file that this belongs into was made by someone else: it is left "
			   "alone."},
	{"no-mirror-up",
		"None of the registry's mirrors answers: pulls go to the registry itself."},
	{"runtime-silent", "The runtime does not answer."},
	{"runtime-answers", "Every runtime that is there answers."},
	{"no-runtime", "No container runtime was found on this node."},
	{"none-pending", "Everything that was written is in force."},
	{"store-unknown", "No runtime has told where it keeps its images."},
	{"store-nearly-full", "More than 85 % of the file system of the images is in use."},
	{"pulls-move", "Nothing that is being fetched stands still."},
	{"no-progress", "A layer has not grown for a minute."},
	{"no-kubelet", "No kubelet and no configuration of one was found on this node."},
	{"kubelet-config-unreadable",
		"The kubelet's configuration could not be read: the message says where and why."},
	{"serial-pulls", "The kubelet pulls one image after the other."},
	{"few-parallel-pulls", "The kubelet pulls fewer than three images at once."},
	{"parallel-pulls", "The kubelet pulls at least three images at once."},
	{"within-budget", "No upstream DNS server was asked for nearly as much as it allows."},
	{"no-budget",
		"No upstream DNS server with a known budget: the cloud publishes none, or this is a "
		"machine of your own. dns.budgets can give one."},
	{"near-budget",
		"The busiest second of the last minute, or what is pending, took more than 80 % of "
		"an upstream's budget."},
	{"over-budget",
		"Within the last five minutes more was asked of an upstream DNS server than it "
		"allows this machine."},
	{"all-answered", "DNS servers answer in time, but for a few queries at most."},
	{"unanswered",
		"At least ten queries of the last minute, and one in twenty of those sent to a DNS "
		"server, were without an answer after five seconds."},
	{"few-forwarders", "At most one DNS forwarder on this node sends upstream."},
	{"several-forwarders", "Several DNS forwarders on this node send upstream."},
	{"not-watched",
		"DNS is not counted here: BPF is missing, as the tuner's state says, or this is a "
		"command's single look, without the running agent."},
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
