/*
** The functions of `string` whose work can be long, but for `format`: see libs.h.
*/

#include <string.h>

#include "lua.h"

#include "lauxlib.h"
#include "buffer.h"
#include "libs.h"
#include "pattern.h"
#include "scratch.h"

/* Texts up to this length are made on the stack of C. */
#define SMALL_TEXT 1024

/* Pushes a capture; the first is the whole match, from `at` to `to`, if nothing is captured. */
static void push_capture (const Match *match, int index, const char *at, const char *to) {
  lua_State *L = match->meter.L;
  const Capture *capture = &match->captures[index];
  if (index >= match->captured) {
    if (index > 0) luaL_error(L, "invalid capture index");
    lua_pushlstring(L, at, (size_t)(to - at));
    return;
  }
  if (capture->len == CAPTURE_OPEN) luaL_error(L, "unfinished capture");
  if (capture->len == CAPTURE_POSITION) lua_pushinteger(L, capture->at - match->subject + 1);
  else lua_pushlstring(L, capture->at, (size_t)capture->len);
}

/* Pushes all captures; the whole match if nothing is captured, unless `at` is NULL. Returns their number. */
static int push_captures (Match *match, const char *at, const char *to) {
  int count = match->captured == 0 && at != NULL ? 1 : match->captured;
  int index;
  luaL_checkstack(match->meter.L, count, "too many captures");
  for (index = 0; index < count; index++) {
    push_capture(match, index, at, to);
    /* A capture that is a position has no text, and a negative length. */
    if (index < match->captured && match->captures[index].len >= 0) {
      meter_bytes(&match->meter, (size_t)match->captures[index].len);
    }
  }
  if (match->captured == 0 && at != NULL) meter_bytes(&match->meter, (size_t)(to - at));
  return count;
}

/* Returns the offset of argument 3, a position that may be relative to the end, in a subject of this length. */
static size_t offset_of (lua_State *L, size_t len) {
  lua_Integer position = luaL_optinteger(L, 3, 1);
  if (position < 0) position += (lua_Integer)len + 1;
  if (position <= 1) return 0;
  return (size_t)position - 1 < len ? (size_t)position - 1 : len;
}

/* Returns true if a pattern, which ends at its first byte 0, matches only itself. */
static int is_plain (Meter *meter, const char *pattern) {
  const char *at;
  for (at = pattern;; at++) {
    switch (*at) {
      case '\0':
        return 1;
      case '^': case '$': case '*': case '+': case '?': case '.': case '(': case '[': case '%': case '-':
        return 0;
      default:
        break;
    }
    if ((at - pattern) % WORK_BYTES == WORK_BYTES - 1) meter_add(meter, 4);
  }
}

/* Pushes the first and last position of a match. */
static void push_range (lua_State *L, const char *subject, const char *at, const char *to) {
  lua_pushinteger(L, at - subject + 1);
  lua_pushinteger(L, to - subject);
}

/* Searches for a pattern from `at` on, where it may be anchored. */
static int search_pattern (Match *match, const char *at, const char *pattern, int is_find) {
  lua_State *L = match->meter.L;
  const char *to;
  int count;
  if (*pattern == '^') to = pattern_match(match, at, pattern + 1);
  else {
    at = pattern_search(match, at, pattern, &to);
    if (at == NULL) to = NULL;
  }
  if (to == NULL) {
    lua_pushnil(L);
    count = 1;
  }
  else if (is_find) {
    push_range(L, match->subject, at, to);
    count = push_captures(match, NULL, NULL) + 2;
  }
  else count = push_captures(match, at, to);
  meter_end(&match->meter);
  return count;
}

static int string_find (lua_State *L) {
  Match match;
  size_t len, wanted_len;
  const char *subject = luaL_checklstring(L, 1, &len);
  const char *wanted = luaL_checklstring(L, 2, &wanted_len);
  const char *at = subject + offset_of(L, len);
  pattern_begin(&match, L, subject, len);
  if (!lua_toboolean(L, 4) && !is_plain(&match.meter, wanted)) return search_pattern(&match, at, wanted, 1);
  at = plain_search(&match.meter, at, (size_t)(match.end - at), wanted, wanted_len);
  meter_end(&match.meter);
  if (at == NULL) {
    lua_pushnil(L);
    return 1;
  }
  push_range(L, subject, at, at + wanted_len);
  return 2;
}

static int string_match (lua_State *L) {
  Match match;
  size_t len;
  const char *subject = luaL_checklstring(L, 1, &len);
  const char *pattern = luaL_checkstring(L, 2);
  pattern_begin(&match, L, subject, len);
  return search_pattern(&match, subject + offset_of(L, len), pattern, 0);
}

/* The iterator of `gmatch`, with the subject, the pattern and the offset of the next match as upvalues. */
static int next_match (lua_State *L) {
  Match match;
  size_t len;
  const char *subject = lua_tolstring(L, lua_upvalueindex(1), &len);
  const char *pattern = lua_tostring(L, lua_upvalueindex(2));
  size_t offset = (size_t)lua_tointeger(L, lua_upvalueindex(3));
  const char *at;
  const char *to;
  int count;
  if (offset > len) return 0;
  pattern_begin(&match, L, subject, len);
  at = pattern_search(&match, subject + offset, pattern, &to);
  if (at == NULL) {
    meter_end(&match.meter);
    return 0;
  }
  /* After an empty match, the search continues one byte further. */
  lua_pushinteger(L, to - subject + (to == at));
  lua_replace(L, lua_upvalueindex(3));
  count = push_captures(&match, at, to);
  meter_end(&match.meter);
  return count;
}

