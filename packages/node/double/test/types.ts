// What the types allow and refuse; only compiled.

import globalSetup from 'keylatch/global-setup';
import { Redis } from 'ioredis';
import {
  type Call, type ClusterNode, type ExploreReport, type Keylatch, type SentinelNode, ExploreError, explore, instance, slotOf,
  start,
} from 'keylatch';
import { mock, test } from 'node:test';
import { createSentinel } from 'redis';

export async function uses(): Promise<void> {
  await using server = await start({ settings: { maxmemory: '1mb', hz: 20 } });
  const keylatch: Keylatch = await server.instance('name');
  await using encrypted = await start({ tls: true });
  const authority: string | undefined = (await encrypted.instance()).ca ?? encrypted.caFile;
  const now: number = await keylatch.advance(1000);
  await keylatch.advance(1000, { process: false });
  keylatch.follow(mock.timers);
  keylatch.follow({ tickAsync: async (ms: number) => ms });
  keylatch.follow();
  // @ts-expect-error a clock moves by `tick`
  keylatch.follow({ advance: (ms: number) => ms });
  await keylatch.setTime(new Date(now));
  await using fault = await keylatch.fault('SET', { loseReply: true, count: 1, key: 'user:*', seed: 7n });
  const fired: number = await fault.fired();
  // @ts-expect-error a fault has one kind
  await keylatch.fault('SET', { count: fired });
  // @ts-expect-error a limit has another name
  await keylatch.fault('SET', { drop: true, cuont: 1 });
  const calls: Call[] = await keylatch.calls({ match: 'SET', count: 5 });
  const args: string[] | undefined = calls[0]?.args;
  await keylatch.failover({ lose: 1 });
  await using replica = await keylatch.replica();
  await replica.fault('LINK', { delayMs: 100 });
  await keylatch.failover({ lose: null });
  await using cluster = await keylatch.cluster({ primaries: 3, replicas: 1, nodeTimeout: 1000, user: 'app', password: 'x', tls: true });
  const node: ClusterNode = await cluster.primaryOf('key');
  await cluster.migrate(slotOf('key'), node, { keys: 1 });
  await cluster.migrate([0, 99], 1);
  await cluster.partition(node, 1);
  await (await cluster.node(node)).fault('SET', { drop: true });
  const urls: { url: string }[] = cluster.rootNodes;
  const added: ClusterNode = await cluster.add({ replicaOf: node });
  // @ts-expect-error an option has another name
  await cluster.failover(added, { loose: 1 });
  const sizes = { replicas: 1, sentinels: 5, quorum: 3, master: 'cache', downAfter: 1000, failoverTimeout: 2000 };
  await using sentinel = await keylatch.sentinel({ ...sizes, user: 'app', password: 'x', sentinelPassword: 'y', tls: true });
  const { sentinels, masterName: name, sentinelPassword } = sentinel;
  new Redis({ sentinels, name, sentinelPassword }).disconnect();
  createSentinel({ name, sentinelRootNodes: sentinels }).destroy();
  const master: SentinelNode = await sentinel.master();
  await sentinel.lag((await sentinel.replicas())[0]!, 100);
  await sentinel.failover({ to: master, lose: 1 });
  // @ts-expect-error a master has no slots
  await sentinel.migrate(1, master);
  // @ts-expect-error an option is one of a cluster
  await keylatch.sentinel({ nodeTimeout: 1000 });
  (await instance()).close();
  const stop: () => Promise<void> = await globalSetup();
  await stop();
  console.log(args, urls);
}

export async function explores(): Promise<void> {
  const scenario = async (keylatch: Keylatch) => { await keylatch.advance(1000); };
  const sample = { pairs: true, seed: 7, budget: 10, workers: 4, lateBy: 60_000, timeout: 10 };
  const report: ExploreReport = await explore(scenario, { ...sample, kinds: ['late', 'busy'], raises: false });
  const { points, leftOut, notTried, seconds, seed, ok, notRepeatable } = report;
  for (const { name } of report.failures) await explore(scenario, { only: [name] });
  // @ts-expect-error there is no such kind
  await explore(scenario, { kinds: ['later'] });
  // @ts-expect-error an option has another name
  await explore(scenario, { worker: 1 });
  await test('explored', (t) => explore.test(t, scenario, { only: 'late: 1st GET' }));
  const told = (error: unknown) => error instanceof ExploreError ? String(error.report) : error;
  console.log(points, leftOut, notTried, seconds, seed, ok, notRepeatable, told);
}
