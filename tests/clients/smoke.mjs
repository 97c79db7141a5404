// Uses a server as node-redis and ioredis do.
//
//     node smoke.mjs HOST PORT

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import Redis from 'ioredis';
import { createClient, WatchError } from 'redis';

const [host, port] = [process.argv[2], Number(process.argv[3])];
const version = (name) => createRequire(import.meta.url)(`${name}/package.json`).version;

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
