/*
** The library `cmsgpack` of scripts: MessagePack in the format of lua-cmsgpack.
**
** Long operations call `lua_work`, so that they can be interrupted. Everything that grows is bounded: the text that is written by
** SCRATCH_MAX, the depth of tables by the limits below, their number by the memory that a script may take.
*/

#include <stdint.h>
#include <string.h>

#include "lua.h"

#include "lauxlib.h"
#include "scratch.h"
#include "work.h"

/* Maximum depth of tables to write; deeper values become nil. */
#define PACK_DEPTH_MAX 16
/* Maximum depth of tables to read. Redis stops where its stack ends. */
#define UNPACK_DEPTH_MAX 1000
/* Number of values between two calls of `lua_work`, and the number of instructions that they count as. */
#define VALUES_PER_CHECK 256
#define CHECK_INSTRUCTIONS (VALUES_PER_CHECK * 8)
/* The same for keys, which are only checked. */
#define KEYS_PER_CHECK 65536

/* 2 to the power of 63 */
#define INTEGER_END 9223372036854775808.0

typedef struct Packer {
  Scratch out;
  unsigned values;
} Packer;

/* Writes a marker followed by the lowest bytes of a number in big-endian order. */
static void put (lua_State *L, Packer *p, int marker, uint64_t number, int size) {
  char bytes[9];
  int at;
  bytes[0] = (char)marker;
  for (at = size; at > 0; at--) {
    bytes[at] = (char)(number & 0xff);
    number >>= 8;
  }
  scratch_bytes(L, &p->out, bytes, (size_t)size + 1);
}

static void pack_integer (lua_State *L, Packer *p, int64_t number) {
  uint64_t bits = (uint64_t)number;
  if (number >= 0) {
    if (number <= 0x7f) put(L, p, (int)number, 0, 0);
    else if (number <= 0xff) put(L, p, 0xcc, bits, 1);
    else if (number <= 0xffff) put(L, p, 0xcd, bits, 2);
    else if (number <= 0xffffffffLL) put(L, p, 0xce, bits, 4);
    else put(L, p, 0xcf, bits, 8);
  }
  else if (number >= -0x20) put(L, p, (int)(number & 0xff), 0, 0);
  else if (number >= -0x80) put(L, p, 0xd0, bits, 1);
  else if (number >= -0x8000) put(L, p, 0xd1, bits, 2);
  else if (number >= -0x80000000LL) put(L, p, 0xd2, bits, 4);
  else put(L, p, 0xd3, bits, 8);
}

static void pack_number (lua_State *L, Packer *p, double number) {
  if (number >= -INTEGER_END && number < INTEGER_END && (double)(int64_t)number == number) {
    pack_integer(L, p, (int64_t)number);
  }
  else if ((double)(float)number == number) {
    float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    put(L, p, 0xca, bits, 4);
  }
  else {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    put(L, p, 0xcb, bits, 8);
  }
}

static void pack_string (lua_State *L, Packer *p) {
  size_t len;
  const char *bytes = lua_tolstring(L, -1, &len);
  if (len > SCRATCH_MAX - p->out.len) scratch_too_long(L);
  if (len <= 0x1f) put(L, p, 0xa0 | (int)len, 0, 0);
  else if (len <= 0xff) put(L, p, 0xd9, len, 1);
  else if (len <= 0xffff) put(L, p, 0xda, len, 2);
  else put(L, p, 0xdb, len, 4);
  scratch_bytes(L, &p->out, bytes, len);
}

/* Writes the number of the values that follow; `few` is the marker for up to fifteen, `many` for up to 65535. */
static void pack_count (lua_State *L, Packer *p, int few, int many, size_t count) {
  if (count <= 0xf) put(L, p, few | (int)count, 0, 0);
  else if (count <= 0xffff) put(L, p, many, count, 2);
  else put(L, p, many + 1, count, 4);
}

/* Counts the keys of the table on the top; sets `is_array` if they are the numbers from 1 up to their count, else clears it. */
static size_t count_keys (lua_State *L, int *is_array) {
  size_t count = 0;
  double greatest = 0;
  *is_array = 1;
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    lua_pop(L, 1);
    if (*is_array) {
      double key = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
      if (key >= 1 && key <= 0x7fffffff && (double)(int)key == key) {
        if (key > greatest) greatest = key;
      }
      else *is_array = 0;
    }
    count++;
    if (count % KEYS_PER_CHECK == 0) lua_work(L, KEYS_PER_CHECK);
  }
  if (greatest != (double)count) *is_array = 0;
  lua_work(L, count % KEYS_PER_CHECK);
  return count;
}

static void pack_value (lua_State *L, Packer *p, int depth);

