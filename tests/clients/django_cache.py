"""Uses a server as a cache of Django's, by django-redis and by Django's own backend.

    KEYLATCH_SERVERS=host:port django_cache.py
"""

import os

import django
import django_redis
from django.conf import settings
from django.core.cache import caches

BACKENDS = {'django_redis': 'django_redis.cache.RedisCache', 'django': 'django.core.cache.backends.redis.RedisCache'}


def walk(cache):
    """Uses the features that all of Django's caches have."""
    cache.clear()
    cache.set('page', {'title': 'grüß dich', 'tags': [1, 2]}, timeout=100)
    assert cache.get('page') == {'title': 'grüß dich', 'tags': [1, 2]} and cache.get('missing', 'none') == 'none'
    assert cache.add('page', 1) is False and cache.add('new', 1) is True
    assert cache.incr('new', 4) == 5 and cache.decr('new') == 4
    try:
        cache.incr('missing')
        raise AssertionError('INCR of a key that is not there')
    except ValueError:
        pass
    assert cache.get_or_set('made', lambda: 'value', 100) == 'value' and 'made' in cache
    cache.set_many({'a': 1, 'b': 'two', 'c': None})
    assert cache.get_many(['a', 'b', 'c', 'missing']) == {'a': 1, 'b': 'two', 'c': None}
    assert cache.touch('a', 50) is True and cache.touch('missing', 50) is False
    assert cache.incr_version('b') == 2 and cache.get('b') is None and cache.get('b', version=2) == 'two'
    assert cache.delete('a') is True and cache.delete('a') is False
    cache.delete_many(['c', 'made'])
    cache.set('gone', 1, timeout=0)
    assert cache.get('gone') is None and not cache.has_key('c')


def walk_further(cache):
    """Uses the additional features of django-redis."""
    cache.set('kept', 1, timeout=None)
    assert cache.ttl('kept') is None and cache.ttl('missing') == 0
    assert cache.expire('kept', 100) and 0 < cache.ttl('kept') <= 100 and 0 < cache.pttl('kept') <= 100_000
    assert cache.persist('kept') and cache.ttl('kept') is None
    assert cache.set('kept', 2, nx=True) is False and cache.get('kept') == 1
    cache.set_many({f'row:{number}': number for number in range(100)})
    rows = {f'row:{number}' for number in range(100)}
    assert set(cache.keys('row:*')) == set(cache.iter_keys('row:*', itersize=7)) == rows
    assert cache.delete_pattern('row:*', itersize=7) == 100


def main():
    host, port = os.environ['KEYLATCH_SERVERS'].split(':')[:2]
    settings.configure(
        CACHES={'default': {'BACKEND': 'django.core.cache.backends.dummy.DummyCache'}}
        | {name: {'BACKEND': backend, 'LOCATION': f'redis://{host}:{port}/1'} for name, backend in BACKENDS.items()}
    )
    for name in BACKENDS:
        walk(caches[name])
    walk_further(caches['django_redis'])
    print(f'Django {django.__version__} and django-redis {".".join(map(str, django_redis.VERSION))}: caches: well')


if __name__ == '__main__':
    main()
