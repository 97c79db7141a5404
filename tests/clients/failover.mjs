// Proves of the clients of Node what failover.py proves of those of Python; the claim is described there.
//
//     KEYLATCH_SERVERS="host:port:pid ..." SENTINELS="host:port ..." node failover.mjs CLIENT...

import assert from 'node:assert/strict';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { runCases } from './cases.mjs';

const WRITES = 200; // before the primary is killed, and after it
const PATIENCE_MS = 30_000;
const sentinels = process.env.SENTINELS.split(' ').map((place) => {
  const [host, port] = place.split(':');
  return { host, port: Number(port) };
});
const [, firstPort, firstPid] = process.env.KEYLATCH_SERVERS.split(' ')[0].split(':').map(Number);

/** Returns whether the first server accepts connections. */
const listens = () => new Promise((resolve) => {
  const socket = net.connect(firstPort, '127.0.0.1');
  socket.once('connect', () => { socket.destroy(); resolve(true); }).once('error', () => resolve(false));
});

function connect(role) {
  const client = new Redis({
    sentinels, name: 'it', role, commandTimeout: 2000, maxRetriesPerRequest: null,
    sentinelRetryStrategy: () => 50, retryStrategy: () => 50, reconnectOnError: () => 2,
    // A WAIT that is sent again on another connection speaks of no write.
    autoResendUnfulfilledCommands: false,
  });
  client.on('error', () => {});
  return client;
}

const cases = {
  async 'ioredis Sentinel'() {
    const [client, acknowledged, deadline] = [connect('master'), [], performance.now() + PATIENCE_MS];
    let repeated = 0;
    for (let number = 0; number < 2 * WRITES; number++) {
      if (number === WRITES) {
        process.kill(firstPid, 'SIGKILL');
        while (await listens()) await sleep(10);
      }
      const awaited = number < WRITES ? 2 : 1; // how many replicas there are
      while (acknowledged.length === number) {
        assert(performance.now() < deadline, `write ${number} is not acknowledged`);
        const replies = await client.pipeline().set(`key:${number}`, number).wait(awaited, 500).exec().catch(() => []);
        if (replies.length === 2 && replies.every(([error]) => !error) && replies[1][1] >= awaited) {
          acknowledged.push(String(number));
        } else {
          repeated++;
          await sleep(20);
        }
      }
    }
    const keys = acknowledged.map((number) => `key:${number}`);
    const replica = connect('slave');
    for (const side of [client, replica]) assert.deepEqual(await side.mget(keys), acknowledged);
    assert.notEqual(client.stream.remotePort, firstPort, 'the primary was killed');
    assert(repeated > 0, 'a write met the killed primary');
    for (const side of [client, replica]) side.disconnect();
    return `followed to the new primary with all ${acknowledged.length} acknowledged writes`;
  },
};

await runCases(cases, { flush: async () => {} });
