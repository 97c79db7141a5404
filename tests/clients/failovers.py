"""Runs a command beside a server whose place another one takes whenever the command asks for that.

    failovers.py BINARY sentinel|etcd COMMAND [ARGUMENT...]

The command finds the server of the moment at the address in KEYLATCH_SERVERS. It asks for a failover over a connection to
the address in KEYLATCH_FAILOVER, by the line "kill" or "stop": the server gets SIGKILL, or SIGSTOP, so that its
connections stay open and nothing passes. The reply, "done", comes when the other server serves.

With `sentinel`, the other one is a replica that has all writes, and that a sentinel of Redis promotes; the command finds
the sentinel in SENTINELS, which knows the primary as "it". With `etcd`, in a command of etcd.py, both are processes with
the same data.
"""

import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading

import redis
from sentinels import Place, sentinel, wait_until
from servers import Server, reserved_port

COMMAND_S = 290  # no command takes as long
# Otherwise a sentinel learns of a replica after ten seconds.
SOON = ['info-period', '100', 'ping-period', '100', 'ask-period', '100']


class Listener(socketserver.ThreadingTCPServer):
    """Calls a function with each connection, in a thread of its own."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, serve):
        self.serve = serve
        super().__init__(('127.0.0.1', 0), None)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.address = f'127.0.0.1:{self.server_address[1]}'

    def finish_request(self, request, client_address):
        self.serve(request)


def pass_on(source, target):
    """Passes bytes on until the connection ends, and ends the other one then."""
    try:
        while received := source.recv(65536):
            target.sendall(received)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other direction did it


class Servers:
    """The server of the moment, and the one after it."""

    def __init__(self, binary, folder, is_watched):
        self.binary, self.folder = binary, folder
        self.all, self.watching, self.turn, self.error = [], None, threading.Lock(), None
        self.is_watched = is_watched

    def begin(self):
        self.current = self.start()
        self.sentinel = self.watch() if self.is_watched else None

    def start(self):
        """Starts a server; returns its address."""
        folder = os.path.join(self.folder, str(len(self.all)))
        os.mkdir(folder)
        self.all.append(Server(self.binary, folder))
        place = Place(self.all[-1].address())
        place.client.config_set('repl-diskless-sync-delay', 0)
        return place

    def watch(self):
        """Starts a sentinel; returns its address."""
        port = reserved_port()
        self.watching = sentinel(self.folder, port, self.current, quorum=1)
        place = Place(f'127.0.0.1:{port}')
        wait_until(lambda: is_primary(place, self.current), 'the sentinel knows the primary')
        place.client.execute_command('SENTINEL', 'DEBUG', *SOON)
        return place

    def connect(self, client):
        """Joins a connection with the server of the moment."""
        try:
            server = socket.create_connection((self.current.host, self.current.port))
        except OSError:
            client.close()
            return
        threading.Thread(target=pass_on, args=(server, client), daemon=True).start()
        pass_on(client, server)

    def asked(self, client):
        """Serves a connection that asks for a failover."""
        with client, self.turn:
            try:
                self.failover({b'kill\n': signal.SIGKILL, b'stop\n': signal.SIGSTOP}[client.recv(16)])
                client.sendall(b'done\n')
            except Exception as error:
                self.error = error

    def failover(self, how):
        former, victim, following = self.current, self.all[-1], self.start()
        grace = former.client.config_get('session-grace-ms')
        following.client.config_set('session-grace-ms', grace['session-grace-ms'])
        if self.sentinel is None:
            victim.process.send_signal(how)
        else:
            self.promote(former, following, lambda: victim.process.send_signal(how))
        self.current = following

    def promote(self, former, following, end):
        # No client of the one after it has an id of the one before, so that the ids tell who has connected again.
        former.client.connection_pool.disconnect()
        latest = former.client.client_id()
        while following.client.client_id() <= latest:
            following.client.connection_pool.disconnect()
        following.client.replicaof(former.host, former.port)
        former.client.pipeline(transaction=False).set('last', 'write').delete('last').execute()
        wait_until(lambda: former.client.wait(1, 100) == 1, 'the replica has all writes')
        # It looks for replicas at once then, and forgets the server before.
        self.sentinel.client.execute_command('SENTINEL', 'RESET', 'it')
        wait_until(lambda: self.sentinel.client.sentinel_slaves('it'), 'the sentinel knows the replica')
        end()
        wait_until(lambda: is_primary(self.sentinel, following), 'the sentinel has promoted the replica')
        wait_until(lambda: following.client.role()[0] == b'master', 'the replica is a primary')

    def stop(self):
        """Ends everything; returns the statuses of the servers that were not killed or stopped."""
        statuses = [self.all[-1].stop()]
        for server in self.all:
            server.process.kill()
        if self.watching is not None:
            self.watching.kill()
        return statuses


def is_primary(sentinel, server):
    """Returns whether a sentinel watches a server as the primary, after a failover if there was one."""
    try:
        return sentinel.client.sentinel_master('it')['port'] == server.port
    except redis.exceptions.ConnectionError:
        return False  # it does not listen yet


def main():
    binary, mode, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(binary, folder, {'sentinel': True, 'etcd': False}[mode])
        try:
            servers.begin()
            entry, control = Listener(servers.connect), Listener(servers.asked)
            environment = os.environ | {'KEYLATCH_SERVERS': entry.address, 'KEYLATCH_FAILOVER': control.address}
            if servers.sentinel is not None:
                environment['SENTINELS'] = f'{servers.sentinel.host}:{servers.sentinel.port}'
            status = subprocess.run(command, env=environment, timeout=COMMAND_S).returncode
        finally:
            ends = servers.stop()
        if status or any(ends) or servers.error:
            for server in servers.all:
                print(server.written(), file=sys.stderr)
            sys.exit(f'FAILED: {command} ended with status {status}, the servers with {ends}, {servers.error!r}')


if __name__ == '__main__':
    main()
