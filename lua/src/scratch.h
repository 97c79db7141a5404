/*
** Buffer for a text that a library of scripts produces. It grows outside of Lua's memory, where the collector need not
** know of it, and `scratch_call` frees it in any case, at the end or at an error of the function that fills it.
*/

#ifndef keylatch_scratch_h
#define keylatch_scratch_h

#include <stddef.h>
#include <string.h>

#include "lua.h"

/* Maximum length of a text in bytes. A table may be in it many times, so that little memory could produce an endless
** text. */
#define SCRATCH_MAX ((size_t)512 << 20)

typedef struct Scratch {
  char *bytes;
  size_t len;
  size_t size;
} Scratch;

/* Makes room for this many more bytes in a full text; raises `not enough memory`. */
void scratch_grow (lua_State *L, Scratch *text, size_t more);

/* Raises `not enough memory`, as Lua itself does: without a position in the script. */
int scratch_too_long (lua_State *L);

/*
** Calls `act` with the arguments of the running function, followed by `context` as a light userdata, and returns its only
** result. `text`, which `act` finds in its context, is freed even if `act` raises an error.
*/
int scratch_call (lua_State *L, lua_CFunction act, void *context, Scratch *text);

/* Raises an error from within `scratch_call`, with the position in the script where the library was called. */
int scratch_error (lua_State *L, const char *format, ...);

/* Reserves memory for this many more bytes; the caller bounds their number. */
static inline void scratch_reserve (lua_State *L, Scratch *text, size_t more) {
  if (more > text->size - text->len) scratch_grow(L, text, more);
}

static inline void scratch_byte (lua_State *L, Scratch *text, char byte) {
  scratch_reserve(L, text, 1);
  text->bytes[text->len++] = byte;
}

static inline void scratch_bytes (lua_State *L, Scratch *text, const char *bytes, size_t len) {
  scratch_reserve(L, text, len);
  memcpy(text->bytes + text->len, bytes, len);
  text->len += len;
}

#endif
