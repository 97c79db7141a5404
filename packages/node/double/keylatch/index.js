// A server process of the test's own, and where its binary is.
'use strict';

const { spawn } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { accessSync, constants } = require('node:fs');
const path = require('node:path');
const { clearTimeout, setTimeout } = require('node:timers'); // whatever fake ones a test installs
const { setTimeout: sleep } = require('node:timers/promises');
const { Cluster, slotOf } = require('./cluster.js');
const { exploreAt, exploreInTests } = require('./explore.js');
const { Fault, Keylatch } = require('./instance.js');
const { refuseOthers } = require('./options.js');
const { ExploreError } = require('./report.js');
const { ASYNC_DISPOSE, ReplyError } = require('./resp.js');
const { Sentinel } = require('./sentinel.js');

const READY_MS = 60_000;
const STOP_MS = 10_000;
const ENDED_MS = 200;
const LOG_LINES = 100;

/** The path of the server: KEYLATCH_BINARY, the one of the package for this platform, or one in PATH. */
function findBinary() {
  if (process.env.KEYLATCH_BINARY) return process.env.KEYLATCH_BINARY;
  try {
    return require.resolve(`@keylatch/${process.platform}-${process.arch}/bin/keylatch`);
  } catch {
    const folders = (process.env.PATH ?? '').split(path.delimiter);
    const found = folders.map((folder) => path.join(folder, 'keylatch')).find(isExecutable);
    if (found) return found;
    const name = `@keylatch/${process.platform}-${process.arch}`;
    throw new Error(`neither ${name} is installed nor is there a keylatch in PATH; KEYLATCH_BINARY may name it`);
  }
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A server in test mode that something else has started. */
class RunningServer {
  constructor(url) {
    if (!/^redis:\/\//.test(url)) {
      throw new TypeError(`the URL of a server must be redis://host:port, without TLS: '${url}'`);
    }
    const { hostname, port } = new URL(url);
    this.host = hostname.replace(/^\[|\]$/g, '') || '127.0.0.1';
    this.port = Number(port || 6379);
    this.tls = false;
  }

  get url() {
    return new Keylatch(this.host, this.port, undefined, undefined, undefined, this.tls).url;
  }

  async instance(name) {
    const { host, port, tls, ca, caFile } = this;
    const instance = new Keylatch(host, port, `ns-${name ?? randomUUID()}`, undefined, () => this.ended(), tls);
    Object.assign(instance, { ca, caFile });
    try {
      await instance.now(); // makes the instance, and fails where the server has no test mode
    } catch (error) {
      instance.close();
      throw error;
    }
    return instance;
  }

  /** How the server has ended; undefined as long as it runs, and where this process does not know. */
  async ended() {
    return undefined;
  }
}

/** A server process, which ends with this process. */
class Server extends RunningServer {
  #child;
  #closed;
  #log;

  constructor(child, closed, log, { host, port, tls_port: tlsPort, tls_ca: ca, tls_ca_file: caFile }) {
    super(new Keylatch(host, port).url);
    if (tlsPort !== undefined) Object.assign(this, { tls: true, port: tlsPort, ca, caFile });
    this.#child = child;
    this.#closed = closed;
    this.#log = log;
  }

  async ended() {
    // A process that crashes closes its connections a moment before it has ended.
    const status = await Promise.race([this.#closed, sleep(ENDED_MS)]);
    return status && `keylatch has ended with ${status}\n${this.#log.join('\n')}`;
  }

  get pid() {
    return this.#child.pid;
  }

  async stop() {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const ended = new Promise((resolve) => child.once('exit', resolve));
    const killer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    child.kill();
    await ended;
    clearTimeout(killer);
  }

  async [ASYNC_DISPOSE]() {
    await this.stop();
  }
}

/** Starts a server process, on a free port unless the settings name one; resolves when it is ready. */
async function start({ binary = findBinary(), tls = false, settings = {}, ...others } = {}) {
  refuseOthers(others);
  const forTests = { 'test-mode': 'yes', 'exit-on-stdin-close': 'yes', ...tls ? { 'test-tls': 'yes' } : {} };
  const all = { port: 0, bind: '127.0.0.1', loglevel: 'warning', ...forTests, ...settings };
  const hasTlsAlone = !tls && Number(all['tls-port'] ?? 0) !== 0;
  if (Number(all.port) === 0 && (all.unixsocket || hasTlsAlone)) {
    throw new TypeError('with unixsocket or tls-port the server opens no TCP port of itself: give a port as well');
  }
  const args = Object.entries(all).flatMap(([name, value]) => [`--${name}`, String(value)]);
  // Names of this package in the environment are no settings of the server.
  const { KEYLATCH_BINARY, KEYLATCH_URL, ...env } = process.env;
  // A Ctrl-C in the terminal reaches a whole process group: in a session of its own the server outlives teardowns.
  const child = spawn(binary, args, { env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  child.stdin.on('error', () => {}); // it may have ended already
  const closed = new Promise((resolve) => {
    child.once('close', (status, signal) => resolve(signal ? `signal ${signal}` : `status ${status}`));
  });
  return new Promise((resolve, reject) => {
    const log = [];
    const fail = (why) => reject(new Error(`keylatch did not start: ${why}\n${log.join('\n')}`));
    const late = setTimeout(() => {
      fail(`it was not ready within ${READY_MS / 1000} s`);
      child.kill('SIGKILL');
    }, READY_MS);
    child.once('error', (error) => fail(error.message));
    closed.then((status) => {
      clearTimeout(late);
      fail(`it ended with ${status}`);
    });
    const listen = (stream) => eachLine(stream, (line) => {
      log.splice(0, Math.max(0, log.push(line) - LOG_LINES));
      if (!line.startsWith('{"ready":true')) return;
      clearTimeout(late);
      for (const part of [child, child.stdin, child.stdout, child.stderr]) part.unref(); // it keeps no process alive
      resolve(new Server(child, closed, log, JSON.parse(line)));
    });
    [child.stdout, child.stderr].forEach(listen);
  });
}

function eachLine(stream, act) {
  let rest = '';
  stream.setEncoding('utf8').on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    lines.forEach(act);
  });
}

let shared;

/** The server of KEYLATCH_URL, or one that is started once. */
function sharedServer() {
  shared ??= process.env.KEYLATCH_URL ? Promise.resolve(new RunningServer(process.env.KEYLATCH_URL)) : start();
  return shared;
}

/** Makes a private instance of the shared server; see index.d.ts. */
async function instance(name) {
  return (await sharedServer()).instance(name);
}

/** Runs a scenario once for each thing that can go wrong; see index.d.ts. */
async function explore(scenario, options) {
  return exploreAt(sharedServer, scenario, options);
}

explore.test = (t, scenario, options) => exploreInTests(sharedServer, t, scenario, options);

module.exports = {
  Cluster, ExploreError, Fault, Keylatch, ReplyError, RunningServer, Sentinel, Server, explore, findBinary, instance, slotOf,
  start,
};
