/*
** The globals of scripts in place of Lua's own: see sandbox.h.
*/

#include <time.h>

#include "sandbox.h"

#include "chunk.h"
#include "lauxlib.h"
#include "libs.h"
#include "lualib.h"
#include "work.h"

/* Its address is the key of the real table in the metatable of a front. */
static char real_table;

static const char READ_ONLY[] = "Attempt to modify a readonly table";

/* Pushes the real table behind the value at an index, if the value is a front. */
static int push_real (lua_State *L, int index) {
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return 0;
  lua_pushlightuserdata(L, &real_table);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (lua_istable(L, -1)) return 1;
  lua_pop(L, 1);
  return 0;
}

/* Replaces the argument at an index by the real table, if the argument is a front. */
static void look_behind (lua_State *L, int index) {
  if (push_real(L, index)) lua_replace(L, index);
}

/* Raises an error without a position if the argument at an index is a front. */
static void refuse_front (lua_State *L, int index) {
  if (push_real(L, index)) {
    lua_pushstring(L, READ_ONLY);
    lua_error(L);
  }
}

static int refuse_write (lua_State *L) {
  return luaL_error(L, "%s", READ_ONLY);
}

/* The `__index` of the globals. */
static int missing (lua_State *L) {
  if (lua_gettop(L) != 2) return luaL_error(L, "Wrong number of arguments to luaProtectedTableError");
  if (!lua_isstring(L, 2)) {
    return luaL_error(L, "Second argument to luaProtectedTableError must be a string or number");
  }
  return luaL_error(L, "Script attempted to access nonexistent global variable '%s'", lua_tostring(L, 2));
}

/* The upvalues are the globals, the front of their metatable, and the front of the metatable of strings. */
static int get_metatable (lua_State *L) {
  luaL_checkany(L, 1);
  if (push_real(L, 1)) {
    if (lua_rawequal(L, -1, lua_upvalueindex(1))) lua_pushvalue(L, lua_upvalueindex(2));
    else lua_pushnil(L);
  }
  else if (lua_type(L, 1) == LUA_TSTRING) lua_pushvalue(L, lua_upvalueindex(3));
  else if (!lua_getmetatable(L, 1)) lua_pushnil(L);
  else luaL_getmetafield(L, 1, "__metatable");
  return 1;
}

