/*
** Writes values of Lua as JSON, table by table. See cjson.h.
**
** Long operations call `lua_work`, so that they can be interrupted. The text is bounded by SCRATCH_MAX, the depth by the settings and
** JSON_DEPTH_MAX.
*/

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "lua.h"

#include "lauxlib.h"
#include "cjson.h"
#include "scratch.h"
#include "work.h"

/* Number of values between two calls of `lua_work`, and the number of instructions that they count as. */
#define VALUES_PER_CHECK 256
#define CHECK_INSTRUCTIONS (VALUES_PER_CHECK * 8)
/* The same for keys, which are only checked. */
#define KEYS_PER_CHECK 65536
/* Bytes of a string written at once, bytes that count as an instruction, and maximum length of an escaped byte. */
#define STRING_PART ((size_t)1 << 20)
#define BYTES_PER_INSTRUCTION 8
#define ESCAPE_MAX 6
/* Every integer below has at most fourteen digits, the greatest precision. */
#define INTEGER_END 1e14
#define INTEGER_DIGITS 14
#define NUMBER_MAX 32

typedef struct Encoder {
  const JsonSettings *settings;
  Scratch out;
  unsigned values;
} Encoder;

static void refuse (lua_State *L, int index, const char *reason) {
  scratch_error(L, "Cannot serialise %s: %s", lua_typename(L, lua_type(L, index)), reason);
}

static void literal (lua_State *L, Encoder *e, const char *text) {
  scratch_bytes(L, &e->out, text, strlen(text));
}

/* Form of a byte in strings: 0 for itself, `u` for its number, otherwise the letter of its escape. */
static int escape_of (unsigned char byte) {
  switch (byte) {
    case '"': case '\\': case '/': return byte;
    case '\b': return 'b';
    case '\t': return 't';
    case '\n': return 'n';
    case '\f': return 'f';
    case '\r': return 'r';
    default: return byte < 0x20 || byte == 0x7f ? 'u' : 0;
  }
}

/* Writes bytes for which there is room, and returns their end. */
static char *escaped (char *out, const unsigned char *at, const unsigned char *end) {
  static const char digits[] = "0123456789abcdef";
  for (; at < end; at++) {
    int escape;
    /* Letters, and bytes outside ASCII. */
    if (*at > '\\' && *at != 0x7f) {
      *out++ = (char)*at;
      continue;
    }
    escape = escape_of(*at);
    if (escape == 0) {
      *out++ = (char)*at;
      continue;
    }
    *out++ = '\\';
    *out++ = (char)escape;
    if (escape == 'u') {
      *out++ = '0';
      *out++ = '0';
      *out++ = digits[*at >> 4];
      *out++ = digits[*at & 0xf];
    }
  }
  return out;
}

static void encode_string (lua_State *L, Encoder *e, int index) {
  size_t len;
  const unsigned char *at = (const unsigned char *)lua_tolstring(L, index, &len);
  scratch_byte(L, &e->out, '"');
  while (len > 0) {
    size_t part = len < STRING_PART ? len : STRING_PART;
    if (e->out.len > SCRATCH_MAX) scratch_too_long(L);
    if (part >= BYTES_PER_INSTRUCTION * 64) lua_work(L, part / BYTES_PER_INSTRUCTION);
    scratch_reserve(L, &e->out, part * ESCAPE_MAX);
    e->out.len = (size_t)(escaped(e->out.bytes + e->out.len, at, at + part) - e->out.bytes);
    at += part;
    len -= part;
  }
  scratch_byte(L, &e->out, '"');
}

/* Writes an integer that is in the range of INTEGER_END. */
static void encode_integer (lua_State *L, Encoder *e, long long number) {
  char text[INTEGER_DIGITS + 1];
  char *at = text + sizeof text;
  unsigned long long rest = (unsigned long long)(number < 0 ? -number : number);
  do {
    *--at = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest > 0);
  if (number < 0) *--at = '-';
  scratch_bytes(L, &e->out, at, (size_t)(text + sizeof text - at));
}

