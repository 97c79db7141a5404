// Uses a server that is a cluster of one node as the cluster clients of ioredis and node-redis do, and BullMQ over one of them.
//
//     KEYLATCH_CLUSTER_ENABLED=yes servers.py BINARY 1 node clusters.mjs

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { Queue, Worker } from 'bullmq';
import { Cluster } from 'ioredis';
import { createCluster } from 'redis';

const [host, port] = process.env.KEYLATCH_SERVERS.split(':').map((word, at) => (at ? Number(word) : word));
const version = (name) => createRequire(import.meta.url)(`${name}/package.json`).version;
const ioredisCluster = () => new Cluster([{ host, port }], { redisOptions: { maxRetriesPerRequest: null } });

async function ioredis() {
  const client = ioredisCluster();
  await client.flushall();
  assert.equal(await client.set('a', '1'), 'OK');
  assert.equal(await client.get('a'), '1');
  assert.equal(client.nodes('master').length, 1);
  await assert.rejects(client.mget('a', 'b'), /CROSSSLOT/);
  assert.deepEqual(await client.pipeline().set('{t}a', 1).set('{t}b', 2).mget('{t}a', '{t}b').exec(),
    [[null, 'OK'], [null, 'OK'], [null, ['1', '2']]]);
  assert.deepEqual(await client.multi().incr('{t}n').incr('{t}n').exec(), [[null, 1], [null, 2]]);
  client.defineCommand('read', { numberOfKeys: 1, lua: "return redis.call('GET', KEYS[1])" });
  assert.equal(await client.read('a'), '1');
  client.disconnect();
}

async function nodeRedis() {
  const client = createCluster({ rootNodes: [{ url: `redis://${host}:${port}` }] });
  client.on('error', (error) => { throw error; });
  await client.connect();
  assert.equal(client.masters.length, 1);
  assert.equal(await client.set('q', '1'), 'OK');
  assert.equal(await client.get('q'), '1');
  assert.deepEqual(await client.multi().set('{z}1', '1').get('{z}1').exec(), ['OK', '1']);
  const heard = [];
  await client.sSubscribe('shard', (message) => heard.push(message));
  await client.sPublish('shard', 'x');
  while (heard.length === 0) await new Promise(setImmediate);
  await client.close();
}

/** A queue whose keys share a hash tag, as BullMQ asks for in a cluster. */
async function bullMQ() {
  const [adding, working] = [ioredisCluster(), ioredisCluster()];
  const queue = new Queue('jobs', { connection: adding, prefix: '{jobs}' });
  const worker = new Worker('jobs', async (job) => job.data.number * 2, { connection: working, prefix: '{jobs}' });
  await queue.add('double', { number: 21 });
  const [, result] = await once(worker, 'completed');
  assert.equal(result, 42);
  await worker.close();
  await queue.close();
  adding.disconnect();
  working.disconnect();
}

await ioredis();
await nodeRedis();
await bullMQ();
console.log(`ioredis ${version('ioredis')} Cluster, node-redis ${version('redis')} createCluster and BullMQ are well`);
