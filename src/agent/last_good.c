/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/file.h"
#include "base/log.h"

/* {"owner": OWNER, "config": FILE, "files": config_texts()} */
#define LAST_GOOD     "config.json"
#define LAST_GOOD_MAX (4 * CONFIG_FILE_MAX) /* a larger one is not used */

struct save_job {
	char directory[PATH_MAX];
	char *text;
	int error;
};

static void save(void *data, const struct wait *)
{
	struct save_job *job = data;
	char path[PATH_MAX + sizeof(LAST_GOOD)];

	snprintf(path, sizeof(path), "%s/" LAST_GOOD, job->directory);
	job->error = replace_path(path, job->text, strlen(job->text), true);
}

static void adopt_saved(void *, void *data)
{
	struct save_job *job = data;

	if (job->error < 0)
		log_warning(LAST_GOOD,
			"not written: %s: make room in, and give write access to, %s",
			strerror(-job->error), job->directory);
	free(job->text);
	free(job);
}

void last_good_save(struct agent *agent)
{
	static const struct job_ops ops = {.run = save, .adopt = adopt_saved};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = cJSON_CreateObject();
	struct save_job *job = must(calloc(1, sizeof(*job)));

	json_text(document, "owner", core_owner());
	json_text(document, "config", agent->core.options.config_file);
	json_adopt(document, "files", cJSON_Duplicate(config_texts(agent->core.config), true));
	job->text = must(cJSON_Print(document));
	set_text(job->directory, agent->core.state);
	agent->unsaved = agent_submit(agent, &(struct job){.ops = &ops, .request = job}) < 0;
	if (agent->unsaved)
		adopt_saved(NULL, job);
}

int last_good_load(const struct core_options *options, struct config **ret)
{
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	_cleanup_free_ char *text = NULL;
	const char *config = options->config_file ? options->config_file : "";
	char path[PATH_MAX + sizeof(LAST_GOOD)] = "";
	struct host host;
	int r = host_init(&host, options->host_root) ? 0 : -ENAMETOOLONG;

	if (r == 0)
		r = core_directory(&host, CORE_STATE, path);
	text_append(path, sizeof(path), "/" LAST_GOOD);
	if (r == 0)
		r = read_file(path, LAST_GOOD_MAX, &text, NULL);
	if (r < 0)
		return r;
	document = cJSON_Parse(text);
	if (!streq(json_text_at(document, "owner"), core_owner()) ||
		!streq(json_text_at(document, "config"), config))
		return -ENOENT;
	return core_load_config(
		&(struct config_source){.texts = json_at(document, "files")}, ret, &faults);
}
