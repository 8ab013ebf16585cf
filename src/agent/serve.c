/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>

/* A port in use may become free: ask again after this long. */
#define HTTP_RETRY_US (10 * USEC_PER_SEC)

static const struct node *get_node(void *userdata)
{
	struct agent *agent = userdata;

	return &agent->core.node;
}

static void on_apply(void *userdata, const char *only, struct http_reply *reply)
{
	agent_request(userdata, false, only, reply);
}

static void on_restore(void *userdata, const char *only, struct http_reply *reply)
{
	agent_request(userdata, true, only, reply);
}

static const struct http_handlers handlers = {
	.node = get_node, .apply = on_apply, .restore = on_restore};

/* Opens what is not open as configured, and closes what is not configured any more. */
static void serve_at(struct agent *agent, struct endpoint *endpoint, const char *address)
{
	bool same = streq(address, endpoint->address);
	uint64_t now = now_us();

	if (same && (endpoint->server || !address[0] || now < endpoint->retry_us))
		return;
	if (endpoint->server)
		http_server_close(steal(endpoint->server));
	copy_text(endpoint->address, sizeof(endpoint->address), address);
	endpoint->retry_us = now + HTTP_RETRY_US;
	endpoint->error = 0;
	if (address[0])
		endpoint->error =
			http_server_open(agent->event, &(struct http_options){.listen_on = address},
				&handlers, agent, &endpoint->server);
}

/* What keeps both from being reached is one text. */
static void report_errors(struct agent *agent)
{
	const struct endpoint *const endpoints[] = {&agent->tcp, &agent->local};
	char error_text[CONDITION_MESSAGE_MAX] = "";

	for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
		const struct endpoint *endpoint = endpoints[i];
		size_t used = strlen(error_text);

		if (endpoint->error < 0)
			snprintf(error_text + used, sizeof(error_text) - used,
				"%shttp.%s: %.100s: %s: choose another or free it",
				used ? "; " : "", endpoint == &agent->tcp ? "listen" : "socket",
				endpoint->address, strerror(-endpoint->error));
	}
	if (error_text[0] && !streq(error_text, agent->core.agent_error))
		log_error("http", "%s", error_text);
	copy_text(agent->core.agent_error, sizeof(agent->core.agent_error), error_text);
}

void agent_serve(struct agent *agent)
{
	char socket_path[PATH_MAX];

	core_socket_path(agent->core.config, socket_path);
	serve_at(agent, &agent->tcp, config_text(agent->core.config, "http.listen"));
	serve_at(agent, &agent->local, socket_path);
	report_errors(agent);
}

void agent_stop_serving(struct agent *agent)
{
	if (agent->tcp.server)
		http_server_close(steal(agent->tcp.server));
	if (agent->local.server)
		http_server_close(steal(agent->local.server));
}
