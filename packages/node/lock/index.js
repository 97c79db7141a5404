// Locks of keylatch for `await using`, over node-redis or ioredis: renewed in the background, with a fence and a report
// of loss.
//
//     await using lock = await acquire(client, 'report', { ttl: 30_000 });    // queues
//     await write(lock.fence, { signal: lock.signal });                       // is aborted once the lock is lost

import { randomUUID } from 'node:crypto';

/** The lock was not obtained within `wait` milliseconds. */
export class NotAcquired extends Error {
  name = 'NotAcquired';
}

/** The wait would never end: the owner holds a lock that those before it wait for. `cycle` names locks and clients. */
export class Deadlock extends Error {
  name = 'Deadlock';

  constructor(key, cycle) {
    super(`waiting for the lock ${key} would never end: ${cycle}`);
    this.cycle = cycle;
  }
}

/** The lock went before it was released; `reason` says how. */
export class LockLost extends Error {
  name = 'LockLost';

  constructor(key, reason) {
    super(`the lock ${key} is lost: ${reason}`);
    this.reason = reason;
  }
}

// ioredis has `call`; node-redis has `isOpen`, and is connected by hand.
const isIoredis = (client) => typeof client.call === 'function';
const call = (client, words) =>
  isIoredis(client) ? client.call(...words.map(String)) : client.sendCommand(words.map(String));
const close = (client) => isIoredis(client) ? client.disconnect() : client.isOpen && client.destroy();

/** Connects once more for one lock alone, which may wait for as long as it has to. */
async function connect(client, session) {
  const ofIoredis = { lazyConnect: true, maxRetriesPerRequest: null, commandTimeout: undefined };
  const own = isIoredis(client)
    ? client.duplicate({ ...ofIoredis, ...session && { retryStrategy: null } })
    : client.duplicate(session ? { socket: { ...client.options?.socket, reconnectStrategy: false } } : {});
  own.on('error', () => {}); // a call that fails says so itself
  await own.connect();
  return own;
}

/** Tells a listener what is published on a channel. */
function subscribe(own, channel, listener) {
  if (!isIoredis(own)) return own.subscribe(channel, listener);
  own.on('message', (_, message) => listener(message));
  return own.subscribe(channel);
}

/** A lock that is held. */
export class Lock {
  #client;
  #own; // the connection that waited, which the session is bound to and which is told of the loss
  #ttl;
  #onLost;
  #abort = new AbortController();
  #released;
  #validUntil = 0;
  #timers = [];

  /** Queues for the lock; see index.d.ts. */
  static async acquire(client, key, options = {}) {
    const { ttl = 30_000, wait = Infinity, session = false, meta, owner, signal, onLost, ...others } = options;
    for (const name of Object.keys(others)) throw new TypeError(`unknown option '${name}'`);
    signal?.throwIfAborted();
    const lock = new Lock(client, key, ttl, onLost, owner);
    const words = ['LOCK.ACQUIRE', key, lock.token, 'PX', ttl, 'NOTIFY', ...session ? ['SESSION'] : []];
    if (meta !== undefined) words.push('META', meta);
    const own = lock.#own = await connect(client, session);
    try {
      const fence = await lock.#wait(words, wait, signal);
      if (fence === null) signal?.throwIfAborted();
      if (fence === null) throw new NotAcquired(key);
      lock.fence = Number(fence);
      lock.#held(performance.now());
      await lock.#listen(session);
      return lock;
    } catch (error) {
      close(own);
      lock.#stop();
      const [, cycle] = /^DEADLOCK (.*)/.exec(error?.message) ?? [];
      if (cycle) throw new Deadlock(key, cycle);
      // What has gone wrong may be no more than the reply; an unknown token releases nothing.
      if (!(error instanceof NotAcquired)) await call(client, ['LOCK.RELEASE', key, lock.token]).catch(() => {});
      throw error;
    }
  }

