"""Keeps sessions, rooms and collections on a server as web applications of Python do, and takes their locks.

KEYLATCH_SERVERS=host:port sessions_and_rooms.py LIBRARY...
"""

import asyncio
import contextlib
import os
import sys
import threading
import time
import warnings

import redis

import cases

PATIENCE_S = 40
MANY = 300  # more than a small collection holds in its packed form
HOST, PORT = os.environ['KEYLATCH_SERVERS'].split()[0].split(':')[:2]
URL = f'redis://{HOST}:{PORT}/0'


def client(**options):
    return redis.Redis(host=HOST, port=int(PORT), **options)


def same(got, expected):
    assert got == expected, f'{got!r} and not {expected!r}'


@contextlib.contextmanager
def raises(kind):
    try:
        yield
    except kind:
        return
    raise AssertionError(f'no {kind.__name__}')


def exclusion(lock, threads=4, sections=25):
    """Adds to a counter without care in several threads, each time under the lock, and proves it exact."""
    counter, trouble = client(db=1), []
    counter.set('counter', 0)

    def work():
        try:
            for _ in range(sections):
                with lock():
                    counter.set('counter', int(counter.get('counter')) + 1)
        except Exception as error:
            trouble.append(error)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
    same([trouble, int(counter.get('counter'))], [[], threads * sections])


def flask_session():
    import flask
    import flask_session as library

    def application():
        app = flask.Flask('sessions')
        app.config.update(SESSION_TYPE='redis', SESSION_REDIS=client(), SESSION_PERMANENT=True)
        app.config.update(PERMANENT_SESSION_LIFETIME=3600)
        library.Session(app)

        @app.route('/visit')
        def visit():
            flask.session['visits'] = flask.session.get('visits', 0) + 1
            flask.session['word'] = 'grüß dich'
            return str(flask.session['visits'])

        @app.route('/leave')
        def leave():
            flask.session.clear()
            return 'left'

        @app.route('/renew')
        def renew():
            app.session_interface.regenerate(flask.session)
            return 'renewed'

        return app

    first, other = application().test_client(), application().test_client()
    same([first.get('/visit').text for _ in range(3)], ['1', '2', '3'])
    same(other.get('/visit').text, '1')
    # Another process of the application finds the session by its cookie.
    cookie = first.get_cookie('session')
    second = application().test_client()
    second.set_cookie('session', cookie.value)
    same(second.get('/visit').text, '4')
    server = client()
    keys = sorted(server.keys('session:*'))
    same(len(keys), 2)
    assert all(3590 < server.ttl(key) <= 3600 for key in keys), 'a session has no lifetime'
    first.get('/renew')
    assert first.get_cookie('session').value != cookie.value and first.get('/visit').text == '5'
    first.get('/leave')
    same(len(server.keys('session:*')), 1)
    return 'sessions persist, are shared, renewed and removed'


async def rooms(layer, named=False, subscribed=None):
    """Proves what every layer of channels promises; `subscribed` waits for so many subscriptions to have begun."""

    async def receive(channel):
        return await asyncio.wait_for(layer.receive(channel), PATIENCE_S)

    if named:  # a channel that is sent to before it is received from
        await layer.send('direct', {'type': 'hello', 'text': 'grüß dich', 'bytes': b'\x00\xff'})
        same(await receive('direct'), {'type': 'hello', 'text': 'grüß dich', 'bytes': b'\x00\xff'})
    members = [await layer.new_channel() for _ in range(5)]
    assert len(set(members)) == 5
    waiting = [asyncio.create_task(receive(channel)) for channel in members]
    await asyncio.sleep(0)
    if subscribed:
        await subscribed(len(members))
    for number, channel in enumerate(members):
        await layer.send(channel, {'type': 'mine', 'number': number})
    same([(await each)['number'] for each in waiting], [0, 1, 2, 3, 4])
    for channel in members:
        await layer.group_add('room', channel)
    if subscribed:
        await subscribed(len(members) + 1)
    await layer.group_discard('room', members[0])
    for number in range(3):
        await layer.group_send('room', {'type': 'said', 'number': number})
    for channel in members[1:]:
        same([(await receive(channel))['number'] for _ in range(3)], [0, 1, 2])
    await layer.group_send('nobody', {'type': 'said'})
    # Who has left the room hears the next message and none of the room's.
    await layer.send(members[0], {'type': 'mine', 'number': 99})
    same(await receive(members[0]), {'type': 'mine', 'number': 99})


