/*
** The libraries that no script of keylatch can reach, so that neither files nor processes, shared libraries or the
** debugger's interface are in the program at all; of `os` there is what scripts may use. With it come the libraries that
** scripts have beside Lua's own.
*/

#include <time.h>

#include "lua.h"

#include "lauxlib.h"
#include "lualib.h"

static int absent(lua_State *L) {
  return luaL_error(L, "this library is not part of the program");
}

LUALIB_API int luaopen_io(lua_State *L) {
  return absent(L);
}

LUALIB_API int luaopen_package(lua_State *L) {
  return absent(L);
}

LUALIB_API int luaopen_debug(lua_State *L) {
  return absent(L);
}

/* Returns the processor time that the program has used, in seconds. */
static int os_clock(lua_State *L) {
  lua_pushnumber(L, (lua_Number)clock() / (lua_Number)CLOCKS_PER_SEC);
  return 1;
}

static const luaL_Reg os_functions[] = {{"clock", os_clock}, {NULL, NULL}};

int luaopen_cjson(lua_State *L);
int luaopen_cmsgpack(lua_State *L);

LUALIB_API int luaopen_os(lua_State *L) {
  luaopen_cjson(L);
  lua_setglobal(L, "cjson");
  luaopen_cmsgpack(L);
  lua_setglobal(L, "cmsgpack");
  luaL_register(L, LUA_OSLIBNAME, os_functions);
  return 1;
}
