// Keeps sessions, rooms and limits on a server as web applications of Node do.
//
//     KEYLATCH_SERVERS=host:port node sessions_and_rooms.mjs LIBRARY...

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAdapter } from '@socket.io/redis-adapter';
import { createAdapter as createStreamsAdapter } from '@socket.io/redis-streams-adapter';
import Bottleneck from 'bottleneck';
import { RedisStore } from 'connect-redis';
import express from 'express';
import session from 'express-session';
import Redis from 'ioredis';
import { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis } from 'rate-limiter-flexible';
import { createClient } from 'redis';
import { MultiSemaphore, Semaphore } from 'redis-semaphore';
import { Server } from 'socket.io';
import { io as connect } from 'socket.io-client';
import { runCases } from './cases.mjs';

const [host, digits] = process.env.KEYLATCH_SERVERS.split(' ')[0].split(':');
const port = Number(digits);
const PATIENCE_MS = 40_000;
const closers = []; // how to close what a case has opened
const plain = new Redis({ host, port });

/** Waits for what others do; the clock is real, and the wait is bounded. */
async function until(condition, what) {
  const deadline = performance.now() + PATIENCE_MS;
  while (!await condition()) {
    assert.ok(performance.now() < deadline, `waited in vain for ${what}`);
    await sleep(5);
  }
}

async function ioredis() {
  const client = new Redis({ host, port });
  closers.push(() => client.disconnect());
  return client;
}

async function nodeRedis() {
  const client = createClient({ socket: { host, port } });
  client.on('error', (error) => { throw error; });
  await client.connect();
  // A library may still wait for replies that it does not show.
  closers.push(() => Promise.race([client.close(), sleep(2000)]).then(() => client.isOpen && client.destroy()));
  return client;
}

