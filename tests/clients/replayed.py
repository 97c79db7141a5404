"""Locks of libraries of other languages, replayed: the commands that they send, and scripts that do what theirs do.

The scripts are our own; the libraries' are the order of calls, the way a script is sent, and the values read from
the reply. locks.py makes its claims about them.
"""

import hashlib
import secrets
import socket
import time

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


class Redisson:
    """Redisson's reentrant lock: a hash of its holder and of how often that has taken it, and a message on release."""

    MESSAGE = 0
    TAKE = """
        if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
            return redis.call('PTTL', KEYS[1])
        end
        redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
        redis.call('PEXPIRE', KEYS[1], ARGV[1])
        return nil"""
    RENEW = """
        if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[1])"""
    GIVE_BACK = """
        if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
        if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then
            redis.call('PEXPIRE', KEYS[1], ARGV[1])
            return 0
        end
        redis.call('DEL', KEYS[1])
        redis.call('PUBLISH', KEYS[2], ARGV[3])
        return 1"""

    def __init__(self, servers, key, ttl_s):
        self.client, self.key, self.ttl_ms = servers.clients[0], key, int(ttl_s * 1000)
        self.holder = f'{secrets.token_hex(8)}:1'  # the id of a client and that of a thread
        self.channel = f'redisson_lock__channel:{{{key}}}'

    def acquire(self):
        return by_digest(self.client, self.TAKE, [self.key], self.ttl_ms, self.holder) is None

    def release(self):
        keys = [self.key, self.channel]
        return by_digest(self.client, self.GIVE_BACK, keys, self.ttl_ms, self.holder, self.MESSAGE) == 1

    def extend(self):
        return by_digest(self.client, self.RENEW, [self.key], self.ttl_ms, self.holder) == 1

    def takes(self):
        """Returns how often the holder has taken the lock."""
        return int(self.client.hget(self.key, self.holder) or 0)


class RedissonFair(Redisson):
    """Redisson's fair lock: the waiters are in a list, with the times at which they give up in a sorted set."""

    PATIENCE_MS = 300_000
    WITHOUT_STALE = """
        while true do
            local first = redis.call('LINDEX', KEYS[2], 0)
            if not first or tonumber(redis.call('ZSCORE', KEYS[3], first)) > tonumber(ARGV[3]) then break end
            redis.call('ZREM', KEYS[3], first)
            redis.call('LPOP', KEYS[2])
        end """
    TAKE_IN_TURN = (
        WITHOUT_STALE
        + """
        local now, patience = tonumber(ARGV[3]), tonumber(ARGV[4])
        local first = redis.call('LINDEX', KEYS[2], 0)
        if redis.call('EXISTS', KEYS[1]) == 0 and (not first or first == ARGV[2]) then
            redis.call('LPOP', KEYS[2])
            redis.call('ZREM', KEYS[3], ARGV[2])
            for _, waiter in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
                redis.call('ZINCRBY', KEYS[3], -patience, waiter)
            end
            redis.call('HSET', KEYS[1], ARGV[2], 1)
            redis.call('PEXPIRE', KEYS[1], ARGV[1])
            return nil
        end
        if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
            redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
            redis.call('PEXPIRE', KEYS[1], ARGV[1])
            return nil
        end
        local until_when = redis.call('ZSCORE', KEYS[3], ARGV[2])
        if until_when then return tonumber(until_when) - patience - now end
        local last, ttl = redis.call('LINDEX', KEYS[2], -1), redis.call('PTTL', KEYS[1])
        if last then ttl = tonumber(redis.call('ZSCORE', KEYS[3], last)) - now end
        if redis.call('ZADD', KEYS[3], ttl + patience + now, ARGV[2]) == 1 then
            redis.call('RPUSH', KEYS[2], ARGV[2])
        end
        return ttl"""
    )
    GIVE_TO_NEXT = (
        WITHOUT_STALE
        + """
        if redis.call('EXISTS', KEYS[1]) == 1 then
            if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
            if redis.call('HINCRBY', KEYS[1], ARGV[2], -1) > 0 then
                redis.call('PEXPIRE', KEYS[1], ARGV[1])
                return 0
            end
            redis.call('DEL', KEYS[1])
        end
        local first = redis.call('LINDEX', KEYS[2], 0)
        if first then redis.call('PUBLISH', KEYS[4] .. ':' .. first, ARGV[4]) end
        return 1"""
    )

    def __init__(self, servers, key, ttl_s):
        super().__init__(servers, key, ttl_s)
        self.keys = [key, f'redisson_lock_queue:{{{key}}}', f'redisson_lock_timeout:{{{key}}}']

    def ask(self, script, keys, last):
        return by_digest(self.client, script, keys, self.ttl_ms, self.holder, int(time.time() * 1000), last)

    def acquire(self):
        return self.ask(self.TAKE_IN_TURN, self.keys, self.PATIENCE_MS) is None

    def release(self):
        return self.ask(self.GIVE_TO_NEXT, [*self.keys, self.channel], self.MESSAGE) == 1


def reentrance(library, servers):
    """A holder takes its lock again, and gives it back as often; only the last time tells the others."""
    holder, other = library(servers, 'twice', 60), library(servers, 'twice', 60)
    listener = servers.clients[0].pubsub()
    listener.psubscribe('redisson_lock__channel*')
    assert listener.get_message(timeout=30)['type'] == 'psubscribe'
    assert holder.acquire() and holder.acquire() and not other.acquire() and holder.takes() == 2
    assert not holder.release() and not other.acquire() and holder.takes() == 1
    assert holder.release() and holder.takes() == 0
    message = listener.get_message(timeout=30)
    assert message['data'] == '0' and message['channel'].startswith(holder.channel), message
    assert other.acquire() and other.release()
    listener.close()


def turns(library, servers):
    """Waiters get the lock in the order of their arrival, each by a message of its own."""
    locks = [library(servers, 'turns', 60) for _ in range(5)]
    listener = servers.clients[0].pubsub()
    listener.subscribe(*(f'{lock.channel}:{lock.holder}' for lock in locks))
    for _ in locks:
        assert listener.get_message(timeout=30)['type'] == 'subscribe'
    assert [lock.acquire() for lock in locks] == [True, False, False, False, False]
    for place, (holder, following) in enumerate(zip(locks, locks[1:])):
        assert holder.release()
        assert not any(lock.acquire() for lock in locks[place + 2 :]), 'one out of turn'
        assert listener.get_message(timeout=30)['channel'].endswith(following.holder)
        assert following.acquire(), 'the next in turn is refused'
    assert locks[-1].release() and not servers.clients[0].exists(*locks[0].keys)
    listener.close()


Redisson.own_claims = [reentrance]
RedissonFair.own_claims = [reentrance, turns]

LIBRARIES = {
    'ShedLock, replayed': ShedLock,
    'redsync, replayed': Redsync,
    'redislock, replayed': Redislock,
    'Laravel lock, replayed': Laravel,
    'Laravel funnel, replayed': LaravelFunnel,
    'Redisson lock, replayed': Redisson,
    'Redisson fair lock, replayed': RedissonFair,
}
