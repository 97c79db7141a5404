"""Proves that pytest-redis accepts keylatch as its redis-server: version, options, ready, empty for each test.

    pytest --redis-exec=/path/to/keylatch with_pytest_redis.py
"""


def test_a_lock_is_taken_once(redisdb):
    assert redisdb.set('lock', 'a', nx=True, px=60_000)
    assert not redisdb.set('lock', 'b', nx=True, px=60_000)
    assert redisdb.get('lock') == b'a'


def test_the_next_test_finds_nothing(redisdb):
    assert redisdb.dbsize() == 0
