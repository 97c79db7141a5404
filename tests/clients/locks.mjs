// Proves of the lock libraries of Node what locks.py proves of those of Python; the claims are described there.
//
//     KEYLATCH_SERVERS="host:port:pid ..." node locks.mjs LIBRARY...

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { createClient } from 'redis';
import Redlock from 'redlock';
import { Mutex, RedlockMutex } from 'redis-semaphore';

const places = process.env.KEYLATCH_SERVERS.split(' ').map((place) => {
  const [host, port, pid] = place.split(':');
  return { host, port: Number(port), pid: Number(pid) };
});
const WORKERS = 4;
const SECTIONS = places.length === 5 ? 20 : 50; // of each worker
const LONG_MS = 60_000; // a time to live that never passes here
const SHORT_MS = 1000; // a time to live in which a busy machine still gets done what comes in it
const PATIENCE_MS = 60_000;
const opened = []; // how to close what was opened

/** Connects ioredis; a server that is down is down: trying again belongs to the lock. */
async function ioredis({ host, port }) {
  const client = new Redis({ host, port, retryStrategy: null, enableOfflineQueue: false });
  client.on('error', () => {});
  client.on('end', () => { client.ended = true; });
  await new Promise((resolve) => client.once('ready', resolve).once('end', resolve));
  opened.push(() => client.disconnect());
  return client;
}

/** Connects node-redis, and gives it the two calls that node-redlock makes of ioredis. */
async function nodeRedis({ host, port }) {
  const client = createClient({ socket: { host, port, reconnectStrategy: false }, disableOfflineQueue: true });
  client.on('error', () => {});
  await client.connect().catch(() => {});
  opened.push(() => client.isOpen && client.destroy());
  const parted = (count, words) => ({ keys: words.slice(0, count), arguments: words.slice(count).map(String) });
  return {
    evalsha: (digest, count, words) => client.evalSha(digest, parted(count, words)),
    eval: (script, count, words) => client.eval(script, parted(count, words)),
  };
}

/** node-redlock over clients of either kind. */
const redlock = (connect) => async (key, ms) => {
  const manager = new Redlock(await Promise.all(places.map(connect)), { retryCount: 0 });
  let lock;
  const outcome = (promise) => promise.then((got) => got, () => false);
  return {
    async acquire() {
      const got = await outcome(manager.acquire([key], ms));
      lock = got || lock;
      return Boolean(got);
    },
    async release() { return Boolean(await outcome(lock.release())); },
    async extend() {
      const got = await outcome(lock.extend(ms));
      lock = got || lock;
      return Boolean(got);
    },
  };
};

/** redis-semaphore's mutex: it renews by itself, which is off here, and does not tell whether it released. */
const semaphore = (make) => async (key, lockTimeout) => {
  const options = { lockTimeout, refreshInterval: 0, acquireAttemptsLimit: 1, retryInterval: 1 };
  const mutex = make(await Promise.all(places.map(ioredis)), key, options);
  return {
    acquire: () => mutex.tryAcquire(),
    release: () => mutex.release(),
    extend: () => mutex._refresh(),
  };
};

const LIBRARIES = {
  'node-redlock, ioredis': redlock(ioredis),
  'node-redlock, node-redis': redlock(nodeRedis),
  'redis-semaphore Mutex': semaphore(([client], key, options) => new Mutex(client, key, options)),
  'redis-semaphore RedlockMutex': semaphore((clients, key, options) => new RedlockMutex(clients, key, options)),
};

/** Retries until the condition holds; the clock is real, and the wait is bounded. */
async function wait(condition, what) {
  const deadline = performance.now() + PATIENCE_MS;
  while (!await condition()) {
    assert.ok(performance.now() < deadline, `waited in vain for ${what}`);
    await sleep(1 + Math.random() * 20); // randomised: simultaneous attempts would prevent a quorum
  }
}

/** The plain clients that look at the servers from outside; the first is that of a server that is never killed. */
const plain = await Promise.all(places.map(ioredis));
const alive = () => plain.filter((client) => !client.ended);

