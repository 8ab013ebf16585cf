/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All reasons: ROW(name, slug, who must act, help, further members of struct reason_row). reason.h
 * includes this file for the enum, src/model/reason.c for the table. The slug is the name in lower
 * case. Users see slugs and scripts compare them: a row may be added or removed, but not renamed.
 */

/* ---- the agent and all tuners ---- */

ROW(ALL_IN_SYNC, "all-in-sync", NOBODY,
	"No managed setting differs because of someone else's change.")
ROW(NONE_FAILED, "none-failed", NOBODY, "Every managed setting could be read and written.")
ROW(CONFIG_VALID, "config-valid", NOBODY, "The configuration on disk is the one in use.")
ROW(CONFIG_FAULT, "config-fault", ADMIN,
	"The configuration on disk has a fault. The last good one is in use, also after a restart "
	"or a reboot.")
ROW(ALL_ACTIVE, "all-active", NOBODY, "Every enabled tuner is fully active.")
ROW(TUNER_DEGRADED, "tuner-degraded", ADMIN, "This node lacks something that a tuner needs.")
ROW(VALUES_UNRECORDED, "values-unrecorded", ADMIN,
	"Originals of kernel values cannot be recorded in /run/headroom, so values are only "
	"observed.",
	.retry = true)
ROW(JOURNAL_UNUSABLE, "journal-unusable", ADMIN,
	"The journal of original files cannot be read or written.", .retry = true)
ROW(MEMORY_LIMIT_LOW, "memory-limit-low", ADMIN,
	"The agent's own memory limit is too low for its start. The kernel needs memory for a moment "
	"to check the BPF programs, and may kill the agent then.")
ROW(IN_SYNC, "in-sync", NOBODY, "The value read from the node is the wanted one.")
ROW(CONFIGURED, "configured", NOBODY,
	"A configuration file asks for this value, which beats a choice on the node and the default.")
ROW(DEFAULT, "default", NOBODY,
	"This is the agent's default: no configuration file asks for a value, and no explicit choice "
	"on the node would be undone.")
ROW(PROFILE, "profile", NOBODY, "The profile asks for this value.")
ROW(CHOSEN_ON_NODE, "chosen-on-node", NOBODY,
	"Somebody gave the node a value below the kernel's default, or one of a TuneD profile chosen "
	"by hand, which the agent's default would undo. It stays until a configuration file asks for "
	"another value.",
	.chosen = true)
ROW(ADMINISTRATOR_HIGHER, "administrator-higher", NOBODY,
	"The administrator's value is higher than the configured one and is kept: values are only "
	"raised, unless the configuration says lower: true or exact: true.",
	.chosen = true)
ROW(KEPT, "kept", NOBODY, "The configuration says keep: the value is read and never written.")
ROW(OBSERVE_MODE, "observe-mode", NOBODY, "The mode is observe: nothing is written.")
ROW(RESTORED, "restored", NOBODY,
	"headroom restore restored the original. Nothing is written until headroom apply.")
ROW(NOT_RESTORED, "not-restored", ADMIN,
	"headroom restore could not restore the original, which is still recorded. Run headroom "
	"restore again once the cause is gone.")
ROW(DRIFT, "drift", AGENT, "Someone else changed the value. on_drift: enforce sets it again.")
ROW(LEFT_BY_ON_DRIFT, "left-by-on-drift", WRITER,
	"Someone else changed the value, and on_drift leaves it changed.")
ROW(REWRITTEN_TOO_OFTEN, "rewritten-too-often", WRITER,
	"Someone else changed the value more than 5 times within ten minutes, so it is left to "
	"them, also after a reload or a restart of the agent. headroom apply or another "
	"configured value tries again.")
ROW(RESTARTED_TOO_OFTEN, "restarted-too-often", ADMIN,
	"The agent restarts a program at most 3 times within an hour and 5 times within a day, "
	"for whatever reason, and keeps the last of them for a roll-back or restore. A value that "
	"someone else keeps changing is no longer set; another one waits until a restart is "
	"allowed again. headroom apply does not lift this bound: find the other writer, or "
	"restart the program by hand.",
	.retry = true, .unmet = true)
