/*
** Patterns of Lua, matched against a subject. Both are strings of Lua, so that a byte 0 follows them; a pattern ends at
** its first byte 0.
*/

#ifndef keylatch_pattern_h
#define keylatch_pattern_h

#include <stddef.h>

#include "lua.h"
#include "work.h"

/* Maximum depth of nested items of a pattern that can backtrack, each of which is a call on the stack of C. */
#define PATTERN_DEPTH_MAX 1000

/* In place of the length of a capture: the capture is not closed yet, or it is a position. */
#define CAPTURE_OPEN (-1)
#define CAPTURE_POSITION (-2)

typedef struct Capture {
  const char *at;
  ptrdiff_t len;
} Capture;

/* The subject, and the captures of the last match. */
typedef struct Match {
  Meter meter;
  const char *subject;
  const char *end;
  int depth;
  int captured;
  Capture captures[LUA_MAXCAPTURES];
} Match;

static inline void pattern_begin (Match *match, lua_State *L, const char *subject, size_t len) {
  match->meter.L = L;
  match->meter.steps = 0;
  match->subject = subject;
  match->end = subject + len;
}

/* Returns the end of the match of a pattern, without its anchor, that begins here; NULL if there is none. */
const char *pattern_match (Match *match, const char *at, const char *pattern);

/* Returns the start of the first match, here or later, and its end in `to`; NULL if there is none. */
const char *pattern_search (Match *match, const char *at, const char *pattern, const char **to);

/* Returns the position of bytes in other bytes, NULL if they are not found. */
const char *plain_search (Meter *meter, const char *at, size_t len, const char *wanted, size_t wanted_len);

#endif
