import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { globalSetup: 'keylatch/global-setup', include: ['*.check.mjs'], testTimeout: 120_000 },
});
