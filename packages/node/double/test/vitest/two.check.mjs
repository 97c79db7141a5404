// The same tests in a second worker at the same time.

import './one.check.mjs';
