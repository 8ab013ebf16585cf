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

static void say_trouble(struct agent *agent, const char *what, int error)
{
	bool is_socket = what && streq(what, "socket");
	char trouble[CONDITION_MESSAGE_MAX];

	snprintf(trouble, sizeof(trouble), "http.%s: %.200s: %s: choose another or free it",
		is_socket ? "socket" : "listen",
		is_socket ? agent->http_socket : agent->http_listen, strerror(-error));
	if (!streq(trouble, agent->core.trouble))
		log_error("http", "%s", trouble);
	copy_text(agent->core.trouble, sizeof(agent->core.trouble), trouble);
}

void agent_serve(struct agent *agent)
{
	static const struct http_handlers handlers = {
		.node = get_node, .apply = on_apply, .restore = on_restore};
	const char *listen_on = config_text(agent->core.config, "http.listen");
	const char *what = NULL;
	char socket_path[PATH_MAX];
	uint64_t now = now_us();
	int r;

	core_socket_path(agent->core.config, socket_path);
	if (agent->http && streq(listen_on, agent->http_listen) &&
		streq(socket_path, agent->http_socket))
		return;
	if (!agent->http && now < agent->http_retry_us)
		return;
	if (agent->http)
		http_server_close(steal(agent->http));
	copy_text(agent->http_listen, sizeof(agent->http_listen), listen_on);
	copy_text(agent->http_socket, sizeof(agent->http_socket), socket_path);
	r = http_server_open(
		agent->event, listen_on, socket_path, &handlers, agent, &agent->http, &what);
	agent->http_retry_us = now + HTTP_RETRY_US;
	if (r < 0)
		say_trouble(agent, what, r);
	else
		agent->core.trouble[0] = '\0';
}
