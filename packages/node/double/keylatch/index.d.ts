/** Milliseconds since 1970, by the instance's clock. */
export type UnixMs = number;

/** A fault has exactly one kind. */
export type FaultKind =
  /** Replies with this error instead of executing. */
  | { error: string }
  /** Executes at once, and replies after these milliseconds of real time. */
  | { delayMs: number }
  /** Closes the connection instead of executing. */
  | { drop: true }
  /** Executes, then closes the connection without a reply. */
  | { loseReply: true }
  /** Executes, sends this many bytes of the reply, then closes the connection. */
  | { partial: number }
  /** Does not send a pushed message: for `PUSH` and `PUSH|message` in place of a command. */
  | { lose: true };

export interface FaultLimits {
  /** Only requests with a key that matches this glob. */
  key?: string;
  /** Only connections of this name. */
  client?: string;
  /** Whether requests in a transaction are hit, too, when they are queued. [false] */
  queued?: boolean;
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

export interface TopologyOptions {
  /** Node ids derive from it. ["cluster-1" or "sentinel-1", or the next number] */
  name?: string;
  /** The only user of the nodes, but of sentinels. ["default"] */
  user?: string;
  /** What the nodes ask for, but sentinels. */
  password?: string;
  /** Whether all nodes speak TLS, with the certificate of the server. [false] */
  tls?: boolean;
}

export interface ClusterOptions extends TopologyOptions {
  /** How many primaries. A majority of them elects the replica of a failed one, so it takes three. [3] */
  primaries?: number;
  /** How many replicas each has. [1] */
  replicas?: number;
  /** After how many milliseconds a node that does not answer counts as failed. [15000] */
  nodeTimeout?: number;
}

export interface SentinelOptions extends TopologyOptions {
  /** How many replicas the master has. [2] */
  replicas?: number;
  /** How many sentinels watch it. A majority of them elects the one that promotes a replica. [3] */
  sentinels?: number;
  /** How many sentinels have to agree that the master is down. [2] */
  quorum?: number;
  /** The name by which clients ask for the master. ["mymaster"] */
  master?: string;
  /** After how many milliseconds a node that does not answer is down. [30000] */
  downAfter?: number;
  /** Half the time between two attempts of a failover, in milliseconds. [180000] */
  failoverTimeout?: number;
  /** What the sentinels ask for. */
  sentinelPassword?: string;
}

/** A node of a topology, as it was when it was asked for. */
export interface TopologyNode {
  /** By which methods name it; from 0, primaries first, sentinels last. */
  number: number;
  id: string;
  host: string;
  port: number;
  /** `primary` in a cluster, `master` where there are sentinels. */
  role: 'primary' | 'master' | 'replica' | 'sentinel';
  /** Those that it believes to have: the first and the last of each range. */
  slots: [first: number, last: number][];
  /** The number of its primary. */
  primary: number | null;
  /** `failed`: others believe it dead, though it runs. */
  state: 'up' | 'stopped' | 'paused' | 'failed';
  /** How much of the log it has executed, in bytes. */
  offset: number;
  /** Bytes of its primary's log that it lacks. */
  behind: number;
  /** The delay of its link. */
  lagMs: number;
  /** The nodes that it believes dead, or suspects. */
  believedDead: number[];
}

export interface ClusterNode extends TopologyNode {
  role: 'primary' | 'replica';
}

export interface SentinelNode extends TopologyNode {
  role: 'master' | 'replica' | 'sentinel';
}

/** A node by its number, or as a method has returned it. */
export type NodeOrNumber = number | { readonly number: number };

/**
 * Several nodes in the server's process. They share the clock of the instance that has made them: `advance` of that
 * instance is for all. What is not possible, such as the stop of a node that is stopped, rejects with a ReplyError.
 * `await using` closes it.
 */
declare abstract class Topology<Node extends TopologyNode> {
  readonly user?: string;
  readonly password?: string;
  readonly tls: boolean;
  /** All nodes as they are now, in the order of their numbers. */
  nodes(): Promise<Node[]>;
  /** The replicas that are up, now. */
  replicas(): Promise<Node[]>;
  /** A control connection to a node: its faults, its journal, its snapshots, its address and any command. */
  node(node: NodeOrNumber): Promise<Keylatch>;
  /**
   * Ends a node as if its process had: its connections are cut, and further ones refused. When the time after which it
   * counts as failed has passed on the clock, a replica takes its place, if it has one.
   */
  stop(node: NodeOrNumber): Promise<void>;
  /** Starts a stopped node again, with its data; if it was replaced meanwhile, it is a replica. */
  start(node: NodeOrNumber): Promise<void>;
  /** Suspends a node: it accepts connections, and answers nothing. */
  pause(node: NodeOrNumber): Promise<void>;
  /** Continues a suspended node. */
  resume(node: NodeOrNumber): Promise<void>;
  /** Cuts these nodes off from the others, until `heal()`; clients reach all. */
  partition(...nodes: NodeOrNumber[]): Promise<void>;
  /** Ends a partition; writes of a primary that was replaced meanwhile are lost. */
  heal(): Promise<void>;
  /** Lets a replica have the writes of its primary so much later, by the clock. */
  lag(node: NodeOrNumber, ms: number): Promise<void>;
  /** Ends it; it does so by itself a few seconds after the instance's last client, and its nodes', has gone. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A cluster of several nodes. */
export class Cluster extends Topology<ClusterNode> {
  private constructor();
  /** The nodes that it was made with, for `Cluster` of ioredis. */
  readonly startupNodes: { host: string; port: number }[];
  /** Their URLs, for `createCluster` of node-redis. */
  readonly rootNodes: { url: string }[];
  /** The primaries that are up, now. */
  primaries(): Promise<ClusterNode[]>;
  /** The replicas of a primary that are up. */
  replicasOf(node: NodeOrNumber): Promise<ClusterNode[]>;
  /** The primary of a key's slot: the one that is up, if two believe to be that. */
  primaryOf(key: string | Buffer): Promise<ClusterNode>;
  /**
   * Makes a replica the primary now; all nodes know when it resolves. Without `lose` it has all writes of the old primary
   * first; with a number, that many of the last are lost.
   */
  failover(node: NodeOrNumber, options?: { lose?: number }): Promise<void>;
  /**
   * Moves a slot, or those from the first to the last of a pair, with their keys to a node. With `keys` it moves that many
   * keys and leaves the slots half moved, so that clients see ASK; a further call without moves the rest.
   */
  migrate(slots: number | [first: number, last: number], node: NodeOrNumber, options?: { keys?: number }): Promise<void>;
  /** Adds an empty node: a primary without slots, or a replica. */
  add(options?: { replicaOf?: NodeOrNumber }): Promise<ClusterNode>;
  /** Removes a node that has no slots. */
  remove(node: NodeOrNumber): Promise<void>;
}

/** A master with replicas, and the sentinels that watch them. */
export class Sentinel extends Topology<SentinelNode> {
  private constructor();
  readonly sentinelPassword?: string;
  /** By which clients ask for the master: `name` of ioredis and of node-redis. */
  readonly masterName: string;
  /** Where they ask: `sentinels` of ioredis, `sentinelRootNodes` of node-redis' `createSentinel`. */
  readonly sentinels: { host: string; port: number }[];
  /** The master, now: the one that sentinels which are up name; if they differ, the one that was chosen last. */
  master(): Promise<SentinelNode>;
  /**
   * Makes a replica the master now, the best one or that which is named; all sentinels know when it resolves. Without
   * `lose` it has all writes of the old master first; with a number, that many of the last are lost.
   */
  failover(options?: { to?: NodeOrNumber; lose?: number }): Promise<void>;
}

/** The slot of a key, which is that of its hash tag if it has one. */
export function slotOf(key: string | Buffer): number;

/** What moves a fake clock: `t.mock.timers` of node:test, a clock of sinon, or an object of the test's own. */
export type FakeClock = { tickAsync(ms: number): Promise<unknown> } | { tick(ms: number): unknown };

/** A private instance: keys, channels, clock, faults and journal are its own. `await using` closes it. */
export class Keylatch {
  constructor(host: string, port: number, user?: string, password?: string);
  readonly host: string;
  readonly port: number;
  readonly user?: string;
  readonly password: string;
  /** What clients connect to. */
  readonly url: string;
  /** With `start({ tls: true })`: the certificate of the authority that clients have to trust, in PEM. */
  readonly ca?: string;
  /** The same as a file, which is there as long as the server runs. */
  readonly caFile?: string;
  /** Sends any command over the control connection. Integers beyond 2^53 in its reply are of type bigint. */
  command(...args: (string | number | bigint | Buffer)[]): Promise<any>;
  /**
   * Moves the clock. When it resolves, everything due has happened. Fake timers of sinon, vitest or jest that are active,
   * and those that `follow` has named, move by the same amount; with `process: false` they stay.
   */
  advance(ms: number, options?: { process?: boolean }): Promise<UnixMs>;
  /**
   * Names a clock of the process that `advance` moves as well and cannot find: `t.mock.timers` of node:test. A further
   * call names another, or none.
   */
  follow(clock?: FakeClock): void;
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
  /** Makes a cluster of several nodes, which share the clock of this instance. */
  cluster(options?: ClusterOptions): Promise<Cluster>;
  /** Makes a master with replicas, and sentinels that watch them; they share the clock of this instance. */
  sentinel(options?: SentinelOptions): Promise<Sentinel>;
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
  /** With `start({ tls: true })`: the certificate of the authority that clients have to trust, in PEM. */
  readonly ca?: string;
  /** The same as a file, which is there as long as the server runs. */
  readonly caFile?: string;
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
  /**
   * Makes an authority and a certificate: the URL of the server and those of its instances are `rediss://`, and `ca` is what
   * clients have to trust. [false]
   */
  tls?: boolean;
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

/** What happens at a call. The first six are the default: a correct client can always survive them. */
export type ExploreKind =
  /** It is executed, and the connection is cut before its reply. */
  | 'lost-reply'
  /** The connection is cut when it arrives; it is not executed. */
  | 'not-executed'
  /** Every connection of the instance is cut when it arrives; it is not executed. */
  | 'cut-all'
  /** It is executed, and the clock moves by `lateBy` before its reply; nobody waits for that. */
  | 'late'
  /** A key with a TTL that it names expires just before; a point for each such key. */
  | 'expired'
  /** The scripts, or functions, are forgotten just before it calls one. */
  | 'noscript'
  /** A key that it names is gone; a point for each such key. */
  | 'evicted'
  /** What the call before has written is forgotten, with all scripts, and all connections are closed. */
  | 'failover'
  /** These are error replies of Redis: to calls that write, to calls that need memory, to all calls, to all calls. */
  | 'readonly' | 'oom' | 'loading' | 'busy';

export interface ExploreOptions {
  /** What to try. [lost-reply, not-executed, cut-all, late, expired, noscript] */
  kinds?: ExploreKind[];
  /** Seconds, after which no further point is tried; the report says how many were not. [as many as it takes] */
  budget?: number;
  /** How many runs there are side by side. [16, or the number of cores if that is more: they mostly wait] */
  workers?: number;
  /** Tries only points of these names, as reports have them, of whatever kinds. */
  only?: string | string[];
  /** Tries pairs of points as well, then: a random sample until the budget is over, or for 10 s. [false] */
  pairs?: boolean;
  /** Makes the sample of pairs repeat itself; the report has it. */
  seed?: number;
  /** Milliseconds by which the clock moves at points of the kind `late`. [60000] */
  lateBy?: number;
  /** Seconds of real time within which a run of the scenario has to end. [10] */
  timeout?: number;
  /** Whether to throw an ExploreError if something was found, or return the report. [true] */
  raises?: boolean;
}

/** What an exploration has found. As a string it is the text that ExploreError has as well. */
export interface ExploreReport {
  /** How many points were tried, pairs included. */
  readonly points: number;
  /** The points at which the scenario failed. */
  readonly failures: readonly { readonly name: string; readonly message: string; readonly error: unknown }[];
  /** The points at which the calls before the fault were others than without one, in each of three runs, which says nothing
   *  of the fault. Arguments that differ from run to run without a fault as well do not matter. */
  readonly notRepeatable: readonly { readonly name: string; readonly difference: string }[];
  /** How many points have no name that is the same in each run: their keys differ from run to run, or the calls are
   *  handshakes (HELLO, AUTH, SELECT, CLIENT) before a name is set, where several connections get names. */
  readonly leftOut: number;
  /** For how many points the budget was too small. */
  readonly notTried: number;
  readonly seconds: number;
  /** With `pairs`. */
  readonly seed?: number;
  /** Whether nothing was found: neither failures, nor what is not repeatable. */
  readonly ok: boolean;
  toString(): string;
}

/** A failed assertion (the AssertionError of node:assert), with all that an exploration has found. */
export class ExploreError extends Error {
  private constructor();
  readonly report: ExploreReport;
  readonly code: 'ERR_ASSERTION';
}

/** What a test of node:test has, as far as `explore.test` needs it. */
export interface ExploreTestContext {
  test(name: string, run: () => void): Promise<void>;
  diagnostic(message: string): void;
}

/**
 * Runs a scenario twice without a fault, and then once for each call that it has made and each kind of fault, each time in
 * a private instance of its own whose clock begins at the same time. The scenario makes its clients, asserts what must hold,
 * and closes the clients whatever happens. Calls of connections named `keylatch-control`, such as that of the instance which
 * the scenario is given, are its own checks: they are never struck. If it fails without a fault, its error is thrown.
 */
export function explore(scenario: (keylatch: Keylatch) => unknown, options?: ExploreOptions): Promise<ExploreReport>;

export namespace explore {
  /**
   * Explores within a test of node:test: each point at which the scenario fails, or is not repeatable, is a sub-test that
   * fails. The report is a diagnostic of the test.
   */
  function test(
    t: ExploreTestContext, scenario: (keylatch: Keylatch) => unknown, options?: Omit<ExploreOptions, 'raises'>,
  ): Promise<void>;
}

/** The path of the server: KEYLATCH_BINARY, the one of the package for this platform, or one in PATH. */
export function findBinary(): string;

/** An error reply of the server. */
export class ReplyError extends Error {}

export {}; // so that Topology, which is no value, cannot be imported
