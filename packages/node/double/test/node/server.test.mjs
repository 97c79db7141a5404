// The server as a process: found, started, stopped, and ended with the process that has started it.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Keylatch, RunningServer, findBinary, instance, start } from 'keylatch';
import globalSetup from 'keylatch/global-setup';
import { createClient } from 'redis';

const LIMIT = { timeout: 120_000 };

/** Waits for the end of a process that is no child. (Its port may be another's by then.) */
async function ended(pid) {
  const state = () => readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/.*\) /s, '')[0];
  try {
    while (state() !== 'Z') await sleep(10);
  } catch (error) {
    assert.match(error.code, /ENOENT|ESRCH/);
  }
}

test('a server serves until it is stopped', LIMIT, async () => {
  const server = await start({ settings: { maxmemory: '5mb' } });
  const client = new Redis(server.url);
  assert.match(await client.info('server'), new RegExp(`process_id:${server.pid}\r`));
  assert.deepEqual(await client.config('GET', 'maxmemory'), ['maxmemory', '5242880']);
  client.disconnect();
  await server.stop();
  await server.stop(); // again does no harm
  await ended(server.pid);
});

test('a server that does not follow its standard input is stopped at once', LIMIT, async () => {
  const server = await start({ settings: { 'exit-on-stdin-close': 'no' } });
  await server.stop();
  assert.match(await server.ended(), /with status 0\n/); // and not by a SIGKILL, which comes after a while
});

test('a server on a given port is ready at once', LIMIT, async () => {
  const bind = '127.0.0.2'; // where nobody else takes the port meanwhile
  const free = createServer().listen(0, bind);
  await once(free, 'listening');
  const { port } = free.address();
  await new Promise((resolve) => free.close(resolve));
  const server = await start({ settings: { bind, port } });
  const instance = await server.instance();
  assert.deepEqual([server.port, await instance.command('ECHO', 1)], [port, '1']);
  instance.close();
  await server.stop();
});

test('a server without a TCP port is refused', LIMIT, async () => {
  for (const settings of [{ unixsocket: 'socket' }, { 'tls-port': 6380 }]) {
    await assert.rejects(start({ settings }), { name: 'TypeError', message: /give a port/ });
  }
});

test('a server with TLS is trusted by its own authority alone', LIMIT, async () => {
  const server = await start({ tls: true });
  const instance = await server.instance();
  assert.match(instance.url, /^rediss:\/\/ns-/);
  assert.equal(readFileSync(instance.caFile, 'utf8'), instance.ca);
  const { ca } = instance;
  const client = new Redis(instance.url, { tls: { ca } });
  await client.set('key', 'value', 'PX', 100);
  await instance.advance(100);
  assert.equal(await client.get('key'), null);
  client.disconnect();
  const other = await createClient({ url: instance.url, socket: { tls: true, ca } }).connect();
  assert.equal(await other.set('key', 'value'), 'OK');
  other.destroy();
  const stranger = createClient({ url: instance.url, socket: { tls: true, reconnectStrategy: false } });
  stranger.on('error', () => {});
  await assert.rejects(stranger.connect(), /self.signed|unable to verify/);
  const cluster = await instance.cluster({ replicas: 0, tls: true });
  const clients = new Redis.Cluster(cluster.startupNodes, { redisOptions: { tls: { ca } } });
  assert.equal(await clients.set('key', 'value'), 'OK');
  clients.disconnect();
  const replica = await instance.replica();
  assert.deepEqual([(await replica.command('ROLE'))[0], replica.ca], ['slave', ca]);
  for (const each of [replica, cluster, instance]) each.close();
  await server.stop();
  assert.throws(() => readFileSync(server.caFile), { code: 'ENOENT' });
});

test('a start that fails says why', LIMIT, async () => {
  await assert.rejects(start({ settings: { nonsense: 1 } }), /did not start.*nonsense/s);
  await assert.rejects(start({ binary: '/no/such/file' }), /did not start.*ENOENT/);
});

test('a process that has started a server exits, and the server with it', LIMIT, async () => {
  const program = "require('keylatch').start().then(({ pid }) => console.log(pid))";
  await ended(Number(execFileSync(process.execPath, ['-e', program], { timeout: 60_000 })));
});

test('the server ends with a parent that is killed', LIMIT, async () => {
  const program = "require('keylatch').start().then(({ pid }) => { console.log(pid); process.kill(process.pid, 9) })";
  const { stdout, signal } = spawnSync(process.execPath, ['-e', program]);
  assert.equal(signal, 'SIGKILL');
  await ended(Number(stdout));
});