ROW(NOT_IN_THIS_KERNEL, "not-in-this-kernel", NOBODY, "The running kernel has no such setting.")
ROW(UNREADABLE, "unreadable", ADMIN, "The value could not be read.", .retry = true)
ROW(NOT_RECORDED, "not-recorded", ADMIN,
	"The original could not be recorded, so nothing was written. Free space in /run/headroom "
	"(kernel values) or /var/lib/headroom (files), or make it writable.",
	.retry = true, .unmet = true)
ROW(WRITE_REFUSED, "write-refused", ADMIN, "The kernel refused the write.", .retry = true)
ROW(NOT_TAKEN, "not-taken", ADMIN,
	"The kernel accepted the write, but another value was read back: it rounds or limits the "
	"value.",
	.retry = true)
ROW(RESTART_PENDING, "restart-pending", ADMIN,
	"The file has the wanted value, which takes effect when the program restarts. "
	"runtime.restart says whether the agent restarts it.")
ROW(RELOAD_PENDING, "reload-pending", AGENT,
	"The file has the wanted value. The program was asked to reload it and has not confirmed "
	"that it did.")
ROW(RESTART_REFUSED, "restart-refused", ADMIN,
	"The file has the wanted value, but the program was not restarted: systemd did not "
	"answer, the journal could not be written, or the restart would stop other units too. The "
	"log has the cause.",
	.retry = true, .unmet = true)
ROW(NO_SYSTEMD, "no-systemd", ADMIN,
	"The file has the wanted value, but systemd cannot be reached to restart the program. "
	"Restart it by hand.")
ROW(DOES_NOT_LOAD, "does-not-load", ADMIN,
	"The program rejects its configuration on disk, so it is not restarted. The message has "
	"the fault.")
ROW(NO_EFFECT, "no-effect", ADMIN,
	"The program was restarted but does not use the value. The agent does not restart it "
	"again for this value. Find out which file it reads, then run headroom apply.")
ROW(VERIFY_REFUSED, "verify-refused", ADMIN,
	"The program or a check rejected the new file, so the file was not changed.")
ROW(DID_NOT_COME_BACK, "did-not-come-back", ADMIN,
	"The program did not answer after its restart, so the previous file was restored. The "
	"agent tries this value again only after headroom apply.")
ROW(ORIGINAL, "original", NOBODY, "The value found before the first write is restored.")
ROW(ORIGINAL_AT_NEXT_START, "original-at-next-start", ADMIN,
	"The original is in the file again and takes effect at the program's next start. Until "
	"then the program keeps the value it has: runtime.restart says whether it is restarted.")
ROW(NO_LONGER_CONFIGURED, "no-longer-configured", ADMIN,
	"An older configuration set the value, and nothing asks for it any more. It stays in force "
	"until it is restored: on_removed decides whether the agent does that.")
ROW(CHANGED_SINCE, "changed-since", NOBODY,
	"Someone else changed the value since it was last written, so it is left alone.")
ROW(FILE_CHANGED_SINCE, "file-changed-since", NOBODY,
	"Someone else changed the file since, so only this value is restored in it.")
ROW(SAMPLE_OVERDUE, "sample-overdue", ADMIN,
	"A sample has not ended for 30 seconds or cannot begin, so its settings and conditions are "
	"unknown: a file system or a program that it reads hangs. Other tuners, apply and restore do not "
	"wait for archives of images that hang.",
	.retry = true, .unmet = true)
ROW(WITHIN_LIMIT, "within-limit", NOBODY, "The use is below the limit.")
ROW(TUNER_OFF, "tuner-off", NOBODY, "The tuner that checks this is off.")
ROW(IGNORED, "ignored", NOBODY,
	"The option doctor.ignore names all that was found. The findings are still listed, as ignored.")

/* ---- neighbor ---- */