/* Writes the table on the top, which is nested in tables to this depth. */
static void pack_table (lua_State *L, Packer *p, int depth) {
  int is_array;
  size_t count;
  /* Slots for a key, its value, and a copy of the key. */
  if (!lua_checkstack(L, 3)) scratch_error(L, "stack overflow (too many values to pack)");
  count = count_keys(L, &is_array);
  if (is_array) {
    int index;
    pack_count(L, p, 0x90, 0xdc, count);
    for (index = 1; index <= (int)count; index++) {
      lua_rawgeti(L, -1, index);
      pack_value(L, p, depth + 1);
      lua_pop(L, 1);
    }
    return;
  }
  pack_count(L, p, 0x80, 0xde, count);
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    lua_pushvalue(L, -2);
    pack_value(L, p, depth + 1);
    lua_pop(L, 1);
    pack_value(L, p, depth + 1);
    lua_pop(L, 1);
  }
}

/* Writes the value on the top, which is nested in tables to this depth. */
static void pack_value (lua_State *L, Packer *p, int depth) {
  p->values++;
  if (p->values % VALUES_PER_CHECK == 0) lua_work(L, CHECK_INSTRUCTIONS);
  if (p->out.len > SCRATCH_MAX) scratch_too_long(L);
  switch (lua_type(L, -1)) {
    case LUA_TSTRING:
      pack_string(L, p);
      return;
    case LUA_TNUMBER:
      pack_number(L, p, lua_tonumber(L, -1));
      return;
    case LUA_TBOOLEAN:
      put(L, p, lua_toboolean(L, -1) ? 0xc3 : 0xc2, 0, 0);
      return;
    case LUA_TTABLE:
      if (depth < PACK_DEPTH_MAX) {
        pack_table(L, p, depth);
        return;
      }
      break;
    default:
      break;
  }
  put(L, p, 0xc0, 0, 0);
}

static int pack_all (lua_State *L) {
  Packer *p = lua_touserdata(L, -1);
  int args = lua_gettop(L) - 1;
  int arg;
  for (arg = 1; arg <= args; arg++) {
    lua_pushvalue(L, arg);
    pack_value(L, p, 0);
    lua_pop(L, 1);
  }
  lua_pushlstring(L, p->out.bytes, p->out.len);
  return 1;
}

static int pack (lua_State *L) {
  Packer packer = {{NULL, 0, 0}, 0};
  if (lua_gettop(L) == 0) return luaL_argerror(L, 0, "MessagePack pack needs input.");
  return scratch_call(L, pack_all, &packer, &packer.out);
}

typedef struct Reader {
  const unsigned char *at;
  const unsigned char *end;
  unsigned values;
} Reader;

/* Skips some bytes and returns their start. */
static const unsigned char *take (lua_State *L, Reader *r, size_t size) {
  const unsigned char *at = r->at;
  if (size > (size_t)(r->end - at)) luaL_error(L, "Missing bytes in input.");
  r->at = at + size;
  return at;
}

/* Reads an unsigned number in big-endian order. */
static uint64_t take_number (lua_State *L, Reader *r, size_t size) {
  const unsigned char *at = take(L, r, size);
  uint64_t number = 0;
  while (size-- > 0) number = number << 8 | *at++;
  return number;
}

static void unpack_string (lua_State *L, Reader *r, size_t len) {
  const unsigned char *bytes = take(L, r, len);
  lua_pushlstring(L, (const char *)bytes, len);
}

static void unpack_float (lua_State *L, Reader *r) {
  uint32_t bits = (uint32_t)take_number(L, r, 4);
  float number;
  memcpy(&number, &bits, sizeof number);
  lua_pushnumber(L, number);
}

static void unpack_double (lua_State *L, Reader *r) {
  uint64_t bits = take_number(L, r, 8);
  double number;
  memcpy(&number, &bits, sizeof number);
  lua_pushnumber(L, number);
}

static void unpack_value (lua_State *L, Reader *r, int depth);

static void check_depth (lua_State *L, int depth) {
  if (depth >= UNPACK_DEPTH_MAX) luaL_error(L, "stack overflow (too many nested tables)");
}

/* Tables grow as they are filled, as in Redis: the length of an array with holes depends on it. */
static void unpack_array (lua_State *L, Reader *r, size_t len, int depth) {
  size_t index;
  check_depth(L, depth);
  lua_newtable(L);
  for (index = 1; index <= len; index++) {
    unpack_value(L, r, depth + 1);
    lua_rawseti(L, -2, (int)index);
  }
}

static void unpack_map (lua_State *L, Reader *r, size_t len, int depth) {
  check_depth(L, depth);
  lua_newtable(L);
  while (len-- > 0) {
    unpack_value(L, r, depth + 1);
    unpack_value(L, r, depth + 1);
    lua_rawset(L, -3);
  }
}

