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

/** The server has no locks of this kind: it is no keylatch server, or an older one. */
export class Unsupported extends Error {
  name = 'Unsupported';
}

// ioredis has `call`; node-redis has `isOpen`, and is connected by hand.
const isIoredis = (client) => typeof client.call === 'function';
const call = (client, words) =>
  isIoredis(client) ? client.call(...words.map(String)) : client.sendCommand(words.map(String));
const close = (client) => isIoredis(client) ? client.disconnect() : client.isOpen && client.destroy();

/** Connects once more for one lock alone, which may wait for as long as it has to. */
async function connect(client, session) {
  // ioredis would subscribe again by itself, and nobody would catch the error of a connection that is closed meanwhile.
  const ofIoredis = { lazyConnect: true, maxRetriesPerRequest: null, commandTimeout: undefined, autoResubscribe: false };
  const own = isIoredis(client)
    ? client.duplicate({ ...ofIoredis, ...session && { retryStrategy: null } })
    : client.duplicate(session ? { socket: { ...client.options?.socket, reconnectStrategy: false } } : {});
  own.on('error', () => {}); // a call that fails says so itself
  await own.connect();
  return own;
}

/** Tells a listener what is published on channels. */
function subscribe(own, channels, listener) {
  if (!isIoredis(own)) return own.subscribe(channels, listener);
  own.on('message', (channel, message) => listener(message, channel));
  return own.subscribe(...channels);
}

/** Words a command, as far as it says which locks it is about, and how they are to be held. */
function opening(keys, { token, shared, permits, of }) {
  if (keys.length === 0) throw new TypeError('a lock needs a name');
  if (keys.length > 1 && (shared || permits !== undefined)) throw new TypeError('several locks at once are exclusive');
  if (shared && permits !== undefined) throw new TypeError('a lock is shared or has permits, not both');
  if (of !== undefined && permits === undefined) throw new TypeError('a size needs permits');
  if (keys.length > 1) return ['LOCK.ACQUIREMULTI', keys.length, ...keys, token];
  const words = ['LOCK.ACQUIRE', keys[0], token, ...shared ? ['SHARED'] : []];
  if (permits !== undefined) words.push('PERMITS', permits);
  if (of !== undefined) words.push('OF', of);
  return words;
}

/** Whether the server has answered with this error. */
const isReply = (error) => /^[A-Z]+ /.test(error?.message);

/** Tells what an error of the server says of locks. */
function refusal(error, keys, { shared, permits }) {
  const told = String(error?.message);
  const [, cycle] = /^DEADLOCK (.*)/.exec(told) ?? [];
  if (cycle) return new Deadlock(keys.join(', '), cycle);
  if (!/unknown command|syntax error/i.test(told)) return error;
  const options = { cause: error };
  if (keys.length > 1) return new Unsupported(`the server cannot lock several names at once: ${told}`, options);
  if (permits !== undefined) return new Unsupported(`the server has no permits: ${told}`, options);
  return shared ? new Unsupported(`the server has no shared locks: ${told}`, options) : error;
}

/** A lock that is held. */
export class Lock {
  #client;
  #keys;
  #shared;
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
    const { shared = false, permits, of, ...unknown } = others;
    for (const name of Object.keys(unknown)) throw new TypeError(`unknown option '${name}'`);
    signal?.throwIfAborted();
    const lock = new Lock(client, key, ttl, onLost, owner, shared);
    const words = opening(lock.#keys, { token: lock.token, shared, permits, of });
    words.push('PX', ttl, 'NOTIFY', ...session ? ['SESSION'] : []);
    if (meta !== undefined) words.push('META', meta);
    const own = lock.#own = await connect(client, session);
    try {
      const granted = await lock.#wait(words, wait, signal);
      if (granted === null) signal?.throwIfAborted();
      if (granted === null) throw new NotAcquired(lock.#keys.join(', '));
      [granted].flat().forEach((fence, at) => lock.fences.set(lock.#keys[at], Number(fence)));
      lock.fence = Math.max(...lock.fences.values());
      lock.#held(performance.now());
      await lock.#listen(session);
      return lock;
    } catch (error) {
      close(own);
      lock.#stop();
      const refused = refusal(error, lock.#keys, { shared, permits });
      if (refused !== error) throw refused;
      // What has gone wrong may be no more than the reply; but after a refusal there is nothing to give back.
      const isRefused = error instanceof NotAcquired || isReply(error) && !lock.fence;
      if (!isRefused) await lock.#giveBack().catch(() => {});
      throw error;
    }
  }

  constructor(client, key, ttl, onLost, owner, shared) {
    this.#client = client;
    this.#keys = [key].flat().map(String);
    this.#ttl = ttl;
    this.#onLost = onLost;
    this.#shared = shared;
    this.key = key;
    this.token = owner ?? randomUUID();
    this.fence = 0; // increases from holder to holder
    this.fences = new Map(); // by name; `fence` is the greatest, and serves for each of the names
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

  /** Releases the lock; tells whether it was still held. What is left of several, of which one is lost, too. */
  async release() {
    const first = !this.#released;
    this.#released ??= this.lost ? this.#abandon() : this.#giveBack();
    try {
      return await this.#released && first;
    } finally {
      this.#stop();
      close(this.#own);
    }
  }

  async [Symbol.asyncDispose]() {
    const released = this.#released;
    if (!await this.release() && !released) throw this.signal.reason ?? new LockLost(this.#keys.join(', '), 'expired');
  }

  /** Releases each lock; tells whether all were held. */
  async #giveBack() {
    const release = (key) => call(this.#client, ['LOCK.RELEASE', key, this.token]);
    const released = await Promise.all(this.#keys.map(release));
    return released.every(Number);
  }

  /** Gives back what is left of a lock that is lost. Nobody waits for it in vain: it also expires. */
  async #abandon() {
    if (this.#keys.length > 1) await this.#giveBack().catch(() => {});
    return false;
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
      if (isReply(error) || signal?.aborted) throw error;
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
    const told = (message, channel) => {
      const [reason, fence] = String(message).split(' ');
      if (Number(fence) !== this.fences.get(channel.slice('__lock__:'.length))) return;
      // All readers of a lock have the same fence, so it may be another one's end.
      if (this.#shared) this.#renew(reason);
      else this.#lose(reason);
    };
    if (session) for (const event of ['error', 'end']) this.#own.on(event, () => this.#lose('disconnected'));
    const channels = this.#keys.map((key) => `__lock__:${key}`);
    await subscribe(this.#own, channels, told);
    this.#own.on('ready', async () => { // connected again
      if (!this.#released && !this.lost && isIoredis(this.#own)) await this.#own.subscribe(...channels).catch(() => {});
      if (this.#released || this.lost) close(this.#own);
      else await this.#renew();
    });
    await this.#renew();
  }

  async #renew(reason = 'expired') {
    if (this.#released || this.lost) return;
    const since = performance.now();
    const renew = (key) => call(this.#client, ['LOCK.RENEW', key, this.token, 'PX', this.#ttl]);
    try {
      const fences = await Promise.all(this.#keys.map(renew));
      if (this.#keys.every((key, at) => Number(fences[at]) === this.fences.get(key))) this.#held(since);
      else this.#lose(reason);
    } catch {
      if (!this.#released && !this.lost) this.#later(Math.min(100, this.#ttl / 10), () => this.#renew(reason));
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
    this.#abort.abort(new LockLost(this.#keys.join(', '), reason));
    this.#onLost?.(this);
  }
}

export const acquire = Lock.acquire;
