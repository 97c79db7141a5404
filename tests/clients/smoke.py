"""Uses a server as redis-py does: sync and asyncio, RESP2 and RESP3.

    KEYLATCH_SERVERS=host:port smoke.py
"""

import asyncio
import os

import redis
import redis.asyncio

PATIENCE_S = 30


def smoke(host, port, protocol):
    """Walks through the blocking client."""
    client = redis.Redis(host=host, port=port, protocol=protocol, decode_responses=True, client_name='smoke')
    assert client.ping() is True
    client.flushall()

    # What the client says of itself on connecting is seen on the other side.
    info = client.client_info()
    assert (info['name'], info['lib-name'], info['lib-ver']) == ('smoke', 'redis-py', redis.__version__), info
    assert int(info['resp']) == protocol, info
    assert client.client_setinfo('LIB-NAME', 'renamed')
    assert client.client_info()['lib-name'] == 'renamed'

    # Strings.
    assert client.set('greeting', 'grüß dich') is True
    assert client.get('greeting') == 'grüß dich'
    assert client.get('missing') is None
    assert client.set('greeting', 'other', nx=True) is None
    assert client.set('greeting', 'other', get=True) == 'grüß dich'
    assert client.mset({'a': 1, 'b': 2}) is True and client.mget('a', 'b', 'missing') == ['1', '2', None]
    assert client.incr('a', 41) == 42 and client.incrbyfloat('f', 1.5) == 1.5
    assert client.append('b', '!') == 2 and client.getrange('b', 0, -1) == '2!'
    assert client.exists('a', 'b', 'missing') == 2 and client.type('a') == 'string'
    raw = redis.Redis(host=host, port=port, protocol=protocol)
    assert raw.set('bytes', b'\x00\r\n\xff') and raw.get('bytes') == b'\x00\r\n\xff'

    # The lock's calls.
    assert client.setnx('lock', 1) is True and client.setnx('lock', 2) is False
    assert client.getset('lock', 2) == '1' and client.delete('lock') == 1

    # Times to live.
    assert client.set('short', 'x', px=5000) and 0 < client.pttl('short') <= 5000
    assert client.expire('a', 100) is True and 0 < client.ttl('a') <= 100
    assert client.expire('missing', 100) is False
    assert client.persist('a') is True and client.ttl('a') == -1
    assert client.getex('a', ex=7) == '42' and client.ttl('a') == 7

    # Many commands in one write; as one transaction; under a watch.
    assert client.pipeline(transaction=False).set('p', 1).incr('p').get('p').execute() == [True, 2, '2']
    assert client.pipeline(transaction=True).set('t', 1).incr('t').get('t').execute() == [True, 2, '2']
    assert client.transaction(lambda pipe: (pipe.get('t'), pipe.multi(), pipe.incr('t')), 't') == [3]
    with client.pipeline() as pipe:
        pipe.watch('t')
        client.set('t', 'touched')
        pipe.multi()
        pipe.set('t', 'overwritten')
        try:
            pipe.execute()
            raise AssertionError('a touched key did not abort the transaction')
        except redis.WatchError:
            assert client.get('t') == 'touched'
    try:
        client.incr('t')
        raise AssertionError('INCR of a word succeeded')
    except redis.ResponseError as error:
        assert 'not an integer' in str(error), error

    # Scripts: by digest, loaded where the server does not know it; their errors are errors.
    client.script_flush()
    add = client.register_script("return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}")
    assert add(keys=['n'], args=[5]) == ['n', 5] and client.script_exists(add.sha) == [True]
    refused = {"return redis.call('NOSUCH')": 'Unknown Redis command', "return redis.error_reply('MINE no')": 'MINE no'}
    for text, said in refused.items():
        try:
            client.eval(text, 0)
            raise AssertionError(f'{text} succeeded')
        except redis.ResponseError as error:
            assert said in str(error), error

    # Messages.
    listener = client.pubsub()
    listener.subscribe('news')
    listener.psubscribe('n?ws')
    kinds = [listener.get_message(timeout=PATIENCE_S)['type'] for _ in range(2)]
    assert kinds == ['subscribe', 'psubscribe'] and client.publish('news', 'hello') == 2
    heard = [listener.get_message(timeout=PATIENCE_S) for _ in range(2)]
    assert {(each['type'], each['data']) for each in heard} == {('message', 'hello'), ('pmessage', 'hello')}, heard
    listener.close()

    # The keyspace.
    client.mset({f'scan:{number}': number for number in range(1000)})
    assert set(client.scan_iter(match='scan:*', count=50)) == {f'scan:{number}' for number in range(1000)}
    assert client.dbsize() == len(client.keys())
    assert client.info()['redis_version'] and client.info('server')['tcp_port'] == port
    # The version that the server was started as, if any.
    assert f'redis-{client.info()["redis_version"]}'.startswith(os.environ.get('KEYLATCH_PROFILE', ''))
    assert client.config_get('maxmemory')['maxmemory'] == '0'
    client.flushall()
    client.close()


async def smoke_async(host, port, protocol):
    """Walks through the asyncio client."""
    client = redis.asyncio.Redis(host=host, port=port, protocol=protocol, decode_responses=True)
    assert await client.ping() is True
    assert await client.set('k', 'v', ex=100) is True and await client.get('k') == 'v'
    assert 0 < await client.ttl('k') <= 100
    await asyncio.gather(*(client.incr('n') for _ in range(100)))
    assert await client.get('n') == '100'
    async with client.pipeline(transaction=True) as pipe:
        assert await pipe.incr('n').get('n').execute() == [101, '101']
    async with client.pipeline() as pipe:
        await pipe.watch('n')
        await client.incr('n')
        pipe.multi()
        pipe.delete('n')
        try:
            await pipe.execute()
            raise AssertionError('a touched key did not abort the transaction')
        except redis.WatchError:
            pass
    assert await client.eval("return redis.call('GET', KEYS[1])", 1, 'k') == 'v'
    async with client.pubsub() as listener:
        await listener.subscribe('news')
        assert (await listener.get_message(timeout=PATIENCE_S))['type'] == 'subscribe'
        assert await client.publish('news', 'hello') == 1
        assert (await listener.get_message(timeout=PATIENCE_S))['data'] == 'hello'
    assert {key async for key in client.scan_iter(match='?')} == {'k', 'n'}
    await client.flushall()
    await client.aclose()


def main():
    host, port = os.environ['KEYLATCH_SERVERS'].split(':')[:2]
    port = int(port)
    for protocol in (2, 3):
        smoke(host, port, protocol)
        asyncio.run(smoke_async(host, port, protocol))
    print(f'redis-py {redis.__version__}: sync and asyncio, RESP2 and RESP3: well')


if __name__ == '__main__':
    main()
