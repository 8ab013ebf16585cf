/* SPDX-License-Identifier: Apache-2.0 */
#include "gendoc.h"

#include "cli/cli.h"
#include "tuners/table.h"

/* Words and lines of the completions of bash, zsh and fish. */

void put_command_words(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++)
		fprintf(out, "%s%s", command == cli_commands ? "" : " ", command->name);
}

void put_option_words(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		fprintf(out, "\t\t%s) words='", command->name);
		for (const struct cli_option *option = cli_options; option->name; option++)
			if (cli_has_option(command, option, true))
				fprintf(out, "--%s ", option->name);
		fputs("' ;;\n", out);
	}
}

void put_tuner_words(FILE *out)
{
	for (size_t i = 0; tuner_table[i]; i++)
		fprintf(out, "%s%s", i > 0 ? " " : "", tuner_table[i]->name);
}

void put_top_words(FILE *out)
{
	for (size_t i = 0; tuner_table[i]; i++)
		if (tuner_table[i]->tables->view)
			fprintf(out, "%s ", tuner_table[i]->name);
}

void put_names(FILE *out)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);

	for (size_t i = 0; i < n; i++)
		if (entry_is_literal(&entries[i]) && !strpbrk(entries[i].name, "' "))
			fprintf(out, "%s ", entries[i].name);
}

/* Writes text between single quotes of a shell. escaped: what it writes for a single quote. */
static void put_quoted(FILE *out, const char *text, const char *escaped)
{
	fputc('\'', out);
	for (; *text; text++)
		if (*text == '\'')
			fputs(escaped, out);
		else
			fputc(*text, out);
	fputc('\'', out);
}

/* All shells run it when they complete, also fish. Only root can read the directory. */
void put_incident_ids(FILE *out)
{
	fputs("$(find /var/lib/headroom/incidents -name \"2*.jsonl*\" -printf \"%f\\n\" 2>/dev/null | "
	      "sed \"s/.jsonl.*//\")",
		out);
}

/* The words that complete the other arguments of a command. NULL: files, or nothing. */
static void (*argument_words(const char *command))(FILE *out)
{
	return streq(command, "top")         ? put_top_words
	       : streq(command, "explain")   ? put_names
	       : streq(command, "incidents") ? put_incident_ids
					     : NULL;
}

void put_zsh_commands(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		fprintf(out, "\t\t%s:", command->name);
		put_quoted(out, command->summary, "'\\''");
		fputc('\n', out);
	}
}

static void put_zsh_option(FILE *out, const struct cli_option *option)
{
	const char *argument = option->argument;

	fprintf(out, " \\\n\t\t\t--%s", option->name);
	fputc('\'', out);
	fputc('[', out);
	for (const char *text = option->help; *text; text++)
		fprintf(out,
			*text == '\''                  ? "'\\''"
			: *text == '[' || *text == ']' ? "\\%c"
						       : "%c",
			*text);
	fputc(']', out);
	if (argument && streq(argument, "TUNER")) {
		fputs(":tuner:(", out);
		put_tuner_words(out);
		fputc(')', out);
	} else if (argument) {
		fprintf(out, ":%s:%s", argument, streq(argument, "DIR") ? "_files -/" : "_files");
	}
	fputc('\'', out);
}

void put_zsh_options(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		void (*words)(FILE *) = argument_words(command->name);

		fprintf(out, "\t%s)\n\t\t_arguments '1: :'", command->name);
		for (const struct cli_option *option = cli_options; option->name; option++)
			if (cli_has_option(command, option, true))
				put_zsh_option(out, option);
		if (words) {
			fputs(" \\\n\t\t\t'*:name:(", out);
			words(out);
			fputs(")'", out);
		} else if (streq(command->name, "check-config")) {
			fputs(" \\\n\t\t\t'*:file:_files'", out);
		}
		fputs("\n\t\t;;\n", out);
	}
}

void put_fish_commands(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		char condition[80];
		void (*words)(FILE *) = argument_words(command->name);

		snprintf(condition, sizeof(condition),
			"complete -c headroom -n '__fish_seen_subcommand_from %s'", command->name);
		fprintf(out, "complete -c headroom -n __fish_use_subcommand -a %s -d ",
			command->name);
		put_quoted(out, command->summary, "\\'");
		fputc('\n', out);
		for (const struct cli_option *option = cli_options; option->name; option++) {
			if (!cli_has_option(command, option, true))
				continue;
			fprintf(out, "%s -l %s -d ", condition, option->name);
			put_quoted(out, option->help, "\\'");
			if (option->argument && streq(option->argument, "TUNER")) {
				fputs(" -x -a '", out);
				put_tuner_words(out);
				fputc('\'', out);
			} else if (option->argument) {
				fputs(" -r -F", out);
			}
			fputc('\n', out);
		}
		if (words) {
			fprintf(out, "%s -a '", condition);
			words(out);
			fputs("'\n", out);
		} else if (streq(command->name, "check-config")) {
			fprintf(out, "%s -F\n", condition);
		}
	}
}
