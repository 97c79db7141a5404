// With vitest: BullMQ compares with Date, which is moved with the server's clock.

import { once } from 'node:events';
import { Queue, Worker } from 'bullmq';
import { instance } from 'keylatch';
import { afterEach, expect, test, vi } from 'vitest';

const HOUR_MS = 3_600_000;
afterEach(() => vi.useRealTimers());

test('with the Date of vitest a job for in an hour runs, not before', async () => {
  const keylatch = await instance();
  vi.useFakeTimers({ toFake: ['Date'] });
  const connection = { url: keylatch.url };
  const queue = new Queue('jobs', { connection });
  await queue.add('later', {}, { delay: HOUR_MS });
  await queue.add('now', {});
  const work = async () => {
    const worker = new Worker('jobs', async () => {}, { connection });
    const [job] = await once(worker, 'completed');
    await worker.close();
    return job.name;
  };
  await keylatch.advance(HOUR_MS);
  expect(await work()).toBe('now');
  vi.setSystemTime(Date.now() + HOUR_MS);
  expect(await work()).toBe('later');
  await queue.close();
  keylatch.close();
});
