// Sentinel: what happens to a master, its replicas and its sentinels, as ioredis, node-redis and BullMQ see it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { Keylatch, instance, start } from 'keylatch';
import { createSentinel } from 'redis';

const LIMIT = { timeout: 120_000 };
const DOWN_AFTER_MS = 30_000;
const ignore = () => {};

/** The options of ioredis, and of those who use it. */
function optionsOf({ sentinels, masterName: name, user: username, password, sentinelPassword }, tls) {
  const secure = tls && { tls, sentinelTLS: tls, enableTLSForSentinelMode: true };
  const retries = { retryStrategy: () => 10, sentinelRetryStrategy: () => 10, maxRetriesPerRequest: null };
  return { sentinels, name, username, password, sentinelPassword, ...secure, ...retries };
}

const CLIENTS = {
  ioredis: async (sentinel, tls) => new Redis(optionsOf(sentinel, tls)).on('error', ignore),
  'node-redis': async ({ sentinels, masterName, user: username, password, sentinelPassword }, tls) => {
    const socket = tls && { tls: true, ...tls };
    const client = createSentinel({
      name: masterName,
      sentinelRootNodes: sentinels,
      nodeClientOptions: { username, password, socket },
      sentinelClientOptions: { password: sentinelPassword, socket },
      scanInterval: 50, // by default it looks for another master only every ten seconds
    });
    return client.on('error', ignore).connect();
  },
};
const leave = (client) => client.close ? client.close() : client.disconnect();

/** What a call resolves with once it does not fail: its connection may be one to the former master. */
async function eventually(call) {
  for (const deadline = Date.now() + 60_000; ; await sleep(10)) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

const numbers = (nodes) => nodes.map(({ number }) => number);
const roles = async (sentinel) => (await sentinel.nodes()).slice(0, 3).map(({ role, primary }) => [role, primary]);
let keylatch, sentinel;
beforeEach(async () => {
  keylatch = await instance();
  sentinel = await keylatch.sentinel();
});
afterEach(async () => {
  await sentinel.close();
  keylatch.close();
});

for (const [name, connect] of Object.entries(CLIENTS)) {
  describe(`the client of ${name}, which asks sentinels`, LIMIT, () => {
    let client;
    beforeEach(async () => {
      client = await connect(sentinel);
    });
    afterEach(() => leave(client));

    test('finds the new master after a failover that loses nothing', async () => {
      await client.set('key', '1');
      await sentinel.failover();
      assert.equal(await eventually(() => client.incr('key')), 2);
      assert.deepEqual([(await sentinel.master()).number, (await roles(sentinel))[0]], [1, ['replica', 1]]);
      await sentinel.failover({ to: 2 });
      assert.equal(await eventually(() => client.incr('key')), 3);
      assert.equal((await sentinel.master()).number, 2);
    });

    test('finds what a failover has left', async () => {
      for (let value = 0; value < 5; value += 1) await client.set('key', String(value));
      await sentinel.failover({ lose: 1 });
      assert.equal(await eventually(() => client.get('key')), '3');
      await assert.rejects(sentinel.failover({ lose: 1e6 }), /only \d+ writes are remembered/);
    });

    test('finds the replica that takes the place of a stopped master, by the clock', async () => {
      await keylatch.freeze();
      await client.set('key', '1');
      await sentinel.stop(0);
      await keylatch.advance(DOWN_AFTER_MS - 1);
      const { number, state } = await sentinel.master();
      assert.deepEqual([number, state], [0, 'stopped']);
      await keylatch.advance(1);
      assert.equal(await eventually(() => client.incr('key')), 2);
      assert.equal((await sentinel.master()).number, 1);
      await sentinel.start(0);
      assert.deepEqual(await roles(sentinel), [['replica', 1], ['master', null], ['replica', 1]]);
      assert.deepEqual(numbers(await sentinel.replicas()), [0, 2]);
    });

    test('loses writes on their way to the replicas with the master', async () => {
      await keylatch.freeze();
      for (const replica of await sentinel.replicas()) await sentinel.lag(replica, 1000);
      await client.set('key', 'early');
      await keylatch.advance(1000);
      await client.set('key', 'late');
      const { lagMs, behind } = (await sentinel.nodes())[1];
      assert.ok(lagMs === 1000 && behind > 0);
      await sentinel.stop(0);
      await keylatch.advance(DOWN_AFTER_MS);
      assert.equal(await eventually(() => client.get('key')), 'early');
    });

    test('logs in at the master, and at the sentinels with their password', async () => {
      const closed = await keylatch.sentinel({ user: 'app', password: 'p@ss', sentinelPassword: 'secret' });
      const member = await connect(closed);
      assert.equal(await member.set('key', '1'), 'OK');
      const users = [0, 3].map(async (node) => (await closed.node(node)).command('ACL', 'WHOAMI'));
      assert.deepEqual(await Promise.all(users), ['app', 'default']);
      for (const { host, port } of await closed.nodes()) {
        await assert.rejects(new Keylatch(host, port).command('PING'), /NOAUTH/);
      }
      await leave(member);
      await closed.close();
    });

    test('speaks TLS with all nodes', async () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'keylatch-'));
      const [key, certificate] = ['key.pem', 'certificate.pem'].map((file) => path.join(folder, file));
      const make = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext';
      const rest = ['subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', certificate];
      execFileSync('openssl', [...make.split(' '), ...rest], { stdio: 'ignore' });
      const settings = { 'tls-cert-file': certificate, 'tls-key-file': key, 'tls-auth-clients': 'no' };
      const server = await start({ settings });
      const secure = await (await server.instance()).sentinel({ tls: true });
      const member = await connect(secure, { ca: readFileSync(certificate) });
      assert.equal(await member.set('key', '1'), 'OK');
      await secure.failover();
      assert.equal(await eventually(() => member.get('key')), '1');
      assert.match((await secure.node(3)).url, /^rediss:/);
      await leave(member);
      await server.stop();
      rmSync(folder, { recursive: true });
    });
  });
}

