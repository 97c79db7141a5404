/*
** Bytes for a luaL_Buffer, copied in parts: `luaL_addlstring` takes them one by one.
*/

#ifndef keylatch_buffer_h
#define keylatch_buffer_h

#include <string.h>

#include "lauxlib.h"
#include "work.h"

static inline size_t buffer_room (const luaL_Buffer *buffer) {
  return (size_t)(buffer->buffer + LUAL_BUFFERSIZE - buffer->p);
}

/* Appends bytes, which must not move while Lua allocates memory, as those of a string on the stack. */
static inline void buffer_bytes (Meter *meter, luaL_Buffer *buffer, const char *bytes, size_t len) {
  while (len > 0) {
    size_t room = buffer_room(buffer);
    size_t part;
    if (room == 0) {
      (void)luaL_prepbuffer(buffer);
      room = LUAL_BUFFERSIZE;
    }
    part = len < room ? len : room;
    memcpy(buffer->p, bytes, part);
    luaL_addsize(buffer, part);
    meter_bytes(meter, part);
    bytes += part;
    len -= part;
  }
}

/* Appends the string on the top, given by its bytes, and pops it. */
static inline void buffer_top (Meter *meter, luaL_Buffer *buffer, const char *bytes, size_t len) {
  if (len <= buffer_room(buffer)) {
    memcpy(buffer->p, bytes, len);
    luaL_addsize(buffer, len);
    lua_pop(buffer->L, 1);
  }
  else luaL_addvalue(buffer);
  meter_bytes(meter, len);
}

/* Appends the string or number on the top, and pops it. */
static inline void buffer_value (Meter *meter, luaL_Buffer *buffer) {
  size_t len;
  const char *bytes = lua_tolstring(buffer->L, -1, &len);
  buffer_top(meter, buffer, bytes, len);
}

#endif
