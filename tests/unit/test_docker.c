/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include "runtime/driver.h"

#define VERSION "{\"Version\":\"20.10.24+dfsg1\",\"ApiVersion\":\"1.41\",\"Os\":\"linux\"}"
#define INFO                                                                               \
	"{\"Driver\":\"overlay2\",\"DockerRootDir\":\"/var/lib/docker\",\"Containers\":5," \
	"\"RegistryConfig\":{\"Mirrors\":[\"https://mirror.example/\"]}}"
#define RELOAD(n, nano)                                                                    \
	"{\"Type\":\"daemon\",\"Action\":\"reload\",\"timeNano\":" nano ",\"Actor\":{"     \
	"\"Attributes\":{\"max-concurrent-downloads\":\"" #n "\",\"registry-mirrors\":\"[" \
	"\\\"http://a/\\\",\\\"http://b\\\"]\"}}}\n"

struct fake {
	struct fake_socket server;
	const char *socket;
	struct wait wait;
	const char *version, *info, *events, *containers;
	atomic_uint infos;
	bool ends; /* the stream of events ends */
};

static void serve(int fd, const char *head, void *userdata)
{
	struct fake *fake = userdata;

	if (starts_with(head, "GET /version ")) {
		fake_reply(fd, 200, fake->version);
	} else if (starts_with(head, "GET /info ")) {
		atomic_fetch_add(&fake->infos, 1);
		fake_reply(fd, 200, fake->info);
	} else if (starts_with(head, "GET /containers/json ")) {
		fake_reply(fd, 200, fake->containers);
	} else if (starts_with(head, "GET /events?filters=") && strstr(head, "&until=")) {
		fake_reply(fd, 200, fake->events);
	} else if (starts_with(head, "GET /events?filters=")) {
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
	fake_socket_open(&fake->server, serve, fake);
	fake->socket = fake->server.path;
	fake->wait = (struct wait){.deadline_us = now_us() + 20 * USEC_PER_SEC, .cancel_fd = -1};
}

static void fake_close(struct fake *fake)
{
	fake_socket_close(&fake->server);
}

#define FAKE_TEST(name) TEST_OF(fake, fake, fake_open, fake_close, name)

FAKE_TEST(info_is_read_again_only_after_a_reload)
{
	struct docker_info info = {0};
	char why[DOCKER_ERROR_MAX];

	for (int i = 0; i < 3; i++)
		assert_int_equal(docker_read_info(fake->socket, &info, &fake->wait, why), 0);
	assert_int_equal(atomic_load(&fake->infos), 1);
	fake->events = RELOAD(5, "1700000000000000000") RELOAD(10, "1700000001000000000");
	for (int i = 0; i < 3; i++)
		assert_int_equal(docker_read_info(fake->socket, &info, &fake->wait, why), 0);
	assert_int_equal(atomic_load(&fake->infos), 2);
	assert_string_equal(info.reloaded_downloads, "10");
	assert_int_equal(info.reloaded_us, 1700000001000000);
}

/* The list is longer than one read, and longer than an object may be. */
FAKE_TEST(long_lists_are_read_object_by_object)
{
	enum { OBJECTS = 3000, OBJECT = 400 };
	_cleanup_free_ char *text = malloc(OBJECTS * OBJECT + 3), *large = malloc(500000);
	_cleanup_free_ struct name_entry *names = NULL;
	size_t used = 1, n = 0;

	strcpy(text, "[");
	for (int i = 0; i < OBJECTS; i++)
		used += (size_t)sprintf(text + used, "%s{\"Id\":\"%d\",\"Command\":\"%0300d\"}",
			i > 0 ? "," : "", i, i);
	strcpy(text + used, "]");
	fake->containers = text;
	assert_int_equal(docker_read_names(fake->socket, &names, &n, &fake->wait), 0);
	assert_int_equal(n, OBJECTS);
	assert_string_equal(names[OBJECTS - 1].workload.id, "2999");
	sprintf(large, "[{\"Id\":\"%0100000d\",\"Names\":[\"%0100000d\",\"%0100000d\"]}]", 0, 0, 0);
	fake->containers = large;
	assert_int_equal(docker_read_names(fake->socket, &names, &n, &fake->wait), -EFBIG);
	free(names);
	sprintf(large, "[{\"Id\":\"a\",\"Labels\":{\"large\":\"%0400000d\"}}]", 0);
	assert_int_equal(docker_read_names(fake->socket, &names, &n, &fake->wait), 0);
	assert_int_equal(n, 1);
}

FAKE_TEST(a_container_has_the_addresses_of_all_its_networks)
{
	static const char *const addresses[] = {"172.18.0.7", "172.19.0.2", "fd00:19::2"};
	struct name_entry *entries = NULL;
	struct workload workload;
	struct names names = {0};
	size_t n = 0;

	fake->containers =
		"[{\"Id\":\"abc\",\"Names\":[\"/web\"],\"NetworkSettings\":{\"Networks\":{"
		"\"front\":{\"IPAddress\":\"172.18.0.7\",\"GlobalIPv6Address\":\"\"},"
		"\"back\":{\"IPAddress\":\"172.19.0.2\",\"GlobalIPv6Address\":\"fd00:19::2\"}}}},"
		"{\"Id\":\"def\",\"Names\":[\"/host\"],\"NetworkSettings\":{\"Networks\":{"
		"\"host\":{\"IPAddress\":\"\"}}}}]";
	assert_int_equal(docker_read_names(fake->socket, &entries, &n, &fake->wait), 0);
	names_replace(&names, "docker", entries, n);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		assert_true(names_at_address(&names, addresses[i], &workload));
		assert_string_equal(workload.name, "web");
	}
	assert_false(names_at_address(&names, "", &workload));
	workload = (struct workload){.id = "def"};
	assert_true(names_apply(&names, &workload));
	assert_string_equal(workload.name, "host");
	free(names.entries);
}