static int set_metatable (lua_State *L) {
  int type = lua_type(L, 2);
  refuse_front(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
  if (luaL_getmetafield(L, 1, "__metatable")) return luaL_error(L, "cannot change a protected metatable");
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

static int raw_get (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  look_behind(L, 1);
  lua_rawget(L, 1);
  return 1;
}

static int raw_set (lua_State *L) {
  refuse_front(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  luaL_checkany(L, 3);
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 1;
}

static int next_pair (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  look_behind(L, 1);
  if (lua_next(L, 1)) return 2;
  lua_pushnil(L);
  return 1;
}

/* The upvalues are `next_pair`, and Lua's own `next`, which serves values that are not fronts. */
static int all_pairs (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (push_real(L, 1)) lua_pushvalue(L, lua_upvalueindex(1));
  else lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

static int insert_item (lua_State *L) {
  refuse_front(L, 1);
  return table_insert(L);
}

/* Lua's own `pcall`, except for errors that are tables: if the table has a text, a script sees the text, as in Redis;
** otherwise the table is followed by one more result, its field. */
static int protected_call (lua_State *L) {
  int status;
  luaL_checkany(L, 1);
  status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  if (status != 0 && lua_istable(L, -1)) {
    lua_pushliteral(L, "err");
    lua_rawget(L, -2);
    if (lua_isstring(L, -1)) lua_remove(L, -2);
  }
  if (!lua_checkstack(L, 1)) {
    lua_settop(L, 1);
    return luaL_error(L, "stack overflow");
  }
  lua_pushboolean(L, status == 0);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* Returns true if the script must end; see meter.rs. */
int lua_is_stopped (lua_State *L);

/* The handler of `xpcall`; the script's own handler is the upvalue. In a script that must end, that would be called again
** and again, and no hook could end it. */
static int handle_error (lua_State *L) {
  if (lua_is_stopped(L)) return 1;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

static int call_with_handler (lua_State *L) {
  int status;
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  lua_pushcclosure(L, handle_error, 1);
  lua_insert(L, 1);
  status = lua_pcall(L, 0, LUA_MULTRET, 1);
  lua_pushboolean(L, status == 0);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* Resumes a coroutine, and takes its work and memory into account; see meter.rs. */
int lua_resume_counted (lua_State *L, lua_State *co, int args);

/* Returns the reason why a coroutine cannot be resumed, as a word, or NULL. */
static const char *obstacle (lua_State *L, lua_State *co) {
  lua_Debug debug;
  int status = lua_status(co);
  if (co == L) return "running";
  if (status == LUA_YIELD) return NULL;
  if (status != 0) return "dead";
  if (lua_getstack(co, 0, &debug) > 0) return "normal";
  return lua_gettop(co) == 0 ? "dead" : NULL;
}

/* Moves the arguments into a coroutine and resumes it; returns the number of results moved back, or -1 with the error on
** the top if an error has ended it. */
static int resume (lua_State *L, lua_State *co, int args) {
  const char *state = obstacle(L, co);
  int results;
  if (!lua_checkstack(co, args)) luaL_error(L, "too many arguments to resume");
  if (state != NULL) {
    lua_pushfstring(L, "cannot resume %s coroutine", state);
    return -1;
  }
  lua_xmove(L, co, args);
  lua_setlevel(L, co);
  if (lua_resume_counted(L, co, args) > LUA_YIELD) {
    lua_xmove(co, L, 1);
    lua_work(L, 0); /* the error of a script that must end is raised again */
    return -1;
  }
  results = lua_gettop(co);
  if (!lua_checkstack(L, results + 1)) luaL_error(L, "too many results to resume");
  lua_xmove(co, L, results);
  return results;
}

static int resume_coroutine (lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  int results;
  luaL_argcheck(L, co != NULL, 1, "coroutine expected");
  results = resume(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, results >= 0);
  if (results < 0) results = 1;
  lua_insert(L, -(results + 1));
  return results + 1;
}

static int resume_wrapped (lua_State *L) {
  int results = resume(L, lua_tothread(L, lua_upvalueindex(1)), lua_gettop(L));
  if (results >= 0) return results;
  if (lua_isstring(L, -1)) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int wrap_coroutine (lua_State *L) {
  lua_State *co;
  luaL_argcheck(L, lua_isfunction(L, 1) && !lua_iscfunction(L, 1), 1, "Lua function expected");
  co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, resume_wrapped, 1);
  return 1;
}

/* Scripts must not stop or tune the collector, because later scripts use it as well. */
static int collect_garbage (lua_State *L) {
  static const char *const options[] = {"collect", "count", "step", "stop", "restart", "setpause", "setstepmul", NULL};
  enum { COLLECT, COUNT, STEP, STOP, RESTART };
  int option = luaL_checkoption(L, 1, "collect", options);
  int argument = luaL_optint(L, 2, 0);
  lua_Number kilobytes = lua_gc(L, LUA_GCCOUNT, 0) + (lua_Number)lua_gc(L, LUA_GCCOUNTB, 0) / 1024;
  switch (option) {
    case COLLECT:
      lua_work(L, (size_t)kilobytes * 64);
      lua_pushnumber(L, lua_gc(L, LUA_GCCOLLECT, 0));
      break;
    case COUNT: lua_pushnumber(L, kilobytes); break;
    case STEP:
      lua_work(L, (size_t)kilobytes * 64);
      lua_pushboolean(L, lua_gc(L, LUA_GCSTEP, argument));
      break;
    case STOP:
    case RESTART: lua_pushnumber(L, 0); break;
    default: lua_pushnumber(L, 200); break;
  }
  return 1;
}

/* Returns the processor time used by the program, in seconds. */
static int os_clock (lua_State *L) {
  lua_pushnumber(L, (lua_Number)clock() / (lua_Number)CLOCKS_PER_SEC);
  return 1;
}

/* Counts the bytes that are read, and calls Lua's own function, which is the upvalue. */
static int to_number (lua_State *L) {
  Meter meter = {L, 0};
  if (lua_type(L, 1) == LUA_TSTRING) meter_bytes(&meter, lua_objlen(L, 1));
  meter_end(&meter);
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

static const luaL_Reg base_functions[] = {
  {"setmetatable", set_metatable}, {"rawget", raw_get}, {"rawset", raw_set}, {"next", next_pair},
  {"pcall", protected_call}, {"xpcall", call_with_handler}, {"collectgarbage", collect_garbage}, {"load", chunk_from_function},
  {"loadstring", chunk_from_string}, {"unpack", table_unpack}, {NULL, NULL}
};

static const luaL_Reg coroutine_functions[] = {{"resume", resume_coroutine}, {"wrap", wrap_coroutine}, {NULL, NULL}};

static const luaL_Reg os_functions[] = {{"clock", os_clock}, {NULL, NULL}};

static const char *const absent[] = {
  "dofile", "loadfile", "print", "require", "module", "package", "newproxy", "getfenv", "setfenv", "io", "debug", NULL
};

static void open_library (lua_State *L, const char *name, lua_CFunction open) {
  lua_pushcfunction(L, open);
  lua_pushstring(L, name);
  lua_call(L, 1, 0);
}

static void set_functions (lua_State *L, const luaL_Reg *functions) {
  for (; functions->name != NULL; functions++) {
    lua_pushcfunction(L, functions->func);
    lua_setfield(L, -2, functions->name);
  }
}

void sandbox_open (lua_State *L) {
  const char *const *name;
  open_library(L, "", luaopen_base);
  open_library(L, LUA_TABLIBNAME, luaopen_table);
  open_library(L, LUA_STRLIBNAME, luaopen_string);
  open_library(L, LUA_MATHLIBNAME, luaopen_math);
  lua_getglobal(L, LUA_STRLIBNAME);
  set_functions(L, string_functions);
  lua_getfield(L, -1, "gmatch");
  lua_setfield(L, -2, "gfind");
  lua_getglobal(L, LUA_TABLIBNAME);
  set_functions(L, table_functions);
  lua_pushcfunction(L, insert_item);
  lua_setfield(L, -2, "insert");
  lua_getglobal(L, LUA_COLIBNAME);
  set_functions(L, coroutine_functions);
  lua_newtable(L);
  set_functions(L, os_functions);
  lua_setglobal(L, LUA_OSLIBNAME);
  luaopen_cjson(L);
  lua_setglobal(L, "cjson");
  luaopen_cmsgpack(L);
  lua_setglobal(L, "cmsgpack");
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  lua_pushcfunction(L, next_pair);
  lua_getglobal(L, "next");
  lua_pushcclosure(L, all_pairs, 2);
  lua_setglobal(L, "pairs");
  lua_getglobal(L, "tonumber");
  lua_pushcclosure(L, to_number, 1);
  lua_setglobal(L, "tonumber");
  set_functions(L, base_functions);
  for (name = absent; *name != NULL; name++) {
    lua_pushnil(L);
    lua_setglobal(L, *name);
  }
  lua_settop(L, 0);
}

void sandbox_protect (lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 3);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, refuse_write);
  lua_setfield(L, -2, "__newindex");
  lua_pushlightuserdata(L, &real_table);
  lua_pushvalue(L, -4);
  lua_rawset(L, -3);
  lua_setmetatable(L, -2);
  lua_remove(L, -2);
}

/* Pushes the front of a table whose `__index` is the value on the top, which is popped. */
static void push_metatable (lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_insert(L, -2);
  lua_setfield(L, -2, "__index");
  sandbox_protect(L);
}

void sandbox_close (lua_State *L) {
  int globals;
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  globals = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, globals)) {
    if (lua_istable(L, -1) && !lua_rawequal(L, -1, globals)) {
      sandbox_protect(L);
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, globals); /* an existing key, so that the traversal may go on */
    }
    else lua_pop(L, 1);
  }
  lua_pushvalue(L, globals);
  lua_pushcfunction(L, missing);
  push_metatable(L);
  lua_getfield(L, globals, LUA_STRLIBNAME);
  push_metatable(L);
  lua_pushcclosure(L, get_metatable, 3);
  lua_setfield(L, globals, "getmetatable");
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, missing);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, globals);
  sandbox_protect(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_GLOBALSINDEX, "_G");
  lua_replace(L, LUA_GLOBALSINDEX);
}
