/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/* Writes the keys of headroom.yaml with their defaults, as comments. */
void put_sample(FILE *out);

/* Write what gendoc_complete.c makes for the completions of shells. */
void put_command_words(FILE *out);
void put_option_words(FILE *out);
void put_tuner_words(FILE *out);
void put_top_words(FILE *out);
void put_incident_ids(FILE *out);
void put_names(FILE *out);
void put_zsh_commands(FILE *out);
void put_zsh_options(FILE *out);
void put_fish_commands(FILE *out);