FAKE_TEST(wrong_answers_are_described)
{
	static const struct {
		const char *version, *info, *events, *why;
	} cases[] = {
		{"{}", INFO, "", "GET /version: the answer is not from a Docker daemon"},
		{VERSION, "{\"Driver\":1}", "", "GET /info: the answer"},
		{VERSION, INFO, "{\"Type\":", "GET /events: the answer"},
		{VERSION, INFO, "garbage", "GET /events: "},
	};
	struct image_runtime runtime = {0};
	struct runtime_image *images;
	char why[DOCKER_ERROR_MAX];
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct name_entry *names;
		struct docker_info info = {0};

		fake->version = cases[i].version;
		fake->info = cases[i].info;
		fake->events = cases[i].events;
		fake->containers = "[{\"Id\":";
		assert_int_equal(docker_read_info(fake->socket, &info, &fake->wait, why), -EBADMSG);
		if (!strstr(why, cases[i].why))
			fail_msg("case %zu: %s", i, why);
		assert_string_equal(info.version, "");
		assert_int_equal(
			docker_read_names(fake->socket, &names, &n, &fake->wait), -EBADMSG);
	}
	set_text(runtime.socket, fake->socket);
	assert_int_equal(docker_list_images(&runtime, &fake->wait, &images, &n, why), -ENOENT);
	assert_non_null(strstr(why, "GET /images/json: page not found"));
	assert_int_equal(docker_read_pulled("/nowhere", 1, NULL, 0, NULL, &fake->wait), -ENOENT);
}

TEST(a_dockerd_that_cannot_validate_has_the_types_of_its_keys)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"{\"log-level\": \"warn\", \"mtu\": 1400, \"hosts\": [], \"debug\": false}", ""},
		{"{\"log-opts\": {\"max-size\": \"1m\"}, \"bip\": null}", ""},
		{"{\n  \"max-concurrent-downloads\": \"6\"\n}",
			"/d.json:2:31: max-concurrent-downloads must be a whole number"},
		{"{\"live-restore\": \"true\"}", "1:18: live-restore must be true or false"},
		{"{\"registry-mirrors\": \"https://m.example\"}",
			"registry-mirrors must be a list"},
		{"{\"log-opts\": []}", "log-opts must be an object"},
		{"{\"data-root\": 1}", "data-root must be a string"},
	};
	const struct daemon daemon = {.version = "20.10.24", .config = "/d.json"};
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	const struct host host = {0};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char why[CHILD_WHY_MAX] = "";
		int r = docker_config_check(
			&host, &daemon, rows[i].text, strlen(rows[i].text), "/d.json", &wait, why);

		assert_int_equal(r, rows[i].why[0] ? -EBADMSG : 0);
		if (!strstr(why, rows[i].why))
			fail_msg("%s", why);
	}
}