ROW(NEAR_FULL, "near-full", ADMIN, "More than 80 % of the table is in use.")
ROW(AT_CEILING, "at-ceiling", ADMIN,
	"The table is filling, and growth has reached neighbor.ceiling.")
ROW(ENTRIES_REFUSED, "entries-refused", ADMIN,
	"The kernel refused new entries because the table was full.")
ROW(COUNTERS_UNAVAILABLE, "counters-unavailable", ADMIN, "The table's counters cannot be read.")
ROW(NO_STALE_NEIGHBOR, "no-stale-neighbor", NOBODY,
	"No entry was found that had the link address of another machine.")
ROW(STALE_NEIGHBOR, "stale-neighbor", ADMIN,
	"A neighbour entry had a link address that did not answer, and another one answers for the "
	"address: it was given to another pod or machine. The agent has replaced the entry.")
ROW(NOT_REFRESHED, "not-refreshed", NOBODY,
	"No entry is probed: neighbor.stale is not refresh, or the tuner does not enforce.",
	.absent = "stale neighbours (not probed)")
ROW(GROWING, "growing", AGENT,
	"The table is filling, so the threshold is raised before it is full.")

/* ---- thp ---- */

ROW(NONE_IN_USE, "none-in-use", NOBODY, "No memory uses transparent huge pages.")
ROW(STILL_MAPPED, "still-mapped", WORKLOAD,
	"Memory mapped before the switch still uses transparent huge pages until its processes "
	"unmap it or end.")
ROW(STILL_SWITCHED_ON, "still-switched-on", ADMIN,
	"The kernel still provides huge pages that should be off: the mode is observe, or the "
	"setting that switches them off is not in force.")
ROW(GROWING_THOUGH_OFF, "growing-though-off", WORKLOAD,
	"Memory that uses transparent huge pages grew within the last five minutes, although they "
	"should be off.")
ROW(WANTED_IN_USE, "wanted-in-use", NOBODY, "Huge pages are in use, as the configuration allows.")
ROW(CHOSEN_AT_BOOT, "chosen-at-boot", NOBODY,
	"The kernel command line sets the switch, which beats the agent's default. A configuration "
	"file can ask for another value.",
	.chosen = true)
ROW(HUGE_PAGES_KEPT, "huge-pages-kept", NOBODY,
	"Huge pages stay on by thp.enabled or thp.shmem, so this switch beside it stays as the node "
	"has it, unless a configuration file asks for another value.",
	.chosen = true)
ROW(TAKES_HUGE_PAGES, "takes-huge-pages", ADMIN,
	"Programs had asked for huge pages with madvise, and the agent's default switches them off. "
	"Ask for either value in a configuration file, and this is no problem any more.",
	.told = true)
ROW(MEMINFO_UNAVAILABLE, "meminfo-unavailable", ADMIN, "/proc/meminfo could not be read.")
ROW(CONFIGURED_OVER_BOOT_LINE, "configured-over-boot-line", ADMIN,
	"The configuration asks for this value, but the kernel command line sets another at boot. "
	"Change it there too, so that it holds before the agent starts.")

/* ---- dns ---- */

ROW(WITHIN_BUDGET, "within-budget", NOBODY,
	"The queries to all upstream DNS servers are within their budgets.")
ROW(NO_BUDGET, "no-budget", NOBODY,
	"No upstream DNS server has a known budget: its operator publishes no limit. dns.budgets "
	"can set one.",
	.absent = "DNS budgets (no cloud resolver)")
ROW(NEAR_BUDGET, "near-budget", WORKLOAD,
	"The busiest second of the last minute or the pending queries used more than 80 % of an "
	"upstream's budget.")
ROW(OVER_BUDGET, "over-budget", WORKLOAD,
	"Within the last five minutes this machine exceeded the budget of an upstream DNS server.")
ROW(NOT_WATCHED, "not-watched", ADMIN,
	"DNS is not counted: BPF does not run (see the tuner's state), or a command sampled the "
	"node without the agent.",
	.absent = "DNS (not counted)")
