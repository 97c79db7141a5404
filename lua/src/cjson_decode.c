/*
** Parses JSON, and everything else that lua-cjson accepts. See cjson.h.
**
** Long operations call `lua_work`, so that they can be interrupted. The depth is bounded by the settings and JSON_DEPTH_MAX, the
** number of values by the text, which ends with a NUL as every string of Lua does.
*/

#include <stdlib.h>

#include "lua.h"

#include "lauxlib.h"
#include "cjson.h"
#include "scratch.h"
#include "work.h"

/* Number of values between two calls of `lua_work`, and the number of instructions that they count as. */
#define VALUES_PER_CHECK 256
#define CHECK_INSTRUCTIONS (VALUES_PER_CHECK * 16)
/* Length of tokens after which `lua_work` is called, too, and number of their bytes that count as an instruction. */
#define LONG_TOKEN 4096
#define BYTES_PER_INSTRUCTION 8
/* Integers of up to this many digits are exact. */
#define INTEGER_DIGITS 15

typedef enum Kind {
  OBJECT_BEGIN, OBJECT_END, ARRAY_BEGIN, ARRAY_END, STRING, NUMBER, BOOLEAN, NOTHING, COLON, COMMA, END, ERROR
} Kind;

/* Names of the kinds, in the order of Kind, without the last. */
static const char *const kind_names[] = {
  "T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_STRING", "T_NUMBER", "T_BOOLEAN", "T_NULL", "T_COLON",
  "T_COMMA", "T_END",
};

typedef struct Decoder {
  const JsonSettings *settings;
  const char *text;
  const char *end;
  /* Next byte to read. */
  const char *at;
  int depth;
  unsigned values;
  /* The last token: its kind, and the position of its start or error. */
  Kind kind;
  const char *start;
  double number; /* of NUMBER, and 0 or 1 of BOOLEAN */
  const char *string; /* of STRING, and the complaint of ERROR */
  size_t len;
  /* Buffer for a string with escapes, valid until the next one. */
  Scratch unescaped;
} Decoder;

static void wrong (Decoder *d, const char *complaint) {
  d->kind = ERROR;
  d->string = complaint;
  d->start = d->at;
}

static void unexpected (lua_State *L, const Decoder *d, const char *expected) {
  const char *found = d->kind == ERROR ? d->string : kind_names[d->kind];
  scratch_error(L, "Expected %s but found %s at character %d", expected, found, (int)(d->start - d->text) + 1);
}

static int is_digit (char byte) {
  return byte >= '0' && byte <= '9';
}

/* Compares case-insensitively with lower-case letters. */
static int begins_with (const char *at, const char *word) {
  for (; *word != '\0'; at++, word++) {
    if ((*at | 0x20) != *word) return 0;
  }
  return 1;
}

/* Detects numbers that `strtod` accepts and JSON does not. */
static int is_invalid_number (const char *at) {
  if (*at == '+') return 1;
  if (*at == '-') at++;
  if (*at == '0') return (at[1] | 0x20) == 'x' || is_digit(at[1]);
  if ((unsigned char)*at <= '9') return 0;
  return begins_with(at, "inf") || begins_with(at, "nan");
}

static void read_number (Decoder *d) {
  const char *at = d->at;
  int is_negative = *at == '-';
  long long integer = 0;
  const char *first = at += is_negative;
  char *end;
  d->kind = NUMBER;
  while (is_digit(*at) && at - first < INTEGER_DIGITS) integer = integer * 10 + (*at++ - '0');
  if (at > first && !is_digit(*at) && *at != '.' && (*at | 0x20) != 'e' && (*at | 0x20) != 'x') {
    d->number = is_negative ? -(double)integer : (double)integer;
    d->at = at;
    return;
  }
  d->number = strtod(d->at, &end);
  if (end == d->at) wrong(d, "invalid number");
  else d->at = end;
}

/* Reads four hexadecimal digits; returns a negative number if there are none. */
static int hex4 (const char *at) {
  int code = 0;
  int digit;
  for (digit = 0; digit < 4; digit++, at++) {
    if (is_digit(*at)) code = code << 4 | (*at - '0');
    else if ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'f') code = code << 4 | ((*at | 0x20) - 'a' + 10);
    else return -1;
  }
  return code;
}

