// Locks of keylatch for `await using`, over node-redis or ioredis: renewed in the background, with a fence and a report
// of loss.
//
//     await using lock = await acquire(client, 'report', { ttl: 30_000 });    // queues
//     await write(lock.fence, { signal: lock.signal });                       // is aborted once the lock is lost

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

/** The lock was not obtained within `wait` milliseconds; the fields say who held it then, where the server has LOCK.INFO. */
export class NotAcquired extends Error {
  name = 'NotAcquired';

  constructor(key, { holder, age, ttl } = {}) {
    const known = holder && [holder.meta, holder.clientName, holder.addr].filter(Boolean).join(', ');
    const held = known ? `; it is held by ${known} for ${seconds(age)}` : '';
    super(`the lock ${key} was not obtained in time${held}${ttl > 0 ? `; its TTL is over in ${seconds(ttl)}` : ''}`);
    Object.assign(this, { key, holder, age, ttl });
  }
}

/** The wait would never end: the owner holds a lock that those before it wait for. `cycle` names locks and clients. */
export class Deadlock extends Error {
  name = 'Deadlock';

  constructor(key, cycle) {
    super(`waiting for the lock ${key} would never end: ${cycle}`);
    this.cycle = cycle;
  }
}

/** The lock went before it was released; `reason` says how, `at` when this process has noticed it, and `age` for how many
 *  milliseconds it was held until then. */
export class LockLost extends Error {
  name = 'LockLost';

