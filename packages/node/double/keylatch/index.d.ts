/** Milliseconds since 1970, by the instance's clock. */
export type UnixMs = number;

/** A fault has exactly one kind. */
export type FaultKind =
  /** Replies with this error instead of executing. */
  | { error: string }
  /** Executes after these milliseconds of real time. */
  | { delayMs: number }
  /** Closes the connection instead of executing. */
  | { drop: true }
  /** Executes, then closes the connection without a reply. */
  | { loseReply: true }
  /** Executes, sends this many bytes of the reply, then closes the connection. */
  | { partial: number };

export interface FaultLimits {
  /** Only requests with a key that matches this glob. */
  key?: string;
  /** Only connections of this name. */
  client?: string;
  /** The probability that a request is hit. [1] */
  prob?: number;
  /** Makes chance repeat itself. */
  seed?: number | bigint;
  /** Hits this many requests at most. */
  count?: number;
  /** Lets this many requests pass first. */
  after?: number;
}

/** An injected fault. `await using` removes it at the end of the block. */
export class Fault {
  private constructor();
  readonly id: number;
  /** How many requests it has hit; rejects if it was removed. */
  fired(): Promise<number>;
  /** Removes it; tells whether it was still there. */
  remove(): Promise<boolean>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A request that the server has received. */
export interface Call {
  timeMs: UnixMs;
  clientId: number;
  clientName: string;
  /** The command and its arguments. */
  args: string[];
  /** The fault that was injected, or null. */
  fault: unknown;
}

/** A private instance: keys, channels, clock, faults and journal are its own. `await using` closes it. */
export class Keylatch {
  constructor(host: string, port: number, user?: string, password?: string);
  readonly host: string;
  readonly port: number;
  readonly user?: string;
  readonly password: string;
  /** What clients connect to. */
  readonly url: string;
  /** Sends any command over the control connection. Integers beyond 2^53 in its reply are of type bigint. */
  command(...args: (string | number | bigint | Buffer)[]): Promise<any>;
  /** Moves the clock. When it resolves, everything due has happened. */
  advance(ms: number): Promise<UnixMs>;
  setTime(time: Date | UnixMs): Promise<UnixMs>;
  /** Stops the clock. */
  freeze(): Promise<UnixMs>;
  /** Lets the clock go on from where it stands, at real pace. */
  run(): Promise<UnixMs>;
  now(): Promise<UnixMs>;
  /** Injects a fault into a command, or into all (`*`). */
  fault(command: string, options: FaultKind & FaultLimits): Promise<Fault>;
  clearFaults(): Promise<void>;
  /**
   * The requests received so far, oldest first: those of a command, and the last `count`, if given. Without a command
   * that is also what client libraries send of themselves, such as CLIENT SETINFO.
   */
  calls(options?: { match?: string; count?: number }): Promise<Call[]>;
  forgetCalls(): Promise<void>;
  /** Keeps the data under a name. ["default"] */
  snapshot(name?: string): Promise<void>;
  /** Brings the data of a snapshot back. */
  restore(name?: string): Promise<void>;
  /**
   * Forgets the last writes and closes every connection, as an asynchronous failover does; with null, it forgets what no
   * replica of the instance has executed. [0]
   */
  failover(options?: { lose?: number | null }): Promise<void>;
  /**
   * Makes a private instance that replicates this one, and shares its clock; without a name, one that nobody else has.
   * `fault('LINK', { delayMs: 100 })` of the replica lets writes arrive later, by that clock; `{ drop: true }` cuts the link
   * until the fault is removed.
   */
  replica(name?: string): Promise<Keylatch>;
  /**
   * Resets the instance: no data, faults, scripts, functions, calls or added users, and the system's time. Snapshots
   * stay, so do the rights of the user `default`, and connections with what they subscribe to.
   */
  reset(): Promise<void>;
  /** Closes the control connection; the instance goes a few seconds after its last connection. */
  close(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A server in test mode that something else has started. */
export class RunningServer {
  constructor(url: string);
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Makes a private instance; without a name, one that nobody else has. */
  instance(name?: string): Promise<Keylatch>;
  /** How the server has ended; undefined as long as it runs, and where this process does not know. */
  ended(): Promise<string | undefined>;
}

/** A server process. It ends with this process at the latest, and does not keep it from exiting. */
export class Server extends RunningServer {
  private constructor();
  readonly pid: number;
  /** Stops the server and waits for its end. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface StartOptions {
  /** The path of the server. [findBinary()] */
  binary?: string;
  /** Settings by their names: `{ maxmemory: '1mb' }`. With `unixsocket` or `tls-port`, `port` must be given, too. */
  settings?: Record<string, string | number>;
}

/** Starts a server process, on a free port unless the settings name one. */
export function start(options?: StartOptions): Promise<Server>;

/**
 * Makes a private instance of the server of KEYLATCH_URL, or of one that is started once for this copy of the module.
 * Vitest and jest have a copy for each test file: use `globalSetup: 'keylatch/global-setup'` there.
 */
export function instance(name?: string): Promise<Keylatch>;

/** The path of the server: KEYLATCH_BINARY, the one of the package for this platform, or one in PATH. */
export function findBinary(): string;

/** An error reply of the server. */
export class ReplyError extends Error {}