test('an interrupt from the terminal leaves the server to the teardown', LIMIT, async () => {
  const program = `
    process.on('SIGINT', () => setTimeout(async () => {
      console.log(await (await server.instance()).command('ECHO', 'still here'));
      await server.stop();
      process.stdin.destroy();
    }, 500));
    process.stdin.resume();
    let server;
    require('keylatch').start().then((started) => console.log((server = started).pid));`;
  const parent = spawn(process.execPath, ['-e', program], { detached: true, stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(parent.stdout)[Symbol.asyncIterator]();
  const pid = Number((await lines.next()).value);
  process.kill(-parent.pid, 'SIGINT');
  assert.equal((await lines.next()).value, 'still here');
  await ended(pid);
});

test('settings come from the environment, too', LIMIT, () => {
  const program = `require('keylatch').instance().then(async (it) => console.log(
    (await it.command('CONFIG', 'GET', 'timeout')).timeout))`;
  const env = { ...process.env, KEYLATCH_TIMEOUT: '77' };
  assert.equal(String(execFileSync(process.execPath, ['-e', program], { env })), '77\n');
});

test('a program in any language can start it', LIMIT, async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'keylatch-'));
  const portFile = path.join(folder, 'port');
  const env = { KEYLATCH_LOGLEVEL: 'warning', KEYLATCH_MAXMEMORY: '5mb', KEYLATCH_TEST_MODE: 'yes' };
  const options = ['--port', '0', '--bind', '127.0.0.1', '--exit-on-stdin-close', '--port-file', portFile];
  const child = spawn(findBinary(), options, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const exit = once(child, 'exit');
  t.after(() => child.kill());
  const [line] = await once(createInterface(child.stdout), 'line');
  const { ready, host, port, pid } = JSON.parse(line);
  assert.deepEqual([ready, host, pid], [true, '127.0.0.1', child.pid]);
  assert.equal(readFileSync(portFile, 'utf8').trim(), String(port));
  assert.equal(spawnSync(findBinary(), ['--healthcheck', '-p', String(port)]).status, 0);
  const client = new Redis(`redis://ns-mine:any@127.0.0.1:${port}/0`);
  assert.deepEqual(await client.config('GET', 'maxmemory'), ['maxmemory', '5242880']);
  assert.ok(await client.call('TEST.TIME', 'SET', 2_000_000_000_000) >= 2_000_000_000_000);
  client.disconnect();
  child.stdin.end();
  assert.deepEqual(await exit, [0, null]);
  rmSync(folder, { recursive: true });
});

test('the health check fails where nobody answers', LIMIT, async (t) => {
  const mute = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  t.after(() => mute.close());
  await once(mute, 'listening');
  const check = spawn(findBinary(), ['--healthcheck', '-p', String(mute.address().port)], { stdio: 'ignore' });
  assert.deepEqual(await once(check, 'exit'), [1, null]);
});

test('a server that runs already is named by the environment', LIMIT, async () => {
  const server = await start();
  const mine = await server.instance('shared');
  await mine.command('SET', 'key', 'value');
  const program = `require('keylatch').instance('shared').then(async (it) => console.log(
    await it.command('GET', 'key')))`;
  const env = { ...process.env, KEYLATCH_URL: server.url };
  assert.equal(String(execFileSync(process.execPath, ['-e', program], { env })), 'value\n');
  assert.equal(new RunningServer(server.url).url, server.url);
  await server.stop();
});

test('the global setup starts a server unless the environment names one', LIMIT, async () => {
  const given = process.env.KEYLATCH_URL;
  delete process.env.KEYLATCH_URL;
  const stop = await globalSetup();
  const { url } = new RunningServer(process.env.KEYLATCH_URL);
  await (await globalSetup())(); // it has started nothing, so it stops nothing
  assert.equal(process.env.KEYLATCH_URL, url);
  assert.equal(await new Keylatch('127.0.0.1', new RunningServer(url).port).command('ECHO', 1), '1');
  await stop();
  assert.equal(process.env.KEYLATCH_URL, undefined);
  if (given !== undefined) process.env.KEYLATCH_URL = given;
});

test('a URL of another kind is refused', LIMIT, () => {
  for (const url of ['localhost:6379', '127.0.0.1', 'http://localhost:6379', 'rediss://localhost:6379']) {
    assert.throws(() => new RunningServer(url), { name: 'TypeError', message: /must be redis:\/\/host:port/ });
  }
});

test('the binary is that of the environment or of the package', LIMIT, () => {
  const given = process.env.KEYLATCH_BINARY;
  delete process.env.KEYLATCH_BINARY;
  const { resolve } = createRequire(import.meta.url);
  assert.equal(findBinary(), resolve('@keylatch/linux-x64/bin/keylatch'));
  process.env.KEYLATCH_BINARY = '/elsewhere/keylatch';
  assert.equal(findBinary(), '/elsewhere/keylatch');
  if (given === undefined) delete process.env.KEYLATCH_BINARY;
  else process.env.KEYLATCH_BINARY = given;
});

test('an instance of a server without test mode is refused', LIMIT, async () => {
  const server = await start({ settings: { 'test-mode': 'no' } });
  await assert.rejects(server.instance(), { name: 'ReplyError', message: /WRONGPASS .*--test-mode/ });
  const stranger = new Keylatch(server.host, server.port, 'stranger');
  for (let times = 0; times < 2; times += 1) {
    await assert.rejects(stranger.command('SET', 'key', 'value'), { message: /WRONGPASS/ });
  }
  assert.equal(await new Keylatch(server.host, server.port).command('DBSIZE'), 0);
  await server.stop();
});

test('a crash of the server is told with its status and its log', LIMIT, async () => {
  const server = await start({ settings: { loglevel: 'notice' } });
  const mine = await server.instance();
  process.kill(server.pid, 'SIGKILL');
  const told = { message: /keylatch has ended with signal SIGKILL\n.*Ready to accept/s };
  await assert.rejects(mine.command('BLPOP', 'queue', 60), told);
  await assert.rejects(mine.now(), told);
  await assert.rejects(server.instance(), told);
});

test('the instances of a process share its server', LIMIT, async () => {
  const [first, second] = await Promise.all([instance(), instance()]);
  assert.equal(first.port, second.port);
  assert.notEqual(first.user, second.user);
  first.close();
  second.close();
});
