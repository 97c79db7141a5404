/** A client of node-redis (`sendCommand`) or ioredis (`call`), connected. */
export type Client =
  | { sendCommand(words: string[]): Promise<unknown>; duplicate(...options: any[]): unknown; isOpen: boolean }
  | { call(command: string, ...words: string[]): Promise<unknown>; duplicate(...options: any[]): unknown };

export interface Options {
  /** Milliseconds that the lock outlives its holder's last renewal. [30000] */
  ttl?: number;
  /** Milliseconds from one renewal to the next. [a third of `ttl`] */
  renewEvery?: number;
  /** Milliseconds for which the lock is renewed, from its acquisition, so that work which never ends does not hold it for
   *  ever; 0 for not at all. [Infinity] */
  renewFor?: number;
  /** Milliseconds to queue; 0 for not at all. [Infinity] */
  wait?: number;
  /** Others may share the lock; who does not, has it alone. [false] */
  shared?: boolean;
  /** So many of the permits of a semaphore. */
  permits?: number;
  /** How many permits the semaphore has; who finds it there need not say so. */
  of?: number;
  /** The server releases the lock when its connection closes, after its `session-grace-ms`. [false] */
  session?: boolean;
  /** A text for LOCK.INFO, which tells others what the lock is for. */
  meta?: string;
  /** The token of all locks of one thread of work, of its own: a wait that would never end because of a lock of the same
   *  owner throws Deadlock at once. A lock that its owner holds by the same client is acquired again at once, on the terms
   *  of the first time, and released with the last. */
  owner?: string;
  /** Leaves the queue when it is aborted; `acquire` then throws its reason. */
  signal?: AbortSignal;
  /** Is called with the lock when it is lost. */
  onLost?: (lock: Lock) => void;
}

/** Queues for a lock, or for several: all of them are obtained at once, or none. Throws NotAcquired if that was not within
 *  `wait` milliseconds. */
export function acquire(client: Client, key: string | string[], options?: Options): Promise<Lock>;

/** A lock that is held, until it is released or lost. */
export class Lock implements AsyncDisposable {
  private constructor();
  static acquire: typeof acquire;
  readonly key: string | string[];
  readonly token: string;
  /** Increases from holder to holder; null on Redis and Valkey, which have no fences. */
  readonly fence: number | null;
  /** By name; `fence` is the greatest of them, and serves for each of the names. */
  readonly fences: ReadonlyMap<string, number>;
  /** How the lock was lost: a reason of NOTIFY, "expired" or "disconnected". */
  readonly lost: string | null;
  /** Is aborted with a LockLost when the lock is lost. */
  readonly signal: AbortSignal;
  /** Throws LockLost once the lock is known to be lost, or its time has passed without a renewal. */
  check(): void;
  /** Releases the lock, of several acquisitions of one owner with the last; tells whether it was still held. What is left
   *  of several locks, of which one is lost, too. */
  release(): Promise<boolean>;
  /** Shares the lock from now on, with a new fence; others who wait to share it get it at once. */
  downgrade(): Promise<void>;
  /** Has the lock alone from now on, with a new fence, as soon as nobody else shares it: before all who are queued, and
   *  shared until then. If that is not within `wait` milliseconds it throws NotAcquired; of two that wait so the second
   *  throws Deadlock. Whatever it throws, save LockLost, the lock is held as before. */
  upgrade(options?: Pick<Options, 'wait' | 'signal'>): Promise<void>;
  /** Releases the lock; throws LockLost if it was lost. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** The lock was not obtained within `wait` milliseconds. The fields say who held it then, where the server has LOCK.INFO. */
export class NotAcquired extends Error {
  /** The name; of several the first that was held. */
  readonly key: string;
  /** The holder; of those who share the lock one. */
  readonly holder?: { clientName: string; addr: string; meta: string };
  /** Milliseconds for which the lock had been held. */
  readonly age?: number;
  /** Milliseconds that its time to live still was. */
  readonly ttl?: number;
}

/** The wait would never end: the owner holds a lock that those before it wait for. */
export class Deadlock extends Error {
  /** The locks and clients that wait for each other. */
  readonly cycle: string;
}

/** The lock went before it was released; `reason` says how. */
export class LockLost extends Error {
  readonly reason: string;
  /** When this process has noticed it. */
  readonly at: Date;
  /** Milliseconds for which the lock was held until then. */
  readonly age: number;
}

/** The server has no locks of this kind: it is no keylatch server, or an older one. */
export class Unsupported extends Error {}
