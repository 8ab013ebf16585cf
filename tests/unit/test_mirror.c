/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include "runtime/fetch.h"
#include "runtime/mirror.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

struct bench {
	struct directory directory;
	sd_event *event;
	struct fetcher *fetcher;
	struct mirrors *mirrors;
	unsigned int changes;
};

static void on_changed(void *userdata)
{
	((struct bench *)userdata)->changes++;
}

static void bench_open(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	directory_make(&bench->directory);
	assert_int_equal(sd_event_new(&bench->event), 0);
	assert_int_equal(fetcher_open(bench->event, &bench->fetcher), 0);
	assert_int_equal(mirrors_open(bench->event, bench->fetcher, bench->directory.path,
				 on_changed, bench, &bench->mirrors),
		0);
}

static void bench_close(struct bench *bench)
{
	mirrors_close(bench->mirrors);
	fetcher_close(bench->fetcher);
	sd_event_unref(bench->event);
	directory_remove(&bench->directory);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_close)))

static void set_one(struct bench *bench, const char *url)
{
	assert_int_equal(mirrors_set(bench->mirrors, &url, 1), 0);
}

static const struct mirror *the_one(const struct bench *bench)
{
	size_t n;
	const struct mirror *all = mirrors_all(bench->mirrors, &n);

	assert_int_equal(n, 1);
	return all;
}

/* Their turn comes every ten seconds; here it is never far. */
int sd_event_source_set_time_relative(sd_event_source *source, uint64_t us)
{
	bool is_turn = us == 10 * USEC_PER_SEC;

	return sd_event_source_set_time(source, now_us() + (is_turn ? 20 * USEC_PER_MSEC : us));
}

/* Puts one check's answer through. */
static const struct mirror *check(struct bench *bench)
{
	uint64_t before = the_one(bench)->checked_us;

	run_until(bench->event, the_one(bench)->checked_us > before);
	return the_one(bench);
}

static atomic_int status_to_give;

static void serve_status(int fd, const char *head, void *userdata)
{
	(void)userdata;
	if (!starts_with(head, "GET /v2/ HTTP/1.1\r\n") || strstr(head, "Authorization"))
		fake_reply(fd, 400, "");
	else if (atomic_load(&status_to_give) == 302)
		fake_send(fd, "HTTP/1.1 302 X\r\nLocation: /v2/\r\nContent-Length: 0\r\n\r\n");
	else
		fake_reply(fd, atomic_load(&status_to_give), "{}");
}

static void takes_200_and_401_for_health(void **state)
{
	static const struct {
		int status;
		enum mirror_state state;
		const char *why;
	} cases[] = {{200, MIRROR_UP, ""}, {401, MIRROR_UP, ""},
		{302, MIRROR_DOWN, "GET /v2/ answers 302"},
		{403, MIRROR_DOWN, "GET /v2/ answers 403"},
		{404, MIRROR_DOWN, "GET /v2/ answers 404"},
		{500, MIRROR_DOWN, "GET /v2/ answers 500"}};
	struct fake_http http;
	char url[64];

	(void)state;
	fake_http_start_tcp(&http, serve_status, NULL);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/", http.port);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;

		bench_open(&bench);
		atomic_store(&status_to_give, cases[i].status);
		set_one(&bench, url);
		assert_int_equal(the_one(&bench)->state, MIRROR_UNKNOWN);
		assert_false(mirrors_settled(bench.mirrors));
		run_until(bench.event, mirrors_settled(bench.mirrors));
		assert_int_equal(the_one(&bench)->state, cases[i].state);
		assert_string_equal(the_one(&bench)->why, cases[i].why);
		assert_int_equal(bench.changes, 1);
	}
	fake_http_stop(&http);
}

static void serve_hang(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_wait(fd);
}

static void serve_flood(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "HTTP/1.1 200 OK\r\n\r\n");
	fake_flood(fd, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 100);
}

static void takes_nothing_else_for_health(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct fake_http hang, flood;
	char urls[3][64];
	const char *list[] = {urls[0], urls[1], urls[2]};
	const struct mirror *all;
	size_t n;

	(void)state;
	bench_open(&bench);
	fake_http_start_tcp(&hang, serve_hang, NULL);
	fake_http_start_tcp(&flood, serve_flood, NULL);
	snprintf(urls[0], sizeof(urls[0]), "http://127.0.0.1:%d", hang.port);
	snprintf(urls[1], sizeof(urls[1]), "http://127.0.0.1:%d", flood.port);
	snprintf(urls[2], sizeof(urls[2]), "http://127.0.0.1:1");
	assert_int_equal(mirrors_set(bench.mirrors, list, 3), 0);
	run_until(bench.event, mirrors_settled(bench.mirrors));
	all = mirrors_all(bench.mirrors, &n);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(all[i].state, MIRROR_DOWN);
	assert_string_equal(all[0].why, "no answer within 2 s");
	assert_string_equal(all[1].why, "the answer is larger than it may be");
	assert_non_null(strstr(all[2].why, "refused"));
	mirrors_close(steal(bench.mirrors));
	fake_http_stop(&hang);
	fake_http_stop(&flood);
}

