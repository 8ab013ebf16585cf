/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/trust.h"

#include <errno.h>

#define BUNDLE "/etc/pki/tls/certs/ca-bundle.crt"

/* So many made-up certificates, with the comments that bundles have. */
static void put_bundle(const struct directory *directory, unsigned int n)
{
	_cleanup_free_ char *text = calloc(1, 64 + n * 128);
	size_t used = (size_t)sprintf(text, "# what this node trusts\n\n");

	for (unsigned int i = 0; i < n; i++)
		used += (size_t)sprintf(text + used,
			"# number %u\n-----BEGIN CERTIFICATE-----\nAA%uA\n-----END CERTIFICATE-----\n",
			i, i);
	directory_put(directory, BUNDLE, text);
}

static unsigned int count(const char *text, const char *word)
{
	unsigned int n = 0;

	for (const char *p = text; (p = strstr(p, word)); p++)
		n++;
	return n;
}

/* Each certificate is in one part, whole, and no part is large. */
static void splits_a_bundle(void **state)
{
	static const struct {
		unsigned int n;
		size_t parts;
	} cases[] = {{1, 1}, {12, 1}, {13, 2}, {144, 12}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_directory_ struct directory directory;
		_cleanup_(cleanup_trust_close) struct trust *trust = NULL;
		unsigned int seen = 0;

		directory_make(&directory);
		put_bundle(&directory, cases[i].n);
		assert_int_equal(trust_open(directory.path, &trust), 0);
		assert_int_equal(trust_parts(trust), cases[i].parts);
		for (size_t part = 0; part < trust_parts(trust); part++) {
			_cleanup_free_ char *text = NULL;
			char path[TRUST_PATH_MAX];

			trust_path(trust, part, path);
			assert_int_equal(read_file(path, 65536, &text, NULL), 0);
			assert_true(starts_with(text, "-----BEGIN CERTIFICATE-----\n"));
			assert_int_equal(count(text, "-----BEGIN"), count(text, "-----END"));
			assert_true(count(text, "-----BEGIN") <= 12);
			seen += count(text, "-----BEGIN");
		}
		assert_int_equal(seen, cases[i].n);
	}
}

static void says_why_there_is_none(void **state)
{
	_cleanup_directory_ struct directory directory;
	struct trust *trust = NULL;

	(void)state;
	directory_make(&directory);
	assert_int_equal(trust_open(directory.path, &trust), -ENOENT);
	directory_put(&directory, BUNDLE, "nothing yet\n");
	assert_int_equal(trust_open(directory.path, &trust), -EINVAL);
	assert_null(trust);
	trust_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splits_a_bundle),
		cmocka_unit_test(says_why_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
