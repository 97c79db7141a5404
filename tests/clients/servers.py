"""Starts servers, runs a command beside them, and stops them.

    servers.py BINARY COUNT COMMAND [ARGUMENT...]

The command finds them in KEYLATCH_SERVERS, as "host:port:pid" parted by blanks, and may kill any of them. With
EVERY_ROAD in the environment they also listen on a Unix socket and for TLS; CONFIG GET says where.
Servers that run at its end have to stop with status 0 on SIGTERM. Their logs are shown if anything fails.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 30
COMMAND_S = 300  # no command takes as long


def every_road(folder):
    """Returns the options of a server that can be reached in every way, with a certificate of its own."""
    key, certificate = os.path.join(folder, 'key.pem'), os.path.join(folder, 'cert.pem')
    make = 'openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost'
    alternative = ['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', certificate]
    subprocess.run([*make.split(), *alternative], check=True, capture_output=True, timeout=PATIENCE_S)
    tls = ['--tls-port', str(reserved_port()), '--tls-auth-clients', 'no']
    tls += ['--tls-cert-file', certificate, '--tls-key-file', key, '--tls-ca-cert-file', certificate]
    return ['--port', str(reserved_port()), '--unixsocket', os.path.join(folder, 'socket'), *tls]


reserved = []


def reserved_port():
    """Returns a free port. It is bound, so that no other program gets it; the server does, as it reuses addresses."""
    reserved.append(socket.socket())
    reserved[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved[-1].bind(('127.0.0.1', 0))
    return reserved[-1].getsockname()[1]


class Server:
    """A process of the binary, with a folder of its own."""

    def __init__(self, binary, folder):
        self.log = os.path.join(folder, 'log')
        with open(self.log, 'wb') as log:
            # With this option it also says where it listens if the port is not of its choice.
            command = [binary, '--bind', '127.0.0.1', '--save', '', '--exit-on-stdin-close']
            command += every_road(folder) if os.environ.get('EVERY_ROAD') else ['--port', '0']
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)

    def address(self):
        """Waits until the server reports its address; returns the address and the process."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self.written().splitlines():
                if line.startswith('{"ready":true'):
                    at = json.loads(line)
                    return f'{at["host"]}:{at["port"]}:{self.process.pid}'
            time.sleep(0.01)
        raise RuntimeError('the server did not get ready')

    def written(self):
        """Returns what the server has logged until now."""
        with open(self.log, encoding='utf-8', errors='replace') as log:
            return log.read()

    def stop(self):
        """Stops the server, unless it was killed; returns the status that it ended with."""
        self.process.terminate()
        status = self.process.wait(PATIENCE_S)
        return 0 if status == -signal.SIGKILL else status


def main():
    binary, count, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        folders = [os.path.join(folder, str(number)) for number in range(count)]
        for each in folders:
            os.mkdir(each)
        servers = [Server(binary, each) for each in folders]
        try:
            addresses = ' '.join(server.address() for server in servers)
            environment = os.environ | {'KEYLATCH_SERVERS': addresses}
            status = subprocess.run(command, env=environment, timeout=COMMAND_S).returncode
            ends = [server.stop() for server in servers]
        finally:
            for server in servers:
                server.process.kill()
        if status or any(ends):
            for server in servers:
                print(server.written(), file=sys.stderr)
            sys.exit(f'FAILED: {command} ended with status {status}, the servers with {ends}')


if __name__ == '__main__':
    main()
