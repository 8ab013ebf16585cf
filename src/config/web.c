/* SPDX-License-Identifier: Apache-2.0 */
#include "config/web.h"

#include "base/file.h"
#include "config/internal.h"

#include <gnutls/x509.h>
#include <libgen.h>
#include <zlib.h>

#define PEM_MAX (256 * 1024) /* bytes; a bundle of many authorities */

/* A check of a password takes 60 ms at cost 10, and twice as long with each step. */
#define BCRYPT_COST_MAX 14

/* A handshake with a longer key costs the node more than five milliseconds. */
#define RSA_BITS_MAX 2048

/*
 * RSA without forward secrecy, finite fields in which a client can ask for 8192 bits, and CBC are
 * left out.
 */
#define PRIORITIES \
	"NORMAL:-RSA:-DHE-RSA:-GROUP-DH-ALL:-AES-256-CBC:-AES-128-CBC:-3DES-CBC:-VERS-ALL"

static const char *const client_auths[] = {"NoClientCert", "RequestClientCert",
	"RequireAnyClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert", NULL};
static const char *const versions[] = {"TLS12", "TLS13", NULL};

/* The keys of tls_server_config. */
enum tls_key {
	CERT_FILE,
	KEY_FILE,
	CLIENT_CA_FILE,
	CLIENT_AUTH_TYPE,
	MIN_VERSION,
	MAX_VERSION,
	TLS_KEYS,
};

static const struct {
	const char *name;
	const char *const *choices; /* NULL: a path */
} tls_keys[TLS_KEYS] = {
	[CERT_FILE] = {"cert_file", NULL},
	[KEY_FILE] = {"key_file", NULL},
	[CLIENT_CA_FILE] = {"client_ca_file", NULL},
	[CLIENT_AUTH_TYPE] = {"client_auth_type", client_auths},
	[MIN_VERSION] = {"min_version", versions},
	[MAX_VERSION] = {"max_version", versions},
};

struct web_reading {
	struct config_fault_list *faults;
	struct web_config *web;
	struct config_position top; /* the file as a whole */
	const struct tree *tls[TLS_KEYS];
};

static const char *tls_text(const struct web_reading *reading, enum tls_key key)
{
	return reading->tls[key] ? reading->tls[key]->text : "";
}

static void read_tls_keys(struct web_reading *reading, const struct tree *map)
{
	for (const struct tree *tree = map->first; tree; tree = tree->next) {
		size_t i = 0;

		while (i < TLS_KEYS && !streq(tree->key->text, tls_keys[i].name))
			i++;
		if (i == TLS_KEYS)
			config_fault_add(reading->faults, &tree->key->position,
				"tls_server_config.%.64s is not supported: remove it",
				tree->key->text);
		else if (tree->kind != TREE_TEXT || tree->text[0] == '\0')
			config_fault_add(reading->faults, &tree->position,
				"tls_server_config.%s must be one text", tls_keys[i].name);
		else if (tls_keys[i].choices && word_index(tls_keys[i].choices, tree->text) < 0)
			config_fault_add(reading->faults, &tree->position,
				"tls_server_config.%s: %.64s is not supported: %s",
				tls_keys[i].name, tree->text,
				tls_keys[i].choices == versions
					? "write TLS12 or TLS13"
					: "write RequireAndVerifyClientCert, or another "
					  "type of exporter-toolkit");
		else
			reading->tls[i] = tree;
	}
}

/* Reads the file that a key names, relative to the directory of the web configuration. */
static char *read_pem(struct web_reading *reading, enum tls_key key, char path[static PATH_MAX])
{
	_cleanup_free_ char *copy = must(strdup(reading->top.file));
	const char *name = tls_text(reading, key);
	char *text = NULL;
	int r;

	if (!name[0])
		return NULL;
	if (name[0] == '/')
		copy_text(path, PATH_MAX, name);
	else
		snprintf(path, PATH_MAX, "%s/%s", dirname(copy), name);
	r = read_file(path, PEM_MAX, &text, NULL);
	if (r < 0)
		config_fault_add(reading->faults, &reading->tls[key]->position,
			"tls_server_config.%s: %.128s: %s", tls_keys[key].name, path, strerror(-r));
	return text;
}

/* An attacker's handshake costs the node four times as much with each doubling of an RSA key. */
static void check_key(struct web_reading *reading)
{
	gnutls_x509_privkey_t key;
	unsigned bits = 0;
	int algorithm;

	if (gnutls_certificate_get_x509_key(reading->web->credentials, 0, &key) < 0)
		return;
	algorithm = gnutls_x509_privkey_get_pk_algorithm2(key, &bits);
	gnutls_x509_privkey_deinit(key);
	if ((algorithm == GNUTLS_PK_RSA || algorithm == GNUTLS_PK_RSA_PSS) && bits > RSA_BITS_MAX)
		config_fault_add(&reading->web->warnings, &reading->tls[KEY_FILE]->position,
			"tls_server_config.key_file: an RSA key of %u bits makes handshakes slow: "
			"use a key for ECDSA, or RSA with 2048 bits",
			bits);
}