  constructor(client, key, ttl, onLost, owner) {
    this.#client = client;
    this.#ttl = ttl;
    this.#onLost = onLost;
    this.key = key;
    this.token = owner ?? randomUUID();
    this.fence = 0; // increases from holder to holder
    this.lost = null;
  }

  /** Is aborted with a LockLost when the lock is lost. */
  get signal() {
    return this.#abort.signal;
  }

  /** Throws LockLost once the lock is known to be lost, or its time has passed without a renewal. */
  check() {
    if (!this.#released && performance.now() >= this.#validUntil) this.#lose('expired');
    this.signal.throwIfAborted();
  }

  /** Releases the lock; tells whether it was still held. */
  async release() {
    const first = !this.#released;
    this.#released ??= this.lost ? Promise.resolve(0) : call(this.#client, ['LOCK.RELEASE', this.key, this.token]);
    try {
      return Boolean(Number(await this.#released)) && first;
    } finally {
      this.#stop();
      close(this.#own);
    }
  }

  async [Symbol.asyncDispose]() {
    const released = this.#released;
    if (!await this.release() && !released) throw this.signal.reason ?? new LockLost(this.key, 'expired');
  }

  /** Queues, until the signal is aborted. The same token again is safe: its lock is granted again. */
  async #wait(words, wait, signal) {
    const began = performance.now();
    const attempt = () => {
      const left = wait - (performance.now() - began);
      const block = left === Infinity ? ['BLOCK', 0] : left >= 1 ? ['BLOCK', Math.floor(left)] : [];
      return call(this.#own, [...words, ...block]);
    };
    const id = call(this.#own, ['CLIENT', 'ID']).catch(() => {});
    const granted = attempt().catch((error) => {
      // An error of the server is final; a connection that breaks may have lost a mere reply.
      if (/^[A-Z]+ /.test(error.message) || signal?.aborted) throw error;
      return attempt();
    });
    if (!signal) return granted;
    granted.catch(() => {});
    let leave;
    const left = new Promise((_, reject) => {
      leave = async () => {
        // After this reply the queue is left, or the lock was granted before; acquire() releases it.
        await call(this.#client, ['CLIENT', 'UNBLOCK', await id]).catch(() => {});
        reject(signal.reason);
      };
    });
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([granted, left]);
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Listens for the loss. What was lost before that, the renewal finds. */
  async #listen(session) {
    const lost = (message) => {
      const [reason, fence] = String(message).split(' ');
      if (Number(fence) === this.fence) this.#lose(reason);
    };
    if (session) for (const event of ['error', 'end']) this.#own.on(event, () => this.#lose('disconnected'));
    await subscribe(this.#own, `__lock__:${this.key}`, lost);
    this.#own.on('ready', () => this.#released || this.lost ? close(this.#own) : this.#renew()); // connected again
    await this.#renew();
  }

  async #renew() {
    if (this.#released || this.lost) return;
    const since = performance.now();
    try {
      const fence = await call(this.#client, ['LOCK.RENEW', this.key, this.token, 'PX', this.#ttl]);
      if (Number(fence) === this.fence) this.#held(since);
      else this.#lose('expired');
    } catch {
      if (!this.#released && !this.lost) this.#later(Math.min(100, this.#ttl / 10), () => this.#renew());
    }
  }

  /** Notes that the server held the lock for this client at a time, with its whole TTL to come. */
  #held(since) {
    if (this.#released || this.lost) return;
    this.#stop();
    this.#validUntil = since + this.#ttl;
    this.#later(this.#ttl / 3 - (performance.now() - since), () => this.#renew());
    this.#later(this.#validUntil - performance.now(), () => this.#lose('expired'));
  }

  #later(ms, what) {
    this.#timers.push(setTimeout(what, Math.max(0, ms)));
  }

  #stop() {
    this.#timers.splice(0).forEach(clearTimeout);
  }

  #lose(reason) {
    if (this.#released || this.lost) return;
    this.lost = reason;
    this.#stop();
    close(this.#own);
    this.#abort.abort(new LockLost(this.key, reason));
    this.#onLost?.(this);
  }
}

export const acquire = Lock.acquire;