static void encode_number (lua_State *L, Encoder *e, int index) {
  double number = lua_tonumber(L, index);
  if (isnan(number) || isinf(number)) {
    if (e->settings->encode_invalid == INVALID_REFUSED) refuse(L, index, "must not be NaN or Inf");
    if (e->settings->encode_invalid == INVALID_NULL) literal(L, e, "null");
    else literal(L, e, isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
    return;
  }
  if (number > -INTEGER_END && number < INTEGER_END && (double)(long long)number == number && number != 0
      && e->settings->precision == INTEGER_DIGITS) {
    encode_integer(L, e, (long long)number);
    return;
  }
  scratch_reserve(L, &e->out, NUMBER_MAX);
  e->out.len += (size_t)snprintf(e->out.bytes + e->out.len, NUMBER_MAX, "%.*g", e->settings->precision, number);
}

/* Returns the greatest index of the array on the top; 0 for an empty table, negative for a table that is not an array. */
static int array_length (lua_State *L, const Encoder *e) {
  const JsonSettings *settings = e->settings;
  int greatest = 0;
  size_t items = 0;
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    double key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
    if (!(key >= 1 && floor(key) == key)) {
      lua_pop(L, 2);
      return -1;
    }
    /* Computed in 32 bits, as Redis does on its usual processors. */
    if (key > greatest) greatest = key <= INT_MAX ? (int)key : INT_MIN;
    lua_pop(L, 1);
    items++;
    if (items % KEYS_PER_CHECK == 0) lua_work(L, KEYS_PER_CHECK);
  }
  lua_work(L, items % KEYS_PER_CHECK);
  if (settings->sparse_ratio > 0 && greatest > settings->sparse_safe
      && (double)greatest > (double)items * settings->sparse_ratio) {
    if (!settings->sparse_convert) refuse(L, -1, "excessively sparse array");
    return -1;
  }
  return greatest;
}

static void encode_value (lua_State *L, Encoder *e, int depth);

static void encode_array (lua_State *L, Encoder *e, int len, int depth) {
  int index;
  scratch_byte(L, &e->out, '[');
  for (index = 1; index <= len; index++) {
    if (index > 1) scratch_byte(L, &e->out, ',');
    lua_rawgeti(L, -1, index);
    encode_value(L, e, depth);
    lua_pop(L, 1);
    if (index == INT_MAX) break;
  }
  scratch_byte(L, &e->out, ']');
}

static void encode_key (lua_State *L, Encoder *e) {
  switch (lua_type(L, -2)) {
    case LUA_TSTRING:
      encode_string(L, e, -2);
      break;
    case LUA_TNUMBER:
      scratch_byte(L, &e->out, '"');
      encode_number(L, e, -2);
      scratch_byte(L, &e->out, '"');
      break;
    default:
      refuse(L, -2, "table key must be a number or string");
  }
  scratch_byte(L, &e->out, ':');
}

static void encode_object (lua_State *L, Encoder *e, int depth) {
  int is_first = 1;
  scratch_byte(L, &e->out, '{');
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    if (!is_first) scratch_byte(L, &e->out, ',');
    is_first = 0;
    encode_key(L, e);
    encode_value(L, e, depth);
    lua_pop(L, 1);
  }
  scratch_byte(L, &e->out, '}');
}

/* Writes the table on the top, which is at this depth. */
static void encode_table (lua_State *L, Encoder *e, int depth) {
  int len;
  /* Slots for a key, its value, and an error. */
  if (depth > e->settings->encode_depth_max || depth > JSON_DEPTH_MAX || !lua_checkstack(L, 3)) {
    scratch_error(L, "Cannot serialise, excessive nesting (%d)", depth);
  }
  len = array_length(L, e);
  if (len > 0) encode_array(L, e, len, depth);
  else if (len == 0) literal(L, e, "{}");
  else encode_object(L, e, depth);
}

/* Writes the value on the top, which is nested in tables to this depth. */
static void encode_value (lua_State *L, Encoder *e, int depth) {
  e->values++;
  if (e->values % VALUES_PER_CHECK == 0) lua_work(L, CHECK_INSTRUCTIONS);
  if (e->out.len > SCRATCH_MAX) scratch_too_long(L);
  switch (lua_type(L, -1)) {
    case LUA_TSTRING:
      encode_string(L, e, -1);
      return;
    case LUA_TNUMBER:
      encode_number(L, e, -1);
      return;
    case LUA_TBOOLEAN:
      literal(L, e, lua_toboolean(L, -1) ? "true" : "false");
      return;
    case LUA_TTABLE:
      encode_table(L, e, depth + 1);
      return;
    case LUA_TNIL:
      literal(L, e, "null");
      return;
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(L, -1) == NULL) {
        literal(L, e, "null");
        return;
      }
      break;
    default:
      break;
  }
  refuse(L, -1, "type not supported");
}

static int encode (lua_State *L) {
  Encoder *e = lua_touserdata(L, -1);
  lua_pop(L, 1);
  encode_value(L, e, 0);
  lua_pushlstring(L, e->out.bytes, e->out.len);
  return 1;
}

int json_encode (lua_State *L) {
  Encoder encoder = {NULL, {NULL, 0, 0}, 0};
  luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
  encoder.settings = lua_touserdata(L, lua_upvalueindex(1));
  return scratch_call(L, encode, &encoder, &encoder.out);
}