static int string_gmatch (lua_State *L) {
  luaL_checkstring(L, 1);
  luaL_checkstring(L, 2);
  lua_settop(L, 2);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, next_match, 3);
  return 1;
}

/* Appends the replacement string, argument 3, with captures in place of `%1` and so on. */
static void add_template (Match *match, luaL_Buffer *out, const char *at, const char *to) {
  size_t len;
  const char *text = lua_tolstring(match->meter.L, 3, &len);
  const char *end = text + len;
  while (text < end) {
    size_t room = (size_t)(end - text) < WORK_PART ? (size_t)(end - text) : WORK_PART;
    const char *escape = memchr(text, '%', room);
    buffer_bytes(&match->meter, out, text, escape == NULL ? room : (size_t)(escape - text));
    text = escape == NULL ? text + room : escape + 2;
    if (escape == NULL) continue;
    /* An escape at the end reads the byte 0 that follows every string. */
    if (escape[1] < '0' || escape[1] > '9') luaL_addchar(out, escape[1]);
    else if (escape[1] == '0') buffer_bytes(&match->meter, out, at, (size_t)(to - at));
    else {
      push_capture(match, escape[1] - '1', at, to);
      buffer_value(&match->meter, out);
    }
    meter_add(&match->meter, 1);
  }
}

/* Appends the replacement of the match. */
static void add_replacement (Match *match, luaL_Buffer *out, const char *at, const char *to) {
  lua_State *L = match->meter.L;
  switch (lua_type(L, 3)) {
    case LUA_TFUNCTION:
      lua_pushvalue(L, 3);
      lua_call(L, push_captures(match, at, to), 1);
      break;
    case LUA_TTABLE:
      push_capture(match, 0, at, to);
      meter_bytes(&match->meter, (size_t)(to - at));
      lua_gettable(L, 3);
      break;
    default:
      add_template(match, out, at, to);
      return;
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    buffer_bytes(&match->meter, out, at, (size_t)(to - at));
    return;
  }
  if (!lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  buffer_value(&match->meter, out);
}

/* Replaces up to `max` matches, appends all of the subject, and returns the number of replacements. */
static ptrdiff_t replace_matches (Match *match, luaL_Buffer *out, const char *pattern, ptrdiff_t max) {
  const char *done = match->subject;
  int is_anchored = *pattern == '^';
  ptrdiff_t count = 0;
  if (is_anchored) pattern++;
  while (count < max) {
    const char *to;
    const char *at = done;
    if (is_anchored) to = pattern_match(match, at, pattern);
    else {
      at = pattern_search(match, at, pattern, &to);
      if (at == NULL) break;
    }
    if (to == NULL) break;
    count++;
    buffer_bytes(&match->meter, out, done, (size_t)(at - done));
    add_replacement(match, out, at, to);
    done = to;
    if (is_anchored) break;
    if (to > at) continue;
    /* After an empty match, the search continues one byte further. */
    if (at == match->end) break;
    luaL_addchar(out, *at);
    done++;
  }
  buffer_bytes(&match->meter, out, done, (size_t)(match->end - done));
  return count;
}

static int string_gsub (lua_State *L) {
  Match match;
  luaL_Buffer out;
  size_t len;
  const char *subject = luaL_checklstring(L, 1, &len);
  const char *pattern = luaL_checkstring(L, 2);
  int type = lua_type(L, 3);
  ptrdiff_t max = lua_isnoneornil(L, 4) ? (ptrdiff_t)len + 1 : luaL_checkint(L, 4);
  luaL_argcheck(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                "string/function/table expected");
  pattern_begin(&match, L, subject, len);
  luaL_buffinit(L, &out);
  max = replace_matches(&match, &out, pattern, max);
  meter_end(&match.meter);
  luaL_pushresult(&out);
  lua_pushinteger(L, max);
  return 2;
}

/* Repeats a text until `out` is full. */
static void fill (Meter *meter, char *out, size_t total, const char *text, size_t len) {
  size_t filled = 0;
  while (filled < total) {
    /* Copies from the output once it has the text, so that each part is larger than the one before. */
    size_t from = filled % len;
    const char *source = filled < len ? text : out;
    size_t part = filled < len ? len - from : filled - from;
    if (part > total - filled) part = total - filled;
    if (part > WORK_PART) part = WORK_PART;
    memcpy(out + filled, source + from, part);
    meter_bytes(meter, part);
    filled += part;
  }
}

static int string_rep (lua_State *L) {
  Meter meter = {L, 0};
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  int times = luaL_checkint(L, 2);
  size_t total;
  if (times <= 0 || len == 0) {
    lua_pushliteral(L, "");
    return 1;
  }
  if ((size_t)times > SCRATCH_MAX / len) scratch_too_long(L);
  total = len * (size_t)times;
  if (total <= SMALL_TEXT) {
    char small[SMALL_TEXT];
    size_t filled = len;
    memcpy(small, text, len);
    /* Each step copies as much again as there is. */
    while (filled < total) {
      size_t part = filled < total - filled ? filled : total - filled;
      memcpy(small + filled, small, part);
      filled += part;
    }
    lua_pushlstring(L, small, total);
  }
  else {
    char *large = lua_newuserdata(L, total);
    fill(&meter, large, total, text, len);
    lua_pushlstring(L, large, total);
    meter_end(&meter);
  }
  return 1;
}

const luaL_Reg string_functions[] = {
  {"find", string_find},
  {"format", string_format},
  {"gfind", string_gmatch},
  {"gmatch", string_gmatch},
  {"gsub", string_gsub},
  {"match", string_match},
  {"rep", string_rep},
  {NULL, NULL}
};