static void changes_its_mind_when_two_answers_say_so(void **state)
{
	static const struct {
		bool healthy, changed;
		enum mirror_state state;
		unsigned int against;
	} steps[] = {
		{true, true, MIRROR_UP, 0}, /* the first ever counts alone */
		{true, false, MIRROR_UP, 0},
		{false, false, MIRROR_UP, 1},
		{true, false, MIRROR_UP, 0},
		{false, false, MIRROR_UP, 1},
		{false, true, MIRROR_DOWN, 0},
		{false, false, MIRROR_DOWN, 0},
		{true, false, MIRROR_DOWN, 1},
		{false, false, MIRROR_DOWN, 0},
		{true, false, MIRROR_DOWN, 1},
		{true, true, MIRROR_UP, 0},
	};
	struct mirror mirror = {.url = "http://h"};
	uint64_t since = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		assert_int_equal(
			mirror_observe(&mirror, steps[i].healthy, 100 + i), steps[i].changed);
		if (steps[i].changed)
			since = 100 + i;
		assert_int_equal(mirror.state, steps[i].state);
		assert_int_equal(mirror.against, steps[i].against);
		assert_int_equal(mirror.since_us, since);
		assert_int_equal(mirror.checked_us, 100 + i);
	}
}

static void goes_down_and_up_again(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct fake_http http;
	char url[64];

	(void)state;
	bench_open(&bench);
	atomic_store(&status_to_give, 200);
	fake_http_start_tcp(&http, serve_status, NULL);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", http.port);
	set_one(&bench, url);
	run_until(bench.event, mirrors_settled(bench.mirrors));
	atomic_store(&status_to_give, 503);
	assert_int_equal(check(&bench)->state, MIRROR_UP);
	assert_int_equal(the_one(&bench)->against, 1);
	/* The second look comes by itself, and soon. */
	run_until(bench.event, the_one(&bench)->state == MIRROR_DOWN);
	assert_int_equal(bench.changes, 2);
	atomic_store(&status_to_give, 200);
	assert_int_equal(check(&bench)->state, MIRROR_DOWN);
	assert_int_equal(check(&bench)->state, MIRROR_UP);
	assert_int_equal(bench.changes, 3);
	fake_http_stop(&http);
}

