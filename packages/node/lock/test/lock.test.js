// What a lock does, by node-redis and by ioredis: KEYLATCH_SERVERS=host:port names the server.

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Redis from 'ioredis'; // the first of the promised versions export no name
import { createClient } from 'redis';
import { Deadlock, LockLost, NotAcquired, acquire } from '../index.js';
import { PATIENCE_MS, connect, until, url } from '../testing.js';

const LONG = { ttl: 10 * PATIENCE_MS }; // no renewal happens

// Over other roads than TCP, of which the server tells by CONFIG GET.
const roads = async () => {
  const admin = new Redis(url);
  const asked = await admin.config('GET', '*').then((flat) => (name) => flat[flat.indexOf(name) + 1]);
  admin.disconnect();
  const [path, tlsPort] = [asked('unixsocket'), Number(asked('tls-port'))];
  if (!path || !tlsPort) return {};
  const trusted = { ca: readFileSync(asked('tls-ca-cert-file')) };
  const nodeRedis = (RESP, socket) => () => createClient({ RESP, socket }).on('error', () => {}).connect();
  return {
    'node-redis, RESP2, Unix socket': nodeRedis(2, { path }),
    'node-redis, RESP3, Unix socket': nodeRedis(3, { path }),
    'node-redis, RESP2, TLS': nodeRedis(2, { host: 'localhost', port: tlsPort, tls: true, ...trusted }),
    'node-redis, RESP3, TLS': nodeRedis(3, { host: 'localhost', port: tlsPort, tls: true, ...trusted }),
    'ioredis, Unix socket': async () => new Redis(path),
    'ioredis, TLS': async () => new Redis({ host: 'localhost', port: tlsPort, tls: trusted }),
  };
};

if (process.argv[2] === 'work') await work(...process.argv.slice(3));
else {
  for (const name of Object.keys(connect)) describe(name, { timeout: 2 * PATIENCE_MS }, () => suite(name));
  for (const [name, open] of Object.entries(await roads())) {
    test(`${name}: a lock is waited for, and its loss is told`, { timeout: PATIENCE_MS }, () => walk(open));
  }
}

/** Acquires a lock twice, and loses it. */
async function walk(open) {
  const admin = new Redis(url);
  await admin.flushall();
  const client = await open();
  const first = await acquire(client, 'lock', LONG);
  await assert.rejects(acquire(client, 'lock', { wait: 5 }), NotAcquired);
  assert.ok(await first.release());
  const second = await acquire(client, 'lock', LONG);
  assert.ok(second.fence > first.fence);
  await admin.del('lock');
  await until(() => second.lost === 'deleted');
  await assert.rejects(second[Symbol.asyncDispose](), LockLost);
  admin.disconnect();
  client.destroy ? client.destroy() : client.disconnect();
}

/** Adds to a counter under the lock; a process of its own runs this. */
async function work(name, sections) {
  const client = await connect[name]();
  for (let done = 0; done < Number(sections); done += 1) {
    const lock = await acquire(client, 'lock', LONG);
    const count = Number(await client.get('count'));
    await (client.rPush ?? client.rpush).call(client, 'fences', String(lock.fence));
    await client.set('count', String(count + 1));
    await lock[Symbol.asyncDispose]();
  }
  process.exit(0);
}

