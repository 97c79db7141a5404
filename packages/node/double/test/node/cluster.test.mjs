// Clusters: what happens to their nodes, as the cluster clients of ioredis and node-redis see it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster } from 'ioredis';
import { Keylatch, instance, slotOf, start } from 'keylatch';
import { createCluster } from 'redis';

const LIMIT = { timeout: 120_000 };
const KEY = 'b'; // in the slots of node 0, whose replica is node 3
const NODE_TIMEOUT_MS = 15_000;
const ignore = () => {};

const CLIENTS = {
  ioredis: async ({ startupNodes, user: username, password }, tls) => {
    const client = new Cluster(startupNodes, { redisOptions: { username, password, tls } });
    return client.on('error', ignore).on('node error', ignore);
  },
  'node-redis': async ({ rootNodes, user: username, password }, tls) => {
    const defaults = { username, password, socket: tls && { tls: true, ...tls } };
    // By default it asks where the slots are only when it has not reached a node for five seconds.
    const options = { rootNodes, defaults, topologyRefreshOnReconnectionAttemptStrategy: 1 };
    return createCluster(options).on('error', ignore).on('node-error', ignore).connect();
  },
};
const leave = (client) => client.close ? client.close() : client.disconnect();

/** What a call resolves with once it does not fail: a client may ask a node that does not know yet. */
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
let keylatch, cluster;
beforeEach(async () => {
  keylatch = await instance();
  cluster = await keylatch.cluster();
});
afterEach(async () => {
  await cluster.close();
  keylatch.close();
});

for (const [name, connect] of Object.entries(CLIENTS)) {
  describe(`the cluster client of ${name}`, LIMIT, () => {
    let client;
    beforeEach(async () => {
      client = await connect(cluster);
    });
    afterEach(() => leave(client));

    test('reads and writes keys of all slots', async () => {
      const keys = Array.from({ length: 50 }, (_, number) => `key:${number}`);
      await Promise.all(keys.map((key) => client.set(key, key)));
      assert.deepEqual(await Promise.all(keys.map((key) => client.get(key))), keys);
      for (const node of await cluster.primaries()) assert.ok(await (await cluster.node(node)).command('DBSIZE') > 0);
    });

    test('follows a slot that has moved', async () => {
      await client.set(KEY, '1');
      const [old, now] = [await cluster.node(0), await cluster.node(2)];
      await cluster.migrate(slotOf(KEY), 2);
      assert.equal((await cluster.primaryOf(KEY)).number, 2);
      assert.deepEqual([await client.incr(KEY), await client.incr(KEY)], [2, 3]);
      const counts = await Promise.all([old, now].map(async (node) => (await node.calls({ match: 'INCR' })).length));
      assert.deepEqual(counts, [1, 2]); // MOVED once, then the client knows
    });

    test('asks for a slot that is half moved at both nodes', async () => {
      const keys = Array.from({ length: 4 }, (_, number) => `{${KEY}}:${number}`);
      for (const key of keys) await client.set(key, key);
      await cluster.migrate(slotOf(KEY), 1, { keys: 2 });
      const [old, now] = [await cluster.node(0), await cluster.node(1)];
      for (const key of keys) assert.equal(await client.get(key), key);
      assert.equal((await now.calls({ match: 'ASKING' })).length, 2);
      assert.equal((await cluster.primaryOf(KEY)).number, 0);
      await cluster.migrate([slotOf(KEY), slotOf(KEY)], 1);
      assert.deepEqual([await old.command('DBSIZE'), await now.command('DBSIZE')], [0, 4]);
      for (const key of keys) assert.equal(await client.get(key), key);
    });

    test('finds the new primary after a failover', async () => {
      for (let value = 0; value < 5; value += 1) await client.set(KEY, String(value));
      const [replica] = await cluster.replicasOf(await cluster.primaryOf(KEY));
      await cluster.failover(replica);
      assert.equal(await eventually(() => client.get(KEY)), '4');
      assert.deepEqual([(await cluster.primaryOf(KEY)).number, replica.number], [3, 3]);
      await client.set(KEY, '5');
      await cluster.failover(0, { lose: 1 });
      assert.equal(await eventually(() => client.get(KEY)), '4');
      await assert.rejects(cluster.failover(3, { lose: 1e6 }), /only \d+ writes are remembered/);
    });

    test('finds the replica that takes the place of a stopped node, by the clock', async () => {
      await keylatch.freeze();
      await client.set(KEY, '1');
      await cluster.stop(0);
      await keylatch.advance(NODE_TIMEOUT_MS - 1);
      const { number, state } = await cluster.primaryOf(KEY);
      assert.deepEqual([number, state, numbers(await cluster.primaries())], [0, 'stopped', [1, 2]]);
      await keylatch.advance(1);
      assert.equal(await eventually(() => client.incr(KEY)), 2);
      assert.deepEqual((await cluster.nodes())[1].believedDead, [0]);
      await cluster.start(0);
      assert.deepEqual(numbers(await cluster.replicasOf(3)), [0]);
      await cluster.failover(0);
      assert.equal(await eventually(() => client.get(KEY)), '2');
    });

    test('loses what a minority takes when the partition ends', async () => {
      await keylatch.freeze();
      await client.set(KEY, 'early');
      await cluster.partition(await cluster.primaryOf(KEY));
      await client.set(KEY, 'lost');
      await keylatch.advance(NODE_TIMEOUT_MS);
      const node = await cluster.primaryOf(KEY);
      assert.deepEqual([node.number, (await cluster.nodes())[0].state], [3, 'failed']);
      assert.equal(await (await cluster.node(node)).command('GET', KEY), 'early');
      await cluster.heal();
      assert.equal(await eventually(() => client.get(KEY)), 'early');
    });

    test('loses writes on their way to a replica with the primary', async () => {
      await keylatch.freeze();
      await cluster.lag(3, 1000);
      await client.set(KEY, 'early');
      await keylatch.advance(1000);
      await client.set(KEY, 'late');
      const { lagMs, behind } = (await cluster.nodes())[3];
      assert.ok(lagMs === 1000 && behind > 0);
      await cluster.stop(0);
      await keylatch.advance(NODE_TIMEOUT_MS);
      assert.equal(await eventually(() => client.get(KEY)), 'early');
    });

    test('logs in at all nodes', async () => {
      const closed = await keylatch.cluster({ primaries: 2, replicas: 0, user: 'app', password: 'p@ss' });
      const member = await connect(closed);
      for (const key of ['a', 'b', 'c']) assert.equal(await member.set(key, '1'), 'OK');
      assert.equal(await (await closed.node(1)).command('ACL', 'WHOAMI'), 'app');
      const stranger = new Keylatch(closed.startupNodes[0].host, closed.startupNodes[0].port);
      await assert.rejects(stranger.command('PING'), /NOAUTH/);
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
      const secure = await (await server.instance()).cluster({ tls: true });
      const member = await connect(secure, { ca: readFileSync(certificate) });
      for (const each of ['a', 'b', 'c']) assert.equal(await member.set(each, '1'), 'OK');
      assert.match(secure.rootNodes[0].url, /^rediss:/);
      assert.equal(await (await secure.node(0)).command('GET', KEY), '1');
      await leave(member);
      await server.stop();
      rmSync(folder, { recursive: true });
    });
  });
}

