// Writes the examples of TESTING.md, CLOCKS.md, MIGRATION.md and the package as test files: examples.mjs ROOT

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const root = process.argv[2];
mkdirSync('node/examples', { recursive: true });
let count = 0;
const pages = ['docs/TESTING.md', 'docs/CLOCKS.md', 'docs/MIGRATION.md', 'packages/node/double/README.md'];
for (const name of pages) {
  const text = readFileSync(path.join(root, name), 'utf8');
  for (const [, example] of text.matchAll(/^```js\n(.*?)^```$/gms)) {
    if (!/from 'keylatch'/.test(example)) continue;
    count += 1;
    writeFileSync(`node/examples/${count}.test.mjs`, example);
  }
}
if (count < 3) throw new Error(`only ${count} examples were found`);
