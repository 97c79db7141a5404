// Connections and commands, over node-redis or ioredis.

import { setTimeout as sleep } from 'node:timers/promises';
import { Stuck } from './errors.js';

// ioredis has `call`; node-redis has `isOpen`, and is connected by hand.
const isIoredis = (client) => typeof client.call === 'function';
export const call = (client, words) =>
  isIoredis(client) ? client.call(...words.map(String)) : client.sendCommand(words.map(String));
export const close = (client) => isIoredis(client) ? client.disconnect() : client.isOpen && client.destroy();

/** Waits until a time of `performance.now()`, and no longer: what comes after that is not looked at. */
export async function inTime(by, promise) {
  if (by === Infinity) return promise;
  const over = new AbortController();
  const ms = Math.min(Math.max(0, by - performance.now()), 2 ** 31 - 1); // more is nothing to a timer
  const late = sleep(ms, undefined, { signal: over.signal }).then(() => { throw new Stuck('no reply about a lock'); });
  for (const each of [promise, late]) each.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    over.abort();
  }
}

/** Connects once more for one lock alone, which may wait for as long as it has to. Tells also when the connection
 *  breaks; the client does not connect again by itself, since the first command after that has to be one of this module. */
export async function connect(client, by) {
  const ofIoredis = { lazyConnect: true, maxRetriesPerRequest: null, commandTimeout: undefined, retryStrategy: null };
  const own = isIoredis(client)
    ? client.duplicate(ofIoredis)
    : client.duplicate({ socket: { ...client.options?.socket, reconnectStrategy: false } });
  own.on('error', () => {}); // a call that fails says so itself
  const broken = new Promise((resolve) => ['error', 'end'].forEach((event) => own.once(event, resolve)));
  try {
    await inTime(by, own.connect());
  } catch (error) {
    close(own);
    throw error;
  }
  return { own, broken };
}

/** Sends commands over a client, for a limited time; tells also whether its connection broke meanwhile. ioredis sends
 *  a command again then, of which only the reply was lost. */
export async function send(client, commands, by) {
  let isBroken = false;
  const broke = () => { isBroken = true; };
  const events = ['close', 'reconnecting', 'end'];
  events.forEach((event) => client.on(event, broke));
  try {
    const replies = await inTime(by, Promise.all(commands.map((words) => call(client, words))));
    return { replies, isBroken };
  } finally {
    events.forEach((event) => client.off(event, broke));
  }
}

/** Tells a listener what is published on channels. */
export function subscribe(own, channels, listener) {
  if (!isIoredis(own)) return own.subscribe(channels, listener);
  own.on('message', (channel, message) => listener(message, channel));
  return own.subscribe(...channels);
}

/** Fields of a map, which is an array in RESP2. */
export function fields(reply) {
  if (reply instanceof Map) return Object.fromEntries(reply);
  if (!Array.isArray(reply)) return reply;
  return Object.fromEntries(reply.flatMap((word, at) => at % 2 ? [] : [[word, reply[at + 1]]]));
}