async def channels_core():
    from channels.exceptions import ChannelFull
    from channels_redis.core import RedisChannelLayer

    layer = RedisChannelLayer(hosts=[(HOST, int(PORT))], capacity=10)
    await rooms(layer, named=True)
    for number in range(10):
        await layer.send('full', {'type': 'x', 'number': number})
    with raises(ChannelFull):
        await layer.send('full', {'type': 'x'})
    # Another process takes over what waits.
    other = RedisChannelLayer(hosts=[(HOST, int(PORT))])
    same([(await other.receive('full'))['number'] for _ in range(10)], list(range(10)))
    await layer.flush()
    same(client().keys('asgi*'), [])
    for each in (layer, other):
        await each.close_pools()
    return 'channels, groups, capacity'


async def channels_pubsub():
    from channels_redis.pubsub import RedisPubSubChannelLayer

    layer = RedisPubSubChannelLayer(hosts=[(HOST, int(PORT))])
    server = client()

    async def subscribed(count):  # which the layer does not wait for
        while len(server.pubsub_channels()) < count:
            await asyncio.sleep(0.01)

    await rooms(layer, subscribed=lambda count: asyncio.wait_for(subscribed(count), PATIENCE_S))
    await layer.flush()
    return 'channels and groups'


def pottery():
    warnings.simplefilter('ignore')  # of slow calls
    from pottery import NextID, RedisCounter, RedisDeque, RedisDict, RedisList, RedisSet, RedisSimpleQueue

    server = client()

    def another(kind, key):
        return kind(redis=client(), key=key)

    numbers = RedisDict({f'n{each}': each for each in range(MANY)}, redis=server, key='dict')
    numbers['nested'] = {'list': [1, 2.5, None, 'ü']}
    same(
        another(RedisDict, 'dict'),
        {f'n{each}': each for each in range(MANY)} | {'nested': {'list': [1, 2.5, None, 'ü']}},
    )
    del numbers['n0']
    with raises(KeyError):
        numbers['n0']
    same([len(numbers), numbers.pop('n1'), 'n1' in numbers, numbers.get('none', 7)], [MANY, 1, False, 7])
    numbers.update({'n2': 'two'}, n3='three')
    same([numbers['n2'], numbers['n3']], ['two', 'three'])

    some = RedisSet(range(MANY), redis=server, key='set')
    other = RedisSet(range(MANY // 2, 2 * MANY), redis=server, key='other')
    same(sorted(some.intersection(other)), list(range(MANY // 2, MANY)))
    same(len(some.union(other)), 2 * MANY)
    same(sorted(some.difference(other)), list(range(MANY // 2)))
    same([another(RedisSet, 'set') == set(range(MANY)), 5 in some, MANY in some], [True, True, False])
    some.add('word')
    some.discard(0)
    same([len(some), some.pop() in set(range(1, MANY)) | {'word'}, len(some)], [MANY, True, MANY - 1])
    some.difference_update(other)
    assert some.isdisjoint(other) and some.issubset(set(range(MANY)) | {'word'})

    row = RedisList(range(MANY), redis=server, key='list')
    row.append('end')
    row.insert(0, 'start')
    row[5] = 'five'
    del row[6]
    expected = ['start', *range(MANY), 'end']
    expected[5] = 'five'
    del expected[6]
    same(list(another(RedisList, 'list')), expected)
    same(
        [row[-1], row[1:4], row.index('five'), row.count(7), row.pop(), row.pop(0)],
        ['end', [0, 1, 2], 5, 1, 'end', 'start'],
    )
    row.extend(['x', 'y'])
    row.remove('x')
    same([row[-1], len(row)], ['y', MANY])

    ring = RedisDeque(range(5), redis=server, key='deque', maxlen=5)
    ring.append(5)
    ring.appendleft('left')
    same(list(ring), ['left', 1, 2, 3, 4])
    ring.rotate(2)
    same([list(ring), ring.popleft(), ring.pop()], [[3, 4, 'left', 1, 2], 3, 2])

    counts = RedisCounter('abracadabra', redis=server, key='counter')
    counts['a'] += 3
    counts['z'] -= 2
    same([counts['a'], counts['missing'], counts['z']], [8, 0, -2])
    same(counts.most_common(2), [('a', 8), ('b', 2)])
    same(dict(another(RedisCounter, 'counter')), {'a': 8, 'b': 2, 'r': 2, 'c': 1, 'd': 1, 'z': -2})

    queue = RedisSimpleQueue(redis=server, key='queue')
    for number in range(3):
        queue.put(number)
    same([queue.qsize(), [queue.get() for _ in range(3)], queue.empty()], [3, [0, 1, 2], True])
    ids = NextID(key='ids', masters={server})
    same([next(ids) for _ in range(3)], [1, 2, 3])
    return 'RedisDict, RedisSet, RedisList, RedisDeque, RedisCounter, RedisSimpleQueue, NextID'


def huey_lock():
    import huey
    from huey.exceptions import TaskLockedException

    app = huey.RedisHuey('locks', host=HOST, port=int(PORT))
    lock = app.lock_task('one')
    with lock:
        assert lock.is_locked()
        with raises(TaskLockedException):
            with app.lock_task('one'):
                raise AssertionError('two have the lock')
        with app.lock_task('two'):
            pass
    assert not lock.is_locked()
    deadline = time.monotonic() + PATIENCE_S

    @contextlib.contextmanager
    def patient():
        mine = app.lock_task('busy')
        while True:
            try:
                mine.__enter__()
                break
            except TaskLockedException:
                assert time.monotonic() < deadline, 'waited in vain for the lock'
        try:
            yield
        finally:
            mine.__exit__(None, None, None)

    exclusion(patient)
    app.lock_task('left').__enter__()
    same([app.flush_locks('left'), app.lock_task('left').is_locked()], [{'left'}, False])
    return 'exclusion, refusal, flush'


def walrus_database():
    import walrus

    return walrus.Database(host=HOST, port=int(PORT), db=0)


def walrus_containers():
    db = walrus_database()
    row = db.Hash('hash')
    row.update({f'f{each}': each for each in range(MANY)}, name='x')
    same(
        [len(row), row['f7'], row.incr('f7', 5), row['name', 'f1'], 'none' in row],
        [MANY + 1, b'7', 12, [b'x', b'1'], False],
    )
    same(sorted(dict(row.search('f29*'))), sorted(f'f{each}'.encode() for each in [29, *range(290, 300)]))
    del row['name']
    same([row.setnx('f7', 1), sorted(row.keys())[0], len(row.as_dict())], [False, b'f0', MANY])

    line = db.List('list')
    line.extend(range(MANY))
    line.prepend('first')
    line.insert_after('between', '0')
    same(
        [line[:3], line[-1], len(line), line.popleft(), line.popright()],
        [[b'first', b'0', b'between'], b'299', MANY + 2, b'first', b'299'],
    )
    del line['between']
    line[0] = 'zero'
    same([b'between' in list(line), line[0], line.bpopleft(timeout=1)], [False, b'zero', b'zero'])
    same(db.List('sorts').extend([3, 1, 2]), 3)
    same(db.List('sorts').sort(), [b'1', b'2', b'3'])

    one, two = db.Set('one'), db.Set('two')
    one.add(*range(MANY))
    two.add(*range(MANY - 10, MANY + 10), 'word')
    same([len(one & two), len(one | two), len(two - one)], [10, MANY + 11, 11])
    one.interstore('both', two)
    same([len(db.Set('both')), 5 in one, one.remove(5), 5 in one, one.pop() is not None], [10, True, 1, False, True])

    scores = db.ZSet('zset')
    scores.add({f'm{each}': each for each in range(MANY)})
    same(
        [scores.score('m3'), scores.rank('m3'), scores.incr('m3', 1000.5), scores.rank('m3')],
        [3.0, 3, 1003.5, MANY - 1],
    )
    same(
        [scores.range_by_score(10, 12), scores.popmin(), len(scores[:5])], [[b'm10', b'm11', b'm12'], [(b'm0', 0.0)], 5]
    )
    same([scores.count(10, 19), scores.remove_by_score(10, 19), len(scores)], [10, 10, MANY - 11])
    same(scores.bpopmax(timeout=1), (b'm3', 1003.5))

    stream = db.Stream('stream')
    ids = [stream.add({'number': each}) for each in range(MANY)]
    same([len(stream), stream[ids[3]][1], len(stream[ids[10] :: 5])], [MANY, {b'number': b'3'}, 5])
    same([stream.trim(100, approximate=False), len(stream)], [MANY - 100, 100])
    group = db.consumer_group('group', ['stream'])
    group.create()
    group.set_id('0')
    mine, theirs = group.consumer('mine'), group.consumer('theirs')
    got = mine.stream.read(count=60)
    same([len(got), len(theirs.stream.read(count=60)), theirs.stream.read(count=60)], [60, 40, []])
    same([mine.stream.ack(*[each for each, _ in got[:50]]), len(mine.stream.pending())], [50, 50])
    same(len(theirs.stream.claim(*[each for each, _ in got[50:]])), 10)
    group.destroy()

    found = db.autocomplete('complete')
    for each in ['testing python', 'testing walrus', 'python web']:
        found.store(each)
    same(
        [sorted(found.search('testing')), list(found.search('testing p'))],
        [['testing python', 'testing walrus'], ['testing python']],
    )
    graph = db.graph('graph')
    graph.store_many([('charlie', 'friends', 'huey'), ('charlie', 'friends', 'zaizee'), ('huey', 'friends', 'charlie')])
    same({each['o'] for each in graph.query(s='charlie', p='friends')}, {'huey', 'zaizee'})
    return 'Hash, List, Set, ZSet, Stream, consumer group, autocomplete, graph'


def walrus_locks():
    db = walrus_database()
    with db.lock('one', ttl=60000):
        same(db.lock('one', ttl=60000).acquire(block=False), False)
    exclusion(lambda: walrus_database().lock('busy', ttl=60000))
    robbed, holder = db.lock('robbed', ttl=60000), db.lock('robbed', ttl=60000)
    assert robbed.acquire(block=False)
    db.delete(robbed.key)
    assert holder.acquire(block=False)
    same([robbed.release(), holder.release()], [False, True])
    limit = db.rate_limit('limit', limit=5, per=3600)
    same([limit.limit('x') for _ in range(7)], [False] * 5 + [True] * 2)
    limit = db.rate_limit_lua('limit-lua', limit=5, per=3600)
    same([limit.limit('x') for _ in range(7)], [False] * 5 + [True] * 2)
    return 'exclusion with waiters woken through a list, refusal, rate limits'


LIBRARIES = {
    'flask-session': flask_session,
    'channels_redis pub/sub layer': channels_pubsub,
    'huey lock': huey_lock,
    'walrus locks': walrus_locks,
    'channels_redis layer': channels_core,
    'pottery collections': pottery,
    'walrus containers': walrus_containers,
}


if __name__ == '__main__':
    cases.run(LIBRARIES, sys.argv[1:], lambda: client().flushall())
