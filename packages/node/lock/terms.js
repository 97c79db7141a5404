// How commands about locks are worded, and their times.

export const PARTS = 3; // of a TTL: it is renewed after one, and no reply is waited for longer than another

/** Milliseconds before something is sent again that was not answered. */
export const pause = (ttl) => Math.min(100, ttl / 10);

// For servers without LOCK commands.
const HELD = "if redis.call('GET', KEYS[1]) == ARGV[1] then return";
export const RENEW = `${HELD} redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
export const LOOK = `${HELD} 1 end return 0`;
export const RELEASE = `${HELD} redis.call('DEL', KEYS[1]) end return 0`;

/** Words a command, as far as it says which locks it is about, and how they are to be held. */
export function opening(keys, { token, shared, permits, of }) {
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