/** Starts an HTTP server on a free port; returns its address. */
async function listen(server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.closeAllConnections(), () => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

async function sessions() {
  const store = new RedisStore({ client: await nodeRedis(), prefix: 'sess:', ttl: 3600 });
  const application = () => {
    const app = express();
    app.use(session({ store, secret: 'secret', resave: false, saveUninitialized: false }));
    app.get('/visit', (request, response) => {
      request.session.visits = (request.session.visits ?? 0) + 1;
      request.session.word = 'grüß dich';
      response.send(`${request.session.visits}`);
    });
    app.get('/renew', (request, response) => request.session.regenerate(() => response.send('renewed')));
    app.get('/leave', (request, response) => request.session.destroy(() => response.send('left')));
    return listen(createServer(app));
  };
  const [first, second] = await Promise.all([application(), application()]);
  const browser = (cookie = '') => async (url) => {
    const response = await fetch(url, { headers: { cookie } });
    cookie = response.headers.get('set-cookie')?.split(';')[0] ?? cookie;
    return response.text();
  };
  const [one, other] = [browser(), browser()];
  for (const [url, visits] of [[first, '1'], [second, '2'], [first, '3']]) {
    assert.equal(await one(`${url}/visit`), visits);
  }
  assert.equal(await other(`${first}/visit`), '1');
  assert.equal(await store.length(), 2);
  assert.deepEqual((await store.all()).map(({ visits }) => visits).sort(), [1, 3]);
  const [id] = await store.ids();
  assert.ok(await plain.ttl(`sess:${id}`) > 3590);
  await plain.expire(`sess:${id}`, 100);
  await store.touch(id, await store.get(id));
  assert.ok(await plain.ttl(`sess:${id}`) > 3590, 'a touched session keeps its old time');
  await one(`${second}/renew`);
  assert.equal(await one(`${first}/visit`), '1');
  await one(`${first}/leave`);
  assert.equal(await store.length(), 1);
  await store.clear();
  assert.equal(await other(`${second}/visit`), '1');
  return 'sessions persist over two applications, are touched, renewed and removed';
}

/** Proves that two servers with an adapter serve the same rooms. */
async function rooms(adapter) {
  const servers = [];
  const clients = [];
  for (let number = 0; number < 2; number += 1) {
    const http = createServer();
    const server = new Server(http, { adapter: await adapter() });
    server.on('connection', (socket) => {
      socket.on('join', (room, joined) => { socket.join(room); joined(); });
      socket.on('say', (room, text) => socket.to(room).emit('said', text));
    });
    const url = await listen(http);
    closers.unshift(() => server.close());
    servers.push(server);
    for (let each = 0; each < 2; each += 1) {
      const socket = connect(url, { transports: ['websocket'], forceNew: true });
      closers.unshift(() => socket.disconnect());
      const heard = [];
      const known = new Set();
      socket.on('said', (text) => heard.push(text));
      socket.on('asked', (question, answer) => answer(`${question}!`));
      socket.on('here', (server) => known.add(server));
      clients.push({ socket, heard, known });
    }
  }
  await until(() => clients.every(({ socket }) => socket.connected), 'the connections');
  const [a, b, c, d] = clients; // a and b at the first server, c and d at the second
  await until(async () => await servers[0].of('/').adapter.serverCount() === 2, 'both servers to know of each other');
  // Until the adapter over streams has heard anything, it misses what comes between two of its reads.
  await until(() => {
    servers.forEach((server, number) => server.emit('here', number));
    return clients.every(({ known }) => known.size === servers.length);
  }, 'both servers to hear each other');
  for (const { socket } of [a, c, d]) await socket.emitWithAck('join', 'room');
  assert.equal((await servers[0].in('room').fetchSockets()).length, 3);

  a.socket.emit('say', 'room', 'grüß dich');
  await until(() => c.heard.length && d.heard.length, 'a message to the room');
  servers[1].emit('said', 'to all');
  await until(() => clients.every(({ heard }) => heard.includes('to all')), 'a message to all');
  const both = ['grüß dich', 'to all'];
  assert.deepEqual(clients.map(({ heard }) => heard), [['to all'], ['to all'], both, both]);
  const answers = await servers[0].timeout(PATIENCE_MS).emitWithAck('asked', 'who');
  assert.deepEqual(answers, Array(4).fill('who!'));
  servers[1].on('hello', (text, answer) => answer(`${text} from the second`));
  assert.deepEqual(await servers[0].serverSideEmitWithAck('hello', 'hi'), ['hi from the second']);
  // One server moves the sockets of the other.
  servers[0].in('room').socketsJoin('more');
  await until(async () => (await servers[1].in('more').fetchSockets()).length === 3, 'sockets that join');
  servers[0].in(c.socket.id).disconnectSockets();
  await until(() => !c.socket.connected, 'a socket to be disconnected');
  await until(async () => (await servers[0].in('room').fetchSockets()).length === 2, 'its leave');
  return 'rooms over two servers, broadcasts, acknowledgements, server to server';
}

const overMessages = (client) => async () => rooms(async () => createAdapter(await client(), await client()));
const overStreams = (client) => async () => {
  const proved = await rooms(async () => createStreamsAdapter(await client(), { blockTimeInMs: 200 }));
  assert.ok(await plain.xlen('socket.io') > 0);
  return proved;
};

async function clusteredLimiter() {
  const options = { host, port };
  const limiters = [0, 1].map(() => new Bottleneck({
    id: 'jobs', datastore: 'ioredis', Redis, clientOptions: options, clearDatastore: false,
    maxConcurrent: 2, minTime: 20, reservoir: 30, reservoirRefreshAmount: 30, reservoirRefreshInterval: 3_600_000,
  }));
  limiters.forEach((limiter) => limiter.on('error', (error) => { throw error; }));
  await Promise.all(limiters.map((limiter) => limiter.ready()));
  let inside = 0;
  let most = 0;
  const starts = [];
  const job = async (number) => {
    starts.push(performance.now());
    inside += 1;
    most = Math.max(most, inside);
    await sleep(30);
    inside -= 1;
    return number;
  };
  const all = Array.from({ length: 20 }, (_, number) => limiters[number % 2].schedule(job, number));
  assert.deepEqual(await Promise.all(all), Array.from({ length: 20 }, (_, number) => number));
  assert.equal(most, 2, 'the limit of concurrency over both limiters');
  assert.ok(starts.at(-1) - starts[0] >= 19 * 18, `20 starts in ${starts.at(-1) - starts[0]} ms`);
  const [one, other] = limiters;
  assert.deepEqual([await one.currentReservoir(), await other.running(), await one.done()], [10, 0, 20]);
  assert.equal(await limiters[1].incrementReservoir(-10), 0);
  let started = false;
  const waits = limiters[0].schedule(async () => { started = true; });
  await until(async () => limiters[0].counts().QUEUED === 1, 'a job that waits for the reservoir');
  assert.equal(started, false);
  await limiters[1].incrementReservoir(1); // its message wakes the other
  await waits;
  await Promise.all(limiters.map((limiter) => limiter.disconnect(true)));

  const connection = { datastore: 'ioredis', Redis, clientOptions: options };
  const group = new Bottleneck.Group({ id: 'group', ...connection, maxConcurrent: 1 });
  assert.deepEqual(await Promise.all(['a', 'b'].map((key) => group.key(key).schedule(async () => key))), ['a', 'b']);
  assert.deepEqual((await group.clusterKeys()).sort(), ['a', 'b']);
  assert.equal(await group.deleteKey('a'), true);
  await group.disconnect(true);
  return 'concurrency, spacing and reservoir over two limiters, groups';
}

/** Has workers take a place each, and proves that as many are inside as there are places, and never more. */
async function places(make, limit) {
  let inside = 0;
  let most = 0;
  await Promise.all(Array.from({ length: 6 }, async () => {
    const semaphore = make(await ioredis(), {});
    for (let section = 0; section < 5; section += 1) {
      await semaphore.acquire();
      inside += 1;
      most = Math.max(most, inside);
      await until(() => most >= limit, 'all places to be taken');
      await sleep(2);
      inside -= 1;
      await semaphore.release();
    }
  }));
  assert.equal(most, limit);
}

async function semaphores() {
  const options = { lockTimeout: 60_000, acquireTimeout: PATIENCE_MS, retryInterval: 2, refreshInterval: 0 };
  const once = { ...options, acquireAttemptsLimit: 1 };
  await places((client) => new Semaphore(client, 'three', 3, options), 3);
  await places((client) => new MultiSemaphore(client, 'five', 5, 2, options), 2);
  const client = await ioredis();
  const held = [0, 1].map(() => new Semaphore(client, 'two', 2, once));
  for (const each of held) assert.ok(await each.tryAcquire());
  const third = new Semaphore(client, 'two', 2, once);
  assert.ok(!await third.tryAcquire());
  await held[0].release();
  assert.ok(await third.tryAcquire() && await held[1]._refresh());
  const short = new MultiSemaphore(client, 'four', 4, 3, { ...once, lockTimeout: 1000 });
  const next = new MultiSemaphore(client, 'four', 4, 2, once);
  const began = performance.now();
  assert.ok(await short.tryAcquire());
  assert.ok(!await next.tryAcquire());
  await until(() => next.tryAcquire(), 'places whose time has passed');
  assert.ok(performance.now() - began >= 998, 'taken over before its time');
  assert.ok(!await short._refresh(), 'places that were lost are renewed');
  await next.release();
  return 'never more inside than places, refusal, takeover';
}

async function rateLimits() {
  for (const store of [{ storeClient: await ioredis() }, { storeClient: await nodeRedis(), useRedisPackage: true }]) {
    const hourly = { keyPrefix: 'hourly', points: 10, duration: 3600, blockDuration: 7200 };
    const limiter = new RateLimiterRedis({ ...store, ...hourly });
    const outcomes = await Promise.allSettled(Array.from({ length: 40 }, () => limiter.consume('user')));
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 10);
    const refused = outcomes.find(({ status }) => status === 'rejected').reason;
    assert.equal(refused.remainingPoints, 0);
    assert.ok(refused.msBeforeNext > 3_600_000, 'the block is not told');
    assert.equal((await limiter.get('user')).remainingPoints, 0);
    assert.equal((await limiter.penalty('other', 4)).consumedPoints, 4);
    assert.equal((await limiter.reward('other', 1)).remainingPoints, 7);
    assert.equal(await limiter.delete('user'), true);
    assert.equal((await limiter.consume('user', 3)).remainingPoints, 7);
    await limiter.block('user', 7200);
    await assert.rejects(limiter.consume('user'), ({ msBeforeNext }) => msBeforeNext > 3_600_000);
    await limiter.delete('user');
    await limiter.delete('other');
    const short = new RateLimiterRedis({ ...store, keyPrefix: 'short', points: 2, duration: 1 });
    const burst = new RateLimiterRedis({ ...store, keyPrefix: 'burst', points: 3, duration: 3600 });
    const bursty = new BurstyRateLimiter(short, burst);
    const five = await Promise.allSettled(Array.from({ length: 7 }, () => bursty.consume('user')));
    assert.ok(five.filter(({ status }) => status === 'fulfilled').length >= 5);
    const queue = new RateLimiterQueue(new RateLimiterRedis({ ...store, keyPrefix: 'queue', points: 2, duration: 1 }));
    const began = performance.now();
    for (let number = 0; number < 5; number += 1) await queue.removeTokens(1, 'user');
    assert.ok(performance.now() - began > 1000, 'two windows have not passed');
    await plain.flushall();
  }
  return 'limits, blocks, bursts and a queue, by ioredis and by node-redis';
}

const LIBRARIES = {
  'connect-redis': sessions,
  'rate-limiter-flexible': rateLimits,
  'socket.io redis adapter, ioredis': overMessages(ioredis),
  'socket.io redis adapter, node-redis': overMessages(nodeRedis),
  'redis-semaphore Semaphore and MultiSemaphore': semaphores,
  bottleneck: clusteredLimiter,
  'socket.io streams adapter, ioredis': overStreams(ioredis),
  'socket.io streams adapter, node-redis': overStreams(nodeRedis),
};

await runCases(LIBRARIES, {
  flush: () => plain.flushall(),
  close: async () => {
    for (const close of closers.splice(0)) await close();
  },
});
