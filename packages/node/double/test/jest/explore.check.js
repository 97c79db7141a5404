// With jest: an exploration fails as an assertion does, and names what runs a failing point alone.
'use strict';

const { Redis } = require('ioredis');
const { ExploreError, explore } = require('keylatch');

const counts = (options) => async (keylatch) => {
  const client = new Redis(keylatch.url, { retryStrategy: () => 1 }).on('error', () => {});
  try {
    await (options.add ? client.sadd('jobs', 1) : client.lpush('jobs', 1));
    expect(await keylatch.command(options.add ? 'SCARD' : 'LLEN', 'jobs')).toBe(1);
  } finally {
    client.disconnect();
  }
};

test('a job is queued once, whatever goes wrong', async () => {
  expect((await explore(counts({ add: true }))).ok).toBe(true);
});

test('a job is queued twice when the reply is lost', async () => {
  const error = await explore(counts({ add: false })).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(ExploreError);
  expect(error.message).toMatch(/Expected: 1 Received: 2\n {2}only="lost-reply: 1st LPUSH"$/);
  expect(error.report.failures).toHaveLength(1);
});