static void keeps_what_stays_configured(void **state)
{
	static const char *const first[] = {"http://127.0.0.1:1", "http://127.0.0.1:2/"};
	static const char *const second[] = {"http://127.0.0.1:3", "http://127.0.0.1:2",
		"http://127.0.0.1:2//", "http://127.0.0.1:3"};
	static const char *const bad[] = {"http://127.0.0.1:2", "http://user@127.0.0.1"};
	_cleanup_bench_ struct bench bench;
	const char *many[MIRRORS_MAX + 1];
	const struct mirror *all;
	size_t n;

	(void)state;
	bench_open(&bench);
	assert_true(mirrors_settled(bench.mirrors));
	assert_int_equal(mirrors_set(bench.mirrors, first, 2), 0);
	run_until(bench.event, mirrors_settled(bench.mirrors));
	assert_int_equal(mirrors_set(bench.mirrors, second, 4), 0);
	all = mirrors_all(bench.mirrors, &n);
	assert_int_equal(n, 2);
	assert_string_equal(all[0].url, "http://127.0.0.1:3");
	assert_int_equal(all[0].state, MIRROR_UNKNOWN);
	assert_string_equal(all[1].url, "http://127.0.0.1:2");
	assert_int_equal(all[1].state, MIRROR_DOWN);
	assert_ptr_equal(mirrors_find(bench.mirrors, "http://127.0.0.1:2/"), &all[1]);
	assert_null(mirrors_find(bench.mirrors, "http://127.0.0.1:1"));
	assert_int_equal(mirrors_set(bench.mirrors, bad, 2), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = first[0];
	assert_int_equal(mirrors_set(bench.mirrors, many, ARRAY_SIZE(many)), -E2BIG);
	mirrors_all(bench.mirrors, &n);
	assert_int_equal(n, 2);
	run_until(bench.event, mirrors_settled(bench.mirrors));
	assert_int_equal(mirrors_set(bench.mirrors, NULL, 0), 0);
	mirrors_all(bench.mirrors, &n);
	assert_int_equal(n, 0);
}

static void serve_path(int fd, const char *head, void *userdata)
{
	(void)userdata;
	fake_reply(fd, strstr(head, "GET /proxy/hub/v2/ ") ? 200 : 404, "");
}

static void asks_where_containerd_asks(void **state)
{
	static const char *const paths[] = {"/proxy/hub", "/proxy/hub/v2", "/proxy/hub/v2/"};
	struct fake_http http;
	char url[64];

	(void)state;
	fake_http_start_tcp(&http, serve_path, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_bench_ struct bench bench;

		bench_open(&bench);
		snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", http.port, paths[i]);
		set_one(&bench, url);
		run_until(bench.event, mirrors_settled(bench.mirrors));
		assert_int_equal(the_one(&bench)->state, MIRROR_UP);
	}
	fake_http_stop(&http);
}

static void shell(const char *format, const char *directory)
{
	char command[1024];

	snprintf(command, sizeof(command), "cd %s && %s", directory, format);
	assert_int_equal(system(command), 0);
}

/* openssl's server, which answers 200 to everything. Its port; ca-certificates brings openssl. */
static int start_tls(const struct directory *directory, pid_t *pid)
{
	char line[256];
	int out[2], port = 0;
	FILE *file;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	*pid = fork();
	if (*pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		if (chdir(directory->path) == 0)
			execlp("openssl", "openssl", "s_server", "-accept", "127.0.0.1:0", "-key",
				"server.key", "-cert", "server.crt", "-www", (char *)NULL);
		_exit(1);
	}
	close(out[1]);
	file = fdopen(out[0], "re");
	while (port == 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "ACCEPT 127.0.0.1:%d", &port) != 1)
			port = 0;
	fclose(file);
	assert_true(port > 0);
	return port;
}

#define NEW_CERTIFICATE                                                                 \
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 " \
	"-subj /CN=test -addext subjectAltName=IP:127.0.0.1 2>/dev/null "

/* In a bundle of more than one part: first without the server's authority, then with it. */
static void trusts_what_the_node_trusts(void **state)
{
	_cleanup_bench_ struct bench bench;
	char url[64];
	pid_t server;

	(void)state;
	bench_open(&bench);
	directory_put(&bench.directory, "/etc/ssl/certs/keep", "");
	shell(NEW_CERTIFICATE "-keyout server.key -out server.crt", bench.directory.path);
	shell(NEW_CERTIFICATE "-keyout other.key -out other.crt", bench.directory.path);
	shell("for i in $(seq 30); do cat other.crt; done > etc/ssl/certs/ca-certificates.crt",
		bench.directory.path);
	snprintf(url, sizeof(url), "https://127.0.0.1:%d", start_tls(&bench.directory, &server));
	set_one(&bench, url);
	run_until(bench.event, mirrors_settled(bench.mirrors));
	assert_int_equal(the_one(&bench)->state, MIRROR_DOWN);
	assert_string_equal(
		the_one(&bench)->why, "its certificate is not one that this node trusts");
	shell("cat server.crt >> etc/ssl/certs/ca-certificates.crt", bench.directory.path);
	assert_string_equal(check(&bench)->why, "");
	assert_int_equal(check(&bench)->state, MIRROR_UP);
	assert_int_equal(kill(server, SIGTERM), 0);
	assert_int_equal(waitpid(server, NULL, 0), server);
}

static void needs_certificates_for_https_only(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_open(&bench);
	set_one(&bench, "https://127.0.0.1:1");
	run_until(bench.event, mirrors_settled(bench.mirrors));
	assert_int_equal(the_one(&bench)->state, MIRROR_DOWN);
	assert_string_equal(the_one(&bench)->why, "this node has no certificates");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_200_and_401_for_health),
		cmocka_unit_test(takes_nothing_else_for_health),
		cmocka_unit_test(changes_its_mind_when_two_answers_say_so),
		cmocka_unit_test(goes_down_and_up_again),
		cmocka_unit_test(keeps_what_stays_configured),
		cmocka_unit_test(asks_where_containerd_asks),
		cmocka_unit_test(trusts_what_the_node_trusts),
		cmocka_unit_test(needs_certificates_for_https_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
