"""The servers that are compared: started on free ports of the loopback in a folder that is removed at the end."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

CLOCK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Server:
    """A process that listens."""

    def __init__(self, kind, keylatch):
        self.kind, port = kind, free_port()
        self.folder = tempfile.mkdtemp()
        self.address = ("127.0.0.1", port)
        common = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--maxclients", "10200"]
        url, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
        words = {
            "keylatch": [keylatch, *common],
            "redis": ["redis-server", *common],
            "etcd": ["etcd", "--data-dir", "data", "--listen-client-urls", url, "--advertise-client-urls", url,
                     "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                     "--initial-cluster", f"default={peer}", "--log-level", "error"],
        }[kind]
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while not self.answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"{kind} did not start")
            time.sleep(0.02)

    def answers(self):
        try:
            if self.kind == "etcd":
                with urllib.request.urlopen(f"http://127.0.0.1:{self.address[1]}/health", timeout=1) as reply:
                    return json.load(reply)["health"] == "true"
            socket.create_connection(self.address).close()
            return True
        except (OSError, KeyError):
            return False

    def cpu(self):
        """Returns the seconds of CPU time until now."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK

    def memory(self):
        """Returns the resident bytes."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def version(kind, keylatch):
    """Returns the name and version of a server, or None if it is not installed."""
    words = {"keylatch": [keylatch, "--version"], "redis": ["redis-server", "--version"], "etcd": ["etcd", "--version"]}
    try:
        said = subprocess.run(words[kind], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return None
    return {"redis": lambda: "redis-server " + said.split("v=")[1].split()[0],
            "etcd": lambda: "etcd " + said.split("\n")[0].split()[-1],
            "keylatch": lambda: f"keylatch {said.split('keylatch=')[1].split()[0]} ({commit()})"}[kind]()


def commit():
    """Returns the commit of the checkout, and its date."""
    git = lambda *words: subprocess.run(["git", *words], cwd=os.path.dirname(__file__), capture_output=True, text=True)
    described = git("describe", "--always", "--dirty", "--exclude=*").stdout.strip()
    return f"{described} of {git('log', '-1', '--format=%cs').stdout.strip()}"
