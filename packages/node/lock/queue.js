// The wait for a lock.

import { setTimeout as sleep } from 'node:timers/promises';
import { call, close, connect, fields, inTime } from './connection.js';
import { NotAcquired, isReply } from './errors.js';
import { PARTS, RENEW, pause } from './terms.js';

const POLL_MS = 50; // at least, between two tries on a server without queue; up to twice that is added by chance
const LEAVE_MS = 2000; // for leaving the queue of a server that does not answer

/** A request for a lock, with a connection of its own. */
export class Queue {
  #client;
  #keys;
  #token;
  #ttl;
  #canBePlain; // as a server without LOCK commands can grant it

  own; // the connection that waits; none when it is broken
  broken; // when it breaks
  isPlain = false; // the server has no LOCK commands: the lock is a key

  constructor(client, keys, { token, ttl, canBePlain }) {
    this.#client = client;
    this.#keys = keys;
    this.#token = token;
    this.#ttl = ttl;
    this.#canBePlain = canBePlain;
  }

  async connect(by) {
    Object.assign(this, await connect(this.#client, by));
  }

  close() {
    if (this.own) close(this.own);
    this.own = undefined;
  }

  /** Queues, until the signal is aborted. If the connection breaks it asks again, which takes up a session's place.
   *  The same token again is safe: its lock is granted again. */
  async wait(words, wait, signal) {
    const began = performance.now();
    const waited = () => performance.now() - began;
    for (let breaks = 1, reached = began; ; breaks += 1) {
      try {
        const by = performance.now() + Math.max(0, wait - waited()) + this.#ttl / PARTS;
        if (!this.own) await this.connect(by);
        reached = performance.now();
        const left = wait - waited();
        const block = left === Infinity ? ['BLOCK', 0] : left >= 1 ? ['BLOCK', Math.floor(left)] : [];
        const granted = await inTime(by, this.#ask([...words, ...block], signal)).catch((error) => {
          this.isPlain = this.#canBePlain && /unknown command/i.test(error?.message);
          if (!this.isPlain) throw error;
        });
        return this.isPlain ? await this.#poll(() => wait - waited(), signal) : granted;
      } catch (error) {
        if (isReply(error) || signal?.aborted) throw error; // an error of the server is final
        this.close();
        // The first time, its reply may be all that was lost.
        const isOver = waited() >= wait || performance.now() - reached >= this.#ttl;
        if (breaks > 1 && isOver) throw error;
        if (breaks > 1) await sleep(pause(this.#ttl));
        signal?.throwIfAborted();
      }
    }
  }

  /** Sets the key as soon as it is free, on a server without LOCK commands. */
  async #poll(left, signal) {
    const [key] = this.#keys;
    const ask = (words) => inTime(performance.now() + this.#ttl / PARTS, call(this.own, words));
    for (;;) {
      const isSet = await ask(['SET', key, this.#token, 'NX', 'PX', this.#ttl]) !== null;
      // A request whose reply was lost may have set it.
      if (isSet || await ask(['EVAL', RENEW, 1, key, this.#token, this.#ttl])) return true;
      if (left() <= 0) return null;
      const rest = POLL_MS + Math.random() * 2 * POLL_MS;
      await sleep(Math.min(rest, left()), undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }

  /** Who holds the lock, where the server has LOCK.INFO. */
  async notAcquired() {
    const by = performance.now() + this.#ttl / PARTS;
    const ask = (...words) => inTime(by, call(this.own, words)).catch(() => null);
    try {
      if (this.isPlain) {
        const ttl = await ask('PTTL', this.#keys[0]);
        return new NotAcquired(this.#keys[0], { ttl: ttl > 0 ? ttl : undefined });
      }
      for (const key of this.#keys) {
        const info = fields(await ask('LOCK.INFO', key));
        if (!info || info.mode === 'free') continue;
        const of = info.holders?.map(fields).find(({ token }) => token !== this.#token) ?? info;
        const holder = { clientName: of['client-name'] ?? '', addr: of.addr ?? '', meta: of.meta ?? '' };
        const ttl = info.pttl > 0 ? info.pttl : undefined;
        return new NotAcquired(key, { holder, age: info['age-ms'] ?? undefined, ttl });
      }
      return new NotAcquired(this.#keys.join(', '));
    } finally {
      this.close();
    }
  }

  /** Sends the request, and leaves the queue when the signal is aborted. */
  async #ask(words, signal) {
    const id = call(this.own, ['CLIENT', 'ID']).catch(() => {});
    const granted = call(this.own, words);
    if (!signal) return granted;
    granted.catch(() => {});
    let leave;
    const left = new Promise((_, reject) => {
      leave = async () => {
        // After this reply the queue is left, or the lock was granted before; who has asked for it gives it back.
        const unblocked = id.then((number) => call(this.#client, ['CLIENT', 'UNBLOCK', number]));
        await inTime(performance.now() + LEAVE_MS, unblocked).catch(() => {});
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
}
