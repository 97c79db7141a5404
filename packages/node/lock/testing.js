// What the tests share: clients of the server that KEYLATCH_SERVERS=host:port names. With KEYLATCH_FAILOVER=host:port,
// another one takes its place when that address is asked for it, and SENTINELS=host:port names the sentinel that knows
// which one serves, if there is one.

import assert from 'node:assert/strict';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis'; // the first of the promised versions export no name
import { createClient } from 'redis';

export const PATIENCE_MS = 60_000;
const [host, port] = (process.env.KEYLATCH_SERVERS ?? 'localhost:6379').split(' ')[0].split(':');
export const url = `redis://${host}:${port}`;

const clients = {
  'node-redis, RESP2': (to = url) => createClient({ url: to, RESP: 2 }).on('error', () => {}).connect(),
  'node-redis, RESP3': (to = url) => createClient({ url: to, RESP: 3 }).on('error', () => {}).connect(),
  ioredis: async (to = url) => new Redis(to),
};
const named = process.env.NODE_CLIENT;
assert.ok(named === undefined || named in clients, `there is no client ${named}`);

/** Connects each of the clients that the helper works with, or only the one that NODE_CLIENT names. */
export const connect = named === undefined ? clients : { [named]: clients[named] };

export const hasFailovers = 'KEYLATCH_FAILOVER' in process.env;
export const isOnEtcd = hasFailovers && !('SENTINELS' in process.env);

/** Has the server killed or stopped; returns when another one serves. */
export async function failOver(how) {
  const [at, of] = process.env.KEYLATCH_FAILOVER.split(':');
  const control = net.connect(Number(of), at).end(`${how}\n`);
  let reply = '';
  for await (const received of control) reply += received;
  assert.equal(reply, 'done\n');
}

/** A client of ioredis that finds the server after a failover, too. */
export function failing() {
  if (isOnEtcd) return new Redis(url).on('error', () => {});
  const [at, of] = process.env.SENTINELS.split(':');
  return new Redis({ sentinels: [{ host: at, port: Number(of) }], name: 'it' }).on('error', () => {});
}

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

/** An address of the server that changes, as a Sentinel tells it; connections to the former one end with it. Connections
 *  can be stuck: they pass nothing on any more, except their end. */
export class Moving {
  #sockets = []; // of a client, and then of the server
  #stuck = new Set();

  async listen() {
    this.#listener = net.createServer((client) => {
      const server = net.connect(Number(port), host);
      for (const [from, to] of [[client, server], [server, client]]) {
        this.#sockets.push(from);
        from.on('error', () => {}).on('close', () => to.destroy());
        from.on('data', (received) => this.#stuck.has(from) || to.write(received));
      }
    });
    await new Promise((resolve) => this.#listener.listen(0, '127.0.0.1', resolve));
    this.port = this.#listener.address().port;
  }

  #listener;

  /** Makes the open connections stuck, in one direction or both. */
  stall(repliesOnly) {
    this.#sockets.filter((_, at) => at % 2 || !repliesOnly).forEach((socket) => this.#stuck.add(socket));
  }

  close() {
    this.#listener.close();
    this.#sockets.splice(0).forEach((socket) => socket.destroy());
  }

  async move(isStuck) {
    if (isStuck) {
      this.stall(false);
      this.#listener.close();
    } else {
      this.close();
    }
    await this.listen();
  }

  /** A client of ioredis that asks for the address whenever it connects. */
  ioredis() {
    const moving = this;
    class Connector {
      check() {
        return true;
      }

      async connect() {
        this.stream = net.connect(moving.port, '127.0.0.1');
        return this.stream;
      }

      disconnect() {
        this.stream?.end();
      }
    }
    return new Redis({ Connector });
  }
}
