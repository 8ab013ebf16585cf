/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/limits/limits.h"
#include "tuners/table.h"

struct lab {
	struct directory directory;
	void *self, *memory;
};

static void lab_make(struct lab *lab)
{
	directory_make(&lab->directory);
	lab->self = limits_tuner.open(&lab->directory.host, &lab->directory.facts, NULL);
	lab->memory = must(calloc(1, limits_tuner.memory_size));
}

static void lab_remove(struct lab *lab)
{
	limits_tuner.close(lab->self, lab->memory);
	free(lab->memory);
	directory_remove(&lab->directory);
}

#define LAB_TEST(name) TEST_OF(lab, lab, lab_make, lab_remove, name)

static bool has_pass(struct lab *lab)
{
	const struct task_ops *job = &limits_tuner.tasks[TASK_SAMPLE];
	void *request;

	limits_tuner.sense(lab->self, now_us());
	request = job->request(lab->self, lab->memory, false);
	if (request)
		job->adopt(NULL, request);
	return request != NULL;
}

static void put_overflows(struct lab *lab, unsigned n)
{
	char text[64];

	snprintf(text, sizeof(text), "TcpExt: ListenOverflows\nTcpExt: %u\n", n);
	directory_put(&lab->directory, "/proc/net/netstat", text);
}

/* The cost of a pass over all files of a large node delays the next one by minutes. */
LAB_TEST(a_listener_that_refuses_brings_the_next_pass_over_files_forward)
{
	struct limits *limits = lab->self;
	struct limits_pass *pass = &limits->passes[OF_FILES];

	limits->census.passes[OF_FILES] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	limits->next_sample_us = pass->next_us = now_us() + 600 * USEC_PER_SEC;
	pass->at_us = now_us() - 20 * USEC_PER_SEC;
	put_overflows(lab, 7);
	assert_false(has_pass(lab));
	limits->counted = true;
	assert_false(has_pass(lab));
	put_overflows(lab, 8);
	assert_true(has_pass(lab));
	pass->next_us = now_us() + 600 * USEC_PER_SEC;
	assert_false(has_pass(lab));
}
