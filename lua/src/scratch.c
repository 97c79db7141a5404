/*
** Buffer for a text that a library of scripts produces: see scratch.h.
*/

#include <stdarg.h>
#include <stdlib.h>

#include "lua.h"

#include "lauxlib.h"
#include "scratch.h"

/* Bytes allocated at first. */
#define SIZE_MIN 256
/* Bytes allocated at most: a bound for memory that is reserved before its use is known. */
#define ROOM_MAX (SCRATCH_MAX * 2)

int scratch_too_long (lua_State *L) {
  lua_pushliteral(L, "not enough memory");
  return lua_error(L);
}

void scratch_grow (lua_State *L, Scratch *text, size_t more) {
  size_t size = text->size < SIZE_MIN ? SIZE_MIN : text->size;
  char *bytes;
  if (more > ROOM_MAX - text->len) scratch_too_long(L);
  while (size - text->len < more) size *= 2;
  bytes = realloc(text->bytes, size);
  if (bytes == NULL) scratch_too_long(L);
  text->bytes = bytes;
  text->size = size;
}

int scratch_call (lua_State *L, lua_CFunction act, void *context, Scratch *text) {
  int args = lua_gettop(L);
  int status;
  luaL_checkstack(L, 2, "too many arguments");
  lua_pushcfunction(L, act);
  lua_insert(L, 1);
  lua_pushlightuserdata(L, context);
  status = lua_pcall(L, args + 1, 1, 0);
  free(text->bytes);
  return status == 0 ? 1 : lua_error(L);
}

int scratch_error (lua_State *L, const char *format, ...) {
  va_list args;
  va_start(args, format);
  /* Level 1 is the library function for which this one runs. */
  luaL_where(L, 2);
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_concat(L, 2);
  return lua_error(L);
}
