# SPDX-License-Identifier: Apache-2.0
"""The promises that every history must keep. The manual's chapter PROMISES has the same names and sentences."""

PROMISES = {
    "originals": "As long as a value or file that Headroom wrote is in force, restore by its owner brings back what was "
    "there before the first write, or names exactly what it cannot bring back and keeps the original.",
    "raises only": "No value is below the one that the administrator chose last, except with exact or lower, or after restore. "
    "The value that Headroom wrote last does not count as chosen by the administrator.",
    "truth": "A setting is in-sync only while the node has the value and the program runs with it. A value that is older than three "
    "intervals is shown as unknown.",
    "restarts": "No unit is restarted more often than its budget allows. With when-idle no unit is restarted during a pull. "
    "With never a unit is restarted only to undo what the last restart broke. A unit whose program refuses the file is not restarted.",
    "consent": "Nothing is written in observe mode, by a tuner that is off, or after a release. A release ends with apply, "
    "or when another installation takes over. Only the owner's commands touch its records. "
    "A restore leaves a value or key that others changed since, and names it. "
    "A value that others rewrite more than five times within ten minutes is left to them, and one that they rewrite less often is set "
    "again each time. A name that they gave to another image stays.",
    "progress": "Ten seconds after the last disturbance every setting is in-sync, yielded, failed, or pending with a true "
    "reason. status answers within four seconds, and SIGTERM ends the agent within five.",
    "room": "The image store never passes the kubelet's threshold because of Headroom. /run/headroom and /var/lib/headroom "
    "stay below 20 MiB, and no temporary file, mount or process is left behind.",
}
