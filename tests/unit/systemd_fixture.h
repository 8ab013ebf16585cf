/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SYSTEMD_FIXTURE_H
#define TESTS_UNIT_SYSTEMD_FIXTURE_H

/*
 * A bus of the test's own with a made-up systemd on it: one unit, and what depends on it. It serves
 * from a thread: the test changes its fields between blocking calls.
 */

#include "directory.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#define FAKE_UNIT "containerd.service"

struct fake_systemd {
	struct directory directory;
	pid_t daemon;
	pthread_t thread;
	int ready, stop; /* eventfds */
	char address[PATH_MAX + 32];
	const char *state, *kill_mode;
	const char *dependency; /* "RequiredBy": of it docker.service is one; NULL: of none */
	const char *docker_state;
	unsigned restarts;
	unsigned fails;     /* so many restarts lead to a unit that does not come back */
	unsigned slow;      /* so many looks after a restart see it activating */
	const char *silent; /* what is asked for and gets no reply: "KillMode"; NULL: nothing */
	uint32_t job;
	int socket;                                   /* it listens while the unit is active */
	void (*restarted)(struct fake_systemd *fake); /* in the thread; may be NULL */
	void *userdata;
	char socket_path[PATH_MAX];
};

static inline void fake_listen(struct fake_systemd *fake)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (fake->socket >= 0)
		close(fake->socket);
	unlink(fake->socket_path);
	fake->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	copy_text(address.sun_path, sizeof(address.sun_path), fake->socket_path);
	assert_int_equal(bind(fake->socket, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fake->socket, 100), 0);
}

static inline int fake_text(sd_bus *bus, const char *path, const char *interface,
	const char *property, sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	struct fake_systemd *fake = userdata;
	bool is_state = streq(property, "ActiveState");

	(void)bus;
	(void)path;
	(void)interface;
	if (fake->silent && streq(fake->silent, property))
		return sd_bus_error_set(error, SD_BUS_ERROR_NO_REPLY, "no reply");
	if (is_state && fake->job > 0 && fake->slow > 0) {
		fake->slow--;
		return sd_bus_message_append(reply, "s", "activating");
	}
	if (is_state && streq(fake->state, "active"))
		fake->job = 0;
	return sd_bus_message_append(reply, "s", is_state ? fake->state : fake->kill_mode);
}

static inline int fake_job(sd_bus *bus, const char *path, const char *interface,
	const char *property, sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	struct fake_systemd *fake = userdata;

	(void)bus;
	(void)path;
	(void)interface;
	(void)property;
	(void)error;
	return sd_bus_message_append(reply, "(uo)", fake->slow > 0 ? fake->job : 0, "/");
}

static inline int fake_dependency(sd_bus *bus, const char *path, const char *interface,
	const char *property, sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	struct fake_systemd *fake = userdata;

	(void)bus;
	(void)path;
	(void)interface;
	(void)error;
	if (fake->dependency && streq(fake->dependency, property))
		return sd_bus_message_append(reply, "as", 1, "docker.service");
	return sd_bus_message_append(reply, "as", 0);
}

static inline int fake_docker_state(sd_bus *bus, const char *path, const char *interface,
	const char *property, sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	(void)bus;
	(void)path;
	(void)interface;
	(void)property;
	(void)error;
	return sd_bus_message_append(reply, "s", ((struct fake_systemd *)userdata)->docker_state);
}

static inline int fake_no_job(sd_bus *bus, const char *path, const char *interface,
	const char *property, sd_bus_message *reply, void *userdata, sd_bus_error *error)
{
	(void)bus;
	(void)path;
	(void)interface;
	(void)property;
	(void)userdata;
	(void)error;
	return sd_bus_message_append(reply, "(uo)", 0, "/");
}

static inline int fake_restart(sd_bus_message *call, void *userdata, sd_bus_error *error)
{
	struct fake_systemd *fake = userdata;
	const char *unit, *mode;

	(void)error;
	assert_true(sd_bus_message_read(call, "ss", &unit, &mode) >= 0);
	assert_string_equal(unit, FAKE_UNIT);
	assert_string_equal(mode, "replace");
	fake->restarts++;
	if (fake->restarted)
		fake->restarted(fake);
	fake->job = 7;
	if (fake->fails > 0) {
		fake->fails--;
		fake->state = "failed";
		close(fake->socket); /* its name stays, and nobody listens */
		fake->socket = -1;
	} else {
		fake->state = "active";
		fake_listen(fake);
	}
	if (fake->silent && streq(fake->silent, "RestartUnit"))
		return sd_bus_reply_method_errorf(call, SD_BUS_ERROR_NO_REPLY, "no reply");
	return sd_bus_reply_method_return(call, "o", "/org/freedesktop/systemd1/job/7");
}

/* Nothing is done about a unit that does not run. */
static inline int fake_try_restart(sd_bus_message *call, void *userdata, sd_bus_error *error)
{
	const struct fake_systemd *fake = userdata;

	if (!streq(fake->state, "inactive") && !streq(fake->state, "failed"))
		return fake_restart(call, userdata, error);
	return sd_bus_reply_method_return(call, "o", "/org/freedesktop/systemd1/job/7");
}

