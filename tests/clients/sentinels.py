"""Has sentinels of Redis watch servers, and runs a command beside them.

    KEYLATCH_SERVERS="host:port:pid ..." sentinels.py COMMAND [ARGUMENT...]

The first server is the primary of the others, under the name "it". The command finds the sentinels in SENTINELS, as
"host:port" parted by blanks, and may kill the primary.
"""

import os
import subprocess
import sys
import tempfile
import time

import redis
from servers import reserved_port

SENTINELS = 3
PATIENCE_S = 30
COMMAND_S = 60  # no command takes as long


def sentinel(folder, port, primary, quorum=2):
    """Starts a sentinel, with its state in a file."""
    path = os.path.join(folder, f'{port}.conf')
    with open(path, 'w', encoding='utf-8') as settings:
        settings.write(
            f'port {port}\nbind 127.0.0.1\nsentinel monitor it {primary.host} {primary.port} {quorum}\n'
            'sentinel down-after-milliseconds it 1000\nsentinel failover-timeout it 3000\n'
        )
    with open(f'{path}.log', 'wb') as log:
        return subprocess.Popen(['redis-server', path, '--sentinel'], stdout=log, stderr=subprocess.STDOUT)


class Place:
    """The address of a server."""

    def __init__(self, text):
        self.host, port = text.split(':')[:2]
        self.port = int(port)
        self.client = redis.Redis(self.host, self.port, socket_timeout=PATIENCE_S)


def wait_until(is_so, what):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f'waited in vain until {what}'
        time.sleep(0.02)


def knows_all(port, replicas):
    """Returns whether a sentinel knows the replicas and the other sentinels."""
    try:
        state = redis.Redis('127.0.0.1', port, socket_timeout=PATIENCE_S).sentinel_master('it')
    except redis.exceptions.ConnectionError:
        return False  # it does not listen yet
    return (state['num-slaves'], state['num-other-sentinels'], state['is_odown']) == (replicas, SENTINELS - 1, False)


def main():
    primary, *replicas = [Place(text) for text in os.environ['KEYLATCH_SERVERS'].split()]
    primary.client.config_set('repl-diskless-sync-delay', 0)
    for replica in replicas:
        replica.client.replicaof(primary.host, primary.port)
    # A sentinel asks for them when it starts, and not again for ten seconds.
    wait_until(lambda: primary.client.wait(len(replicas), 100) == len(replicas), 'the primary has its replicas')
    with tempfile.TemporaryDirectory() as folder:
        ports = [reserved_port() for _ in range(SENTINELS)]
        sentinels = [sentinel(folder, port, primary) for port in ports]
        try:
            for port in ports:
                wait_until(lambda port=port: knows_all(port, len(replicas)), 'the sentinels know each other')
            environment = os.environ | {'SENTINELS': ' '.join(f'127.0.0.1:{port}' for port in ports)}
            status = subprocess.run(sys.argv[1:], env=environment, timeout=COMMAND_S).returncode
            if status:
                for port in ports:
                    with open(os.path.join(folder, f'{port}.conf.log'), encoding='utf-8') as log:
                        print(log.read(), file=sys.stderr)
                sys.exit(status)
        finally:
            for each in sentinels:
                each.kill()
                each.wait()


if __name__ == '__main__':
    main()