/* Reads `\uXXXX`, or two of them that are a pair of surrogates, skips it and writes UTF-8; returns 0 if it is invalid. */
static int read_unicode (Decoder *d) {
  char *out = d->unescaped.bytes + d->unescaped.len;
  int code = hex4(d->at + 2);
  int size;
  if (code < 0) return 0;
  if ((code & 0xf800) == 0xd800) {
    int low;
    if ((code & 0x400) != 0 || d->at[6] != '\\' || d->at[7] != 'u') return 0;
    low = hex4(d->at + 8);
    if (low < 0 || (low & 0xfc00) != 0xdc00) return 0;
    code = ((code & 0x3ff) << 10 | (low & 0x3ff)) + 0x10000;
    d->at += 6;
  }
  d->at += 6;
  size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  if (size == 1) out[0] = (char)code;
  else {
    int byte;
    for (byte = size - 1; byte > 0; byte--) {
      out[byte] = (char)(0x80 | (code & 0x3f));
      code >>= 6;
    }
    out[0] = (char)((0xf00 >> size & 0xff) | code);
  }
  d->unescaped.len += (size_t)size;
  return 1;
}

/* Reads the next escape; returns 0 if it is invalid. The output is never longer than the input. */
static int read_escape (Decoder *d) {
  char byte;
  switch (d->at[1]) {
    case '"': case '\\': case '/': byte = d->at[1]; break;
    case 'b': byte = '\b'; break;
    case 't': byte = '\t'; break;
    case 'n': byte = '\n'; break;
    case 'f': byte = '\f'; break;
    case 'r': byte = '\r'; break;
    case 'u':
      if (read_unicode(d)) return 1;
      wrong(d, "invalid unicode escape code");
      return 0;
    default:
      wrong(d, "invalid escape code");
      return 0;
  }
  d->unescaped.bytes[d->unescaped.len++] = byte;
  d->at += 2;
  return 1;
}

/* Reads a string with escapes, whose beginning is known to have none. */
static void read_escaped (lua_State *L, Decoder *d, const char *from) {
  Scratch *out = &d->unescaped;
  out->len = 0;
  scratch_reserve(L, out, (size_t)(d->end - d->text));
  for (;;) {
    memcpy(out->bytes + out->len, from, (size_t)(d->at - from));
    out->len += (size_t)(d->at - from);
    if (*d->at != '\\') break;
    if (!read_escape(d)) return;
    from = d->at;
    while (*d->at != '"' && *d->at != '\\' && *d->at != '\0') d->at++;
  }
  d->string = out->bytes;
  d->len = out->len;
}

static void read_string (lua_State *L, Decoder *d) {
  const char *from = ++d->at;
  d->kind = STRING;
  while (*d->at != '"' && *d->at != '\\' && *d->at != '\0') d->at++;
  if (*d->at == '\\') read_escaped(L, d, from);
  else {
    d->string = from;
    d->len = (size_t)(d->at - from);
  }
  if (d->kind == ERROR) return;
  if (*d->at == '"') d->at++;
  else wrong(d, "unexpected end of string");
}

/* Reads `true`, `false` or `null`, or else a number as `strtod` accepts it. */
static void read_word (Decoder *d) {
  if (strncmp(d->at, "true", 4) == 0) {
    d->kind = BOOLEAN;
    d->number = 1;
    d->at += 4;
  }
  else if (strncmp(d->at, "false", 5) == 0) {
    d->kind = BOOLEAN;
    d->number = 0;
    d->at += 5;
  }
  else if (strncmp(d->at, "null", 4) == 0) {
    d->kind = NOTHING;
    d->at += 4;
  }
  else if (d->settings->decode_invalid && is_invalid_number(d->at)) read_number(d);
  else wrong(d, "invalid token");
}

