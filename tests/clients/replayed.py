"""Locks of libraries of other languages, replayed: the commands that they send, and scripts that do what theirs do.

The scripts are our own; what is the library's is the order of calls, the way a script is sent, and what is read from
the reply. locks.py makes its claims about them.
"""

import hashlib
import secrets
import socket

import redis

RELEASE = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])"
RENEW = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0"


def by_digest(client, script, keys, *args):
    """Sends a script as Go's clients do: by its digest, and in full only to a server that does not know it."""
    try:
        return client.evalsha(hashlib.sha1(script.encode()).hexdigest(), len(keys), *keys, *args)
    except redis.exceptions.NoScriptError:
        return client.eval(script, len(keys), *keys, *args)


class ShedLock:
    """ShedLock's provider for Redis, with safe updates: it sends its scripts in full each time."""

    shortest_s = 0.3

    def __init__(self, servers, key, ttl_s):
        self.client, self.key, self.ttl_ms = servers.clients[0], f'job-lock:default:{key}', int(ttl_s * 1000)
        self.value = None

    def acquire(self):
        value = f'ADDED:2026-01-01T00:00:00.000Z@{socket.gethostname()}:{secrets.token_hex(16)}'
        got = self.client.execute_command('SET', self.key, value, 'NX', 'PX', self.ttl_ms)
        self.value = value if got else self.value
        return bool(got)

    def release(self):
        return self.client.eval(RELEASE, 1, self.key, self.value) == 1

    def extend(self):
        return self.client.eval(RENEW, 1, self.key, self.value, self.ttl_ms) == 1


class Redsync:
    """Go's redsync: the calls go to every server, and a quorum decides."""

    shortest_s = 0.3
    # A lock that has gone is no error to it, but nothing was released either.
    DELETE = """
        local held = redis.call('GET', KEYS[1])
        if not held then return -1 end
        if held ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[1])"""
    # With the option that an extension may take the lock where a server has lost it.
    TOUCH = """
        if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') and 1 or 0"""

    def __init__(self, servers, key, ttl_s):
        self.clients, self.key, self.ttl_ms = servers.clients, key, int(ttl_s * 1000)
        self.value = None

    def ask(self, call):
        """Returns whether a quorum of the servers says 1."""
        return sum(call_of(client, call) == 1 for client in self.clients) > len(self.clients) // 2

    def acquire(self):
        value = secrets.token_urlsafe(16)
        got = self.ask(lambda client: int(client.set(self.key, value, nx=True, px=self.ttl_ms) or 0))
        if not got:
            self.ask(lambda client: by_digest(client, self.DELETE, [self.key], value))
            return False
        self.value = value
        return True

    def release(self):
        return self.ask(lambda client: by_digest(client, self.DELETE, [self.key], self.value))

    def extend(self):
        return self.ask(lambda client: by_digest(client, self.TOUCH, [self.key], self.value, self.ttl_ms))


def call_of(client, call):
    """Returns the reply, or None where the server is down."""
    try:
        return call(client)
    except redis.ConnectionError:
        return None


class Redislock:
    """Go's redislock, with a lock over two keys; a token of 22 characters begins the value."""

    shortest_s = 0.3
    OBTAIN = """
        local pairs_of_all, length = {}, tonumber(ARGV[2])
        for _, key in ipairs(KEYS) do
            table.insert(pairs_of_all, key)
            table.insert(pairs_of_all, ARGV[1])
        end
        if redis.call('MSETNX', unpack(pairs_of_all)) == 0 then
            for _, key in ipairs(KEYS) do
                if redis.call('GETRANGE', key, 0, length - 1) ~= string.sub(ARGV[1], 1, length) then return false end
            end
            redis.call('MSET', unpack(pairs_of_all))
        end
        for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
        return redis.status_reply('OK')"""
    ALL_MINE = """
        for _, value in ipairs(redis.call('MGET', unpack(KEYS))) do
            if value ~= ARGV[1] then return false end
        end
        for _, key in ipairs(KEYS) do %s end
        return redis.status_reply('OK')"""
    REFRESH = ALL_MINE % "redis.call('PEXPIRE', key, ARGV[2])"
    RELEASE = ALL_MINE % "if redis.call('DEL', key) ~= 1 then return redis.error_reply('gone: ' .. key) end"

    def __init__(self, servers, key, ttl_s):
        self.client, self.keys, self.ttl_ms = servers.clients[0], [f'{key}:a', f'{key}:b'], int(ttl_s * 1000)
        self.value = None

    def acquire(self):
        token = secrets.token_urlsafe(16)[:22]
        value = token + 'metadata'
        got = by_digest(self.client, self.OBTAIN, self.keys, value, len(token), self.ttl_ms) == 'OK'
        self.value = value if got else self.value
        return got

    def release(self):
        return by_digest(self.client, self.RELEASE, self.keys, self.value) == 'OK'

    def extend(self):
        return by_digest(self.client, self.REFRESH, self.keys, self.value, self.ttl_ms) == 'OK'


class Laravel:
    """Laravel's Cache::lock. It has no extension."""

    shortest_s = 1  # it counts in whole seconds

    def __init__(self, servers, key, ttl_s):
        self.client, self.key, self.ttl_s = servers.clients[0], f'laravel_cache:{key}', ttl_s
        self.owner = secrets.token_hex(8)

    def acquire(self):
        return bool(self.client.execute_command('SET', self.key, self.owner, 'EX', self.ttl_s, 'NX'))

    def release(self):
        return bool(self.client.eval(RELEASE, 1, self.key, self.owner))

    def extend(self):
        return None


class LaravelFunnel(Laravel):
    """Laravel's Redis::funnel with one place: the first of the places that is free."""

    TAKE = """
        for place, holder in pairs(redis.call('MGET', unpack(KEYS))) do
            if not holder then
                redis.call('SET', KEYS[place], ARGV[3], 'EX', ARGV[2])
                return ARGV[1] .. place
            end
        end"""

    def acquire(self):
        return self.client.eval(self.TAKE, 1, self.key + '1', self.key, self.ttl_s, self.owner) == self.key + '1'

    def release(self):
        return bool(self.client.eval(RELEASE, 1, self.key + '1', self.owner))


LIBRARIES = {
    'ShedLock, replayed': ShedLock,
    'redsync, replayed': Redsync,
    'redislock, replayed': Redislock,
    'Laravel lock, replayed': Laravel,
    'Laravel funnel, replayed': LaravelFunnel,
}
