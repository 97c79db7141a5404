"""Starts a cluster of etcd, runs a command whose servers keep their data there, and ends the cluster.

    etcd.py COUNT COMMAND [ARGUMENT...]

The servers take the settings from the environment. `etcd` is expected in PATH (tests/etcd/install.sh).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

from servers import PATIENCE_S, reserved_port


def start(folder, count):
    """Starts the members; returns the processes and the addresses for clients."""
    ports = [(reserved_port(), reserved_port()) for _ in range(count)]
    members = ','.join(f'n{number}=http://127.0.0.1:{peer}' for number, (_, peer) in enumerate(ports))
    processes, addresses = [], []
    for number, (client, peer) in enumerate(ports):
        own, of_peers = f'http://127.0.0.1:{client}', f'http://127.0.0.1:{peer}'
        command = ['etcd', '--name', f'n{number}', '--data-dir', os.path.join(folder, str(number))]
        command += ['--listen-client-urls', own, '--advertise-client-urls', own]
        command += ['--listen-peer-urls', of_peers, '--initial-advertise-peer-urls', of_peers]
        command += ['--initial-cluster', members, '--log-level', 'error', '--unsafe-no-fsync']
        processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        addresses.append(own)
    return processes, addresses


def wait_until_healthy(address):
    """Waits until a member knows a leader."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(address + '/health', timeout=PATIENCE_S) as answer:
                if json.load(answer)['health'] == 'true':
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            sys.exit(f'FAILED: etcd at {address} does not get ready')
        time.sleep(0.05)


def main():
    count, command = int(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        processes, addresses = start(folder, count)
        try:
            for address in addresses:
                wait_until_healthy(address)
            engine = {'KEYLATCH_ENGINE': 'etcd', 'KEYLATCH_ETCD_ENDPOINTS': ','.join(addresses)}
            status = subprocess.run(command, env=os.environ | engine).returncode
        finally:
            for process in processes:
                process.kill()
                process.wait()
    sys.exit(status)


if __name__ == '__main__':
    main()
