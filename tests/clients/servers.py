"""Starts servers, runs a command beside them, and stops them.

    servers.py BINARY COUNT COMMAND [ARGUMENT...]

The command finds them in KEYLATCH_SERVERS, as "host:port:pid" parted by blanks, and may kill any of them.
Those that live at its end have to stop with status 0 on SIGTERM. Their logs are shown if anything fails.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 30
COMMAND_S = 300  # no command takes as long


class Server:
    """A process of the binary, with a folder of its own."""

    def __init__(self, binary, folder):
        self.log = os.path.join(folder, 'log')
        with open(self.log, 'wb') as log:
            command = [binary, '--port', '0', '--bind', '127.0.0.1', '--save', '']
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def address(self):
        """Waits until the server says where it listens; returns that and the process."""
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