static void load_credentials(struct web_reading *reading)
{
	struct web_config *web = reading->web;
	gnutls_certificate_credentials_t credentials;
	int r;

	if (gnutls_certificate_allocate_credentials(&credentials) < 0)
		out_of_memory();
	web->credentials = credentials;
	if (web->cert && web->key) {
		gnutls_datum_t cert = {(unsigned char *)web->cert, (unsigned)strlen(web->cert)};
		gnutls_datum_t key = {(unsigned char *)web->key, (unsigned)strlen(web->key)};

		r = gnutls_certificate_set_x509_key_mem(
			credentials, &cert, &key, GNUTLS_X509_FMT_PEM);
		if (r < 0)
			config_fault_add(reading->faults, &reading->tls[CERT_FILE]->position,
				"tls_server_config.cert_file and key_file: %s", gnutls_strerror(r));
	}
	if (web->client_ca) {
		gnutls_datum_t ca = {
			(unsigned char *)web->client_ca, (unsigned)strlen(web->client_ca)};

		r = gnutls_certificate_set_x509_trust_mem(credentials, &ca, GNUTLS_X509_FMT_PEM);
		if (r <= 0)
			config_fault_add(reading->faults, &reading->tls[CLIENT_CA_FILE]->position,
				"tls_server_config.client_ca_file: %s",
				r < 0 ? gnutls_strerror(r) : "it has no certificate");
	}
	check_key(reading);
}

static void read_tls(struct web_reading *reading, const struct tree *map)
{
	struct web_config *web = reading->web;
	int min, max;

	if (map->kind != TREE_MAP) {
		config_fault_add(reading->faults, &map->position,
			"tls_server_config must be a map: write cert_file and key_file below it");
		return;
	}
	read_tls_keys(reading, map);
	for (enum tls_key key = CERT_FILE; key <= KEY_FILE; key++)
		if (!reading->tls[key] && reading->faults->n == 0)
			config_fault_add(reading->faults, &map->position,
				"tls_server_config.%s is missing", tls_keys[key].name);
	web->cert = read_pem(reading, CERT_FILE, web->files[1]);
	web->key = read_pem(reading, KEY_FILE, web->files[2]);
	web->client_ca = read_pem(reading, CLIENT_CA_FILE, web->files[3]);
	min = MAX(word_index(versions, tls_text(reading, MIN_VERSION)), 0);
	max = reading->tls[MAX_VERSION] ? word_index(versions, tls_text(reading, MAX_VERSION)) : 1;
	web->client_auth = (enum web_client_auth)MAX(
		word_index(client_auths, tls_text(reading, CLIENT_AUTH_TYPE)), 0);
	if (max < min)
		config_fault_add(reading->faults, &reading->tls[MAX_VERSION]->position,
			"tls_server_config.max_version is below min_version");
	if (web->client_auth > WEB_NO_CLIENT_CERT && !reading->tls[CLIENT_CA_FILE])
		config_fault_add(reading->faults, &reading->tls[CLIENT_AUTH_TYPE]->position,
			"tls_server_config.client_auth_type needs a client_ca_file");
	if (web->client_auth == WEB_NO_CLIENT_CERT && reading->tls[CLIENT_CA_FILE])
		config_fault_add(reading->faults, &reading->tls[CLIENT_CA_FILE]->position,
			"tls_server_config.client_ca_file has no effect without client_auth_type: "
			"write RequireAndVerifyClientCert");
	snprintf(web->priorities, sizeof(web->priorities), PRIORITIES "%s%s",
		max == 1 ? ":+VERS-TLS1.3" : "", min == 0 ? ":+VERS-TLS1.2" : "");
	if (reading->faults->n == 0)
		load_credentials(reading);
}

static const char *hash_fault(const char *hash)
{
	unsigned cost = 0;
	char version;
	int n = 0;

	if (strlen(hash) != WEB_BCRYPT_LEN ||
		sscanf(hash, "$2%c$%2u$%n", &version, &cost, &n) != 2 || n != 7 ||
		!strchr("aby", version))
		return "the value is not a bcrypt hash: make one with htpasswd -nBC 10 \"\"";
	return cost > BCRYPT_COST_MAX ? "the cost of the hash is above 14: choose 10" : NULL;
}

