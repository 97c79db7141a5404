// What the types allow and refuse; only compiled.

import globalSetup from 'keylatch/global-setup';
import { type Call, type Keylatch, instance, start } from 'keylatch';

export async function uses(): Promise<void> {
  await using server = await start({ settings: { maxmemory: '1mb', hz: 20 } });
  const keylatch: Keylatch = await server.instance('name');
  const now: number = await keylatch.advance(1000);
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
  (await instance()).close();
  const stop: () => Promise<void> = await globalSetup();
  await stop();
  console.log(args);
}
