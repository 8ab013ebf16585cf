# SPDX-License-Identifier: Apache-2.0
"""http.web_config: TLS, client certificates and users of the TCP endpoint."""

import base64
import http.client
import os
import re
import select
import socket
import ssl
import subprocess
import threading
import time
import uuid
from pathlib import Path

import pytest
from conftest import free_port, until
from hellos import Hellos, rsa_web_config
from prometheus import Prometheus

# bcrypt of "secret" at the lowest costs: $2y$ is what htpasswd writes.
HASH = "$2b$05$ipvXnU2AbIgta2ytS9SrDOAcbwTR8krc4dAXAtqSnHzRbAhoZytBq"
USERS = f"basic_auth_users: {{prometheus: '{HASH.replace('$2b$', '$2y$')}'}}\n"
TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
MUTUAL = TLS.replace("}", ", client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert}")


def openssl(directory, *args):
    subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)


def certificate(directory, name, purpose, issuer="ca"):
    extensions = f"subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage={purpose}\nauthorityKeyIdentifier=keyid\n"
    (directory / f"{name}.ext").write_text(extensions)
    openssl(directory, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-days", "2",
            "-CAcreateserial", "-extfile", f"{name}.ext", "-out", f"{name}.pem")  # fmt: skip


def authority(directory, name="ca"):
    openssl(directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",  # for Python 3.13
            "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip


@pytest.fixture(name="web")
def fixture_web(directory):
    """A directory with an authority and a server certificate, and a function that writes web.yml in it."""
    path = directory / "web"
    path.mkdir()
    authority(path)
    certificate(path, "server", "serverAuth")

    def write(text):
        (path / "new").write_text(text)
        (path / "new").rename(path / "web.yml")
        return path

    return write


def started(agent, path, mode="mode: observe"):
    port = free_port()
    one = agent(f'http: {{listen: "127.0.0.1:{port}", web_config: {path}/web.yml}}\n{mode}\n')
    one.port = port
    return one


def context(path, client=None):
    made = ssl.create_default_context(cafile=path / "ca.pem")
    if client:
        made.load_cert_chain(path / f"{client}.pem", path / f"{client}.key")
    return made


def get(one, document="/metrics", tls=None, user=None):
    """The status and body of a GET."""
    connection = (
        http.client.HTTPSConnection("127.0.0.1", one.port, timeout=10, context=tls)
        if tls
        else http.client.HTTPConnection("127.0.0.1", one.port, timeout=10)
    )
    headers = {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}
    try:
        connection.request("GET", document, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_tls_serves_metrics_and_refuses_plain_http(agent, web):
    path = web(TLS)
    one = started(agent, path)
    status, body = get(one, tls=context(path))
    assert status == 200 and "headroom_build_info" in body
    with pytest.raises((http.client.HTTPException, OSError)):
        get(one)
    old = context(path)
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        get(one, tls=old)
    assert one.status()["schema"] == 1  # over the unix socket


@pytest.mark.parametrize("text", [USERS, TLS + USERS])
def test_only_the_right_password_gets_a_document(agent, web, text):
    path = web(text)
    one = started(agent, path)
    tls = context(path) if "tls" in text else None
    for user in (None, "prometheus:wrong", "other:secret", "prometheus:", ":secret", "prometheus"):
        assert get(one, tls=tls, user=user)[0] == 401, user
    assert get(one, "/livez", tls=tls)[0] == 401
    for _ in range(3):
        assert get(one, tls=tls, user="prometheus:secret")[0] == 200


def test_guesses_do_not_stop_the_loop_or_those_who_know_the_password(agent, web):
    slow = HASH.replace("$05$", "$12$")  # nobody knows its password; a check takes a third of a second
    one = started(agent, web(f"basic_auth_users: {{prometheus: '{HASH}', slow: '{slow}'}}\n"))
    assert get(one, user="prometheus:secret")[0] == 200
    guesses = [http.client.HTTPConnection("127.0.0.1", one.port, timeout=30) for _ in range(20)]
    for n, guess in enumerate(guesses):
        credentials = base64.b64encode(f"slow:{n}".encode()).decode()
        guess.request("GET", "/metrics", headers={"Authorization": f"Basic {credentials}"})
    assert get(one, user="prometheus:secret")[0] == 200
    answered, _, _ = select.select([guess.sock for guess in guesses], [], [], 0)
    assert len(answered) < 20, "all guesses were checked before a known password was accepted"
    assert one.status()["schema"] == 1
    for guess in guesses:
        guess.close()


SLOW = HASH.replace("$05$", "$08$")  # nobody knows its password; a check takes 15 ms


def ask(one, credentials, source="127.0.0.1"):
    """A connection that has sent a request, and waits for the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60, source_address=(source, 0))
    headers = {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}
    connection.request("GET", "/v1/status", headers=headers)
    return connection


def guess_on(one, source, count, stop):
    while not stop.is_set():
        try:
            guess = ask(one, f"slow:{uuid.uuid4()}", source)
            assert guess.getresponse().status == 401
            count.append(1)
            guess.close()
        except (OSError, http.client.HTTPException):
            return  # the agent has ended


@pytest.mark.parametrize("source,most", [("127.0.0.1", 80), ("127.0.0.2", 5)])
def test_a_right_password_is_checked_beside_sixty_guessers(agent, web, source, most):
    """A guesser guesses again at once. Those of another address are behind the login."""
    one = started(agent, web(f"basic_auth_users: {{prometheus: '{HASH}', slow: '{SLOW}'}}\n"))
    count: list[int] = []
    stop = threading.Event()
    guessers = [threading.Thread(target=guess_on, args=(one, source, count, stop)) for _ in range(60)]
    for thread in guessers:
        thread.start()
    try:
        until(lambda: len(count) > 3, "guesses are answered")
        time.sleep(0.5)
        before = len(count)
        assert ask(one, "prometheus:secret").getresponse().status == 200
        assert len(count) - before <= most
    finally:
        stop.set()
        one.stop()
        for thread in guessers:
            thread.join()


def of_task(one, task):
    """The seconds on a CPU of a thread, or of the process with the threads that have ended."""
    text = Path(f"/proc/{one.pid}{task}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")


def policies(one):
    """The scheduling policies of the threads but the loop's."""
    found = []
    for task in os.listdir(f"/proc/{one.pid}/task"):
        if int(task) != one.pid:
            try:
                found.append(os.sched_getscheduler(int(task)))
            except ProcessLookupError:
                pass
    return found


def test_handshakes_run_on_an_idle_thread_that_ends_with_them(agent, directory):
    port, web_config = rsa_web_config(directory, 4096)
    one = agent(f"{web_config}mode: observe\n")
    until(lambda: not policies(one), "the agent has begun")
    loop, process = of_task(one, f"/task/{one.pid}"), of_task(one, "")
    with Hellos(port) as hellos:
        assert policies(one) == [os.SCHED_IDLE]
        until(lambda: hellos.count.value >= 60, "60 handshakes")
        assert one.get("/livez")[0] == 200
    loop, process = of_task(one, f"/task/{one.pid}") - loop, of_task(one, "") - process
    assert process > 0.2 and loop < 0.2 * process, f"the loop: {loop} of {process} s"
    until(lambda: not policies(one), "the thread ends")


def test_passwords_are_checked_on_an_idle_thread(agent, web):
    one = started(agent, web(f"basic_auth_users: {{slow: '{HASH.replace('$05$', '$13$')}'}}\n"))
    until(lambda: not policies(one), "the agent has begun")
    guess = ask(one, "slow:guess")
    until(lambda: policies(one) == [os.SCHED_IDLE], "the check runs")
    assert guess.getresponse().status == 401


def test_a_client_gets_a_handshake_beside_a_flood_of_another_address(agent, directory):
    port, web_config = rsa_web_config(directory, 4096)
    one = agent(f"{web_config}mode: observe\n")
    one.port = port
    tls = ssl.create_default_context(cafile=directory / "rsa.pem")
    tls.check_hostname = False
    with Hellos(port, clients=200, source="127.0.0.2") as hellos:
        for _ in range(10):
            before = hellos.count.value
            assert get(one, "/livez", tls=tls)[0] == 200
            assert hellos.count.value - before < 60


def handshake(port, *args):
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *args]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    return done.returncode == 0 and re.search(r"Cipher is (?!\(NONE)\S+", done.stdout)


def test_weak_suites_are_refused(agent, directory):
    port, web_config = rsa_web_config(directory, 2048)
    agent(f"{web_config}mode: observe\n")
    for suite in ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"):
        assert handshake(port, "-tls1_2", "-cipher", suite), suite
    weak = ("kRSA@SECLEVEL=0", "DHE@SECLEVEL=0", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA", "ECDHE-RSA-AES128-SHA256",
            "ECDHE-RSA-AES256-SHA384")  # fmt: skip
    for suite in weak:
        assert not handshake(port, "-tls1_2", "-cipher", suite), suite
    for suite in ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"):
        assert handshake(port, "-tls1_3", "-ciphersuites", suite), suite


@pytest.mark.parametrize("bits", [2048, 3072])
def test_an_rsa_key_above_2048_bits_is_warned_about(agent, run, directory, bits):
    _, web_config = rsa_web_config(directory, bits)
    one = agent(f"{web_config}mode: observe\n")
    checked = run("check-config", str(one.config_path))
    doctor = run("doctor", "--json", "--config", str(one.config_path))
    assert checked.returncode == 0
    for text in (checked.stdout, one.log, doctor.stdout):
        assert ("an RSA key of 3072 bits" in text) == (bits > 2048), text
    assert one.condition("ConfigInvalid")["status"] == "False"


def test_a_request_larger_than_a_record_and_a_long_reply_pass_tls(agent, web):
    path = web(TLS)
    one = started(agent, path)
    connection = http.client.HTTPSConnection("127.0.0.1", one.port, timeout=10, context=context(path))
    for _ in range(3):
        connection.request("GET", "/", headers={"X-Long": "a" * 8000})
        page = connection.getresponse()
        assert page.status == 200 and page.read().endswith(b"</html>\n")
    connection.request("GET", "/livez", headers={"X-Long": "a" * 40000})
    assert connection.getresponse().status == 431


def test_open_connections_keep_no_other_client_of_their_address_out(agent, web):
    path = web(TLS)
    one = started(agent, path)
    crowd = []
    for _ in range(70):
        crowd.append(context(path).wrap_socket(socket.create_connection(("127.0.0.1", one.port)), server_hostname="localhost"))
    for _ in range(3):
        assert get(one, "/livez", tls=context(path))[0] == 200
    for client in crowd:
        client.close()


def reconnect(one, source, count, stop):
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60, source_address=(source, 0))
        try:
            connection.request("GET", "/metrics")
            connection.getresponse().read()
            count.append(1)
        except OSError:
            pass
        connection.close()


