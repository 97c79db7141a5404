// What the tests share: clients of the server that KEYLATCH_SERVERS=host:port names.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis'; // the first of the promised versions export no name
import { createClient } from 'redis';

export const PATIENCE_MS = 60_000;
const [host, port] = (process.env.KEYLATCH_SERVERS ?? 'localhost:6379').split(' ')[0].split(':');
export const url = `redis://${host}:${port}`;

/** Connects each of the clients that the helper works with. */
export const connect = {
  'node-redis, RESP2': () => createClient({ url, RESP: 2 }).on('error', () => {}).connect(),
  'node-redis, RESP3': () => createClient({ url, RESP: 3 }).on('error', () => {}).connect(),
  ioredis: async () => new Redis(url),
};

/** Waits until a condition holds, and returns what it gave. */
export async function until(condition) {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const got = await condition();
    if (got) return got;
    assert.ok(performance.now() < deadline, 'waited in vain');
    await sleep(2);
  }
}