describe('a queue of BullMQ over sentinels', LIMIT, () => {
  let queue;
  beforeEach(() => {
    queue = new Queue('jobs', { connection: optionsOf(sentinel) }).on('error', ignore);
  });
  afterEach(() => queue.close());

  test('goes on at the new master', async () => {
    const done = [];
    const worker = new Worker('jobs', async ({ name }) => done.push(name), { connection: optionsOf(sentinel) });
    worker.on('error', ignore);
    const run = async (name) => {
      const completed = once(worker, 'completed');
      await queue.add(name, {});
      await completed;
    };
    await run('first');
    await sentinel.failover();
    await run('second');
    await sentinel.stop(1);
    await keylatch.advance(DOWN_AFTER_MS);
    await run('third');
    assert.deepEqual(done, ['first', 'second', 'third']);
    assert.notEqual((await sentinel.master()).number, 1);
    await worker.close();
  });

  test('loses a job with the write that a failover loses', async () => {
    for (const name of ['kept', 'lost']) await queue.add(name, {});
    await sentinel.failover({ lose: 1 });
    const waiting = await eventually(() => queue.getWaiting());
    assert.deepEqual(waiting.map(({ name }) => name), ['kept']);
  });
});

describe('a master with sentinels', LIMIT, () => {
  test('is numbered first, its nodes are named in the same way each time', async () => {
    const nodes = await sentinel.nodes();
    assert.deepEqual(numbers(nodes), [0, 1, 2, 3, 4, 5]);
    assert.deepEqual(await roles(sentinel), [['master', null], ['replica', 0], ['replica', 0]]);
    assert.deepEqual(sentinel.sentinels, nodes.slice(3).map(({ host, port }) => ({ host, port })));
    assert.equal(sentinel.masterName, 'mymaster');
    const other = await instance();
    const same = await other.sentinel();
    assert.deepEqual((await same.nodes()).map(({ id }) => id), nodes.map(({ id }) => id));
    await same.close();
    other.close();
  });

  test('has as many replicas and sentinels as it is made with', async () => {
    const sizes = { replicas: 1, sentinels: 1, quorum: 1, master: 'cache', downAfter: 1000, failoverTimeout: 2000 };
    const small = await keylatch.sentinel({ name: 'mine', ...sizes });
    assert.deepEqual(await keylatch.command('TEST.TOPOLOGY', 'LIST'), ['mine', 'sentinel-1']);
    assert.deepEqual([(await small.nodes()).length, small.sentinels.length, small.masterName], [3, 1, 'cache']);
    await small.stop(await small.master());
    await keylatch.advance(1000);
    assert.equal((await small.master()).number, 1);
    await small.close();
    await small.close(); // again does no harm
  });

  test('loses what it takes while it is cut off', async () => {
    await keylatch.freeze();
    const [old, now] = [await sentinel.node(0), await sentinel.node(1)];
    await old.command('SET', 'key', 'early');
    await sentinel.partition(await sentinel.master(), 3);
    await old.command('SET', 'key', 'lost');
    await keylatch.advance(DOWN_AFTER_MS);
    assert.deepEqual((await roles(sentinel)).map(([role]) => role), ['master', 'master', 'replica']);
    assert.equal((await sentinel.master()).number, 1); // though the sentinel that is cut off names the former one
    assert.deepEqual([await old.command('GET', 'key'), await now.command('GET', 'key')], ['lost', 'early']);
    await sentinel.heal();
    assert.deepEqual(await roles(sentinel), [['replica', 1], ['master', null], ['replica', 1]]);
    assert.equal(await old.command('GET', 'key'), 'early');
  });

  test('is the same while no sentinel is up, or not a majority', async () => {
    await keylatch.freeze();
    await sentinel.stop(3);
    await sentinel.pause(4);
    await sentinel.stop(0);
    await keylatch.advance(DOWN_AFTER_MS);
    assert.deepEqual([(await sentinel.master()).number, (await sentinel.nodes())[5].believedDead], [0, [0, 3, 4]]);
    await sentinel.stop(5);
    assert.equal((await sentinel.master()).number, 0);
    await sentinel.resume(4);
    await sentinel.start(5);
    await keylatch.advance(DOWN_AFTER_MS);
    assert.equal((await sentinel.master()).number, 1);
  });

  test('refuses what is not possible, and options that there are not', async () => {
    await assert.rejects(sentinel.start(0), { name: 'ReplyError', message: /node 0 is up/ });
    await assert.rejects(sentinel.failover({ to: 3 }), /node 3 is a sentinel/);
    await assert.rejects(sentinel.lag(0, 5), /node 0 is a primary/);
    await assert.rejects(sentinel.node(6), /there is no node 6/);
    await assert.rejects(keylatch.sentinel({ primaries: 1 }), new TypeError("unknown option 'primaries'"));
    await assert.rejects(keylatch.cluster({ sentinelPassword: 'x' }), new TypeError("unknown option 'sentinelPassword'"));
    await assert.rejects(sentinel.failover({ loose: 1 }), new TypeError("unknown option 'loose'"));
  });
});