def test_a_new_connection_is_no_new_budget_and_another_address_goes_first(agent):
    one = agent("mode: observe")
    count: list[int] = []
    stop = threading.Event()
    crowd = [threading.Thread(target=reconnect, args=(one, "127.0.0.2", count, stop)) for _ in range(60)]
    began = time.monotonic()
    for thread in crowd:
        thread.start()
    try:
        until(lambda: len(count) > 150, "the burst is used up")
        before = len(count)
        for _ in range(10):
            assert get(one)[0] == 200
        assert len(count) - before < 10 * 30, "the requests of the flood go first"
        time.sleep(1)
        assert len(count) < 150 + 100 * (time.monotonic() - began)
    finally:
        stop.set()
        for thread in crowd:
            thread.join()


def test_a_client_certificate_must_be_for_clients_and_of_the_authority(agent, web):
    path = web(MUTUAL)
    certificate(path, "client", "clientAuth")
    authority(path, "strange")
    certificate(path, "stranger", "clientAuth", issuer="strange")
    one = started(agent, path)
    assert get(one, tls=context(path, "client"))[0] == 200
    for client in (None, "stranger", "server"):
        assert get(one, tls=context(path, client))[0] == 403, client


def test_a_renewed_certificate_is_served_without_a_restart(agent, web):
    path = web(TLS)
    one = started(agent, path)
    first = ssl.get_server_certificate(("127.0.0.1", one.port))
    certificate(path, "server", "serverAuth")

    def renewed():
        try:
            return ssl.get_server_certificate(("127.0.0.1", one.port)) != first
        except OSError:
            return False

    until(renewed, "the new certificate")
    assert get(one, tls=context(path))[0] == 200


