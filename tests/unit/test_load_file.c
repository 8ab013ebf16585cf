/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/load_file.h"

#define REDIRECT "/etc/containerd/certs.d/headroom.invalid/hosts.toml"
#define OTHER    "/etc/containerd/certs.d/other.invalid/hosts.toml"

static void with_state(struct directory *node)
{
	directory_make(node);
	node->host.state = must(strdup(directory_at(node, "/state").text));
}

static void without_state(struct directory *node)
{
	free((char *)node->host.state);
	directory_remove(node);
}

#define LOAD_TEST(name) TEST_OF(directory, node, with_state, without_state, name)

static bool has(const struct directory *node, const char *name)
{
	return access(directory_at(node, name).text, F_OK) == 0;
}

LOAD_TEST(the_file_of_a_load_goes_with_the_directories_that_were_made_for_it)
{
	directory_put(node, "/etc/containerd/config.toml", "theirs");
	assert_int_equal(load_file_put(&node->host, REDIRECT, "ours"), 0);
	assert_file(node, REDIRECT, "ours");
	assert_int_equal(load_file_put(&node->host, NULL, NULL), 0);
	assert_false(has(node, "/etc/containerd/certs.d"));
	assert_file(node, "/etc/containerd/config.toml", "theirs");
	/* The record is gone, too: a later file of this name is not ours. */
	directory_put(node, REDIRECT, "ours");
	assert_int_equal(load_file_put(&node->host, NULL, NULL), 0);
	assert_file(node, REDIRECT, "ours");
}

LOAD_TEST(the_file_that_a_killed_load_left_goes_before_the_next_one)
{
	assert_int_equal(load_file_put(&node->host, REDIRECT, "ours"), 0);
	assert_int_equal(load_file_put(&node->host, OTHER, "next"), 0);
	assert_false(has(node, REDIRECT));
	assert_file(node, OTHER, "next");
}

LOAD_TEST(a_file_of_others_stays)
{
	directory_put(node, REDIRECT, "theirs");
	assert_int_equal(load_file_put(&node->host, REDIRECT, "ours"), -EEXIST);
	assert_file(node, REDIRECT, "theirs");
	directory_delete(node, REDIRECT);
	assert_int_equal(load_file_put(&node->host, REDIRECT, "ours"), 0);
	directory_put(node, REDIRECT, "theirs");
	assert_int_equal(load_file_put(&node->host, NULL, NULL), 0);
	assert_file(node, REDIRECT, "theirs");
}

LOAD_TEST(without_a_load_nothing_is_made_and_nothing_fails)
{
	assert_int_equal(load_file_put(&node->host, NULL, NULL), 0);
	assert_false(has(node, "/state"));
	directory_put(node, "/state", "a file");
	assert_true(load_file_put(&node->host, NULL, NULL) < 0);
	assert_true(load_file_put(&node->host, REDIRECT, "ours") < 0);
	assert_false(has(node, REDIRECT));
}
