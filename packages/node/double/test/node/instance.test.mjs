// What tests steer: the clock, faults, the journal, snapshots, failover; by ioredis and node-redis.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { instance, start } from 'keylatch';
import { createClient } from 'redis';

const HOUR_MS = 3_600_000;
const FRAGILE = { retryStrategy: null, maxRetriesPerRequest: 0, enableReadyCheck: false };
let keylatch, client;
const connect = (options = {}) => new Redis(keylatch.url, options).on('error', () => {});

describe('an instance', { timeout: 120_000 }, () => {
  beforeEach(async () => {
    keylatch = await instance();
    client = connect();
  });
  afterEach(() => {
    client.disconnect();
    keylatch.close();
  });

  test('lets keys expire when time is advanced', async () => {
    await client.set('session', 'token', 'EX', 3600);
    await keylatch.advance(HOUR_MS - 60_000);
    assert.equal(await client.get('session'), 'token');
    await keylatch.advance(60_000);
    assert.equal(await client.get('session'), null);
  });

  test('can stand still and go on', async () => {
    const frozen = await keylatch.freeze();
    assert.equal(await keylatch.advance(5), frozen + 5);
    assert.deepEqual((await client.time()).map(Number), [Math.floor((frozen + 5) / 1000), (frozen + 5) % 1000 * 1000]);
    assert.ok(await keylatch.run() >= frozen + 5);
    const instant = new Date('2040-02-29T00:00:00Z');
    await keylatch.freeze();
    assert.equal(await keylatch.setTime(instant), Number(instant));
    assert.equal(await keylatch.now(), Number(instant));
  });

  test('wakes a blocked call at its deadline', async () => {
    await keylatch.freeze();
    const blocked = connect();
    const popped = blocked.blpop('queue', 60);
    while (!/blocked_clients:1/.test(await client.info('clients')));
    await keylatch.advance(60_000);
    assert.equal(await popped, null);
    blocked.disconnect();
  });

  test('refuses options that it does not know', async () => {
    const unknown = (name) => new TypeError(`unknown option '${name}'`);
    await assert.rejects(keylatch.fault('SET', { error: 'ERR x', cuont: 1 }), unknown('cuont'));
    await assert.rejects(keylatch.calls({ mtach: 'SET' }), unknown('mtach'));
    await assert.rejects(keylatch.failover({ loose: 1 }), unknown('loose'));
    await assert.rejects(start({ setings: { maxmemory: '1mb' } }), unknown('setings'));
    await assert.rejects(start({ settings: { maxmemmory: '1mb' } }), /maxmemmory/);
    assert.equal(await client.set('key', 'value'), 'OK');
  });

  test('replies with errors as often as asked', async () => {
    const fault = await keylatch.fault('GET', { error: 'ERR not yet', count: 2 });
    await assert.rejects(client.get('key'), /not yet/);
    await assert.rejects(client.get('key'), /not yet/);
    assert.equal(await client.get('key'), null);
    assert.equal(await fault.fired(), 2);
    assert.equal(await fault.remove(), true);
    await assert.rejects(fault.fired(), /removed/);
  });

  test('breaks connections before a command, after it, and within its reply', async () => {
    for (const [kind, value] of [[{ drop: true }, null], [{ loseReply: true }, 'new'], [{ partial: 1 }, 'new']]) {
      const fragile = connect(FRAGILE);
      await fragile.ping();
      const fault = await keylatch.fault('SET', { ...kind, count: 1 });
      await assert.rejects(fragile.set('key', 'new'));
      assert.equal(await client.getdel('key'), value, JSON.stringify(kind));
      await fault.remove();
    }
  });

  test('can be slow', async () => {
    const slow = await keylatch.fault('ECHO', { delayMs: 60_000 });
    const impatient = connect({ ...FRAGILE, commandTimeout: 50 });
    await assert.rejects(impatient.echo('x'), /timed out/);
    impatient.disconnect();
    await slow.remove();
  });

  test('can lose a pushed message, and reset a new connection', async () => {
    const subscriber = connect();
    await subscriber.subscribe('news');
    const fault = await keylatch.fault('PUSH|message', { lose: true, count: 1, key: 'news' });
    const heard = new Promise((resolve) => subscriber.once('message', (_channel, text) => resolve(text)));
    assert.deepEqual([await client.publish('news', 'lost'), await client.publish('news', 'told')], [1, 1]);
    assert.equal(await heard, 'told');
    assert.equal(await fault.fired(), 1);
    subscriber.disconnect();
    const reset = await keylatch.fault('CONNECT', { drop: true, count: 1 });
    const other = connect(FRAGILE);
    await assert.rejects(other.ping());
    other.disconnect();
    assert.equal(await reset.fired(), 1);
  });

  test('hits some keys, some clients, and by chance that repeats itself', async () => {
    await keylatch.fault('GET', { error: 'ERR chosen', key: 'user:*' });
    await keylatch.fault('INCR', { error: 'ERR chosen', client: 'worker' });
    const worker = connect({ connectionName: 'worker' });
    await client.get('group:1');
    await assert.rejects(client.get('user:1'), /chosen/);
    await assert.rejects(worker.incr('n'), /chosen/);
    await keylatch.clearFaults();
    assert.equal(await worker.incr('n'), 1);
    worker.disconnect();
    const hits = async () => {
      const fault = await keylatch.fault('ECHO', { error: 'ERR unlucky', prob: 0.5, seed: 7, after: 2 });
      const replies = await Promise.allSettled(Array.from({ length: 40 }, () => client.echo('x')));
      await fault.remove();
      return replies.map(({ status }) => status === 'rejected');
    };
    const first = await hits();
    assert.deepEqual(await hits(), first);
    assert.deepEqual([first[0], first[1], first.includes(true)], [false, false, true]);
    for (const options of [undefined, {}, { drop: true, error: 'ERR' }]) {
      await assert.rejects(keylatch.fault('GET', options), { name: 'TypeError', message: /^exactly one of/ });
    }
  });

  test('lists what a library sends of itself, unless a command is named', async () => {
    await client.set('key', 'value');
    const settings = (await keylatch.calls()).filter(({ args }) => /client setinfo/i.test(args.join(' ')));
    assert.equal(settings.length, 2);
    assert.deepEqual((await keylatch.calls({ match: 'SET' })).map(({ args }) => args), [['set', 'key', 'value']]);
  });

  test('lists the calls with what happened to them', async () => {
    await keylatch.forgetCalls();
    const now = await keylatch.freeze();
    await client.set('key', 'value', 'EX', 10);
    await keylatch.fault('SET', { error: 'ERR no' });
    await assert.rejects(client.set('key', 'other'));
    const [first, second] = await keylatch.calls({ match: 'SET' });
    assert.deepEqual([first.timeMs, first.args], [now, ['set', 'key', 'value', 'EX', '10']]);
    assert.equal(first.clientId, await client.client('ID'));
    assert.ok(first.fault === null && second.fault !== null);
    assert.deepEqual((await keylatch.calls({ match: 'SET', count: 1 })).map(({ args }) => args[2]), ['other']);
    await keylatch.forgetCalls();
    assert.deepEqual(await keylatch.calls(), []);
  });

  test('brings a snapshot back', async () => {
    await client.set('user', '1');
    await keylatch.snapshot();
    await keylatch.advance(HOUR_MS);
    const now = await keylatch.now();
    for (let times = 0; times < 2; times += 1) {
      await client.flushall();
      await keylatch.restore();
      assert.equal(await client.get('user'), '1');
    }
    assert.ok(await keylatch.now() >= now);
    await assert.rejects(keylatch.restore('unknown'), { name: 'ReplyError' });
  });

  test('fails over and forgets the last writes', async () => {
    for (const name of 'abc') await client.set(name, 1);
    const closed = new Promise((resolve) => client.once('close', resolve));
    await keylatch.failover({ lose: 2 });
    await closed;
    assert.deepEqual(await client.keys('*'), ['a']);
    assert.equal(await keylatch.command('GET', 'a'), '1');
    await assert.rejects(keylatch.failover({ lose: 1e6 }), /only \d+ writes are remembered/);
  });

  test('has a replica that lags, and a failover to it loses what it lacks', async () => {
    await keylatch.freeze();
    const replica = await keylatch.replica();
    const reader = new Redis(replica.url);
    await replica.fault('LINK', { delayMs: 100 });
    await client.set('early', 1);
    await replica.advance(100); // the clock of both
    await client.set('late', 1);
    assert.deepEqual(await reader.mget('early', 'late'), ['1', null]);
    await assert.rejects(reader.set('key', 1), /READONLY/);
    await keylatch.failover({ lose: null });
    assert.equal(await keylatch.command('GET', 'early'), '1');
    assert.equal(await keylatch.command('GET', 'late'), null);
    reader.disconnect();
    replica.close();
  });

  test('has only its snapshots after a reset', async () => {
    await client.set('key', 1);
    await keylatch.snapshot('kept');
    await keylatch.command('ACL', 'SETUSER', 'guest', 'on', 'nopass', '+@all', '~*');
    await keylatch.fault('*', { error: 'ERR always' });
    await keylatch.freeze();
    await keylatch.setTime(0);
    await keylatch.reset();
    assert.deepEqual(await keylatch.calls(), []);
    assert.equal(await client.dbsize(), 0);
    assert.deepEqual((await keylatch.command('ACL', 'USERS')).sort(), ['default', keylatch.user]);
    await keylatch.restore('kept');
    assert.equal(await client.get('key'), '1');
    assert.ok(Math.abs(await keylatch.now() - Date.now()) < 60_000);
  });

  test('shares nothing with another', async () => {
    await client.set('key', '1');
    const other = await instance();
    await other.freeze();
    await other.setTime(0);
    assert.deepEqual([await other.command('DBSIZE'), await other.now()], [0, 0]);
    assert.equal(await client.get('key'), '1');
    assert.ok(await keylatch.now() > HOUR_MS);
    other.close();
  });

  test('is in the same process as another, under a user of its own', async () => {
    const other = await instance();
    const processes = await Promise.all([keylatch, other].map(async (each) => {
      const info = await each.command('INFO', 'server');
      assert.equal(await each.command('ACL', 'WHOAMI'), each.user);
      return /process_id:(\d+)/.exec(info)[1];
    }));
    assert.equal(processes[0], processes[1]);
    assert.match(other.url, /^redis:\/\/ns-[\w-]+:any@127\.0\.0\.1:\d+\/0$/);
    assert.notEqual(other.url, keylatch.url);
    other.close();
  });

  test('has channels, locks, snapshots and failovers of its own', async () => {
    const [other, subscriber] = [await instance(), connect()];
    await subscriber.subscribe('news');
    assert.equal(await other.command('PUBLISH', 'news', 'x'), 0);
    for (const each of [keylatch, other]) {
      assert.ok(await each.command('LOCK.ACQUIRE', 'lock', 'token', 'PX', 1000) > 0);
    }
    await keylatch.snapshot();
    await assert.rejects(other.restore(), { name: 'ReplyError' });
    const id = await client.client('ID');
    await other.failover({ lose: 1 });
    assert.equal(await other.command('EXISTS', 'lock'), 0);
    assert.deepEqual([await client.exists('lock'), await client.client('ID')], [1, id]);
    subscriber.disconnect();
    other.close();
  });

  test('is shared by its name, and changes no setting of the process', async () => {
    const name = randomUUID();
    const [one, same] = await Promise.all([instance(name), instance(name)]);
    await one.command('SET', 'key', '1');
    assert.deepEqual([await same.command('GET', 'key'), same.url], ['1', one.url]);
    await assert.rejects(one.command('CONFIG', 'SET', 'maxclients', '5'), /the whole process/);
    one.close();
    same.close();
  });

  test('has faults and a journal of its own', async () => {
    const other = await instance();
    await other.fault('GET', { error: 'ERR mine' });
    assert.equal(await client.get('key'), null);
    assert.equal((await other.calls({ match: 'GET' })).length, 0);
    assert.equal((await keylatch.calls({ match: 'GET' })).length, 1);
    other.close();
  });

  test('does not fail by a message that its control connection has subscribed to', async () => {
    await keylatch.command('SUBSCRIBE', 'news');
    assert.equal(await client.publish('news', 'x'), 1);
    assert.equal(await keylatch.command('ECHO', 'x'), 'x');
  });

  test('serves node-redis', async () => {
    const redis = await createClient({ url: keylatch.url }).on('error', () => {}).connect();
    await keylatch.fault('INCR', { drop: true, count: 1 });
    await assert.rejects(redis.incr('n'));
    assert.equal(await redis.incr('n'), 1);
    redis.destroy();
  });

  test('replies of any kind arrive at the control connection', async () => {
    await keylatch.command('HSET', 'hash', 'field', 'völlig ☃');
    assert.deepEqual(await keylatch.command('HGETALL', 'hash'), { field: 'völlig ☃' });
    assert.match(await keylatch.command('INFO', 'server'), /^# Server/);
    await keylatch.command('SET', 'largest', String(2 ** 53 - 2));
    assert.equal(await keylatch.command('INCR', 'largest'), Number.MAX_SAFE_INTEGER);
    assert.equal(await keylatch.command('INCR', 'largest'), 2n ** 53n);
    assert.equal(await keylatch.command('DECRBY', 'largest', 2n ** 63n - 1n), 2n ** 53n - 2n ** 63n + 1n);
    assert.equal(await keylatch.command('EVAL', 'redis.setresp(3) return {double=-1/0}', 0), -Infinity);
    const replies = await Promise.all(Array.from({ length: 100 }, (_, number) => keylatch.command('ECHO', number)));
    assert.deepEqual(replies, Array.from({ length: 100 }, (_, number) => String(number)));
    const large = 'x'.repeat(1_000_000);
    await keylatch.command('SET', 'large', large);
    assert.equal(await keylatch.command('GET', 'large'), large);
    await assert.rejects(keylatch.command('INCR', 'hash'), { name: 'ReplyError', message: /WRONGTYPE/ });
  });
});