FAULTS = [
    ("", "neither tls_server_config nor basic_auth_users"),
    ("tls_server_config: {cert_file: server.pem}\n", "key_file is missing"),
    ("tls_server_config: {cert_file: none.pem, key_file: server.key}\n", "No such file or directory"),
    ("tls_server_config: {cert_file: server.pem, key_file: ca.key}\n", "cert_file and key_file"),
    (TLS.replace("}", ", cipher_suites: [X]}"), "cipher_suites is not supported: remove it"),
    (TLS.replace("}", ", min_version: TLS10}"), "TLS10 is not supported: write TLS12 or TLS13"),
    (TLS.replace("}", ", client_auth_type: RequireAndVerifyClientCert}"), "needs a client_ca_file"),
    ("basic_auth_users: {prometheus: secret}\n", "not a bcrypt hash"),
    ("http_server_config: {http2: false}\n", "http_server_config is not supported"),
]


@pytest.mark.slow
def test_a_fault_keeps_the_working_file_in_use(agent, web, run):
    path = web(TLS + USERS)
    one = started(agent, path)
    for text, fault in FAULTS:
        web(text)
        message = until(
            lambda: (c := one.condition("ConfigInvalid"))["status"] == "True" and fault in c["message"] and c["message"], fault
        )
        assert "web.yml:" in message and "secret" not in message
        assert get(one, tls=context(path), user="prometheus:secret")[0] == 200
        assert get(one, tls=context(path))[0] == 401
        checked = run("check-config", str(one.config_path))
        assert checked.returncode == 1 and fault in checked.stderr
    web(TLS + USERS)
    until(lambda: one.condition("ConfigInvalid")["status"] == "False", "the repaired file")


