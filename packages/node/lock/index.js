// Locks of keylatch for `await using`, over node-redis or ioredis: renewed in the background, with a fence and a report
// of loss.
//
//     await using lock = await acquire(client, 'report', { ttl: 30_000 });    // queues
//     await write(lock.fence, { signal: lock.signal });                       // is aborted once the lock is lost

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

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

/** A reply has not come in time. */
class Stuck extends Error {}

const PARTS = 3; // of a TTL: it is renewed after one, and no reply is waited for longer than another
const QUIT_MS = 1000; // for a server that does not answer
const RELEASE_MS = 2000; // for the release of what is lost, or was perhaps never granted
const RELEASES = 3; // how often a release is sent that is not answered

// ioredis has `call`; node-redis has `isOpen`, and is connected by hand.
const isIoredis = (client) => typeof client.call === 'function';
const call = (client, words) =>
  isIoredis(client) ? client.call(...words.map(String)) : client.sendCommand(words.map(String));
const close = (client) => isIoredis(client) ? client.disconnect() : client.isOpen && client.destroy();

/** Waits until a time of `performance.now()`, and no longer: what comes after that is not looked at. */
async function inTime(by, promise) {
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
async function connect(client, by) {
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
async function send(client, commands, by) {
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

/** Whether a server refuses because it has no such command, or not for this user. */
const lacksCommand = (error) => /unknown command|^NOPERM /i.test(error?.message);

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
  #words; // asks for the lock
  #shared;
  #session;
  #isAlone; // no other lock has the token
  #own; // the connection that waited, which the session is bound to and which is told of the loss; until it is broken
  #broken; // when it breaks
  #isAway = false; // its session is not resumed yet
  #isReconnecting = false;
  #isAskedAgain = false; // to reconnect, while it does
  #isStuck = false; // the client has not answered yet what was asked in time
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
    const words = (size) => {
      const first = opening(lock.#keys, { token: lock.token, shared, permits, of: size });
      return [...first, 'PX', ttl, 'NOTIFY', ...session ? ['SESSION'] : []];
    };
    const asked = [...words(of), ...meta === undefined ? [] : ['META', meta]];
    lock.#session = session;
    lock.#words = () => words(undefined); // the size of a semaphore may be another by then
    await lock.#connect(Infinity);
    try {
      const granted = await lock.#wait(asked, wait, signal);
      if (granted === null) signal?.throwIfAborted();
      if (granted === null) throw new NotAcquired(lock.#keys.join(', '));
      [granted].flat().forEach((fence, at) => lock.fences.set(lock.#keys[at], Number(fence)));
      lock.fence = Math.max(...lock.fences.values());
      lock.#held(performance.now());
      await lock.#listen(lock.#by()).catch((error) => {
        if (isReply(error)) throw error;
        return lock.#reconnect(); // the connection is stuck, or broke behind the grant
      });
      await lock.#renew();
      return lock;
    } catch (error) {
      close(lock.#own);
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
    this.#isAlone = owner === undefined || owner === null;
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

  /** Releases each lock; tells whether all were held. A lock that is gone may have gone by a release whose reply was
   *  lost: that is no loss if the lock was held when it was sent. */
  async #giveBack() {
    const limit = Math.max(this.#validUntil, performance.now() + RELEASE_MS);
    const releases = this.#keys.map((key) => ['LOCK.RELEASE', key, this.token]);
    for (let attempt = 1, isUnanswered = false; ; attempt += 1) {
      const wasHeld = !this.lost && performance.now() < this.#validUntil;
      const by = Math.min(limit, performance.now() + this.#ttl / PARTS);
      let wasSent = false;
      let another; // for what cannot be sent over the client
      try {
        if (this.#isStuck) another = (await connect(this.#client, by)).own;
        wasSent = true;
        const { replies, isBroken } = await send(another ?? this.#client, releases, by);
        return replies.every(Number) || isUnanswered || isBroken && wasHeld;
      } catch (error) {
        if (isReply(error) || attempt === RELEASES || performance.now() >= limit) throw error;
        isUnanswered ||= wasSent && wasHeld;
        this.#isStuck ||= error instanceof Stuck;
        if (attempt > 1) await sleep(this.#pause());
      } finally {
        if (another) close(another);
      }
    }
  }

  /** Gives back what is left of a lock that is lost. Nobody waits for it in vain: it also expires. */
  async #abandon() {
    if (this.#keys.length > 1) await this.#giveBack().catch(() => {});
    return false;
  }

  async #connect(by) {
    const { own, broken } = await connect(this.#client, by);
    this.#own = own;
    this.#broken = broken;
  }

  /** Queues, until the signal is aborted. If the connection breaks it asks again, which takes up a session's place.
   *  The same token again is safe: its lock is granted again. */
  async #wait(words, wait, signal) {
    const began = performance.now();
    const waited = () => performance.now() - began;
    for (let breaks = 1, reached = began; ; breaks += 1) {
      try {
        const by = performance.now() + Math.max(0, wait - waited()) + this.#ttl / PARTS;
        if (breaks > 1) await this.#connect(by);
        reached = performance.now();
        const left = wait - waited();
        const block = left === Infinity ? ['BLOCK', 0] : left >= 1 ? ['BLOCK', Math.floor(left)] : [];
        return await inTime(by, this.#ask([...words, ...block], signal));
      } catch (error) {
        if (isReply(error) || signal?.aborted) throw error; // an error of the server is final
        close(this.#own);
        // The first time, its reply may be all that was lost.
        const isOver = waited() >= wait || performance.now() - reached >= this.#ttl;
        if (breaks > 1 && isOver) throw error;
        if (breaks > 1) await sleep(this.#pause());
        signal?.throwIfAborted();
      }
    }
  }

  /** Sends the request, and leaves the queue when the signal is aborted. */
  async #ask(words, signal) {
    const id = call(this.#own, ['CLIENT', 'ID']).catch(() => {});
    const granted = call(this.#own, words);
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
  async #listen(by) {
    const told = (message, channel) => {
      const [reason, fence] = String(message).split(' ');
      if (Number(fence) !== this.fences.get(channel.slice('__lock__:'.length))) return;
      // All readers of a lock have the same fence, so it may be another one's end.
      if (this.#shared) this.#renew(reason);
      else this.#lose(reason);
    };
    const own = this.#own;
    await inTime(by, subscribe(own, this.#keys.map((key) => `__lock__:${key}`), told));
    this.#broken.then(() => own === this.#own && this.#reconnect());
  }

  /** Connects again, and has the server move the lock there, until its time is over. The former connection may be stuck:
   *  its end might end the session, so it is closed when that has moved. */
  async #reconnect() {
    if (this.#isReconnecting) {
      this.#isAskedAgain = true;
      return;
    }
    const former = [this.#own];
    this.#isReconnecting = true;
    this.#isAskedAgain = false;
    for (let pause = 0; !this.#isOver; pause = this.#pause()) {
      if (pause) await sleep(pause);
      this.#isAway = this.#session;
      if (await this.#move(this.#by())) break;
      if (this.#session && !this.#isAway) former.push(this.#own); // what came after it had moved there is stuck
      else if (!former.includes(this.#own)) close(this.#own);
    }
    this.#isReconnecting = false;
    await this.#released?.catch(() => {}); // else the end of the session would come before the release
    former.forEach(close);
    if (this.#isOver) close(this.#own);
    else if (this.#isAskedAgain) await this.#reconnect(); // the new connection broke, or the client was found stuck late
    else if (!this.#isStuck) await this.#renew();
  }

  /** Moves the lock to a new connection; tells whether that has succeeded, or the lock is lost. */
  async #move(by) {
    try {
      await this.#connect(by);
      if (this.#isOver) return true;
      if (!await inTime(by, this.#resume())) {
        this.#lose('disconnected');
        return true;
      }
      this.#isAway = false;
      if (this.#isStuck) await this.#renewOver(this.#own, by, 'expired');
      if (!this.#isOver) await this.#listen(by);
      return true;
    } catch {
      return false; // it says nothing of the lock: the next may be answered
    }
  }

  /** Has the server move the lock to a new connection, before anything else is sent for it. Tells whether it may still
   *  be held: a session may not, unless all has moved. */
  async #resume() {
    if (!this.#isAlone) return !this.#session || this.#resumeOwned();
    try {
      const resumed = await call(this.#own, ['LOCK.RESUME', this.token]);
      return resumed.length === this.#keys.length || !this.#session;
    } catch (error) {
      if (!lacksCommand(error)) throw error;
      return !this.#session;
    }
  }

  /** LOCK.RESUME would move all locks of the owner, also away from connections that are well. */
  async #resumeOwned() {
    const renew = (key) => call(this.#own, ['LOCK.RENEW', key, this.token, 'PX', this.#ttl]);
    const ours = (fence, at) => Number(fence) === this.fences.get(this.#keys[at]);
    if (!(await Promise.all(this.#keys.map(renew))).every(ours)) return false;
    const fences = [await call(this.#own, this.#words())].flat();
    if (fences.length === this.#keys.length && fences.every(ours)) return true;
    // It went in between, and this is another.
    const others = this.#keys.filter((_, at) => fences[at] && !ours(fences[at], at));
    await Promise.all(others.map((key) => call(this.#own, ['LOCK.RELEASE', key, this.token])));
    return false;
  }

  get #isOver() {
    return Boolean(this.#released || this.lost);
  }

  #pause() {
    return Math.min(100, this.#ttl / 10);
  }

  /** When the connection counts as stuck over which something is sent now. */
  #by() {
    return Math.min(performance.now() + this.#ttl / PARTS, this.#validUntil);
  }

  /** Renews the lock over the client, or over another connection if that is stuck. */
  async #renew(reason = 'expired') {
    if (this.#isOver || this.#isAway) return;
    try {
      if (!this.#isStuck) return await this.#renewOver(this.#client, this.#by(), reason);
    } catch (error) {
      if (this.#isOver) return;
      if (!(error instanceof Stuck)) return this.#later(this.#pause(), () => this.#renew(reason));
    }
    await this.#reconnect();
  }

  async #renewOver(client, by, reason) {
    const since = performance.now();
    const renew = (key) => call(client, ['LOCK.RENEW', key, this.token, 'PX', this.#ttl]);
    const asked = Promise.all(this.#keys.map(renew));
    const fences = await inTime(by, asked).catch((error) => {
      if (error instanceof Stuck && client === this.#client) {
        this.#isStuck = true;
        const answered = () => { this.#isStuck = false; };
        asked.then(answered, answered);
      }
      throw error;
    });
    if (this.#keys.every((key, at) => Number(fences[at]) === this.fences.get(key))) this.#held(since);
    else this.#lose(reason);
  }

  /** Notes that the server held the lock for this client at a time, with its whole TTL to come. */
  #held(since) {
    if (this.#isOver) return;
    this.#stop();
    this.#validUntil = since + this.#ttl;
    this.#later(this.#ttl / PARTS - (performance.now() - since), () => this.#renew());
    this.#later(this.#validUntil - performance.now(), () => this.#lose('expired'));
  }

  /** Ends the session at once, with what is left of several locks, which a server may keep for a broken connection. */
  #quit() {
    const own = this.#own;
    if (!this.#session) return close(own);
    // ioredis knows that a subscriber may send it only by its name in small letters.
    const ended = Promise.race([call(own, ['quit']), sleep(QUIT_MS, undefined, { ref: false })]);
    ended.catch(() => {}).then(() => close(own));
  }

  #later(ms, what) {
    this.#timers.push(setTimeout(what, Math.max(0, ms)));
  }

  #stop() {
    this.#timers.splice(0).forEach(clearTimeout);
  }

  #lose(reason) {
    if (this.#isOver) return;
    this.lost = reason;
    this.#stop();
    this.#quit();
    this.#abort.abort(new LockLost(this.#keys.join(', '), reason));
    this.#onLost?.(this);
  }
}

export const acquire = Lock.acquire;