static const sd_bus_vtable fake_manager[] = {SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD("RestartUnit", "ss", "o", fake_restart, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD("TryRestartUnit", "ss", "o", fake_try_restart, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_VTABLE_END};
static const sd_bus_vtable fake_unit[] = {SD_BUS_VTABLE_START(0),
	SD_BUS_PROPERTY("ActiveState", "s", fake_text, 0, 0),
	SD_BUS_PROPERTY("Job", "(uo)", fake_job, 0, 0),
	SD_BUS_PROPERTY("RequiredBy", "as", fake_dependency, 0, 0),
	SD_BUS_PROPERTY("RequisiteOf", "as", fake_dependency, 0, 0),
	SD_BUS_PROPERTY("BoundBy", "as", fake_dependency, 0, 0),
	SD_BUS_PROPERTY("ConsistsOf", "as", fake_dependency, 0, 0),
	SD_BUS_PROPERTY("PropagatesStopTo", "as", fake_dependency, 0, 0),
	SD_BUS_PROPERTY("WantedBy", "as", fake_dependency, 0, 0), SD_BUS_VTABLE_END};
static const sd_bus_vtable fake_docker[] = {SD_BUS_VTABLE_START(0),
	SD_BUS_PROPERTY("ActiveState", "s", fake_docker_state, 0, 0),
	SD_BUS_PROPERTY("Job", "(uo)", fake_no_job, 0, 0), SD_BUS_VTABLE_END};
static const sd_bus_vtable fake_service[] = {SD_BUS_VTABLE_START(0),
	SD_BUS_PROPERTY("KillMode", "s", fake_text, 0, 0), SD_BUS_VTABLE_END};

static inline void fake_start_daemon(struct fake_systemd *fake, const char *address)
{
	int fds[2];
	char option[32], line[512];

	assert_int_equal(pipe(fds), 0);
	snprintf(option, sizeof(option), "--print-address=%d", fds[1]);
	fake->daemon = fork();
	if (fake->daemon == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* It complains of a limit that it cannot raise. */
		if (!freopen("/dev/null", "we", stderr))
			_exit(127);
		execlp("dbus-daemon", "dbus-daemon", "--session", "--nofork", "--nosyslog", address,
			option, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	/* It listens once it has said where. */
	assert_true(read(fds[0], line, sizeof(line)) > 0);
	close(fds[0]);
}

static inline int fake_stop(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void)fd;
	(void)events;
	(void)userdata;
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static inline void *fake_serve(void *userdata)
{
	static const char unit[] = "/org/freedesktop/systemd1/unit/containerd_2eservice";
	struct fake_systemd *fake = userdata;
	sd_event *event = NULL;
	sd_bus *bus = NULL;
	uint64_t one = 1;

	assert_true(sd_event_new(&event) >= 0);
	assert_true(sd_event_add_io(event, NULL, fake->stop, EPOLLIN, fake_stop, NULL) >= 0);
	assert_true(sd_bus_new(&bus) >= 0);
	assert_true(sd_bus_set_address(bus, fake->address) >= 0);
	assert_true(sd_bus_set_bus_client(bus, true) >= 0);
	assert_true(sd_bus_start(bus) >= 0);
	assert_true(sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/systemd1",
			    "org.freedesktop.systemd1.Manager", fake_manager, fake) >= 0);
	assert_true(sd_bus_add_object_vtable(bus, NULL, unit, "org.freedesktop.systemd1.Unit",
			    fake_unit, fake) >= 0);
	assert_true(sd_bus_add_object_vtable(bus, NULL,
			    "/org/freedesktop/systemd1/unit/docker_2eservice",
			    "org.freedesktop.systemd1.Unit", fake_docker, fake) >= 0);
	assert_true(sd_bus_add_object_vtable(bus, NULL, unit, "org.freedesktop.systemd1.Service",
			    fake_service, fake) >= 0);
	assert_true(sd_bus_request_name(bus, "org.freedesktop.systemd1", 0) >= 0);
	assert_true(sd_bus_attach_event(bus, event, 0) >= 0);
	assert_int_equal(write(fake->ready, &one, sizeof(one)), sizeof(one));
	sd_event_loop(event);
	sd_bus_detach_event(bus);
	sd_bus_close(bus);
	sd_bus_unref(bus);
	sd_event_unref(event);
	return NULL;
}

/* Skips the test where there is no dbus-daemon. */
static inline void fake_systemd_make(struct fake_systemd *fake)
{
	char path[PATH_MAX], option[PATH_MAX + 48];
	uint64_t ready;

	*fake = (struct fake_systemd){
		.state = "active", .kill_mode = "process", .docker_state = "active", .socket = -1};
	if (system("command -v dbus-daemon >/dev/null") != 0) {
		print_message("no dbus-daemon\n");
		skip();
	}
	directory_make(&fake->directory);
	directory_path(&fake->directory, "/bus", path);
	directory_path(&fake->directory, "/containerd.sock", fake->socket_path);
	snprintf(fake->address, sizeof(fake->address), "unix:path=%s", path);
	snprintf(option, sizeof(option), "--address=%s", fake->address);
	fake_start_daemon(fake, option);
	assert_int_equal(setenv("DBUS_SYSTEM_BUS_ADDRESS", fake->address, 1), 0);
	fake_listen(fake);
	fake->ready = eventfd(0, EFD_CLOEXEC);
	fake->stop = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&fake->thread, NULL, fake_serve, fake), 0);
	assert_int_equal(read(fake->ready, &ready, sizeof(ready)), sizeof(ready));
}

static inline void fake_systemd_clear(struct fake_systemd *fake)
{
	uint64_t one = 1;

	assert_int_equal(write(fake->stop, &one, sizeof(one)), sizeof(one));
	pthread_join(fake->thread, NULL);
	close(fake->ready);
	close(fake->stop);
	kill(fake->daemon, SIGKILL);
	waitpid(fake->daemon, NULL, 0);
	if (fake->socket >= 0)
		close(fake->socket);
	unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
	directory_remove(&fake->directory);
}

#define SYSTEMD_TEST(name) TEST_OF(fake_systemd, fake, fake_systemd_make, fake_systemd_clear, name)

#endif
