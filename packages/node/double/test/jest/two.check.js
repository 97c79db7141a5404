// The same tests in a second worker at the same time.
'use strict';

require('./one.check.js');
