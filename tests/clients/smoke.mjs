// Uses a server as node-redis and ioredis do.
//
//     KEYLATCH_SERVERS=host:port node smoke.mjs

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { createClient, WatchError } from 'redis';

const [host, port] = process.env.KEYLATCH_SERVERS.split(':').map((word, at) => (at ? Number(word) : word));
const version = (name) => createRequire(import.meta.url)(`${name}/package.json`).version;

/** Waits for what other connections bring. */
async function until(condition) {
  for (let tries = 0; !condition(); tries += 1) {
    assert.ok(tries < 3000, 'waited in vain');
    await sleep(10);
  }
}

async function nodeRedis(RESP) {
  const client = createClient({ socket: { host, port }, RESP, name: 'smoke' });
  client.on('error', (error) => { throw error; });
  await client.connect();
  assert.equal(await client.ping(), 'PONG');
  await client.flushAll();
  assert.equal(await client.clientGetName(), 'smoke');
  assert.equal((await client.clientInfo()).resp, RESP);

  assert.equal(await client.set('greeting', 'grüß dich'), 'OK');
  assert.equal(await client.get('greeting'), 'grüß dich');
  assert.equal(await client.get('missing'), null);
  assert.equal(await client.set('greeting', 'other', { NX: true }), null);
  assert.equal(Number(await client.setNX('lock', '1')), 1);
  assert.equal(Number(await client.setNX('lock', '2')), 0);
  assert.equal(await client.getSet('lock', '2'), '1');
  assert.equal(await client.del('lock'), 1);

  assert.equal(await client.set('short', 'x', { PX: 5000 }), 'OK');
  assert.ok(await client.pTTL('short') > 0);
  assert.equal(Number(await client.expire('greeting', 100)), 1);
  assert.ok(await client.ttl('greeting') > 0);

  const piped = await Promise.all(Array.from({ length: 1000 }, () => client.incr('n')));
  assert.deepEqual(piped, Array.from({ length: 1000 }, (_, index) => index + 1));
  assert.deepEqual(await client.multi().set('t', '1').incr('t').get('t').exec(), ['OK', 2, '2']);
  assert.deepEqual(await client.multi().set('t', '1').get('t').execAsPipeline(), ['OK', '1']);
  const other = await client.duplicate().connect();
  await client.watch('t');
  await other.set('t', 'touched');
  await assert.rejects(client.multi().set('t', 'overwritten').exec(), WatchError);
  assert.equal(await client.get('t'), 'touched');
  await assert.rejects(client.incr('t'), /not an integer/);

  const script = "return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}";
  assert.deepEqual(await client.eval(script, { keys: ['s'], arguments: ['5'] }), ['s', 5]);
  const digest = await client.scriptLoad(script);
  assert.deepEqual(await client.evalSha(digest, { keys: ['s'], arguments: ['5'] }), ['s', 10]);
  await assert.rejects(client.evalSha('f'.repeat(40)), /NOSCRIPT/);
  const heard = [];
  await other.subscribe('news', (text, channel) => heard.push([channel, text]));
  assert.equal(await client.publish('news', 'hello'), 1);
  await until(() => heard.length === 1);
  assert.deepEqual(heard, [['news', 'hello']]);
  await other.close();

  const names = Array.from({ length: 500 }, (_, number) => `scan:${number}`);
  await client.mSet(names.map((name) => [name, 'x']));
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: 'scan:*', COUNT: 50 })) keys.forEach((key) => found.add(key));
  assert.deepEqual([...found].sort(), names.sort());
  await client.flushAll();
  await client.close();
}

async function ioredis() {
  // With its ready check, which reads INFO, and its own reconnecting turned off so that a failure shows.
  const client = new Redis({ host, port, connectionName: 'smoke', enableReadyCheck: true, retryStrategy: null });
  await new Promise((resolve, reject) => client.once('ready', resolve).once('error', reject));
  assert.equal(await client.ping(), 'PONG');
  assert.equal(await client.client('GETNAME'), 'smoke');
  assert.equal(await client.set('k', 'v', 'EX', 100), 'OK');
  assert.equal(await client.get('k'), 'v');
  assert.deepEqual(await client.getBuffer('k'), Buffer.from('v'));
  assert.ok(await client.ttl('k') > 0);
  assert.equal(await client.pexpire('k', 50_000), 1);
  assert.equal(await client.set('k', 'w', 'PX', 100, 'NX'), null);
  assert.equal(await client.setnx('lock', 1), 1);
  assert.equal(await client.setnx('lock', 2), 0);
  assert.equal(await client.getset('lock', 2), '1');
  assert.equal(await client.del('lock'), 1);
  assert.deepEqual(await client.pipeline().incr('n').incr('n').get('n').exec(), [[null, 1], [null, 2], [null, '2']]);
  assert.deepEqual(await client.multi().incr('n').get('n').exec(), [[null, 3], [null, '3']]);
  const other = client.duplicate();
  await client.watch('n');
  await other.incr('n');
  assert.equal(await client.multi().del('n').exec(), null);
  await assert.rejects(client.incr('k'), /not an integer/);

  client.defineCommand('add', { numberOfKeys: 1, lua: "return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}" });
  assert.deepEqual(await client.add('s', 5), ['s', 5]);
  assert.deepEqual(await client.pipeline().add('s', 5).add('s', 5).exec(), [[null, ['s', 10]], [null, ['s', 15]]]);
  const heard = [];
  other.on('pmessage', (...words) => heard.push(words));
  assert.equal(await other.psubscribe('n?ws'), 1);
  assert.equal(await client.publish('news', 'hello'), 1);
  await until(() => heard.length === 1);
  assert.deepEqual(heard, [['n?ws', 'news', 'hello']]);
  other.disconnect();
  const seen = [];
  const monitor = await client.monitor();
  monitor.on('monitor', (time, words) => seen.push(words));
  await client.echo('watched');
  await until(() => seen.some((words) => words.join(' ').toLowerCase() === 'echo watched'));
  monitor.disconnect();

  const names = Array.from({ length: 500 }, (_, number) => `scan:${number}`);
  await client.mset(Object.fromEntries(names.map((name) => [name, 'x'])));
  const found = new Set();
  for await (const keys of client.scanStream({ match: 'scan:*', count: 50 })) keys.forEach((key) => found.add(key));
  assert.deepEqual([...found].sort(), names.sort());
  await client.flushall();
  assert.equal(await client.quit(), 'OK');
}

await nodeRedis(2);
await nodeRedis(3);
console.log(`node-redis ${version('redis')}: RESP2 and RESP3: well`);
await ioredis();
console.log(`ioredis ${version('ioredis')}: well`);
