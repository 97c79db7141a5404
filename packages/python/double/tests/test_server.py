"""The server as a process: found, started, stopped, and ended with the process that has started it."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import time

import keylatch
import pytest
import redis

STARTS_AND_DIES = """
import os, keylatch
server = keylatch.Server()
print(server.pid, flush=True)
os.kill(os.getpid(), 9)
"""
INTERRUPTED = """
import signal, subprocess, keylatch
signal.signal(signal.SIGINT, lambda number, frame: None)
with keylatch.Server() as server:
    print(server.pid, flush=True)
    input()                                 # until the signal has been sent
    try:
        server.process.wait(0.5)
    except subprocess.TimeoutExpired:
        print(server.instance().command("ECHO", "still here"))
"""


def wait_until_ended(pid):
    """Waits for the end of a process that is no child. (Its port may be another's by then.)"""
    deadline = time.monotonic() + 60
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while (state := pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) != "Z":
            assert time.monotonic() < deadline, f"process {pid} is still in state {state}"
            time.sleep(0.01)


def test_a_server_serves_until_the_end_of_its_block():
    with keylatch.Server() as server:
        assert redis.Redis.from_url(server.url).info("server")["process_id"] == server.pid
    assert server.process.returncode == 0


def test_settings_are_options_and_the_environment_counts(monkeypatch):
    monkeypatch.setenv("KEYLATCH_TIMEOUT", "77")
    monkeypatch.setenv("KEYLATCH_MAXCLIENTS", "88")
    with keylatch.Server(maxclients="99", maxmemory="5mb") as server:
        config = redis.Redis.from_url(server.url).config_get("max*", "timeout")
    assert (config["timeout"], config["maxclients"], config["maxmemory"]) == ("77", "99", "5242880")


def test_a_server_on_a_given_port_is_ready_at_once():
    bind = "127.0.0.2"  # where nobody else takes the port meanwhile
    with socket.create_server((bind, 0)) as free:
        port = free.getsockname()[1]
    with keylatch.Server(bind=bind, port=port) as server, server.instance() as instance:
        assert (server.port, instance.command("ECHO", 1)) == (port, "1")


@pytest.mark.parametrize("settings", [{"unixsocket": "socket"}, {"tls_port": 6380}])
def test_a_server_without_a_tcp_port_is_refused(settings):
    with pytest.raises(ValueError, match="give a port"):
        keylatch.Server(**settings)


def test_a_server_with_tls_is_trusted_by_its_own_authority_alone():
    with keylatch.Server(tls=True) as server, keylatch.Server(tls=True) as other, server.instance() as instance:
        assert instance.url.startswith("rediss://ns-") and server.url.startswith("rediss://127.0.0.1:")
        trusted = {"ssl_ca_certs": instance.ca_file, "ssl_check_hostname": True}
        with redis.Redis.from_url(instance.url, **trusted) as client:
            client.set("key", "value", px=100)
            assert client.config_get("tls-port") == {"tls-port": str(server.port)}
            instance.advance(100)
            assert client.get("key") is None
        with pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            redis.Redis.from_url(instance.url, ssl_ca_certs=other.ca_file).ping()
        with instance.replica() as replica, redis.Redis.from_url(replica.url, ssl_ca_certs=replica.ca_file) as client:
            assert client.role()[0] == b"slave"
    assert not pathlib.Path(server.ca_file).exists()


def test_clusters_and_explored_scenarios_speak_tls_with_the_same_authority():
    def scenario(instance):
        with redis.Redis.from_url(instance.url, ssl_ca_certs=instance.ca_file) as client:
            with contextlib.suppress(redis.ConnectionError):
                client.set("key", "value")

    with keylatch.Server(tls=True) as server, server.instance() as instance:
        keylatch.explore(scenario, server=server, kinds=["lost-reply"])
        nodes = instance.cluster(replicas=0, tls=True)
        with redis.RedisCluster.from_url(nodes.url, ssl_ca_certs=instance.ca_file) as client:
            assert client.set("key", "value")


def test_a_start_that_fails_says_why():
    with pytest.raises(RuntimeError, match="nonsense"):
        keylatch.Server(nonsense="1")


def test_the_server_ends_with_a_parent_that_is_killed():
    died = subprocess.run([sys.executable, "-c", STARTS_AND_DIES], stdout=subprocess.PIPE, text=True)
    assert died.returncode == -signal.SIGKILL
    wait_until_ended(int(died.stdout))


def test_an_interrupt_from_the_terminal_leaves_the_server_to_the_teardown():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], start_new_session=True, **pipes) as parent:
        server = int(parent.stdout.readline())
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.communicate("\n", timeout=60)[0] == "still here\n"
    wait_until_ended(server)


def test_an_instance_of_a_server_without_test_mode_is_refused():
    with keylatch.Server(test_mode="no") as server:
        with pytest.raises(keylatch.ReplyError, match="WRONGPASS .*--test-mode"):
            server.instance().now()
        with pytest.raises(keylatch.ReplyError), server.instance():
            pass
        with keylatch.Server() as willing, pytest.raises(keylatch.ReplyError, match="no spaces$"):
            willing.instance("a name").now()
        stranger = keylatch.Keylatch(server.host, server.port, "stranger")
        for _ in range(2):
            with pytest.raises(keylatch.ReplyError, match="WRONGPASS"):
                stranger.command("SET", "key", "value")
        assert keylatch.Keylatch(server.host, server.port, None).command("DBSIZE") == 0


