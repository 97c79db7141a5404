#!/usr/bin/env python3
"""A stand-in for redis-server, for suites that start the nodes of a cluster themselves and join them with CLUSTER MEET.

Each process is a node of a topology of the keylatch at port 6379, and those that a parent process starts are of one topology.
A node has the port that it is to have, one of topology-ports, because all lower ones are taken while it is made. If the process
ends, or is stopped or continued by a signal, the same happens to its node. One that is started in the folder where it has run
before has its data again. Settings are left out, but for the node timeout (NODE_TIMEOUT in the environment if there is none)
and an ACL file.

What is not a node is the redis-server of PATH.
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
import time


def read(stream):
    """Reads a reply of RESP2."""
    line = stream.readline()[:-2]
    kind, rest = line[:1], line[1:]
    if kind == b'$':
        return None if rest == b'-1' else stream.read(int(rest) + 2)[:-2].decode()
    if kind == b'*':
        return [read(stream) for _ in range(int(rest))]
    if kind == b'-':
        raise ValueError(rest.decode())
    return int(rest) if kind == b':' else rest.decode()


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.stream = self.socket.makefile('rb')

    def send(self, *calls):
        calls = [[str(word).encode() for word in words] for words in calls]
        self.socket.sendall(
            b''.join(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words) for words in calls)
        )

    def call(self, *words):
        self.send(words)
        return read(self.stream)


def settings(words):
    """Returns the settings of a configuration file and of arguments."""
    lines = open(words.pop(0)).read().splitlines() if words and not words[0].startswith('-') else []
    lines += ' '.join(words).split('--')
    return {name: value for name, _, value in (line.strip().partition(' ') for line in lines)}


def nodes(server, topology):
    """Returns the nodes of a topology, as maps."""
    try:
        found = server.call('TEST.CLUSTER', 'NODES', topology)
    except ValueError:
        return []
    return [dict(zip(node[::2], node[1::2])) for node in found]


def make(server, topology, port, timeout):
    """Makes a node at a port, which knows no other, and returns its number."""
    others = nodes(server, topology)
    number = len(others)
    calls = [['TEST.CLUSTER', 'CREATE', topology, 'EMPTY', 1, 'NODE-TIMEOUT', timeout]]
    if others:  # the node meets another one; both forget that before anybody can see it
        calls = [['TEST.CLUSTER', 'ADD', topology], ['TEST.CLUSTER', 'PAUSE', topology, number]]
    first = int(server.call('CONFIG', 'GET', 'topology-ports')[1].split('-')[0])
    with open(__file__) as lock, contextlib.ExitStack() as blocked:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for lower in range(first, port):
            with contextlib.suppress(OSError):
                blocked.enter_context(socket.create_server(('', lower)))
        server.send(*calls)
        for _ in calls:
            read(server.stream)
    if others:
        node = Connection(port)
        node.send(['CLUSTER', 'RESET', 'HARD'])
        for other in others:
            if other['state'] == 'up':
                Connection(other['port']).call('CLUSTER', 'RESET', 'HARD')
        server.call('TEST.CLUSTER', 'RESUME', topology, number)
        read(node.stream)
    return number


def start(server, parent, options):
    """Starts the node of a port or makes it, and returns the name of its topology and its number."""
    port = int(options['port'])
    known = [name for name in server.call('TEST.TOPOLOGY', 'LIST') if name.startswith(f'of-{parent}-')]
    numbers = {name: node['node'] for name in known for node in nodes(server, name) if node['port'] == port}
    if not numbers:
        running = [name for name in known if any(node['state'] == 'up' for node in nodes(server, name))]
        topology = running[0] if running else f'of-{parent}-{len(known)}'
        number = make(server, topology, port, options.get('cluster-node-timeout', os.environ.get('NODE_TIMEOUT', 15000)))
    else:
        topology, number = numbers.popitem()
        for _ in range(100):  # until the end of the process that it was has been seen
            try:
                server.call('TEST.CLUSTER', 'START', topology, number)
                break
            except ValueError:
                time.sleep(0.05)
        if not os.path.exists('started'):
            Connection(port).call('FLUSHALL')
            Connection(port).call('CLUSTER', 'RESET', 'HARD')
    open('started', 'w').close()
    for line in open(options['aclfile']) if 'aclfile' in options else []:
        Connection(port).call('ACL', 'SETUSER', *line.split()[1:])
    return topology, number


def watch(alive, process, parent, options):
    """Makes the node, and does to it what happens to a process, until that ends."""
    server = Connection(6379)
    topology, number = start(server, parent, options)
    node, paused = Connection(int(options['port'])), False
    logfile = options.get('logfile', '').strip('\'"')
    with open(logfile, 'a') if logfile else sys.stdout as log:
        print(f' PID: {process}\nServer initialized\nReady to accept connections', file=log, flush=True)
        while not select.select([alive], [], [], 0.05)[0]:
            with open(f'/proc/{process}/stat') as stat:
                stopped = stat.read().rpartition(')')[2].split()[0] == 'T'
            if stopped != paused:
                server.call('TEST.CLUSTER', 'PAUSE' if stopped else 'RESUME', topology, number)
                paused = stopped
            if node and not paused and 'cluster_state:ok' in node.call('CLUSTER', 'INFO'):
                print('Cluster state changed: ok', file=log, flush=True)
                node = node.socket.shutdown(socket.SHUT_RDWR)
    server.call('TEST.CLUSTER', 'STOP', topology, number)
    while os.path.exists(f'/proc/{parent}'):
        time.sleep(1)
    with contextlib.suppress(ValueError):  # another node has dropped it
        server.call('TEST.TOPOLOGY', 'DROP', topology)


def main():
    options = settings(sys.argv[1:])
    if options.get('cluster-enabled') != 'yes':
        os.execvp('redis-server', ['redis-server', *sys.argv[1:]])
    os.chdir(options.get('dir', '.'))
    process, parent = os.getpid(), os.getppid()
    alive, until_the_end = os.pipe()
    if os.fork():
        os.close(alive)
        while True:
            signal.pause()
    os.close(until_the_end)
    os.setsid()
    try:
        watch(alive, process, parent, options)
    except (OSError, ValueError) as error:
        print(f'node at {options["port"]}: {error!r}', file=sys.stderr)
        os.kill(process, signal.SIGKILL)


main()
