/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_docker.h"

#define POD                                                                               \
	"{\"Id\":\"aa01\",\"Names\":[\"/k8s_app_web-0_shop_u1_0\"],\"Image\":\"shop:1\"," \
	"\"State\":\"running\",\"Labels\":{\"io.kubernetes.pod.namespace\":\"shop\","     \
	"\"io.kubernetes.pod.name\":\"web-0\",\"io.kubernetes.pod.uid\":\"u1\","          \
	"\"io.kubernetes.container.name\":\"app\"}}"
#define COMPOSE                                                                     \
	"{\"Id\":\"bb02\",\"Names\":[\"/site-db-1\"],\"Image\":\"postgres:16\","    \
	"\"State\":\"exited\",\"Labels\":{\"com.docker.compose.project\":\"site\"," \
	"\"com.docker.compose.service\":\"db\",\"other\":\"\\u0007{[\"}}"
#define BARE "{\"Id\":\"cc03\",\"Names\":null,\"Labels\":null}"

struct listed {
	struct fake_docker *fake;
	unsigned int calls;
	int error;
	size_t n;
	struct docker_container containers[8];
	struct docker_image images[8];
};

static void on_containers(int error, const struct docker_container *list, size_t n, void *userdata)
{
	struct listed *listed = userdata;

	listed->calls++;
	listed->error = error;
	listed->n = n;
	for (size_t i = 0; i < MIN(n, ARRAY_SIZE(listed->containers)); i++)
		listed->containers[i] = list[i];
	/* Its owner may ask again at once. */
	if (listed->fake && listed->calls == 1)
		assert_int_equal(
			docker_list_containers(listed->fake->docker, on_containers, listed), 0);
}

static void on_images(int error, const struct docker_image *list, size_t n, void *userdata)
{
	struct listed *listed = userdata;

	listed->calls++;
	listed->error = error;
	listed->n = n;
	for (size_t i = 0; i < MIN(n, ARRAY_SIZE(listed->images)); i++)
		listed->images[i] = list[i];
}

static void lists_containers(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	struct listed listed = {.fake = &fake};

	(void)state;
	fake_docker_start(&fake);
	atomic_store(&fake.containers, " [" POD ",\n" COMPOSE "," BARE "] \n");
	assert_int_equal(docker_list_containers(fake.docker, on_containers, &listed), 0);
	assert_int_equal(docker_list_containers(fake.docker, on_containers, &listed), -EBUSY);
	assert_int_equal(listed.calls, 0);
	run_until(fake.event, listed.calls == 2);
	assert_int_equal(listed.error, 0);
	assert_int_equal(listed.n, 3);
	assert_string_equal(listed.containers[0].id, "aa01");
	assert_string_equal(listed.containers[0].name, "k8s_app_web-0_shop_u1_0");
	assert_string_equal(listed.containers[0].image, "shop:1");
	assert_string_equal(listed.containers[0].pod_namespace, "shop");
	assert_string_equal(listed.containers[0].pod_name, "web-0");
	assert_string_equal(listed.containers[0].pod_uid, "u1");
	assert_string_equal(listed.containers[0].container_name, "app");
	assert_true(listed.containers[0].running);
	assert_string_equal(listed.containers[1].compose_project, "site");
	assert_string_equal(listed.containers[1].compose_service, "db");
	assert_string_equal(listed.containers[1].pod_name, "");
	assert_false(listed.containers[1].running);
	assert_string_equal(listed.containers[2].name, "");
}