ROW(ALL_ANSWERED, "all-answered", NOBODY, "DNS servers answer nearly all queries in time.")
ROW(UNANSWERED, "unanswered", SERVER,
	"At least ten queries of the last minute, and one in twenty to the same DNS server, had "
	"no answer after five seconds.",
	.retry = true)
ROW(FEW_FAILURES, "few-failures", NOBODY, "DNS servers answer nearly all queries without an error.")
ROW(FAILING, "failing", SERVER,
	"At least ten answers of the last minute, and one in twenty of the same DNS server, were "
	"SERVFAIL, REFUSED, FORMERR or NOTIMP.",
	.retry = true)
ROW(FEW_FORWARDERS, "few-forwarders", NOBODY,
	"At most one DNS forwarder on this node queries upstreams, or their rate is low.")
ROW(SEVERAL_FORWARDERS, "several-forwarders", ADMIN,
	"Several DNS forwarders on this node query upstreams.")

/* ---- runtime ---- */

ROW(RUNTIME_ANSWERS, "runtime-answers", NOBODY, "Every installed runtime answers.")
ROW(NO_RUNTIME, "no-runtime", NOBODY, "No container runtime was found on this node.",
	.absent = "container runtime (none)")
ROW(RUNTIME_STOPPED, "runtime-stopped", NOBODY,
	"Someone has stopped or restarts the unit of the runtime, which has not failed.")
ROW(FILES_LOAD, "files-load", NOBODY,
	"No program was found that refuses the files from which it starts.")
ROW(FILES_UNVERIFIED, "files-unverified", ADMIN,
	"Nothing on this node can verify some of the files from which a runtime or the kubelet "
	"starts: the message names them.")
ROW(NONE_PENDING, "none-pending", NOBODY, "All written settings are in force.")
ROW(STORE_UNKNOWN, "store-unknown", NOBODY, "No runtime has reported where it keeps its images.",
	.absent = "image store (none)")
ROW(STORE_NEARLY_FULL, "store-nearly-full", ADMIN,
	"More than 85 % of the file system of the images is in use.")
ROW(PULLS_MOVE, "pulls-move", NOBODY, "Every layer that is being fetched makes progress.")
ROW(NO_PROGRESS, "no-progress", SERVER, "A layer has made no progress for one minute.",
	.retry = true)
ROW(PULL_SLOW, "pull-slow", SERVER, "The rest of a layer takes more than ten minutes.",
	.retry = true)
ROW(DRIVER_FAST, "driver-fast", NOBODY, "No runtime reports a slow storage driver.")
ROW(DRIVER_SLOW, "driver-slow", ADMIN, "A runtime unpacks images with a slow storage driver.")
ROW(RUNTIME_UNSUPPORTED, "runtime-unsupported", ADMIN,
	"This runtime or its version does not have the key, or another program writes its "
	"configuration: see refusals in /v1/status.")
ROW(FILE_UNUSABLE, "file-unusable", ADMIN,
	"The runtime's configuration file cannot be read, or the runtime refuses it and would not "
	"start again: it is not changed.",
	.unmet = true)
ROW(FILE_SLOW, "file-slow", ADMIN,
	"The runtime's program is too slow to print or check its configuration, as on a busy node. "
	"It is asked again after a minute, then after at most ten minutes.",
	.retry = true, .unmet = true)
ROW(KEY_MISPLACED, "key-misplaced", ADMIN,
	"A configuration file has the key in a table where the runtime does not read it, and says "
	"nothing. Move it to the table that the hint names.")
ROW(ON_COMMAND_LINE, "on-command-line", ADMIN,
	"The daemon has a command-line option for it. It would not start with the same key in its "
	"file, from which our value is removed. Remove the option.")
ROW(PROCESS_NOT_SEEN, "process-not-seen", ADMIN,
	"The runtime's process, its command line and its program are unknown: share the host's "
	"process IDs. The process must belong to root, listen on the socket or be in "
	"/run/docker.pid, and be in no container.",
	.unmet = true)
