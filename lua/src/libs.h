/*
** The functions of Lua's libraries whose work can be long. They replace the functions of the interpreter and do the same,
** but count their work, and their memory and their recursion are bounded.
*/

#ifndef keylatch_libs_h
#define keylatch_libs_h

#include "lua.h"

#include "lauxlib.h"

/* For the tables `string` and `table`; NULL-terminated. In stock Lua, `gfind` is the same value as `gmatch`. */
extern const luaL_Reg string_functions[];
extern const luaL_Reg table_functions[];

/* string.format */
int string_format (lua_State *L);

/* table.insert, which the sandbox prevents from writing to a front. */
int table_insert (lua_State *L);

/* Functions that push the libraries of these names. */
int luaopen_cjson (lua_State *L);
int luaopen_cmsgpack (lua_State *L);

/* The global function `unpack`. */
int table_unpack (lua_State *L);

#endif
