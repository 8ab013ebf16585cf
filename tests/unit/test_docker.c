/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include "runtime/docker.h"

#define VERSION "{\"Version\":\"20.10.24+dfsg1\",\"ApiVersion\":\"1.41\",\"Os\":\"linux\"}"
#define INFO                                                                               \
	"{\"Driver\":\"overlay2\",\"DockerRootDir\":\"/var/lib/docker\",\"Containers\":5," \
	"\"RegistryConfig\":{\"Mirrors\":[\"https://mirror.example/\"]}}"
#define RELOAD(n, nano)                                                                    \
	"{\"Type\":\"daemon\",\"Action\":\"reload\",\"timeNano\":" nano ",\"Actor\":{"     \
	"\"Attributes\":{\"max-concurrent-downloads\":\"" #n "\",\"registry-mirrors\":\"[" \
	"\\\"http://a/\\\",\\\"http://b\\\"]\"}}}\n"

struct fake {
	struct directory directory;
	struct fake_http http;
	char socket[PATH_MAX];
	const char *version, *info, *events, *containers;
	atomic_uint infos;
	bool ends; /* the stream of events does */
};

static void serve(int fd, const char *head, void *userdata)
{
	struct fake *fake = userdata;

	if (starts_with(head, "GET /version ")) {
		fake_reply(fd, 200, fake->version);
	} else if (starts_with(head, "GET /info ")) {
		atomic_fetch_add(&fake->infos, 1);
		fake_reply(fd, 200, fake->info);
	} else if (starts_with(head, "GET /containers/json?all=1 ")) {
		fake_reply(fd, 200, fake->containers);
	} else if (starts_with(head, "GET /events?since=") && strstr(head, "&until=")) {
		fake_reply(fd, 200, fake->events);
	} else if (starts_with(head, "GET /events?since=")) {
		fake_begin_chunks(fd);
		fake_chunk(fd, "{\"Type\":\"image\",\"Action\":\"tag\"}\n");
		if (fake->events[0])
			fake_chunk(fd, fake->events);
		if (fake->ends)
			fake_chunk(fd, "");
		else
			fake_wait(fd);
	} else {
		fake_reply(fd, 404, "{\"message\":\"page not found\"}");
	}
}

static void fake_open(struct fake *fake)
{
	*fake = (struct fake){.version = VERSION, .info = INFO, .events = "", .containers = "[]\n"};
	directory_make(&fake->directory);
	directory_path(&fake->directory, "/docker.sock", fake->socket);
	fake_http_start_unix(&fake->http, fake->socket, serve, fake);
}

static void fake_close(struct fake *fake)
{
	fake_http_stop(&fake->http);
	directory_remove(&fake->directory);
}

#define _cleanup_fake_ __attribute__((cleanup(fake_close)))

static struct wait in(uint64_t us)
{
	return (struct wait){.deadline_us = now_us() + us, .cancel_fd = -1};
}

TEST(info_is_read_again_only_after_a_reload)
{
	_cleanup_fake_ struct fake fake;
	struct wait wait = in(20 * USEC_PER_SEC);
	struct docker_info info = {0};
	char why[DOCKER_ERROR_MAX];

	fake_open(&fake);
	for (int i = 0; i < 3; i++)
		assert_int_equal(docker_read_info(fake.socket, &info, &wait, why), 0);
	assert_int_equal(atomic_load(&fake.infos), 1);
	fake.events = RELOAD(5, "1700000000000000000") RELOAD(10, "1700000001000000000");
	for (int i = 0; i < 3; i++)
		assert_int_equal(docker_read_info(fake.socket, &info, &wait, why), 0);
	assert_int_equal(atomic_load(&fake.infos), 2);
	assert_string_equal(info.reloaded_downloads, "10");
	assert_int_equal(info.reloaded_us, 1700000001000000);
}

TEST(containers_are_listed)
{
	_cleanup_fake_ struct fake fake;
	_cleanup_free_ struct docker_container *list = NULL;
	struct wait wait = in(20 * USEC_PER_SEC);
	size_t n = 0;

	fake_open(&fake);
	fake.containers =
		"[{\"Id\":\"aa\",\"Names\":[\"/web\"],\"State\":\"running\",\"Labels\":{"
		"\"io.kubernetes.pod.namespace\":\"shop\",\"io.kubernetes.pod.name\":\"web-1\","
		"\"io.kubernetes.pod.uid\":\"u1\"}},\n"
		" {\"Id\":\"bb\",\"Names\":[\"/a\\u0007b\"],\"State\":\"exited\"}]\n";
	assert_int_equal(docker_read_containers(fake.socket, &list, &n, &wait), 0);
	assert_int_equal(n, 2);
	assert_string_equal(list[0].name, "web");
	assert_string_equal(list[0].pod_name, "web-1");
	assert_true(list[0].running);
	assert_string_equal(list[1].name, "a b");
	assert_false(list[1].running);
}

TEST(wrong_answers_are_described)
{
	static const struct {
		const char *version, *info, *events;
		int error;
		const char *why;
	} cases[] = {
		{"[]", INFO, "", -EBADMSG, "GET /version: not what a Docker daemon answers"},
		{"{}", INFO, "", -EBADMSG, "GET /version: not what a Docker daemon answers"},
		{VERSION, "{\"Driver\":1}", "", -EBADMSG, "GET /info: not what"},
		{VERSION, INFO, "{\"Type\":", -EBADMSG, "GET /events: not what"},
		{VERSION, INFO, "garbage", -EBADMSG, "GET /events: "},
	};
	struct wait wait = in(20 * USEC_PER_SEC);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fake_ struct fake fake;
		_cleanup_free_ struct docker_container *list = NULL;
		struct docker_info info = {0};
		char why[DOCKER_ERROR_MAX];
		size_t n;

		fake_open(&fake);
		fake.version = cases[i].version;
		fake.info = cases[i].info;
		fake.events = fake.containers = cases[i].events;
		assert_int_equal(docker_read_info(fake.socket, &info, &wait, why), cases[i].error);
		if (!strstr(why, cases[i].why))
			fail_msg("case %zu: %s", i, why);
		assert_string_equal(info.version, "");
		assert_int_equal(docker_read_containers(fake.socket, &list, &n, &wait), -EBADMSG);
	}
	assert_int_equal(docker_read_pulled("/nowhere", 1, NULL, 0, NULL, &wait), -ENOENT);
}