function suite(name) {
  const admin = new Redis(url);
  let client;
  beforeEach(async () => {
    client ??= await connect[name]();
    await admin.flushall();
  });
  after(() => {
    admin.disconnect();
    client.destroy ? client.destroy() : client.disconnect();
  });
  const info = async (key = 'lock') => {
    const flat = await admin.call('LOCK.INFO', key) ?? [];
    return Object.fromEntries(flat.flatMap((word, at) => at % 2 ? [] : [[word, flat[at + 1]]]));
  };
  const waiting = (count) => until(async () => (await info()).waiters?.length === count);

  test('processes exclude each other, and their fences increase', async () => {
    await admin.set('count', 0);
    const workers = [1, 2, 3].map(() => fork(fileURLToPath(import.meta.url), ['work', name, '20'], { execArgv: [] }));
    for (const status of await Promise.all(workers.map((worker) => once(worker, 'exit')))) assert.equal(status[0], 0);
    assert.equal(await admin.get('count'), '60');
    const fences = (await admin.lrange('fences', 0, -1)).map(Number);
    assert.ok(fences.length === 60 && fences.every((fence, at) => at === 0 || fence > fences[at - 1]));
  });

  test('waiters are served in the order of their arrival', async () => {
    const first = await acquire(client, 'lock');
    const served = [];
    const waiters = [];
    for (let number = 0; number < 5; number += 1) {
      waiters.push(acquire(client, 'lock').then((lock) => {
        served.push(number);
        return lock.release();
      }));
      await waiting(number + 1);
    }
    assert.ok(await first.release());
    assert.deepEqual(await Promise.all(waiters), [true, true, true, true, true]);
    assert.deepEqual(served, [0, 1, 2, 3, 4]);
  });

  test('a wait that would never end is refused at once if the locks have an owner', async () => {
    const [one, two] = [await acquire(client, 'a', { owner: 'one' }), await acquire(client, 'lock', { owner: 'two' })];
    const inner = acquire(client, 'lock', { owner: 'one' });
    await waiting(1);
    await assert.rejects(acquire(client, 'a', { owner: 'two' }), (error) => {
      assert.ok(error instanceof Deadlock);
      return /^a held by client \d+ waits for lock held by client \d+$/.test(error.cycle);
    });
    assert.ok(two.lost === null && await two.release());
    assert.ok(await (await inner).release() && await one.release());
  });

  test('a lock that is held is refused without waiting or after waiting', async () => {
    const lock = await acquire(client, 'lock', { meta: 'nightly' });
    assert.equal((await info()).meta, 'nightly');
    await assert.rejects(acquire(client, 'lock', { wait: 0 }), NotAcquired);
    await assert.rejects(acquire(client, 'lock', { wait: 5 }), NotAcquired);
    lock.check();
    await lock[Symbol.asyncDispose]();
    assert.equal(await admin.get('lock'), null);
  });

  test('an unknown option is refused, and not a lock without a limit', async () => {
    await assert.rejects(acquire(client, 'lock', { tll: 500 }), new TypeError("unknown option 'tll'"));
    assert.equal(await admin.get('lock'), null);
  });

  test('renewal keeps a lock past its TTL', async () => {
    const lock = await acquire(client, 'lock', { ttl: 6000 });
    await until(async () => (await info())['age-ms'] > 6500);
    assert.equal((await info()).fence, lock.fence);
    lock.check();
    assert.ok(await lock.release());
  });

  test('the time of a lock counts from before its renewal was sent', async (t) => {
    const [now, method] = [performance.now.bind(performance), client.call ? 'call' : 'sendCommand'];
    const send = client[method].bind(client);
    let passed = 0;
    t.mock.method(performance, 'now', () => now() + passed);
    t.mock.method(client, method, async (...words) => {
      const reply = await send(...words);
      if (words.flat()[0] === 'LOCK.RENEW') passed += 2 * LONG.ttl;
      return reply;
    });
    const lock = await acquire(client, 'lock', LONG);
    assert.throws(() => lock.check(), LockLost);
    assert.equal(await lock.release(), false);
  });

  test('a loss is told at once, and the body can see it', async () => {
    const told = [];
    const lock = await acquire(client, 'lock', { ...LONG, onLost: (lost) => told.push(lost) });
    await admin.del('lock');
    if (!lock.signal.aborted) await once(lock.signal, 'abort');
    assert.equal(lock.lost, 'deleted');
    assert.deepEqual(told, [lock]);
    assert.throws(() => lock.check(), LockLost);
    await assert.rejects(lock[Symbol.asyncDispose](), { name: 'LockLost', reason: 'deleted' });
  });

  test('a lock that cannot be renewed is lost when its time is over', async () => {
    const lock = await acquire(client, 'lock', { ttl: 300 });
    await admin.call('CLIENT', 'PAUSE', PATIENCE_MS, 'WRITE');
    await until(() => lock.lost === 'expired');
    await admin.call('CLIENT', 'UNPAUSE');
    assert.equal(await lock.release(), false);
  });

  test('disposal releases once, also after an explicit release', async () => {
    const lock = await acquire(client, 'lock');
    assert.equal(await lock.release(), true);
    assert.equal(await lock.release(), false);
    await lock[Symbol.asyncDispose]();
  });

  test('a waiter that is aborted leaves the queue', async () => {
    const lock = await acquire(client, 'lock');
    const abort = new AbortController();
    const waiter = acquire(client, 'lock', { signal: abort.signal });
    await waiting(1);
    abort.abort(new Error('changed my mind'));
    await assert.rejects(waiter, /changed my mind/);
    await waiting(0);
    assert.ok(await lock.release());
    assert.equal(await admin.get('lock'), null);
  });

  test('a waiter that is aborted while it connects leaves the queue', async () => {
    const lock = await acquire(client, 'lock');
    const abort = new AbortController();
    const waiter = acquire(client, 'lock', { signal: abort.signal });
    abort.abort(new Error('changed my mind'));
    await assert.rejects(waiter, /changed my mind/);
    await waiting(0);
    assert.ok(await lock.release());
  });

  test('a lost lock of an owner that is released late ends no later one of the same owner', async () => {
    const options = { ...LONG, owner: 'mine' };
    const first = await acquire(client, 'lock', options);
    await admin.del('lock');
    await until(() => first.lost);
    const second = await acquire(client, 'lock', options);
    assert.ok(await second.release());
    const third = await acquire(client, 'lock', options);
    assert.equal(await first.release(), false);
    const fourth = await acquire(client, 'lock', options);
    assert.equal(fourth.fence, third.fence);
    assert.ok(await fourth.release());
    assert.equal(await admin.get('lock'), 'mine');
    assert.ok(await third.release());
  });

  test('each acquisition of an owner is told of a loss, also when the callback of another one throws', async () => {
    const told = [];
    const uncaught = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException').once('uncaughtException', (error) => told.push(error.message));
    const options = { ...LONG, owner: 'mine' };
    const throwing = () => { throw new Error('first'); };
    const locks = [
      await acquire(client, 'lock', { ...options, onLost: throwing }),
      await acquire(client, 'lock', { ...options, onLost: () => told.push('second') }),
    ];
    await admin.del('lock');
    await until(() => told.length === 2);
    uncaught.forEach((listener) => process.on('uncaughtException', listener));
    assert.deepEqual(told, ['first', 'second']);
    assert.ok(locks.every((lock) => lock.signal.aborted));
    await Promise.all(locks.map((lock) => lock.release()));
  });

  test('a waiter that is aborted as it is granted the lock leaves it free', async () => {
    for (let round = 0; round < 20; round += 1) {
      const lock = await acquire(client, 'lock', LONG);
      const abort = new AbortController();
      const waiter = acquire(client, 'lock', { ...LONG, signal: abort.signal });
      await waiting(1);
      const released = lock.release();
      abort.abort();
      await waiter.then((granted) => granted.release(), (error) => assert.equal(error.name, 'AbortError'));
      assert.ok(await released);
      await until(async () => await admin.get('lock') === null);
    }
  });

  test('a lock outlives its connection, and is told of its loss over the next', async () => {
    const lock = await acquire(client, 'lock', LONG);
    const { 'client-id': id, fence } = await info();
    assert.equal(await admin.call('CLIENT', 'KILL', 'ID', id), 1);
    await until(async () => {
      const subscribed = (await admin.call('CLIENT', 'LIST')).split('\n').filter((line) => / sub=1 /.test(line));
      return subscribed.length === 1 && !subscribed[0].startsWith(`id=${id} `);
    });
    lock.check();
    assert.equal((await info()).fence, fence);
    await admin.del('lock');
    await until(() => lock.lost); // "deleted", or "expired" if the first renewal over the new connection finds it
  });

  test('a lock is held whose connection breaks behind the grant', async () => {
    for (const kind of ['DROP', 'LOSEREPLY']) {
      await admin.call('TEST.FAULT', 'ADD', 'SUBSCRIBE', kind, 'COUNT', 1);
      const lock = await acquire(client, 'lock', LONG);
      assert.equal((await info()).fence, lock.fence);
      await admin.del('lock'); // told over the connection that was made again
      await until(() => lock.lost);
      assert.equal(await lock.release(), false);
      await admin.call('TEST.FAULT', 'CLEAR');
    }
  });

  test('a lock that goes while its connection is made again is not taken again', async (t) => {
    const [method, duplicate] = [client.call ? 'call' : 'sendCommand', client.duplicate.bind(client)];
    let asked = 0;
    t.mock.method(client, 'duplicate', (...options) => {
      const own = duplicate(...options);
      const send = own[method].bind(own);
      own[method] = async (...words) => {
        if (words.flat()[0] === 'LOCK.ACQUIRE' && ++asked === 2) await admin.del('lock'); // behind the renewal
        return send(...words);
      };
      return own;
    });
    await admin.config('SET', 'session-grace-ms', 10 * PATIENCE_MS);
    try {
      const lock = await acquire(client, 'lock', { ...LONG, owner: 'me', session: true });
      await admin.call('CLIENT', 'KILL', 'ID', (await info())['client-id']);
      await until(() => lock.lost === 'disconnected');
      assert.equal(await admin.get('lock'), null);
    } finally {
      await admin.config('SET', 'session-grace-ms', 0);
    }
  });

  test('the rest of a session that has lost a lock is free at once, whatever the grace is', async () => {
    await admin.config('SET', 'session-grace-ms', 10 * PATIENCE_MS);
    try {
      const lock = await acquire(client, ['lock', 'other'], { ...LONG, session: true });
      await admin.del('lock');
      await until(async () => lock.lost === 'deleted' && !('token' in await info('other')));
      assert.equal(await lock.release(), false);
    } finally {
      await admin.config('SET', 'session-grace-ms', 0);
    }
  });

  test('a session is not renewed before its lock has moved to the new connection', async (t) => {
    const [duplicate, schedule, renewals] = [client.duplicate.bind(client), setTimeout, []];
    t.mock.method(globalThis, 'setTimeout', (what, ms, ...others) => {
      if (ms > LONG.ttl / 4 && ms <= LONG.ttl / 3) renewals.push(what);
      return schedule(what, ms, ...others);
    });
    let opened = 0;
    t.mock.method(client, 'duplicate', (...options) => {
      const own = duplicate(...options);
      const connect = own.connect.bind(own);
      own.connect = async () => {
        if (++opened === 2) {
          await until(async () => !('token' in await info()));
          await renewals.at(-1)();
        }
        return connect();
      };
      return own;
    });
    const lock = await acquire(client, 'lock', { ...LONG, session: true });
    await admin.call('CLIENT', 'KILL', 'ID', (await info())['client-id']);
    await until(() => lock.lost);
    assert.equal(lock.lost, 'disconnected');
    assert.equal(opened, 2);
    assert.equal(await lock.release(), false);
  });

  test('a client that is found stuck while the connection is made again does not end the renewals', async (t) => {
    const ttl = 3000;
    const method = client.call ? 'call' : 'sendCommand';
    const [duplicate, send] = [client.duplicate.bind(client), client[method].bind(client)];
    let [renewals, opened] = [0, 0];
    t.mock.method(client, method, async (...words) => {
      if (words.flat()[0] !== 'LOCK.RENEW' || ++renewals !== 2) return send(...words);
      await sleep(ttl / 6);
      await admin.call('CLIENT', 'KILL', 'ID', (await info())['client-id']);
      return new Promise(() => {}); // is found stuck when a third of the TTL has passed
    });
    t.mock.method(client, 'duplicate', (...options) => {
      const own = duplicate(...options);
      const subscribe = own.subscribe.bind(own);
      if (++opened === 2) own.subscribe = (...words) => sleep(ttl / 4).then(() => subscribe(...words));
      return own;
    });
    const lock = await acquire(client, 'lock', { ttl });
    await until(async () => lock.lost || (await info())['age-ms'] > ttl * 1.5);
    assert.equal(lock.lost, null);
    assert.ok(renewals === 2 && opened > 2);
    assert.ok(await lock.release());
  });

  test('a connection that a session has moved to, and that is stuck then, is kept until it has moved on', async (t) => {
    await admin.config('SET', 'session-grace-ms', 10 * PATIENCE_MS);
    try {
      const duplicate = client.duplicate.bind(client);
      let opened = 0;
      t.mock.method(client, 'duplicate', (...options) => {
        const own = duplicate(...options);
        if (++opened === 2) {
          own.subscribe = async () => {
            await admin.config('SET', 'session-grace-ms', 0);
            return new Promise(() => {});
          };
        }
        return own;
      });
      const lock = await acquire(client, 'lock', { ttl: 3000, session: true });
      await admin.call('CLIENT', 'KILL', 'ID', (await info())['client-id']);
      await until(async () => lock.lost || (await info())['age-ms'] > 4500);
      assert.equal(lock.lost, null);
      assert.ok(opened > 2 && await lock.release());
    } finally {
      await admin.config('SET', 'session-grace-ms', 0);
    }
  });

  test('a session ends with its connection and frees the lock', async () => {
    const lock = await acquire(client, 'lock', { ...LONG, session: true });
    await admin.call('CLIENT', 'KILL', 'ID', (await info())['client-id']);
    await until(() => lock.lost === 'disconnected');
    const next = await acquire(client, 'lock');
    assert.equal(await lock.release(), false);
    assert.ok(await next.release());
  });
}