def test_a_crash_of_the_server_is_told_with_its_status_and_its_log():
    with keylatch.Server(loglevel="notice") as server:
        instance = server.instance()
        instance.now()
        os.kill(server.pid, signal.SIGKILL)
        for broken in instance, instance, server.instance():
            with pytest.raises(ConnectionError, match=r"status -9\n(?s:.*)Ready to accept") as raised:
                broken.now()
            assert isinstance(raised.value.__cause__, OSError)


def test_the_port_file_and_the_health_check_serve_those_who_start_it_otherwise(tmp_path):
    binary, path = keylatch.find_binary(), tmp_path / "port"
    with keylatch.Server(port_file=str(path)) as server:
        assert path.read_text().strip() == str(server.port)
        assert subprocess.run([binary, "--healthcheck", "-p", path.read_text().strip()]).returncode == 0
    with socket.socket() as silent:  # it keeps the port and does not listen
        silent.bind(("127.0.0.1", 0))
        check = [binary, "--healthcheck", "-p", str(silent.getsockname()[1])]
        assert subprocess.run(check, capture_output=True).returncode == 1


def test_a_program_in_any_language_can_start_it(tmp_path):
    options = ["--port", "0", "--bind", "127.0.0.1", "--exit-on-stdin-close", "--port-file", str(tmp_path / "port")]
    environment = {"KEYLATCH_LOGLEVEL": "warning", "KEYLATCH_MAXMEMORY": "5mb", "KEYLATCH_TEST_MODE": "yes"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
    with subprocess.Popen([keylatch.find_binary(), *options], **pipes) as process:
        ready = json.loads(process.stdout.readline())
        assert (ready["ready"], ready["host"], ready["pid"]) == (True, "127.0.0.1", process.pid)
        assert (tmp_path / "port").read_text().strip() == str(ready["port"])
        with redis.Redis.from_url(f"redis://ns-mine:any@127.0.0.1:{ready['port']}/0") as client:
            assert client.config_get("maxmemory") == {"maxmemory": "5242880"}
            assert client.execute_command("TEST.TIME", "SET", 2_000_000_000_000) >= 2_000_000_000_000
        process.stdin.close()
        assert process.wait(60) == 0


def test_the_binary_of_the_package_is_found_unless_the_environment_names_another(monkeypatch, tmp_path):
    monkeypatch.delenv("KEYLATCH_BINARY", raising=False)
    assert pathlib.Path(keylatch.find_binary()).parent == pathlib.Path(sys.executable).parent
    monkeypatch.setenv("KEYLATCH_BINARY", "/elsewhere/keylatch")
    assert keylatch.find_binary() == "/elsewhere/keylatch"


def test_a_forked_process_shares_the_server_and_leaves_it_running():
    program = """
        import os, keylatch
        from keylatch._server import shared_server
        server = shared_server()
        child = os.fork()
        if not child:
            raise SystemExit(0 if shared_server().port == server.port else 1)
        assert os.waitpid(child, 0)[1] == 0
        print(keylatch.Keylatch(server.host, server.port, None).command("ECHO", 1))
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert (run.returncode, run.stdout) == (0, "1\n")


def test_a_forked_process_steers_an_instance_over_a_connection_of_its_own():
    program = """
        import os, keylatch
        instance = keylatch.instance()
        mine = instance.command("CLIENT", "ID")
        child = os.fork()
        if not child:
            os._exit(0 if instance.command("CLIENT", "ID") != mine else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert instance.command("CLIENT", "ID") == mine
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_a_server_is_stopped_at_once_although_a_forked_process_runs_on():
    program = """
        import os, signal, keylatch
        with keylatch.Server() as server:
            child = os.fork()
            if not child:
                signal.pause()
        os.kill(child, signal.SIGKILL)
        raise SystemExit(server.process.returncode)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(program)]).returncode == 0


def test_a_server_that_runs_already_is_named_by_the_environment():
    program = "import keylatch; print(keylatch.instance('shared').command('GET', 'key'))"
    with keylatch.Server() as server, server.instance("shared") as instance:
        instance.command("SET", "key", "value")
        environment = os.environ | {"KEYLATCH_URL": server.url}
        assert subprocess.check_output([sys.executable, "-c", program], env=environment, text=True) == "value\n"


def test_an_empty_name_of_a_running_server_counts_as_none():
    program = "import keylatch; print(keylatch.instance().command('ECHO', 1))"
    environment = os.environ | {"KEYLATCH_URL": ""}
    assert subprocess.check_output([sys.executable, "-c", program], env=environment, text=True) == "1\n"


@pytest.mark.parametrize("url", ["localhost:6379", "127.0.0.1", "http://localhost:6379", "rediss://localhost:6379"])
def test_a_url_of_another_kind_is_refused(url):
    with pytest.raises(ValueError, match="must be redis://host:port"):
        keylatch.RunningServer(url)


def test_a_server_at_an_address_of_ipv6_is_reached():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no address ::1")
    with keylatch.Server(bind="::1") as server, server.instance() as instance:
        assert instance.url.endswith(f"@[::1]:{server.port}/0")
        assert redis.Redis.from_url(instance.url).ping()
