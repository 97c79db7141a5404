// What a run of a scenario leaves behind: errors that reach nobody, which would end a process (rejections that are not
// handled, exceptions of listeners and timers), and connections.
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');

const SOCKETS = 'net.client.socket';
const EVENTS = { unhandledRejection: 'unhandled rejection', uncaughtException: 'uncaught exception' };
const runs = new AsyncLocalStorage();
const displaced = new Map(); // the listeners of others, who are told what is of no run
let explorations = 0;

function told(event, error, ...others) {
  const run = runs.getStore();
  if (run) return run.stray(error, EVENTS[event]);
  const listeners = displaced.get(event);
  for (const listener of listeners) listener.call(process, error, ...others);
  if (listeners.length > 0) return undefined;
  restore();
  explorations = 0;
  throw error; // ends the process, as it would have without an exploration
}

const made = ({ socket }) => { runs.getStore()?.own(socket); };

const ours = Object.keys(EVENTS).map((event) => [event, (...args) => told(event, ...args)]);

function displace() {
  subscribe(SOCKETS, made);
  for (const [event, listener] of ours) {
    displaced.set(event, process.listeners(event));
    process.removeAllListeners(event);
    process.on(event, listener);
  }
}

function restore() {
  unsubscribe(SOCKETS, made);
  for (const [event, listener] of ours) {
    process.removeListener(event, listener);
    for (const other of displaced.get(event)) process.on(event, other);
  }
}

/** Watches for them while an exploration lasts. */
async function watched(exploration) {
  explorations += 1;
  if (explorations === 1) displace();
  try {
    return await exploration();
  } finally {
    explorations = Math.max(0, explorations - 1);
    if (explorations === 0) restore();
  }
}

/** Calls a function; what goes astray in it is told to `run.stray`, and its sockets to `run.own`. */
const within = (run, act) => runs.run(run, act);

module.exports = { watched, within };
