# SPDX-License-Identifier: Apache-2.0
"""The promises that every history must keep. The manual's chapter PROMISES has the same names and sentences."""

PROMISES = {
    "originals": "As long as a value or file that Headroom wrote is in force, restore by its owner brings back what was "
    "there before the first write, or names exactly what it cannot bring back and keeps the original.",
    "raises only": "No value is below the one that the administrator chose last, except with exact or lower, or after restore. "
    "The value that Headroom wrote last is no such choice.",
    "truth": "A setting is in-sync only while the node has the value and the program runs with it. Nothing older than three "
    "intervals is shown as known.",
    "restarts": "No unit is restarted more often than its budget allows, none during a pull with when-idle, none whose "
    "program refuses the file, and none at all with never, but for one that brings back what the last restart broke.",
    "consent": "Nothing is written in observe mode, by a tuner that is off, or after a release. Only apply ends a release, "
    "or another installation that takes over. Only the owner's commands touch its records. "
    "A value that others rewrite more than five times within a day is left to them, and a name that they gave to another image stays.",
    "progress": "Ten seconds after the last disturbance every setting is in-sync, yielded, failed, or pending with a true "
    "reason. status answers within four seconds, and SIGTERM ends the agent within five.",
    "room": "The image store never passes the kubelet's threshold because of Headroom. /run/headroom and /var/lib/headroom "
    "stay below 20 MiB, and no temporary file, mount or process is left behind.",
}