def test_the_port_stays_closed_if_the_file_is_faulty_at_a_later_start(agent, web):
    path = web(USERS)
    off = "".join(f"{tuner}: {{mode: off}}\n" for tuner in ("neighbor", "thp", "dns", "runtime", "images", "kubelet", "limits"))
    one = started(agent, path, f"profile: minimal\n{off}")  # one that only observes keeps no configuration
    until(lambda: (one.directory / "state/config.json").exists(), "the last good configuration")
    assert one.stop() == 0
    web("basic_auth_users: {}\n")
    again = agent(one.config_path.read_text())
    assert again.condition("ConfigInvalid")["status"] == "True"
    with pytest.raises(OSError):
        get(one)


def test_prometheus_scrapes_with_tls_client_certificate_and_password(agent, web, directory):
    path = web(MUTUAL + USERS)
    certificate(path, "client", "clientAuth")
    one = started(agent, path)
    scrape = {
        "scheme": "https",
        "basic_auth": {"username": "prometheus", "password": "secret"},
        "tls_config": {name: str(path / file) for name, file in
                       (("ca_file", "ca.pem"), ("cert_file", "client.pem"), ("key_file", "client.key"))},
    }  # fmt: skip
    prometheus = Prometheus(directory, one.port, 1, scrape_options=scrape)
    try:
        until(lambda: prometheus.has('up{job="headroom"} == 1'), "a scrape")
        assert prometheus.has("headroom_build_info")
    finally:
        prometheus.close()
