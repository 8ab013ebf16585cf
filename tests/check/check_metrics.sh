#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_metrics.sh TABLES: promtool has nothing to say about the metrics, of a made-up node and of this one.
set -uo pipefail

tables=$1
command -v promtool >/dev/null || {
	echo "skipped: no promtool: install the package prometheus"
	exit 77
}
status=0
for node in made-up node; do
	metrics=$("$tables" metrics "$node") || status=1
	said=$(promtool check metrics <<<"$metrics" 2>&1) || status=1
	[[ -z $said ]] || {
		echo "$node: $said"
		status=1
	}
	foreign=$(grep -vE '^(#|headroom_|process_|$)' <<<"$metrics")
	[[ -z $foreign ]] || {
		printf '%s: names without our prefix:\n%s\n' "$node" "$foreign"
		status=1
	}
	[[ $("$tables" metrics "$node" openmetrics | tail -n 1) == '# EOF' ]] || {
		echo "$node: the OpenMetrics text has no end"
		status=1
	}
	echo "$node: $(grep -cv '^#' <<<"$metrics") series"
done
exit "$status"
