// Drains a server under load into another one, with node-redis: no call fails.  drain.mjs BINARY
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { createClient } from 'redis';

const [, , binary] = process.argv;
const WORKERS = 4;
const CALLS = 300; // of each worker, before and after

async function start(port) {
  const options = ['--bind', '127.0.0.1', '--port', port, '--save', '', '--exit-on-stdin-close', '--loglevel', 'warning'];
  const server = spawn(binary, options, { stdio: ['pipe', 'pipe', 'inherit'] });
  server.ended = once(server, 'exit');
  const [line] = await once(createInterface({ input: server.stdout }), 'line');
  return { server, port: JSON.parse(line).port };
}

const old = await start(0);
const other = await start(0);
const client = createClient({
  RESP: 3,
  socket: { host: '127.0.0.1', port: old.port },
  maintNotifications: 'enabled',
  maintEndpointType: 'internal-ip',
});
client.on('error', (error) => { throw error; });
await client.connect();

let isDrained = false;
let waiting = WORKERS;
let begin;
const enough = new Promise((resolve) => { begin = resolve; });
async function work() {
  for (let call = 0; call < CALLS; call += 1) await client.incr('calls');
  waiting -= 1;
  if (waiting === 0) begin();
  while (!isDrained) await client.incr('calls');
  for (let call = 0; call < CALLS; call += 1) await client.incr('calls');
}
const workers = Array.from({ length: WORKERS }, work);
await Promise.race([enough, ...workers]);
const drain = spawn(binary, ['drain', `redis://127.0.0.1:${old.port}`, '--to', `127.0.0.1:${other.port}`, '--seconds', '30'], { stdio: 'inherit' });
assert.deepEqual(await once(drain, 'exit'), [0, null]);
assert.deepEqual(await old.server.ended, [0, null]);
isDrained = true;
await Promise.all(workers);
const moved = Number(await client.get('calls'));
assert.ok(moved >= WORKERS * CALLS, `${moved} calls at the other server`);
client.destroy();
other.server.stdin.end();
await other.server.ended;
console.log('drain: node-redis has moved without a failed call');
