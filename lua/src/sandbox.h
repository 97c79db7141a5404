/*
** The globals of scripts in place of Lua's own.
**
** Lua 5.1 has no read-only tables. So a script never has access to the real ones: it sees fronts, which are read-only
** proxies: empty tables that read from the real ones through their metatables and reject writes. Functions that would
** bypass a metatable handle fronts specially.
*/

#ifndef keylatch_sandbox_h
#define keylatch_sandbox_h

#include "lua.h"

/* Opens the libraries that scripts may use, in a new interpreter. */
void sandbox_open (lua_State *L);

/* Replaces the table on the top by a front. Needs four free slots. */
void sandbox_protect (lua_State *L);

/* Replaces all tables of the globals and the globals themselves by fronts: code that is compiled from then on sees the
** fronts. Needs ten free slots. */
void sandbox_close (lua_State *L);

#endif