describe('the nodes of a cluster', LIMIT, () => {
  test('are numbered, primaries first, and named in the same way each time', async () => {
    const nodes = await cluster.nodes();
    assert.deepEqual(nodes.map(({ role, primary }) => [role, primary]),
      [...Array(3).fill(['primary', null]), ...[0, 1, 2].map((number) => ['replica', number])]);
    assert.deepEqual(nodes.slice(0, 3).map(({ slots }) => slots), [[[0, 5460]], [[5461, 10922]], [[10923, 16383]]]);
    assert.deepEqual(cluster.startupNodes, nodes.map(({ host, port }) => ({ host, port })));
    assert.equal(cluster.rootNodes[3].url, `redis://127.0.0.1:${nodes[3].port}/0`);
    const other = await instance();
    const same = await other.cluster();
    assert.deepEqual((await same.nodes()).map(({ id }) => id), nodes.map(({ id }) => id));
    await same.close();
    other.close();
  });

  test('come and go', async () => {
    const [replica, primary] = [await cluster.add({ replicaOf: 0 }), await cluster.add()];
    assert.deepEqual([replica.number, replica.primary, primary.number, primary.slots], [6, 0, 7, []]);
    await cluster.migrate([0, 99], primary);
    await assert.rejects(cluster.remove(primary), /node 7 has slots/);
    await cluster.remove(replica);
    assert.deepEqual(numbers(await cluster.nodes()), [0, 1, 2, 3, 4, 5, 7]);
    await assert.rejects(cluster.node(replica), /there is no node 6/);
  });

  test('have faults of their own, and can be suspended', async () => {
    const [one, other] = [await cluster.node(0), await cluster.node(1)];
    await one.fault('PING', { error: 'ERR no', count: 1 });
    await assert.rejects(one.command('PING'), /no/);
    assert.equal(await other.command('PING'), 'PONG');
    await cluster.pause(0);
    let isAnswered = false;
    const ping = one.command('PING').then(() => { isAnswered = true; });
    await other.command('PING');
    assert.deepEqual([isAnswered, (await cluster.nodes())[0].state], [false, 'paused']);
    await cluster.resume(0);
    await ping;
  });

  test('refuse what is not possible, and options that there are not', async () => {
    await assert.rejects(cluster.start(0), { name: 'ReplyError', message: /node 0 is up/ });
    await assert.rejects(cluster.lag(0, 5), /node 0 is a primary/);
    await assert.rejects(cluster.partition(0, 1, 2, 3, 4, 5), /a node on each side/);
    await assert.rejects(keylatch.cluster({ primary: 1 }), new TypeError("unknown option 'primary'"));
    await assert.rejects(cluster.failover(3, { loose: 1 }), new TypeError("unknown option 'loose'"));
    await assert.rejects(cluster.migrate(1, 1, { key: 1 }), new TypeError("unknown option 'key'"));
    await (await cluster.node(0)).command('CLUSTER', 'DELSLOTS', slotOf(KEY));
    await assert.rejects(cluster.primaryOf(KEY), /no node has slot 3300/);
  });

  test('end with the cluster', async () => {
    const mine = await keylatch.cluster({ name: 'mine', primaries: 1, replicas: 0 });
    assert.deepEqual(await keylatch.command('TEST.TOPOLOGY', 'LIST'), ['cluster-1', 'mine']);
    const node = await mine.node(0);
    assert.equal(await node.command('PING'), 'PONG');
    await mine.close();
    await assert.rejects(node.command('PING'), { code: 'ECONNREFUSED' });
    await mine.close(); // again does no harm
  });
});

test('the slot of a key is that of its hash tag', () => {
  assert.deepEqual(['b', Buffer.from('b'), '123456789', '', '{}b'].map(slotOf), [3300, 3300, 12739, 0, 6680]);
  assert.deepEqual(['{b}:1', 'x{b}{c}', '}{b}'].map(slotOf), [3300, 3300, 3300]);
  assert.notEqual(slotOf('{b'), 3300);
});