ROW(PROGRAM_DIFFERS, "program-differs", ADMIN,
	"The program on disk has another version than the running daemon, so values in force and "
	"the keys of its file are unknown: restart the daemon, or start it by its full path.",
	.unmet = true)
ROW(FILE_OF_OTHERS, "file-of-others", NOBODY,
	"A file of others has this setting: it is not changed.")
ROW(NO_MIRROR_UP, "no-mirror-up", SERVER,
	"All mirrors of the registry fail: pulls go to the registry itself. After half a "
	"minute the setting counts as failed.",
	.retry = true)
ROW(MIRRORS_WITHOUT_EFFECT, "mirrors-without-effect", ADMIN,
	"The configuration of containerd disables hosts.toml, by the key registry.mirrors (move "
	"its mirrors to runtime.mirrors) or by several directories in config_path (name one), or "
	"no test has shown that its version asks mirrors: see refusals in /v1/status.")
ROW(RUNTIME_SILENT, "runtime-silent", ADMIN, "The runtime does not answer.", .retry = true,
	.unmet = true)

/* ---- images ---- */

ROW(NONE_WANTED, "none-wanted", NOBODY,
	"No images are configured in images.archives or images.pull.")
ROW(ALL_PRESENT, "all-present", NOBODY, "The runtime has all configured images.")
ROW(MOVED_BY_OTHERS, "moved-by-others", ADMIN,
	"Others gave the name to another image. It stays until the name is removed, or the "
	"archive, loaded before, changes.")
ROW(UNDER_WAY, "under-way", AGENT, "Images are being loaded or wait for their turn.")
ROW(ARCHIVE_BROKEN, "archive-broken", ADMIN,
	"The archive is incomplete or does not match its digests.", .retry = true)
ROW(ARCHIVE_UNREADABLE, "archive-unreadable", ADMIN, "The archive cannot be read.", .retry = true)
ROW(WRONG_PLATFORM, "wrong-platform", ADMIN, "The archive has the image for other machines only.")
ROW(UNNAMED, "unnamed", ADMIN, "The archive has an image without a complete name.")
ROW(DOES_NOT_FIT, "does-not-fit", ADMIN,
	"The image would fill the file system so far that the kubelet deletes images.",
	.retry = true)
ROW(LOAD_FAILED, "load-failed", ADMIN, "The runtime could not load the image from its archive.",
	.retry = true)
ROW(TOO_MANY_ARCHIVES, "too-many-archives", ADMIN, "Only the first 1024 archives are loaded.")
ROW(PULL_FAILED, "pull-failed", ADMIN, "The runtime could not pull the image.", .retry = true)
ROW(DELETED_BY_OTHERS, "deleted-by-others", ADMIN,
	"Others deleted the image five times within ten minutes: it is not loaded again before "
	"headroom apply.")
ROW(KUBELET_VERIFIES, "kubelet-verifies", ADMIN,
	"The kubelet verifies the credentials of pods for images that it did not pull itself: "
	"imagePullCredentialsVerificationPolicy.")
ROW(SANDBOX_PRESENT, "sandbox-present", NOBODY, "The runtime has the sandbox (pause) image.")
ROW(SANDBOX_MISSING, "sandbox-missing", ADMIN, "The runtime lacks the sandbox (pause) image.")
ROW(SANDBOX_UNKNOWN, "sandbox-unknown", NOBODY,
	"The runtime does not answer or does not name its sandbox image.")
ROW(PRESENT, "present", NOBODY, "The runtime has the image.")
ROW(LOADING, "loading", AGENT, "The image is being loaded from its archive.")
ROW(PULLING, "pulling", AGENT, "The runtime is pulling the image.")
ROW(QUEUED, "queued", AGENT, "The transfer begins when an earlier one has ended.")
ROW(WAITS_FOR_SYNCS, "waits-for-syncs", AGENT,
	"A listed process on the same disk is slow (storage.sync_p99): no pull begins and a load "
	"pauses, for ten minutes at most.")