static void read_users(struct web_reading *reading, const struct tree *map)
{
	struct web_config *web = reading->web;

	if (map->kind != TREE_MAP)
		config_fault_add(reading->faults, &map->position,
			"basic_auth_users must be a map: write \"USER: BCRYPT-HASH\" lines");
	for (const struct tree *tree = map->kind == TREE_MAP ? map->first : NULL; tree;
		tree = tree->next) {
		const char *text = tree_text(tree), *fault = hash_fault(text ? text : "");
		struct web_user *user = &web->users[web->n_users];

		if (fault) /* without the name and the text, which may be a password */
			config_fault_add(
				reading->faults, &tree->position, "basic_auth_users: %s", fault);
		else if (web->n_users == WEB_USERS_MAX || !set_text(user->name, tree->key->text))
			config_fault_add(reading->faults, &tree->position,
				"basic_auth_users: at most %d users, with names of at most %d "
				"bytes",
				WEB_USERS_MAX, WEB_USER_MAX - 1);
		else
			copy_text(web->users[web->n_users++].hash, sizeof(user->hash), text);
	}
}

static void read_sections(struct web_reading *reading, const struct tree *root)
{
	for (const struct tree *tree = root && root->kind == TREE_MAP ? root->first : NULL; tree;
		tree = tree->next)
		if (streq(tree->key->text, "tls_server_config"))
			read_tls(reading, tree);
		else if (streq(tree->key->text, "basic_auth_users"))
			read_users(reading, tree);
		else
			config_fault_add(reading->faults, &tree->key->position,
				"%.64s is not supported: remove it", tree->key->text);
	/* A file that is empty for a moment must not open the endpoint. */
	if (reading->faults->n == 0 && !reading->web->cert && reading->web->n_users == 0)
		config_fault_add(reading->faults, &reading->top,
			"neither tls_server_config nor basic_auth_users: write one, or remove "
			"http.web_config");
}

static uint32_t web_checksum(const struct web_config *web)
{
	const char *const texts[] = {web->cert, web->key, web->client_ca, web->priorities};
	uLong sum = crc32(0, (const Bytef *)&web->client_auth, sizeof(web->client_auth));

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i])
			sum = crc32(sum, (const Bytef *)texts[i], (uInt)strlen(texts[i]) + 1);
	for (size_t i = 0; i < web->n_users; i++) {
		sum = crc32(sum, (const Bytef *)web->users[i].name, WEB_USER_MAX);
		sum = crc32(sum, (const Bytef *)web->users[i].hash, WEB_BCRYPT_LEN);
	}
	return (uint32_t)sum;
}

int web_config_load(const char *path, const struct config_position *option,
	struct config_fault_list *faults, struct web_config **ret)
{
	_cleanup_(cleanup_web_config_unref) struct web_config *web =
		web_config_ref(must(calloc(1, sizeof(*web))));
	_cleanup_(config_faults_clear) struct config_fault_list own = {0};
	struct config *scratch = must(calloc(1, sizeof(*scratch)));
	_cleanup_free_ char *text = NULL;
	struct web_reading reading = {
		.faults = &own, .web = web, .top = {.file = path, .line = 1, .column = 1}};
	size_t len = 0;
	int r = read_file(path, CONFIG_FILE_MAX, &text, &len);

	set_text(web->files[0], path);
	scratch->faults = &own;
	if (r < 0)
		config_fault_add(&own, option,
			"http.web_config: %.200s cannot be read: %s: check the path", path,
			strerror(-r));
	else
		config_check_writers(scratch, path, 0);
	if (r == 0) {
		const struct tree *root = len > 0 ? document_load(scratch, path, text, len) : NULL;

		if (own.n == 0)
			read_sections(&reading, root);
	}
	config_free(scratch);
	for (size_t i = 0; i < own.n; i++)
		*(struct config_fault *)add_element(
			&faults->faults, &faults->n, &faults->allocated) = own.faults[i];
	if (own.n > 0)
		return -EINVAL;
	web->checksum = web_checksum(web);
	*ret = steal(web);
	return 0;
}

uint64_t web_config_signature(const struct web_config *web)
{
	uLong sum = 0;

	for (size_t i = 0; web && i < ARRAY_SIZE(web->files); i++)
		if (web->files[i][0])
			config_mix_file(web->files[i], true, &sum);
	return sum;
}

struct web_config *web_config_ref(struct web_config *web)
{
	web->references++;
	return web;
}

void web_config_unref(struct web_config *web)
{
	if (!web || --web->references > 0)
		return;
	if (web->key)
		explicit_bzero(web->key, strlen(web->key));
	if (web->credentials)
		gnutls_certificate_free_credentials(web->credentials);
	config_faults_clear(&web->warnings);
	free(web->cert);
	free(web->key);
	free(web->client_ca);
	free(web);
}