/* Reads the next token. */
static void next (lua_State *L, Decoder *d) {
  while (*d->at == ' ' || *d->at == '\t' || *d->at == '\n' || *d->at == '\r') d->at++;
  d->start = d->at;
  switch (*d->at) {
    case '{': d->kind = OBJECT_BEGIN; break;
    case '}': d->kind = OBJECT_END; break;
    case '[': d->kind = ARRAY_BEGIN; break;
    case ']': d->kind = ARRAY_END; break;
    case ',': d->kind = COMMA; break;
    case ':': d->kind = COLON; break;
    case '\0': d->kind = END; return;
    case '"': read_string(L, d); return;
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
      if (!d->settings->decode_invalid && is_invalid_number(d->at)) wrong(d, "invalid number");
      else read_number(d);
      return;
    case 'f': case 'i': case 'I': case 'n': case 'N': case 't': case '+': read_word(d); return;
    default: wrong(d, "invalid token"); return;
  }
  d->at++;
}

static void decode_value (lua_State *L, Decoder *d);

static void descend (lua_State *L, Decoder *d) {
  d->depth++;
  /* The table, a key, and its value. */
  if (d->depth <= d->settings->decode_depth_max && d->depth <= JSON_DEPTH_MAX && lua_checkstack(L, 3)) return;
  scratch_error(L, "Found too many nested data structures (%d) at character %d", d->depth, (int)(d->at - d->text));
}

static void decode_object (lua_State *L, Decoder *d) {
  descend(L, d);
  lua_newtable(L);
  next(L, d);
  while (d->kind != OBJECT_END) {
    if (d->kind != STRING) unexpected(L, d, "object key string");
    lua_pushlstring(L, d->string, d->len);
    next(L, d);
    if (d->kind != COLON) unexpected(L, d, "colon");
    next(L, d);
    decode_value(L, d);
    lua_rawset(L, -3);
    next(L, d);
    if (d->kind == OBJECT_END) break;
    if (d->kind != COMMA) unexpected(L, d, "comma or object end");
    next(L, d);
    /* An object does not end with a comma. */
    if (d->kind != STRING) unexpected(L, d, "object key string");
  }
  d->depth--;
}

static void decode_array (lua_State *L, Decoder *d) {
  int index;
  descend(L, d);
  lua_newtable(L);
  next(L, d);
  for (index = 1; d->kind != ARRAY_END; index++) {
    decode_value(L, d);
    lua_rawseti(L, -2, index);
    next(L, d);
    if (d->kind == ARRAY_END) break;
    if (d->kind != COMMA) unexpected(L, d, "comma or array end");
    next(L, d);
    /* An array does not end with a comma. */
    if (d->kind == ARRAY_END) unexpected(L, d, "value");
  }
  d->depth--;
}

/* Pushes the value that begins with the last token. */
static void decode_value (lua_State *L, Decoder *d) {
  size_t len = (size_t)(d->at - d->start);
  d->values++;
  if (d->values % VALUES_PER_CHECK == 0) lua_work(L, CHECK_INSTRUCTIONS);
  if (len > LONG_TOKEN) lua_work(L, len / BYTES_PER_INSTRUCTION);
  switch (d->kind) {
    case STRING: lua_pushlstring(L, d->string, d->len); break;
    case NUMBER: lua_pushnumber(L, d->number); break;
    case BOOLEAN: lua_pushboolean(L, d->number != 0); break;
    case NOTHING: lua_pushlightuserdata(L, NULL); break;
    case OBJECT_BEGIN: decode_object(L, d); break;
    case ARRAY_BEGIN: decode_array(L, d); break;
    default: unexpected(L, d, "value");
  }
}

static int decode (lua_State *L) {
  Decoder *d = lua_touserdata(L, -1);
  next(L, d);
  decode_value(L, d);
  next(L, d);
  if (d->kind != END) unexpected(L, d, "the end");
  return 1;
}

int json_decode (lua_State *L) {
  Decoder decoder = {0};
  size_t len;
  luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
  decoder.text = luaL_checklstring(L, 1, &len);
  if (len >= 2 && (decoder.text[0] == '\0' || decoder.text[1] == '\0')) {
    return luaL_error(L, "JSON parser does not support UTF-16 or UTF-32");
  }
  decoder.settings = lua_touserdata(L, lua_upvalueindex(1));
  decoder.at = decoder.text;
  decoder.end = decoder.text + len;
  return scratch_call(L, decode, &decoder, &decoder.unescaped);
}
