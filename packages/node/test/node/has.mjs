// Which commands the server has, and with `ns-` whether private instances: not all of them exist yet.

import { instance } from 'keylatch';

const probe = await instance();
const has = async (command) => {
  if (command === 'ns-') return probe.user !== undefined;
  const refused = await probe.command(command).then(() => '', (error) => error.message);
  return !refused.includes('unknown command');
};
const found = {};
for (const command of ['TEST.FAULT', 'TEST.CALLS', 'TEST.SNAPSHOT', 'TEST.FAILOVER', 'ns-']) {
  found[command] = await has(command);
}
probe.close();

/** The options of a test that is skipped while the server lacks one of these. */
export function needs(...commands) {
  const missing = commands.filter((command) => !found[command]);
  return { timeout: 120_000, skip: missing.length > 0 && `this server has no ${missing.join(', ')}` };
}
