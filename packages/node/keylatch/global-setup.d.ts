/** Starts one server for all workers of vitest or jest and sets KEYLATCH_URL; returns what stops it. */
declare function globalSetup(): Promise<() => Promise<void>>;
export = globalSetup;
