// A call for which this thread stands still, so that nothing else of it sees the server and the process at two times.
'use strict';

const { MessageChannel, Worker, receiveMessageOnPort, workerData } = require('node:worker_threads');
const { Connection, ReplyError } = require('./resp.js');

const IS_CALLER = 'keylatch-caller';
const LIMIT_MS = 60_000;
let caller;

/** Starts the thread that calls, which keeps no process alive. */
function started() {
  const { port1: port, port2: its } = new MessageChannel();
  const done = new Int32Array(new SharedArrayBuffer(4));
  const thread = new Worker(__filename, { workerData: { [IS_CALLER]: true, done, its }, transferList: [its], execArgv: [] });
  thread.unref();
  port.unref();
  return { done, port };
}

/** Makes a call by a connection of its own to an address, whose fields are those of a Connection; returns the reply. */
function callStanding(address, request) {
  caller ??= started();
  const { done, port } = caller;
  Atomics.store(done, 0, 0);
  port.postMessage({ address, request });
  if (Atomics.wait(done, 0, 0, LIMIT_MS) === 'timed-out') {
    caller = undefined; // its reply may still come
    throw new Error(`keylatch has not replied within ${LIMIT_MS / 1000} s, for which this thread stood still: `
      + 'nothing that the reply needs, such as a proxy, can run in it');
  }
  const { reply, error } = receiveMessageOnPort(port).message;
  if (error) throw error.code ? Object.assign(new Error(error.message), error) : new ReplyError(error.message);
  return reply;
}

/** What the thread does: a call at a time. */
function serve({ done, its }) {
  its.on('message', async ({ address, request }) => {
    const connection = new Connection(...address);
    try {
      its.postMessage({ reply: await connection.call(...request) });
    } catch ({ message, code }) {
      its.postMessage({ error: { message, code } });
    }
    connection.close();
    Atomics.store(done, 0, 1);
    Atomics.notify(done, 0);
  });
}

if (workerData?.[IS_CALLER]) serve(workerData);

module.exports = { callStanding };