  constructor(key, reason, age) {
    super(`the lock ${key} was lost after ${seconds(age)}: ${reason}`);
    Object.assign(this, { reason, age, at: new Date() });
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
const POLL_MS = 50; // at least, between two tries on a server without queue; up to twice that is added by chance

// For servers without LOCK commands.
const HELD = "if redis.call('GET', KEYS[1]) == ARGV[1] then return";
const RENEW = `${HELD} redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const LOOK = `${HELD} 1 end return 0`;
const RELEASE = `${HELD} redis.call('DEL', KEYS[1]) end return 0`;

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
function refusal(error, keys, { shared, permits, session }) {
  const told = String(error?.message);
  const [, cycle] = /^DEADLOCK (.*)/.exec(told) ?? [];
  if (cycle) return new Deadlock(keys.join(', '), cycle);
  if (!/unknown command|syntax error/i.test(told)) return error;
  const options = { cause: error };
  if (keys.length > 1) return new Unsupported(`the server cannot lock several names at once: ${told}`, options);
  if (permits !== undefined) return new Unsupported(`the server has no permits: ${told}`, options);
  if (shared) return new Unsupported(`the server has no shared locks: ${told}`, options);
  return session && /unknown command/i.test(told)
    ? new Unsupported(`the server has no sessions: ${told}`, options)
    : error;
}

/** Fields of a map, which is an array in RESP2. */
function fields(reply) {
  if (reply instanceof Map) return Object.fromEntries(reply);
  if (!Array.isArray(reply)) return reply;
  return Object.fromEntries(reply.flatMap((word, at) => at % 2 ? [] : [[word, reply[at + 1]]]));
}

const OPTIONS = [
  'ttl', 'wait', 'renewEvery', 'renewFor', 'session', 'meta', 'owner', 'signal', 'onLost', 'shared', 'permits', 'of',
];

/** The acquisitions of one lock by one owner, who has it once: one after the other, until one has it. */
class Share {
  #turn = Promise.resolve();
  #users = 0;
  #hold;
  #owner;
  #names;

  static #all = new WeakMap(); // by client, and then by what they have in common

  /** Returns what the acquisitions have in common; the owner may have no other locks with one of the names. */
  static of(client, key, { owner, shared, permits }) {
    if (!Share.#all.has(client)) Share.#all.set(client, new Map());
    const shares = Share.#all.get(client);
    const names = [key].flat().map(String).sort();
    const others = [...shares.values()].filter((other) => other.#owner === owner && !other.#isUnused);
    for (const other of others) {
      const name = names.find((each) => other.#names.includes(each));
      if (name !== undefined && JSON.stringify(other.#names) !== JSON.stringify(names)) {
        throw new TypeError(`an owner cannot have the lock ${name} alone and with others at a time`);
      }
    }
    const common = JSON.stringify([owner, names, Boolean(shared), permits]);
    const share = shares.get(common) ?? new Share(owner, names);
    shares.set(common, share);
    share.forget = () => share.#isUnused && shares.get(common) === share && shares.delete(common);
    return share;
  }

  constructor(owner, names) {
    this.#owner = owner;
    this.#names = names;
  }

  get #isUnused() {
    return this.#users === 0 && (this.#hold?.isEnded ?? true);
  }

  async acquire(client, key, options) {
    const { wait = Infinity, signal, onLost } = options;
    const by = performance.now() + wait;
    const former = this.#turn;
    let end;
    const mine = new Promise((resolve) => { end = resolve; });
    this.#turn = former.then(() => mine);
    this.#users += 1;
    try {
      await this.#await(former, by, signal);
      signal?.throwIfAborted();
      const joined = this.#hold?.join(onLost);
      if (joined) return joined;
      // A release that has begun would take along what is acquired with the same token.
      if (this.#hold && !this.#hold.lost) await this.#await(this.#hold.over, by, signal);
      this.#hold = await Hold.begin(client, key, { ...options, wait: Math.max(0, by - performance.now()) });
      this.#hold.over.then(() => this.forget());
      return this.#hold.join(onLost);
    } finally {
      end();
      this.#users -= 1;
      this.forget();
    }
  }

  /** Waits for others of the owner, and no longer than the acquisition may take. */
  async #await(others, by, signal) {
    const over = new AbortController();
    const aborted = new Promise((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason), { signal: over.signal });
    });
    aborted.catch(() => {});
    try {
      return await inTime(by, Promise.race([others, aborted]));
    } catch (error) {
      throw error instanceof Stuck ? new NotAcquired(this.#names[0]) : error;
    } finally {
      over.abort();
    }
  }
}

/** A lock that is held. */
export class Lock {
  #hold;
  #released;
  #abort = new AbortController();

  /** Queues for the lock; see index.d.ts. */
  static async acquire(client, key, options = {}) {
    const { owner, signal, onLost } = options;
    for (const name of Object.keys(options)) {
      if (!OPTIONS.includes(name)) throw new TypeError(`unknown option '${name}'`);
    }
    signal?.throwIfAborted();
    if ((owner ?? null) !== null) return Share.of(client, key, options).acquire(client, key, options);
    return (await Hold.begin(client, key, options)).join(onLost);
  }

  constructor(hold, key) {
    this.#hold = hold;
    this.key = key;
  }

  get token() {
    return this.#hold.token;
  }

  get fence() {
    return this.#hold.fence;
  }

  get fences() {
    return this.#hold.fences;
  }

  get lost() {
    return this.#released ? this.signal.reason?.reason ?? null : this.#hold.lost;
  }

  /** Is aborted with a LockLost when the lock is lost. */
  get signal() {
    return this.#abort.signal;
  }

  /** Throws LockLost once the lock is known to be lost, or its time has passed without a renewal. */
  check() {
    if (!this.#released) this.#hold.check();
    this.signal.throwIfAborted();
  }

  /** Releases the lock, of several acquisitions of one owner with the last; tells whether it was still held. What is left
   *  of several locks, of which one is lost, too. */
  async release() {
    const first = !this.#released;
    this.#released ??= this.#hold.leave(this);
    return await this.#released && first;
  }

  async [Symbol.asyncDispose]() {
    const released = this.#released;
    if (!await this.release() && !released) throw this.signal.reason ?? this.#hold.loss('expired');
  }

  /** Is called by the hold. */
  abort(reason) {
    this.#abort.abort(reason);
  }
}

/** What the server holds for one acquisition, or for those of one owner that share it. */
class Hold {
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
  #canBePlain; // as a server without LOCK commands can grant it
  #loss; // the error
  #isStuck = false; // the client has not answered yet what was asked in time
  #ttl;
  #renewEvery;
  #renewFor;
  #isPlain = false; // the server has no LOCK commands: the lock is a key
  #since; // when the lock was granted
  #locks = new Map(); // those that are not released, with what is called on the loss
  #released;
  #end;
  #validUntil = 0;
  #timers = [];

  /** Queues for the lock. */
  static async begin(client, key, options) {
    const { ttl = 30_000, wait = Infinity, session = false, meta, signal, shared = false, permits, of } = options;
    const hold = new Hold(client, key, options);
    const words = (size) => {
      const first = opening(hold.#keys, { token: hold.token, shared, permits, of: size });
      return [...first, 'PX', ttl, 'NOTIFY', ...session ? ['SESSION'] : []];
    };
    const asked = [...words(of), ...meta === undefined ? [] : ['META', meta]];
    const isRenewed = hold.#renewEvery > 0 && hold.#renewEvery < ttl;
    if (!isRenewed) throw new TypeError('a lock has to be renewed before its TTL is over');
    hold.#words = () => words(undefined); // the size of a semaphore may be another by then
    await hold.#connect(Infinity);
    try {
      const granted = await hold.#wait(asked, wait, signal);
      if (granted === null) signal?.throwIfAborted();
      if (granted === null) throw await hold.#notAcquired();
      if (!hold.#isPlain) [granted].flat().forEach((fence, at) => hold.fences.set(hold.#keys[at], Number(fence)));
      if (!hold.#isPlain) hold.fence = Math.max(...hold.fences.values());
      hold.#held(performance.now());
      await hold.#listen(hold.#by()).catch((error) => {
        if (isReply(error)) throw error;
        return hold.#reconnect(); // the connection is stuck, or broke behind the grant
      });
      await hold.#renew();
      hold.#since ??= performance.now();
      return hold;
    } catch (error) {
      close(hold.#own);
      hold.#stop();
      const refused = refusal(error, hold.#keys, { shared, permits, session });
      if (refused !== error) throw refused;
      // What has gone wrong may be no more than the reply; but after a refusal there is nothing to give back.
      const isRefused = error instanceof NotAcquired || isReply(error) && !hold.#validUntil;
      if (!isRefused) await hold.#giveBack().catch(() => {});
      throw error;
    }
  }

  constructor(client, key, { ttl = 30_000, renewEvery, renewFor = Infinity, owner, shared = false, permits, session }) {
    this.#client = client;
    this.#keys = [key].flat().map(String);
    this.#ttl = ttl;
    this.#renewEvery = renewEvery ?? ttl / PARTS;
    this.#renewFor = renewFor;
    this.#shared = shared;
    this.#session = Boolean(session);
    this.#canBePlain = this.#keys.length === 1 && !shared && permits === undefined && !session;
    this.key = key;
    this.token = owner ?? randomUUID();
    this.#isAlone = owner === undefined || owner === null;
    this.fence = null; // increases from holder to holder
    this.fences = new Map(); // by name; `fence` is the greatest, and serves for each of the names
    this.lost = null;
    this.isEnded = false;
    this.over = new Promise((resolve) => { this.#end = resolve; }); // when nothing is sent for it any more
  }

  /** Adds an acquisition; none if the lock is lost or released. */
  join(onLost) {
    this.#expire();
    if (this.#released || this.lost && this.#locks.size > 0) return undefined;
    const lock = new Lock(this, this.key);
    this.#locks.set(lock, onLost);
    if (this.lost) this.#tell(lock, onLost); // before anybody had it
    return lock;
  }

  /** Ends an acquisition, and with the last of them the hold; tells whether the lock was still held. */
  async leave(lock) {
    this.#locks.delete(lock);
    if (this.#locks.size === 0) return this.release();
    this.#expire();
    return !this.lost;
  }

  /** Throws LockLost once the lock is known to be lost, or its time has passed without a renewal. */
  check() {
    this.#expire();
    if (this.#loss && !this.#released) throw this.#loss;
  }

  loss(reason) {
    return new LockLost(this.#keys.join(', '), reason, performance.now() - (this.#since ?? performance.now()));
  }

  #expire() {
    if (!this.#released && performance.now() >= this.#validUntil) this.#lose('expired');
  }

  async release() {
    this.#released ??= this.lost ? this.#abandon() : this.#giveBack();
    try {
      return await this.#released;
    } finally {
      this.#stop();
      close(this.#own);
      this.isEnded = true;
      this.#end();
    }
  }

  /** Releases each lock; tells whether all were held. A lock that is gone may have gone by a release whose reply was
   *  lost: that is no loss if the lock was held when it was sent. */
  async #giveBack() {
    const limit = Math.max(this.#validUntil, performance.now() + RELEASE_MS);
    const releases = this.#keys.map((key) => this.#isPlain
      ? ['EVAL', RELEASE, 1, key, this.token]
      : ['LOCK.RELEASE', key, this.token]);
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

  /** Gives back what is left of a lock that is lost, unless its owner may have acquired that again. Nobody waits for it in
   *  vain: it also expires. */
  async #abandon() {
    if (this.#keys.length > 1 && this.#isAlone) await this.#giveBack().catch(() => {});
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
        const granted = await inTime(by, this.#ask([...words, ...block], signal)).catch((error) => {
          this.#isPlain = this.#canBePlain && /unknown command/i.test(error?.message);
          if (!this.#isPlain) throw error;
        });
        return this.#isPlain ? await this.#poll(() => wait - waited(), signal) : granted;
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

  /** Sets the key as soon as it is free, on a server without LOCK commands. */
  async #poll(left, signal) {
    const [key] = this.#keys;
    const ask = (words) => inTime(performance.now() + this.#ttl / PARTS, call(this.#own, words));
    for (;;) {
      const isSet = await ask(['SET', key, this.token, 'NX', 'PX', this.#ttl]) !== null;
      // A request whose reply was lost may have set it.
      if (isSet || await ask(['EVAL', RENEW, 1, key, this.token, this.#ttl])) return true;
      if (left() <= 0) return null;
      const pause = POLL_MS + Math.random() * 2 * POLL_MS;
      await sleep(Math.min(pause, left()), undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }

  /** Who holds the lock, where the server has LOCK.INFO. */
  async #notAcquired() {
    const by = performance.now() + this.#ttl / PARTS;
    const ask = (...words) => inTime(by, call(this.#own, words)).catch(() => null);
    try {
      if (this.#isPlain) {
        const ttl = await ask('PTTL', this.#keys[0]);
        return new NotAcquired(this.#keys[0], { ttl: ttl > 0 ? ttl : undefined });
      }
      for (const key of this.#keys) {
        const info = fields(await ask('LOCK.INFO', key));
        if (!info || info.mode === 'free') continue;
        const of = fields(info.holders?.[0]) ?? info;
        const holder = { clientName: of['client-name'] ?? '', addr: of.addr ?? '', meta: of.meta ?? '' };
        const ttl = info.pttl > 0 ? info.pttl : undefined;
        return new NotAcquired(key, { holder, age: info['age-ms'] ?? undefined, ttl });
      }
      return new NotAcquired(this.#keys.join(', '));
    } finally {
      close(this.#own);
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
    if (signal.aborted) leave(); // while it was connected
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
    if (this.#isPlain) return close(own); // nothing is told
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
    if (this.#isPlain) return true;
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
    const renew = (key) => call(this.#own, this.#renewal(key));
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
    const isExtended = this.#isExtended;
    const asked = Promise.all(this.#keys.map((key) => call(client, this.#renewal(key))));
    const fences = await inTime(by, asked).catch((error) => {
      if (error instanceof Stuck && client === this.#client) {
        this.#isStuck = true;
        const answered = () => { this.#isStuck = false; };
        asked.then(answered, answered);
      }
      throw error;
    });
    const expected = (key) => this.#isPlain ? 1 : this.fences.get(key);
    if (!this.#keys.every((key, at) => Number(fences[at]) === expected(key))) this.#lose(reason);
    else if (isExtended) this.#held(since);
  }

  /** Whether the time is not over for which the lock is renewed. */
  get #isExtended() {
    return this.#since === undefined || performance.now() - this.#since < this.#renewFor;
  }

  /** Words a renewal, or only the question whether the lock is held. */
  #renewal(key) {
    const isExtended = this.#isExtended;
    if (this.#isPlain) return ['EVAL', isExtended ? RENEW : LOOK, 1, key, this.token, this.#ttl];
    return isExtended ? ['LOCK.RENEW', key, this.token, 'PX', this.#ttl] : ['LOCK.FENCE', key, this.token];
  }

  /** Notes that the server held the lock for this client at a time, with its whole TTL to come. */
  #held(since) {
    if (this.#isOver) return;
    this.#stop();
    this.#validUntil = since + this.#ttl;
    const pause = this.#renewEvery - (performance.now() - since);
    const isLast = performance.now() + pause - (this.#since ?? performance.now()) >= this.#renewFor;
    if (!isLast) this.#later(pause, () => this.#renew());
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
    const first = Math.min(ms, 2 ** 31 - 1); // more is nothing to a timer
    this.#timers.push(setTimeout(() => first < ms ? this.#later(ms - first, what) : what(), Math.max(0, first)));
  }

  #stop() {
    this.#timers.splice(0).forEach(clearTimeout);
  }

  #lose(reason) {
    if (this.#isOver) return;
    this.lost = reason;
    this.#loss = this.loss(reason);
    this.#stop();
    this.#quit();
    for (const [lock, onLost] of this.#locks) this.#tell(lock, onLost);
  }

  #tell(lock, onLost) {
    lock.abort(this.#loss);
    if (onLost) queueMicrotask(() => onLost(lock)); // so that one which throws keeps no other from being told
  }
}

export const acquire = Lock.acquire;