async function flush() {
  await Promise.all(alive().map((client) => client.flushall()));
}

/** Returns which keys the servers have, with their values. */
async function state() {
  return Promise.all(alive().map(async (client) => {
    const keys = (await client.keys('*')).sort();
    return Promise.all(keys.map(async (key) => [key, await client.get(key)]));
  }));
}

/** Adds to the counter a number of times, each time under the lock. */
async function work(library) {
  const lock = await library('contended', LONG_MS);
  const client = await ioredis(places[0]);
  let overlaps = 0;
  for (let section = 0; section < SECTIONS; section += 1) {
    await wait(lock.acquire, 'the lock');
    overlaps += await client.set('inside', 1, 'NX') !== 'OK';
    await client.set('counter', Number(await client.get('counter')) + 1);
    overlaps += await client.del('inside') !== 1;
    overlaps += await lock.release() === false;
  }
  return overlaps;
}

async function exclusion(library) {
  await plain[0].set('counter', 0);
  const overlaps = await Promise.all(Array.from({ length: WORKERS }, () => work(library)));
  assert.deepEqual(overlaps, Array(WORKERS).fill(0), 'sections overlap');
  assert.equal(Number(await plain[0].get('counter')), WORKERS * SECTIONS);
}

async function takeover(library) {
  const [first, second] = [await library('passing', SHORT_MS), await library('passing', LONG_MS)];
  const began = performance.now();
  // Where a quorum takes longer than the time to live, there is another go at it.
  await wait(first.acquire, 'a free lock');
  await wait(second.acquire, 'a lock whose time has passed');
  assert.ok(performance.now() - began >= SHORT_MS - 2, 'taken over before its time');
  assert.notEqual(await second.release(), false);
}

async function refusal(library) {
  const [robbed, holder] = [await library('robbed', LONG_MS), await library('robbed', LONG_MS)];
  await wait(robbed.acquire, 'a free lock');
  assert.ok(!await holder.acquire(), 'two have the lock');
  await flush();
  await wait(holder.acquire, 'a free lock');
  const before = await state();
  assert.ok(!await robbed.extend(), 'extended the lock of another');
  assert.ok(!await robbed.release(), 'released the lock of another');
  assert.ok(before.every((keys) => keys.length === 1));
  assert.deepEqual(await state(), before, 'the holder has lost its lock');
  assert.notEqual(await holder.extend(), false, 'the holder cannot extend its lock');
  assert.notEqual(await holder.release(), false, 'the holder cannot release its lock');
  await wait(async () => (await state()).flat().length === 0, 'the last of the lock to go');
}

/** Kills two of five servers while the lock is held. */
async function survival(library) {
  const [holder, other] = [await library('survivor', LONG_MS), await library('survivor', LONG_MS)];
  await wait(holder.acquire, 'a free lock');
  // A quorum may have answered for all; the other servers are not far behind.
  await wait(async () => (await state()).every((keys) => keys.length === 1), 'the last servers');
  places.slice(-2).forEach(({ pid }) => process.kill(pid, 'SIGKILL'));
  await wait(() => plain.slice(-2).every((client) => client.ended), 'the end of the killed servers');
  assert.ok(!await other.acquire(), 'two have the lock');
  assert.notEqual(await holder.extend(), false);
  assert.notEqual(await holder.release(), false);
  await wait(other.acquire, 'a lock over the rest');
  assert.notEqual(await other.release(), false);
}

for (const name of process.argv.slice(2)) {
  const began = performance.now();
  for (const claim of [...places.length === 5 ? [survival] : [], exclusion, takeover, refusal]) {
    try {
      await claim(LIBRARIES[name]);
    } catch (error) {
      console.error(`FAILED: ${name}: ${claim.name}:`, error);
      process.exit(1);
    }
    await flush();
  }
  const over = places.length === 5 ? ', over 5 servers, two of them killed' : '';
  console.log(`${name}: exclusion, takeover, refusal${over}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
}
opened.forEach((close) => close());
