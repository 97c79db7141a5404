/*
** Compiling a text: see chunk.h.
*/

#include "chunk.h"

#include "lauxlib.h"
#include "work.h"

/* The first byte of compiled code. */
#define COMPILED '\033'
/* A byte that is as unexpected at the start of a text, but is rejected by the compiler with its own message. */
#define UNEXPECTED "\032"

typedef struct Text {
  const char *bytes;
  size_t len;
} Text;

/* Passes all of a text to the compiler at once. */
static const char *read_text (lua_State *L, void *data, size_t *len) {
  Text *text = (Text *)data;
  (void)L;
  *len = text->len;
  text->len = 0;
  return text->bytes;
}

static int load_text (lua_State *L, Text text) {
  int status;
  lua_gc(L, LUA_GCSTOP, 0);
  status = lua_load(L, read_text, &text, lua_tostring(L, -1));
  lua_gc(L, LUA_GCRESTART, 0);
  lua_remove(L, -2);
  return status;
}

/* Rejects compiled code with the compiler's message for a text that begins with its first byte. */
static int refuse_compiled (lua_State *L) {
  Text text = {UNEXPECTED, 1};
  int status = load_text(L, text);
  luaL_gsub(L, lua_tostring(L, -1), "char(26)", "char(27)");
  lua_remove(L, -2);
  return status;
}

int chunk_load (lua_State *L, const char *bytes, size_t len) {
  Text text;
  if (len > CHUNK_MAX) {
    lua_pop(L, 1);
    lua_pushliteral(L, "the text is longer than 256 MB");
    return LUA_ERRSYNTAX;
  }
  if (len > 0 && bytes[0] == COMPILED) return refuse_compiled(L);
  text.bytes = bytes;
  text.len = len;
  return load_text(L, text);
}

/* Compiles the string at index 1 under the name at index 2; returns the function, or nil and a message. */
static int compiled (lua_State *L) {
  size_t len;
  const char *bytes = lua_tolstring(L, 1, &len);
  lua_work(L, len); /* the compiler is not interrupted */
  if (chunk_load(L, bytes, len) == 0) return 1;
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

int chunk_from_string (lua_State *L) {
  luaL_checkstring(L, 1);
  luaL_optstring(L, 2, "");
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_pushvalue(L, 1);
    lua_replace(L, 2);
  }
  else lua_tostring(L, 2);
  return compiled(L);
}

int chunk_from_function (lua_State *L) {
  luaL_Buffer buffer;
  size_t total = 0;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_optstring(L, 2, "");
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_pushliteral(L, "=(load)");
    lua_replace(L, 2);
  }
  luaL_buffinit(L, &buffer);
  for (;;) {
    size_t len;
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 0, 1, 0) != 0) {
      lua_pushnil(L);
      lua_insert(L, -2);
      return 2;
    }
    if (lua_isnil(L, -1)) break;
    if (!lua_isstring(L, -1)) {
      lua_pushnil(L);
      lua_pushliteral(L, "reader function must return a string");
      return 2;
    }
    len = lua_objlen(L, -1);
    if (len == 0) break;
    total += len;
    if (total > CHUNK_MAX) {
      lua_pushnil(L);
      lua_pushliteral(L, "the text is longer than 256 MB");
      return 2;
    }
    lua_work(L, len / 16);
    luaL_addvalue(&buffer);
  }
  lua_pop(L, 1);
  luaL_pushresult(&buffer);
  lua_replace(L, 1);
  lua_settop(L, 2);
  return compiled(L);
}