static void lists_images(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	struct listed listed = {0};

	(void)state;
	fake_docker_start(&fake);
	atomic_store(&fake.images,
		"[{\"Id\":\"sha256:11\",\"RepoTags\":[\"busybox:1\",\"busybox:latest\"],"
		"\"RepoDigests\":[\"busybox@sha256:22\"],\"Size\":5000000000,\"Created\":17},"
		"{\"Id\":\"sha256:33\",\"RepoTags\":[\"<none>:<none>\"],\"RepoDigests\":"
		"[\"a@sha256:44\"],\"Size\":-1},{\"Id\":\"sha256:55\",\"RepoTags\":null}]");
	assert_int_equal(docker_list_images(fake.docker, on_images, &listed), 0);
	run_until(fake.event, listed.calls == 1);
	assert_int_equal(listed.error, 0);
	assert_int_equal(listed.n, 3);
	assert_string_equal(listed.images[0].id, "sha256:11");
	assert_string_equal(listed.images[0].name, "busybox:1");
	assert_int_equal(listed.images[0].n_names, 3);
	assert_int_equal(listed.images[0].size, UINT64_C(5000000000));
	assert_int_equal(listed.images[0].created_us, 17 * USEC_PER_SEC);
	assert_string_equal(listed.images[1].name, "a@sha256:44");
	assert_int_equal(listed.images[1].size, 0);
	assert_string_equal(listed.images[2].name, "");
}

static void lists_many(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	_cleanup_free_ char *text = malloc(6000 * 400);
	struct listed listed = {0};
	size_t used = 0;

	(void)state;
	fake_docker_start(&fake);
	for (unsigned int i = 0; i < 6000; i++)
		used += (size_t)sprintf(text + used, "%c{\"Id\":\"%u\",\"Names\":[\"/%0200u\"]}",
			i == 0 ? '[' : ',', i, i);
	strcpy(text + used, "]");
	atomic_store(&fake.containers, text);
	assert_int_equal(docker_list_containers(fake.docker, on_containers, &listed), 0);
	run_until(fake.event, listed.calls == 1);
	assert_int_equal(listed.error, -E2BIG);
	assert_int_equal(listed.n, 0);
	/* As many as there may be. */
	*strstr(text, ",{\"Id\":\"5000\"") = ']';
	*(strstr(text, "]{\"Id\":\"5000\"") + 1) = '\0';
	assert_int_equal(docker_list_containers(fake.docker, on_containers, &listed), 0);
	run_until(fake.event, listed.calls == 2);
	assert_int_equal(listed.error, 0);
	assert_int_equal(listed.n, 5000);
	assert_string_equal(listed.containers[7].id, "7");
}

static void refuses_what_is_no_list(void **state)
{
	static const char *const bad[] = {"", "[", "[{\"Id\":\"1\"}", "null", "{\"Id\":\"1\"}",
		"[{\"Id\":\"1\"}]]", "[{}]", "[{\"Id\":7}]", "[{\"Id\":\"1\"]", "[1]", "][",
		"[{\"Id\":\"1\"}]{\"Id\":\"2\"}", "nonsense"};
	_cleanup_fake_docker_ struct fake_docker fake;

	(void)state;
	fake_docker_start(&fake);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct listed listed = {0};

		atomic_store(&fake.containers, bad[i]);
		assert_int_equal(docker_list_containers(fake.docker, on_containers, &listed), 0);
		run_until(fake.event, listed.calls == 1);
		if (listed.error != -EBADMSG)
			fail_msg("%s: %d", bad[i], listed.error);
		assert_int_equal(listed.n, 0);
	}
}

static void serve_refusal(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_reply(fd, 500, "{\"message\":\"no\"}");
}

static void tells_a_refusal(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	struct listed listed = {0};

	(void)state;
	fake_docker_start(&fake);
	atomic_store(&fake.misbehave, serve_refusal);
	assert_int_equal(docker_list_images(fake.docker, on_images, &listed), 0);
	run_until(fake.event, listed.calls == 1);
	assert_int_equal(listed.error, -EPROTO);
	/* Closing the client abandons it. */
	assert_int_equal(docker_list_images(fake.docker, on_images, &listed), 0);
	docker_close(steal(fake.docker));
	run_for(fake.event, 20 * USEC_PER_MSEC);
	assert_int_equal(listed.calls, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_containers),
		cmocka_unit_test(lists_images),
		cmocka_unit_test(lists_many),
		cmocka_unit_test(refuses_what_is_no_list),
		cmocka_unit_test(tells_a_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
