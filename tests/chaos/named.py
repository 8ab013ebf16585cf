# SPDX-License-Identifier: Apache-2.0
"""Histories that broke a promise once. Each run plays them first."""

from typing import Any

Steps = list[tuple[str, dict[str, Any]]]


def run(verb: str, owner: str = "unit") -> tuple[str, dict[str, Any]]:
    return ("command", {"owner": owner, "verb": verb, "only": None, "crash": 0})


def edit(field: str, pick: int, owner: str = "unit") -> tuple[str, dict[str, Any]]:
    return ("edit_config", {"owner": owner, "field": field, "pick": pick, "in_place": False})


NAMED: dict[str, Steps] = {
    "a_field_that_the_administrator_raised_stays_after_another_field_was_raised": [
        run("apply"),
        ("set_value", {"name": "net.ipv4.tcp_rmem", "pick": 1}),
        run("apply"),
        run("apply"),
    ],
    "a_former_value_of_ours_that_a_hand_chooses_is_its_choice": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("edit_config", {"owner": "unit", "field": "vm.max_map_count", "pick": 1, "in_place": True}),
        ("hang_up", {}),
        ("wait", {"seconds": 2.5}),
        ("set_value", {"name": "vm.max_map_count", "pick": 2}),
        ("wait", {"seconds": 2.5}),
    ],
    "a_value_that_a_hand_sets_to_ours_is_ours_again": [
        run("apply"),
        ("set_value", {"name": "vm.max_map_count", "pick": 4}),
        ("set_value", {"name": "vm.max_map_count", "pick": 2}),
        edit("vm.max_map_count", 1),
        run("apply"),
    ],
    "a_file_that_others_break_while_a_silent_program_is_asked_restarts_nothing": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("make_immutable", {"name": "containerd.max_concurrent_downloads", "on": True}),
        ("wait", {"seconds": 61}),
        ("change_containerd", {"how": "hangs"}),
        ("edit_containerd", {"how": ""}),
        edit("runtime.restart", 0),
        ("hang_up", {}),
        ("edit_containerd", {"how": "refused"}),
        ("run_containerd", {"how": "start"}),
    ],
    "a_value_of_the_administrator_stays_the_floor_of_later_configurations": [
        run("apply"),
        ("set_value", {"name": "vm.max_map_count", "pick": 4}),
        edit("vm.max_map_count", 2),
        run("apply"),
        edit("vm.max_map_count", 1),
        run("apply"),
    ],
    "a_purge_of_another_installation_leaves_the_socket_of_an_observing_agent": [
        edit("mode", 1),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("uninstall", {"owner": "blue", "crash": 0}),
    ],
    "status_beside_a_frozen_agent_and_a_silent_runtime_answers_in_time": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 11}),
        ("change_containerd", {"how": "hangs"}),
        ("freeze", {}),
        run("status"),
    ],
    "a_release_holds_for_a_pod_with_an_emptydir_instead_of_the_state_directory": [
        run("restore", "blue"),
        ("start_pod", {"owner": "blue", "pod": "empty-state", "crash": 0}),
        ("wait", {"seconds": 61}),
    ],
    "a_file_system_that_hangs_delays_neither_commands_nor_the_end": [
        ("hang_archives", {}),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 61}),
        run("restore"),
        run("apply"),
        ("end_agent", {"number": 15}),
        run("status"),
        run("plan"),
    ],
    "a_reload_during_a_fight_does_not_begin_it_anew": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("edit_config", {"owner": "unit", "field": "vm.max_map_count", "pick": 3, "in_place": True}),
        ("manage_value", {"name": "thp.enabled", "pick": 0, "period": 0.3}),
        ("wait", {"seconds": 61}),
        ("hang_up", {}),
        ("wait", {"seconds": 61}),
    ],
    "a_reload_after_others_have_written_less_does_not_begin_a_fight_anew": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("manage_value", {"name": "net.ipv4.tcp_rmem", "pick": 1, "period": 0.3}),
        ("wait", {"seconds": 61}),
        ("set_value", {"name": "net.ipv4.tcp_rmem", "pick": 0}),
        ("hang_up", {}),
        ("wait", {"seconds": 2.5}),
    ],
    "a_restart_of_the_agent_during_a_fight_does_not_begin_it_anew": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("manage_value", {"name": "thp.enabled", "pick": 0, "period": 60}),
        *[
            step
            for _ in range(8)
            for step in [("wait", {"seconds": 61}), ("end_agent", {"number": 9}), ("start_agent", {"owner": "unit", "crash": 0}), ("wait", {"seconds": 2.5})]
        ],
    ],
    "a_writer_that_comes_back_each_half_hour_is_corrected_each_time": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("manage_value", {"name": "vm.swappiness", "pick": 0, "period": 1800}),
        *[("wait", {"seconds": 1800}) for _ in range(9)],
        ("wait", {"seconds": 61}),
    ],
    "a_restore_ends_although_the_runtime_is_silent": [
        run("apply"),
        ("change_containerd", {"how": "hangs"}),
        run("restore"),
    ],
    "roll_backs_by_agents_that_end_meanwhile_stay_within_the_budget": [
        ("change_containerd", {"how": "breaks"}),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 2.5}),
        ("fight_slowly", {"name": "net.ipv4.tcp_rmem", "restarts": True}),
    ],
    "a_flag_of_the_unit_of_dockerd_removes_our_key_although_the_value_before_is_unknown": [
        edit("runtime.kind", 1),
        ("run_docker", {"how": "start"}),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 61}),
        ("run_docker", {"how": "flag"}),
        ("wait", {"seconds": 1800}),
        ("run_docker", {"how": "start"}),
    ],
    "a_purge_leaves_the_socket_of_a_frozen_agent_that_observes": [
        edit("mode", 1),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("freeze", {}),
        ("uninstall", {"owner": "blue", "crash": 0}),
        ("thaw", {}),
        ("wait", {"seconds": 61}),
    ],
    "a_pull_ends_when_its_image_leaves_the_list": [
        edit("archives", 1),
        ("end_a_pull", {"end": "unlist"}),
    ],
    "a_load_ends_when_its_archive_leaves_the_list": [
        edit("pin", 1),
        ("preload", {"content": "both", "restart": 2}),
        ("change_containerd", {"how": "slow"}),
        ("wait", {"seconds": 11}),
        edit("archives", 0),
        ("hang_up", {}),
        ("be_quiet", {}),
    ],
    "an_agent_whose_records_another_has_locked_ends_at_once": [
        ("spoil_disk", {"directory": "/run", "how": "make_read_only"}),
        ("preload", {"content": "newer app", "percent": 60, "restart": 2}),
        ("freeze", {}),
        ("repair_disks", {}),
        ("start_pod", {"crash": 0, "owner": "green", "pod": "own-pids"}),
    ],
    "a_removal_gives_up_in_time_if_the_holder_of_the_lock_has_no_room_for_its_name": [
        ("spoil_disk", {"directory": "/var/lib", "how": "make_read_only"}),
        ("spoil_disk", {"directory": "/run", "how": "fill"}),
        ("preload", {"content": "app", "percent": 80, "restart": 0}),
        ("uninstall", {"crash": 0, "owner": "blue"}),
    ],
    "a_value_like_ours_is_a_choice_if_a_killed_agent_did_not_write_it": [
        ("run_sysctl_system", {"pick": 3}),
        ("preload", {"content": "both", "percent": 80, "restart": 0}),
        ("kill_at_change", {"change": 8}),
        ("run_sysctl_system", {"pick": 5}),
        ("preload", {"content": "app", "percent": 0, "restart": 0}),
        ("run_sysctl_system", {"pick": 2}),
        ("preload", {"content": "newer app", "percent": 0, "restart": 2}),
    ],
    "a_load_ends_although_a_file_of_the_kubelet_hangs": [
        edit("pin", 1),
        ("preload", {"content": "both", "restart": 2}),
        ("change_containerd", {"how": "slow"}),
        ("wait", {"seconds": 11}),
        ("hang_kubelet", {}),
        edit("archives", 0),
        ("hang_up", {}),
        ("be_quiet", {}),
    ],
    "an_image_that_another_archive_could_not_load_is_not_ready": [
        ("put_archive", {"file": "b", "content": "newer app"}),
        ("preload", {"content": "tool", "restart": 2, "percent": 80}),
        ("wait", {"seconds": 61}),
        ("wait", {"seconds": 61}),
        ("put_archive", {"file": "a", "content": "newer app"}),
        ("hang_up", {}),
        ("wait", {"seconds": 1}),
        ("wait", {"seconds": 1}),
    ],
    "an_archive_is_loaded_once": [
        ("preload", {"content": "both", "restart": 2}),
        ("wait", {"seconds": 61}),
    ],
    "an_archive_whose_name_others_have_is_not_ready": [
        ("package", {"action": "install", "crash": 0}),
        ("move_tag", {"name": "registry.example/app:1", "top": "sha256:" + "1".zfill(64)}),
        ("wait", {"seconds": 61}),
        ("wait", {"seconds": 61}),
        ("preload", {"content": "app", "restart": 0}),
    ],
    "an_image_is_not_shown_as_ready_while_a_file_of_the_kubelet_hangs": [
        ("preload", {"content": "tool", "restart": 2}),
        ("wait", {"seconds": 11}),
        ("hang_kubelet", {}),
        ("wait", {"seconds": 61}),
        ("move_tag", {"name": "registry.example/tool:1", "top": ""}),
        ("wait", {"seconds": 1800}),
        run("restore"),
        run("apply"),
        ("end_agent", {"number": 15}),
        run("status"),
    ],
    "a_refused_write_does_not_make_a_later_value_of_others_ours": [
        ("make_immutable", {"name": "vm.max_map_count", "on": True}),
        run("apply"),
        ("set_value", {"name": "vm.max_map_count", "pick": 2}),
        run("restore"),
    ],
    "a_value_that_an_upgrade_has_moved_to_another_table_is_removed_by_restore": [
        run("apply"),
        ("upgrade_runtime", {"name": "containerd.max_concurrent_downloads", "newer": True, "migrates": True, "restarts": True}),
        run("restore"),
    ],
    "a_restore_that_is_killed_after_its_write_is_finished_with_the_restart": [
        ("cut_restore_short", {"by": "agent", "crash": 0}),
        ("reboot", {"unit": False}),
        ("suspend", {"seconds": 86400}),
        ("cut_restore_short", {"by": "command", "crash": 0}),
    ],
    "a_restore_without_room_for_its_record_restarts_the_program_later": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 61}),
        ("spoil_disk", {"directory": "/var/lib", "how": "make_read_only"}),
        run("restore"),
        ("repair_disks", {}),
        ("wait", {"seconds": 1800}),
    ],
    "a_value_that_others_set_is_left_by_restore_and_named": [
        run("apply"),
        ("set_value", {"name": "vm.max_map_count", "pick": 4}),
        ("set_value", {"name": "vm.swappiness", "pick": 2}),
        run("restore"),
    ],
    "a_key_that_others_set_is_left_by_restore": [
        run("apply"),
        ("edit_containerd", {"how": "20"}),
        run("restore"),
    ],
    "a_line_that_others_add_while_the_file_is_replaced_stays": [
        ("write_meanwhile", {"name": "containerd.max_concurrent_downloads", "pick": 0, "at": "containerd.max_concurrent_downloads", "verb": "apply"}),
        ("write_meanwhile", {"name": "containerd.max_concurrent_downloads", "pick": 0, "at": "containerd.max_concurrent_downloads", "verb": "restore"}),
    ],
    "a_higher_value_that_others_set_after_the_decision_stays": [
        ("write_meanwhile", {"name": "vm.max_map_count", "pick": 5, "at": "net.ipv4.tcp_rmem", "verb": "apply"}),
    ],
    "a_value_that_others_set_after_the_decision_to_restore_stays": [
        run("apply"),
        ("write_meanwhile", {"name": "vm.max_map_count", "pick": 5, "at": "net.ipv4.tcp_rmem", "verb": "restore"}),
    ],
    "a_drop_in_of_a_kubelet_that_does_not_run_may_lower_the_threshold": [
        ("edit_kubelet", {"drop_in": False, "how": "100"}),
        ("edit_kubelet", {"drop_in": True, "how": "60"}),
        ("preload", {"content": "large", "restart": 2, "percent": 30}),
        ("wait", {"seconds": 61}),
    ],
    "a_setting_whose_file_cannot_be_read_is_not_in_sync": [
        # Files have the time of the machine. The kubelet must have started after them, or it may run with older values.
        ("set_wall_clock", {"seconds": 50 * 365 * 86400}),
        ("edit_kubelet", {"drop_in": True, "how": "plain"}),
        ("run_kubelet", {"how": "start"}),
        edit("manage", 1),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 61}),
        ("hang_kubelet", {}),
        ("wait", {"seconds": 1800}),
    ],
    "a_refused_restore_keeps_the_original_and_names_the_value": [
        run("apply"),
        ("make_immutable", {"name": "vm.max_map_count", "on": True}),
        run("restore"),
        ("make_immutable", {"name": "vm.max_map_count", "on": False}),
        run("restore"),
    ],
    "an_observing_agent_and_a_tuner_that_is_off_write_nothing": [
        edit("mode", 1),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 2.5}),
        edit("sysctl.mode", 2),
        edit("thp.mode", 1),
        edit("mode", 0),
        ("hang_up", {}),
        ("wait", {"seconds": 2.5}),
    ],
    "apply_ends_a_release": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        run("restore"),
        ("wait", {"seconds": 2.5}),
        run("apply"),
        ("wait", {"seconds": 2.5}),
        ("set_value", {"name": "vm.swappiness", "pick": 2}),
        ("be_quiet", {}),
    ],
    "a_value_in_a_file_is_not_in_sync_before_its_program_runs_with_it": [
        edit("runtime.restart", 2),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 61}),
        ("wait", {"seconds": 61}),
    ],
    "a_file_that_cannot_be_replaced_leaves_no_new_one_beside_it": [
        ("make_immutable", {"name": "containerd.max_concurrent_downloads", "on": True}),
        run("apply"),
    ],
    "a_restore_that_is_killed_and_then_refused_keeps_the_original": [
        run("apply"),
        ("make_immutable", {"name": "containerd.max_concurrent_downloads", "on": True}),
        ("command", {"owner": "unit", "verb": "restore", "only": None, "crash": 26}),
        run("restore"),
    ],
    "a_value_that_a_killed_apply_has_just_written_is_restored": [
        ("cut_apply_short", {"name": "vm.max_map_count"}),
        run("restore"),
    ],
    "an_apply_during_a_restore_loses_no_original": [
        run("apply"),
        ("two_commands", {"first": "restore", "second": "apply", "stop_at": 12, "crash": 0}),
        run("restore"),
    ],
    "records_of_another_boot_are_not_originals": [
        ("set_value", {"name": "vm.swappiness", "pick": 2}),
        run("apply"),
        ("reboot", {"unit": False, "keeps_run": True}),
        run("apply"),
        run("restore"),
    ],
    "a_restart_with_when_idle_waits_for_a_pull": [
        edit("runtime.restart", 1),
        ("disturb_a_restart", {"verb": "apply", "how": "pull"}),
    ],
    "a_file_that_others_break_after_a_write_restarts_nothing": [
        ("disturb_a_restart", {"verb": "apply", "how": "refused"}),
    ],
    "a_pull_ends_with_a_restore": [
        edit("archives", 1),
        ("end_a_pull", {"end": "restore"}),
    ],
    "a_pull_ends_when_images_are_only_observed": [
        edit("archives", 1),
        ("end_a_pull", {"end": "observe"}),
    ],
    "a_value_that_an_agent_leaves_to_others_is_left_by_its_restore": [
        edit("on_drift", 2),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 2.5}),
        ("set_value", {"name": "vm.swappiness", "pick": 2}),
        ("wait", {"seconds": 11}),
        run("restore"),
    ],
    "an_empty_file_changes_nothing": [
        edit("thp.enabled", 1),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 2.5}),
        ("break_config", {"owner": "unit", "how": "empty"}),
        ("hang_up", {}),
        ("wait", {"seconds": 11}),
    ],
    "a_release_outlasts_the_process_that_restores": [
        run("apply"),
        run("restore"),
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 2.5}),
    ],
    "a_clock_that_is_set_back_does_not_hold_an_image": [
        ("begin_with_a_clock_ahead", {"ahead": 86400 * 30}),
    ],
    "a_name_that_others_move_while_its_archive_is_read_again_stays": [
        ("move_a_loaded_tag", {"how": "again"}),
    ],
    "a_program_that_does_not_end_is_not_left_by_a_killed_agent": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("wait", {"seconds": 61}),
        ("stick_containerd", {}),
        edit("downloads", 1),
        ("hang_up", {}),
        ("end_agent", {"number": 9}),
        ("edit_containerd", {"how": "original"}),
    ],
    "the_unit_removes_the_trial_file_of_a_killed_pod": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("upgrade_runtime", {"migrates": True, "name": "containerd.max_concurrent_downloads", "newer": True, "restarts": False}),
        ("reboot", {"keeps_run": False, "unit": True}),
        ("end_agent", {"number": 15}),
        ("command", {"crash": 28, "number": 15, "only": None, "owner": "blue", "verb": "apply"}),
        ("start_agent", {"owner": "unit", "crash": 0}),
    ],
    "a_pod_with_its_own_pids_ends_in_time_beside_an_agent": [
        ("start_agent", {"owner": "unit", "crash": 0}),
        ("start_pod", {"owner": "blue", "pod": "own-pids", "crash": 0}),
    ],
}