ROW(SETTLING, "settling", AGENT, "The archive changed just now and may still be written.")
ROW(WAVE_WAITS, "wave-waits", AGENT, "Other nodes pull the image first: see images.wave.")
ROW(PEERS_LACK_IT, "peers-lack-it", AGENT,
	"Other nodes pull the image first, and no peer of the mirror has it yet.")
ROW(PEERS_HAVE_IT, "peers-have-it", AGENT,
	"A peer has the image, and this node waits for its wave.")
ROW(PINS_IGNORED, "pins-ignored", ADMIN,
	"This version of the runtime ignores pins. It needs containerd 1.6.25, 1.7.10 or 2.0, or "
	"CRI-O 1.31.")
ROW(NO_PINS, "no-pins", NOBODY,
	"Docker does not support pins. With cri-dockerd, its option --pinned-images does.")
ROW(IMAGE_MISSING, "image-missing", AGENT, "The image will be pinned once the runtime has it.")

ROW(NOT_ASKED_YET, "not-asked-yet", AGENT, "The runtime has not been asked yet.")

/* ---- sysctl ---- */

ROW(RAISED_LIMIT, "raised-limit", NOBODY, "The option limits.raise asks for this value.")
ROW(BOUNDED_WRITEBACK, "bounded-writeback", NOBODY,
	"The option storage.bound_writeback asks for this value.")
ROW(BYTES_INSTEAD, "bytes-instead", NOBODY,
	"The kernel sets the ratio to 0 while the number of bytes is set. Its original restores "
	"both.")

/* ---- kubelet ---- */

ROW(NO_KUBELET, "no-kubelet", NOBODY,
	"This node has neither a kubelet nor a configuration file of one.",
	.absent = "kubelet (none)")
ROW(KUBELET_STOPPED, "kubelet-stopped", ADMIN,
	"The kubelet does not run, so its drop-in directory is unknown.", .retry = true,
	.unmet = true)
ROW(NO_DROP_INS, "no-drop-ins", ADMIN,
	"The kubelet reads no drop-in directory. Start it with --config-dir (from Kubernetes "
	"1.28), or write the value into its own file.")
ROW(OVERRIDDEN, "overridden", ADMIN,
	"A flag of the kubelet's command line or a file that it reads later has another value.")
ROW(KUBELET_CONFIG_UNREADABLE, "kubelet-config-unreadable", ADMIN,
	"The kubelet's configuration could not be read: the message says where and why.")
ROW(SERIAL_PULLS, "serial-pulls", ADMIN, "The kubelet pulls one image after the other.")
ROW(FEW_PARALLEL_PULLS, "few-parallel-pulls", ADMIN,
	"The kubelet pulls fewer than three images at once.")
ROW(PARALLEL_PULLS, "parallel-pulls", NOBODY, "The kubelet pulls at least three images at once.")

/* ---- storage ---- */

ROW(SYNCS_FAST, "syncs-fast", NOBODY, "The syncs of the listed processes are fast enough.")
ROW(SYNCS_SLOW, "syncs-slow", ADMIN,
	"One in a hundred syncs of a listed process took longer than storage.sync_p99, or long syncs "
	"took half of its time.")
ROW(SYNCS_OVER_ELECTION, "syncs-over-election", ADMIN,
	"A sync of a listed process took longer than 1 s, etcd's election timeout.")
ROW(SYNCS_UNKNOWN, "syncs-unknown", ADMIN,
	"Syncs are not counted: BPF does not run (see the tuner's state), or a command sampled "
	"the node without the agent.",
	.absent = "storage (not counted)")
ROW(DISKS_SUITED, "disks-suited", NOBODY, "The disks that are known suit the listed processes.")
ROW(DISK_UNSUITED, "disk-unsuited", ADMIN,
	"A listed process syncs to a network disk, a network file system, a loop device, an "
	"overlay or a rotating disk.")
ROW(IMAGES_UNSUITED, "images-unsuited", ADMIN,
	"The images of a container runtime are on such a disk.")

/* ---- limits ---- */

ROW(LIMITS_UNREAD, "limits-unread", ADMIN, "No limit could be read.")
