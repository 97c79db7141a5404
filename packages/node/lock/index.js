// Locks of keylatch for `await using`, over node-redis or ioredis: renewed in the background, with a fence and a report
// of loss.
//
//     await using lock = await acquire(client, 'report', { ttl: 30_000 });    // queues
//     await write(lock.fence, { signal: lock.signal });                       // is aborted once the lock is lost

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { call, close, connect, inTime, send, subscribe } from './connection.js';
import { Deadlock, LockLost, NotAcquired, Stuck, Unsupported, isReply, lacksCommand, refusal } from './errors.js';
import { Queue } from './queue.js';
import { LOOK, PARTS, RELEASE, RENEW, opening, pause } from './terms.js';

export { Deadlock, LockLost, NotAcquired, Unsupported };

const QUIT_MS = 1000; // for a server that does not answer
const RELEASE_MS = 2000; // for the release of what is lost, or was perhaps never granted
const RELEASES = 3; // how often a release is sent that is not answered

const OPTIONS = [
  'ttl', 'wait', 'renewEvery', 'renewFor', 'session', 'meta', 'owner', 'signal', 'onLost', 'shared', 'permits', 'of',
];

function checkNames(options, known) {
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) throw new TypeError(`unknown option '${name}'`);
  }
}

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
    checkNames(options, OPTIONS);
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

  /** Shares the lock from now on. */
  async downgrade() {
    await this.#convert(true, { wait: 0 });
  }

  /** Has the lock alone from now on; see index.d.ts. */
  async upgrade(options = {}) {
    checkNames(options, ['wait', 'signal']);
    await this.#convert(false, options);
  }

  async #convert(shared, options) {
    if (this.#released) throw isReleased(this.key);
    await this.#hold.convert(shared, options);
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

const isReleased = (keys) => new Error(`the lock ${[keys].flat().join(', ')} is released`);

/** What the server holds for one acquisition, or for those of one owner that share it. */
class Hold {
  #client;
  #keys;
  #shared;
  #permits;
  #session;
  #isAlone; // no other lock has the token
  #own; // the connection that waited, which the session is bound to and which is told of the loss; until it is broken
  #broken; // when it breaks
  #isAway = false; // its session is not resumed yet
  #moves = 0; // how often it was moved to another connection
  #isReconnecting = false;
  #isAskedAgain = false; // to reconnect, while it does
  #former = []; // connections that are closed when the lock has moved to the next one
  #conversion; // ends the request for another mode that is under way
  #unknown; // a request for another mode that may have been granted: its mode, and what is called once that is settled
  #wasConverted = false; // or may have been: another fence is no loss
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
    const { wait = Infinity, session = false, meta, signal, shared = false, permits, of } = options;
    const hold = new Hold(client, key, options);
    const asked = [...hold.#request({ of }), ...meta === undefined ? [] : ['META', meta]];
    const isRenewed = hold.#renewEvery > 0 && hold.#renewEvery < hold.#ttl;
    if (!isRenewed) throw new TypeError('a lock has to be renewed before its TTL is over');
    const canBePlain = hold.#keys.length === 1 && !shared && permits === undefined && !session;
    const queue = hold.#queue({ canBePlain });
    await queue.connect(Infinity);
    try {
      const granted = await queue.wait(asked, wait, signal).finally(() => { hold.#isPlain = queue.isPlain; });
      if (granted === null) signal?.throwIfAborted();
      if (granted === null) throw await queue.notAcquired();
      hold.#grant(granted);
      hold.#held(performance.now());
      await hold.#use(queue);
      hold.#since ??= performance.now();
      return hold;
    } catch (error) {
      queue.close();
      if (hold.#own) close(hold.#own);
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
    this.#permits = permits;
    this.#session = Boolean(session);
    this.key = key;
    this.token = owner ?? randomUUID();
    this.#isAlone = owner === undefined || owner === null;
    this.fence = null; // increases from holder to holder
    this.fences = new Map(); // by name; `fence` is the greatest, and serves for each of the names
    this.lost = null;
    this.isEnded = false;
    this.over = new Promise((resolve) => { this.#end = resolve; }); // when nothing is sent for it any more
  }

  /** Words the request for the lock. The size of a semaphore may be another when it is asked for again. */
  #request({ shared = this.#shared, of, converts = false } = {}) {
    const first = opening(this.#keys, { token: this.token, shared, permits: this.#permits, of });
    return [...first, ...converts ? ['CONVERT'] : [], 'PX', this.#ttl, 'NOTIFY', ...this.#session ? ['SESSION'] : []];
  }

  #queue({ canBePlain = false } = {}) {
    return new Queue(this.#client, this.#keys, { token: this.token, ttl: this.#ttl, canBePlain });
  }

  /** Notes the fences. */
  #grant(granted) {
    if (this.#isPlain) return;
    this.fences = new Map([granted].flat().map((fence, at) => [this.#keys[at], Number(fence)]));
    this.fence = Math.max(...this.fences.values());
  }

  /** Goes on with the connection that the lock was granted to. */
  async #use({ own, broken }) {
    this.#own = own;
    this.#broken = broken;
    await this.#listen(this.#by()).catch((error) => {
      if (isReply(error) && this.#since === undefined) throw error;
      return this.#reconnect(); // the connection is stuck, or broke behind the grant
    });
    await this.#renew();
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
    this.#endConversion();
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
        if (attempt > 1) await sleep(pause(this.#ttl));
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

  /** Holds the lock in another mode: asks for it with the same token over another connection, and then goes on with that.
   *  Meanwhile the lock is renewed as it is. */
  async convert(shared, { wait = Infinity, signal }) {
    this.#checkHeld();
    if (this.#keys.length > 1 || this.#permits !== undefined || !this.#isAlone) {
      throw new TypeError('a lock of several names, with permits or of an owner keeps its mode');
    }
    if (this.#isPlain) throw new Unsupported('the server cannot change the mode of a lock');
    if (this.#conversion || this.#unknown) throw new Error(`the lock ${this.#keys[0]} changes its mode already`);
    signal?.throwIfAborted();
    this.#conversion = new AbortController();
    this.#wasConverted = true;
    const ended = signal ? AbortSignal.any([this.#conversion.signal, signal]) : this.#conversion.signal;
    const queue = this.#queue();
    try {
      await this.#convert(queue, shared, wait, ended);
    } finally {
      this.#conversion = undefined;
    }
  }

  async #convert(queue, shared, wait, signal) {
    const moves = this.#moves;
    const asked = queue.wait(this.#request({ shared, converts: true }), wait, signal);
    const [granted, error] = await asked.then((fence) => [fence], (failure) => [null, failure]);
    if (granted !== null && !this.#isOver) {
      this.#shared = shared;
      this.#grant(granted);
      await this.#moveTo(queue, moves);
      return this.#checkHeld();
    }
    try {
      if (!this.#isOver) await this.#keep(queue, shared, !signal.aborted && (!error || isReply(error)));
      await this.#released?.catch(() => {}); // else the end of a session would come before the release
      this.#checkHeld();
      signal.throwIfAborted();
      throw error ? refusal(error, this.#keys, { converts: true }) : await queue.notAcquired();
    } finally {
      queue.close();
    }
  }

  #checkHeld() {
    this.#expire();
    if (this.#loss) throw this.#loss;
    if (this.#released) throw isReleased(this.#keys);
  }

  /** Goes on with the connection over which another mode was granted. */
  async #moveTo(queue, moves) {
    if (this.#isReconnecting || this.#moves > moves) { // the session may have moved away from it
      this.#former.push(queue.own);
      return this.#reconnect();
    }
    const former = this.#own;
    await this.#use(queue).finally(() => close(former));
  }

  /** Sees to it that the lock is held in its former mode after a request for another one has failed. */
  async #keep(queue, shared, isAnswered) {
    const by = performance.now() + RELEASE_MS;
    const asked = isAnswered ? call(queue.own, ['LOCK.FENCE', ...this.#keys, this.token]) : Promise.reject(new Stuck());
    const fence = await inTime(by, asked).catch(() => undefined);
    if (fence === null) return this.#lose(this.#isAway ? 'disconnected' : 'expired');
    if (Number(fence) === this.fence) return;
    const settled = new Promise((then) => { this.#unknown = { shared, then }; });
    this.#reconnect();
    await inTime(by, settled).catch(() => {}); // it goes on
  }

  /** Asks for the lock's mode again, since another one may have been granted, which also moves it to the new connection;
   *  tells whether it is held. If the server refuses that, the next renewal tells. */
  async #settle() {
    const unknown = this.#unknown;
    const ask = (words) => call(this.#own, words).catch((error) => {
      if (!isReply(error)) throw error;
    });
    const granted = await ask(this.#request({ converts: true }));
    const isShared = granted === null && unknown.shared && !this.#shared; // if it is held; by others, too
    const fence = isShared ? await ask(['LOCK.FENCE', ...this.#keys, this.token]) : granted;
    if (fence === null || unknown !== this.#unknown) return fence !== null; // lost, or this reply is late
    if (fence !== undefined) this.#grant(fence);
    this.#shared ||= isShared;
    unknown.then();
    this.#unknown = undefined;
    return granted ? true : undefined;
  }

  /** Ends a request for another mode, when the lock is lost or released. */
  #endConversion() {
    this.#conversion?.abort();
    this.#unknown?.then();
  }

  async #connect(by) {
    const { own, broken } = await connect(this.#client, by);
    this.#own = own;
    this.#broken = broken;
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
    const former = [this.#own, ...this.#former.splice(0)];
    this.#isReconnecting = true;
    this.#isAskedAgain = false;
    for (let rest = 0; !this.#isOver; rest = pause(this.#ttl)) {
      if (rest) await sleep(rest);
      this.#isAway = this.#session;
      if (await this.#move(this.#by())) break;
      if (this.#session && !this.#isAway) former.push(this.#own); // what came after it had moved there is stuck
      else if (!former.includes(this.#own)) close(this.#own);
    }
    this.#isReconnecting = false;
    await this.#released?.catch(() => {}); // else the end of the session would come before the release
    former.forEach(close);
    if (this.#isOver) [this.#own, ...this.#former.splice(0)].forEach(close);
    else if (this.#isAskedAgain) await this.#reconnect(); // the new connection broke, or the client was found stuck late
    else if (!this.#isStuck) await this.#renew();
  }

  /** Moves the lock to a new connection; tells whether that has succeeded, or the lock is lost. */
  async #move(by) {
    try {
      await this.#connect(by);
      if (this.#isOver) return true;
      this.#moves += 1;
      if (!await inTime(by, this.#resume())) {
        this.#lose(this.#session ? 'disconnected' : 'expired');
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
    const isHeld = this.#unknown && await this.#settle();
    if (isHeld !== undefined) return isHeld;
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
    const fences = [await call(this.#own, this.#request())].flat();
    if (fences.length === this.#keys.length && fences.every(ours)) return true;
    // It went in between, and this is another.
    const others = this.#keys.filter((_, at) => fences[at] && !ours(fences[at], at));
    await Promise.all(others.map((key) => call(this.#own, ['LOCK.RELEASE', key, this.token])));
    return false;
  }

  get #isOver() {
    return Boolean(this.#released || this.lost);
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
      if (!(error instanceof Stuck)) return this.#later(pause(this.#ttl), () => this.#renew(reason));
    }
    await this.#reconnect();
  }

  async #renewOver(client, by, reason) {
    const since = performance.now();
    const known = this.fences;
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
    // A lock that was granted in another mode meanwhile has another fence.
    const expected = (key) => this.#isPlain ? [1] : [known.get(key), this.fences.get(key)];
    const isKnown = this.#keys.every((key, at) => expected(key).includes(Number(fences[at])));
    if (!isKnown && !(this.#wasConverted && fences[0])) return this.#lose(reason);
    if (isExtended) this.#held(since);
    if (isKnown || this.#conversion || this.#unknown) return;
    this.#unknown = { shared: this.#shared, then: () => {} };
    this.#reconnect();
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
    const rest = this.#renewEvery - (performance.now() - since);
    const isLast = performance.now() + rest - (this.#since ?? performance.now()) >= this.#renewFor;
    if (!isLast) this.#later(rest, () => this.#renew());
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
    this.#endConversion();
    for (const [lock, onLost] of this.#locks) this.#tell(lock, onLost);
  }

  #tell(lock, onLost) {
    lock.abort(this.#loss);
    if (onLost) queueMicrotask(() => onLost(lock)); // so that one which throws keeps no other from being told
  }
}

export const acquire = Lock.acquire;