/* Reads a value that begins with a marker from 0xc0 to 0xdf. */
static void unpack_marked (lua_State *L, Reader *r, unsigned marker, int depth) {
  switch (marker) {
    case 0xc0: lua_pushnil(L); return;
    case 0xc2: lua_pushboolean(L, 0); return;
    case 0xc3: lua_pushboolean(L, 1); return;
    case 0xca: unpack_float(L, r); return;
    case 0xcb: unpack_double(L, r); return;
    case 0xcc: lua_pushnumber(L, (double)take_number(L, r, 1)); return;
    case 0xcd: lua_pushnumber(L, (double)take_number(L, r, 2)); return;
    case 0xce: lua_pushnumber(L, (double)take_number(L, r, 4)); return;
    case 0xd0: lua_pushnumber(L, (int8_t)take_number(L, r, 1)); return;
    case 0xd1: lua_pushnumber(L, (int16_t)take_number(L, r, 2)); return;
    case 0xd2: lua_pushnumber(L, (int32_t)take_number(L, r, 4)); return;
    case 0xcf: /* Lua 5.1 takes it for one with a sign. */
    case 0xd3: lua_pushnumber(L, (double)(int64_t)take_number(L, r, 8)); return;
    case 0xd9: unpack_string(L, r, (size_t)take_number(L, r, 1)); return;
    case 0xda: unpack_string(L, r, (size_t)take_number(L, r, 2)); return;
    case 0xdb: unpack_string(L, r, (size_t)take_number(L, r, 4)); return;
    case 0xdc: unpack_array(L, r, (size_t)take_number(L, r, 2), depth); return;
    case 0xdd: unpack_array(L, r, (size_t)take_number(L, r, 4), depth); return;
    case 0xde: unpack_map(L, r, (size_t)take_number(L, r, 2), depth); return;
    case 0xdf: unpack_map(L, r, (size_t)take_number(L, r, 4), depth); return;
    default: luaL_error(L, "Bad data format in input.");
  }
}

/* Pushes the next value. */
static void unpack_value (lua_State *L, Reader *r, int depth) {
  unsigned marker;
  r->values++;
  if (r->values % VALUES_PER_CHECK == 0) lua_work(L, CHECK_INSTRUCTIONS);
  if (!lua_checkstack(L, 1)) {
    luaL_error(L, "stack overflow (%s)", "too many return values at once; use unpack_one or unpack_limit instead.");
  }
  marker = *take(L, r, 1);
  if (marker <= 0x7f) lua_pushnumber(L, marker);
  else if (marker <= 0x8f) unpack_map(L, r, marker & 0xf, depth);
  else if (marker <= 0x9f) unpack_array(L, r, marker & 0xf, depth);
  else if (marker <= 0xbf) unpack_string(L, r, marker & 0x1f);
  else if (marker <= 0xdf) unpack_marked(L, r, marker, depth);
  else lua_pushnumber(L, (double)(int)marker - 0x100);
}

/* Reads values from `offset` on: all of them for a limit below zero, or at most
** `limit` of them behind the offset at which it has stopped. */
static int unpack_from (lua_State *L, lua_Integer limit, lua_Integer offset) {
  int args = lua_gettop(L);
  int count = 0;
  size_t len;
  const unsigned char *start = (const unsigned char *)luaL_checklstring(L, 1, &len);
  Reader reader = {NULL, NULL, 0};
  if ((size_t)offset > len) {
    return luaL_error(L, "Start offset %d greater than input length %d.", (int)offset, (int)len);
  }
  reader.at = start + offset;
  reader.end = start + len;
  while (reader.at < reader.end && (limit < 0 || count < limit)) {
    unpack_value(L, &reader, 0);
    count++;
  }
  if (limit >= 0) {
    luaL_checkstack(L, 1, "too many return values at once; use unpack_one or unpack_limit instead.");
    lua_pushnumber(L, reader.at == reader.end ? -1 : (double)(reader.at - start));
    lua_insert(L, args + 1);
    count++;
  }
  return count;
}

static int unpack (lua_State *L) {
  return unpack_from(L, -1, 0);
}

static int unpack_some (lua_State *L, lua_Integer limit, lua_Integer offset) {
  size_t len;
  lua_settop(L, 1);
  luaL_checklstring(L, 1, &len);
  if (limit < 0 || offset < 0) {
    return luaL_error(L, "Invalid request to unpack with offset of %d and limit of %d.", (int)offset, (int)len);
  }
  if (limit == 0 && offset == 0) limit = -1;
  return unpack_from(L, limit, offset);
}

static int unpack_one (lua_State *L) {
  return unpack_some(L, 1, luaL_optinteger(L, 2, 0));
}

static int unpack_limit (lua_State *L) {
  lua_Integer limit = luaL_checkinteger(L, 2);
  return unpack_some(L, limit, luaL_optinteger(L, 3, 0));
}

static const luaL_Reg functions[] = {
  {"pack", pack},
  {"unpack", unpack},
  {"unpack_one", unpack_one},
  {"unpack_limit", unpack_limit},
  {NULL, NULL},
};

static const char *const names[][2] = {
  {"_NAME", "cmsgpack"},
  {"_VERSION", "lua-cmsgpack 0.4.0"},
  {"_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"},
  {"_DESCRIPTION", "MessagePack C implementation for Lua"},
};

int luaopen_cmsgpack (lua_State *L) {
  size_t at;
  lua_newtable(L);
  luaL_register(L, NULL, functions);
  for (at = 0; at < sizeof names / sizeof names[0]; at++) {
    lua_pushstring(L, names[at][1]);
    lua_setfield(L, -2, names[at][0]);
  }
  return 1;
}
