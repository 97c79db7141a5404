/*
** The library `cjson` of scripts: its table and its settings. See cjson.h.
*/

#include <limits.h>

#include "lua.h"

#include "lauxlib.h"
#include "cjson.h"

#define PRECISION_MAX 14

static const JsonSettings defaults = {
  0, 2, 10, 1000, 1000, INVALID_REFUSED, 1, PRECISION_MAX, 1,
};

/* Returns the settings after checking that there are at most `args` arguments; missing ones become nil. */
static JsonSettings *settings_of (lua_State *L, int args) {
  luaL_argcheck(L, lua_gettop(L) <= args, args + 1, "found too many arguments");
  lua_settop(L, args);
  return lua_touserdata(L, lua_upvalueindex(1));
}

/* Changes a number if there is an argument, and pushes its present value. */
static void integer_setting (lua_State *L, int arg, int *setting, int least, int most) {
  if (!lua_isnil(L, arg)) {
    int value = (int)luaL_checkinteger(L, arg);
    if (value < least || value > most) {
      luaL_argerror(L, 1, lua_pushfstring(L, "expected integer between %d and %d", least, most));
    }
    *setting = value;
  }
  lua_pushinteger(L, *setting);
}

/* Changes a switch if there is an argument, and pushes its present value. */
static void switch_setting (lua_State *L, int arg, int *setting) {
  static const char *const words[] = {"off", "on", NULL};
  if (lua_isboolean(L, arg)) *setting = lua_toboolean(L, arg);
  else if (!lua_isnil(L, arg)) *setting = luaL_checkoption(L, arg, NULL, words);
  lua_pushboolean(L, *setting);
}

static int encode_sparse_array (lua_State *L) {
  JsonSettings *settings = settings_of(L, 3);
  switch_setting(L, 1, &settings->sparse_convert);
  integer_setting(L, 2, &settings->sparse_ratio, 0, INT_MAX);
  integer_setting(L, 3, &settings->sparse_safe, 0, INT_MAX);
  return 3;
}

static int encode_max_depth (lua_State *L) {
  JsonSettings *settings = settings_of(L, 1);
  integer_setting(L, 1, &settings->encode_depth_max, 1, INT_MAX);
  return 1;
}

static int decode_max_depth (lua_State *L) {
  JsonSettings *settings = settings_of(L, 1);
  integer_setting(L, 1, &settings->decode_depth_max, 1, INT_MAX);
  return 1;
}

static int encode_number_precision (lua_State *L) {
  JsonSettings *settings = settings_of(L, 1);
  integer_setting(L, 1, &settings->precision, 1, PRECISION_MAX);
  return 1;
}

static int encode_keep_buffer (lua_State *L) {
  JsonSettings *settings = settings_of(L, 1);
  switch_setting(L, 1, &settings->keep_buffer);
  return 1;
}

static int encode_invalid_numbers (lua_State *L) {
  static const char *const words[] = {"off", "on", "null", NULL};
  JsonSettings *settings = settings_of(L, 1);
  if (lua_isboolean(L, 1)) settings->encode_invalid = lua_toboolean(L, 1) ? INVALID_WRITTEN : INVALID_REFUSED;
  else if (!lua_isnil(L, 1)) settings->encode_invalid = luaL_checkoption(L, 1, NULL, words);
  if (settings->encode_invalid == INVALID_NULL) lua_pushliteral(L, "null");
  else lua_pushboolean(L, settings->encode_invalid == INVALID_WRITTEN);
  return 1;
}

static int decode_invalid_numbers (lua_State *L) {
  JsonSettings *settings = settings_of(L, 1);
  switch_setting(L, 1, &settings->decode_invalid);
  return 1;
}

static void push_library (lua_State *L);

static int new_library (lua_State *L) {
  push_library(L);
  return 1;
}

static const luaL_Reg functions[] = {
  {"encode", json_encode},
  {"decode", json_decode},
  {"encode_sparse_array", encode_sparse_array},
  {"encode_max_depth", encode_max_depth},
  {"decode_max_depth", decode_max_depth},
  {"encode_number_precision", encode_number_precision},
  {"encode_keep_buffer", encode_keep_buffer},
  {"encode_invalid_numbers", encode_invalid_numbers},
  {"decode_invalid_numbers", decode_invalid_numbers},
  {"new", new_library},
  {NULL, NULL},
};

/* Pushes a copy of the library with settings of its own. */
static void push_library (lua_State *L) {
  const luaL_Reg *function;
  JsonSettings *settings;
  luaL_checkstack(L, 4, "too many arguments");
  lua_newtable(L);
  settings = lua_newuserdata(L, sizeof *settings);
  *settings = defaults;
  for (function = functions; function->name != NULL; function++) {
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, function->func, 1);
    lua_setfield(L, -3, function->name);
  }
  lua_pop(L, 1);
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  lua_pushliteral(L, "cjson");
  lua_setfield(L, -2, "_NAME");
  lua_pushliteral(L, "2.1.0");
  lua_setfield(L, -2, "_VERSION");
}

int luaopen_cjson (lua_State *L) {
  push_library(L);
  return 1;
}
