// Errors of locks.

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
export class Stuck extends Error {}

/** Whether the server has answered with this error. */
export const isReply = (error) => /^[A-Z]+ /.test(error?.message);

/** Whether a server refuses because it has no such command, or not for this user. */
export const lacksCommand = (error) => /unknown command|^NOPERM /i.test(error?.message);

/** Tells what an error of the server says of locks. */
export function refusal(error, keys, { shared, permits, session, converts }) {
  const told = String(error?.message);
  const [, cycle] = /^DEADLOCK (.*)/.exec(told) ?? [];
  if (cycle) return new Deadlock(keys.join(', '), cycle);
  if (!/unknown command|syntax error/i.test(told)) return error;
  const options = { cause: error };
  if (converts) return new Unsupported(`the server cannot change the mode of a lock: ${told}`, options);
  if (keys.length > 1) return new Unsupported(`the server cannot lock several names at once: ${told}`, options);
  if (permits !== undefined) return new Unsupported(`the server has no permits: ${told}`, options);
  if (shared) return new Unsupported(`the server has no shared locks: ${told}`, options);
  return session && /unknown command/i.test(told)
    ? new Unsupported(`the server has no sessions: ${told}`, options)
    : error;
}
