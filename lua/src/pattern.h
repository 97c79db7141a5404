/*
** Patterns of Lua, matched against a subject. Both are strings of Lua, so that a byte 0 follows them; a pattern ends at
** its first byte 0.
*/

#ifndef keylatch_pattern_h
#define keylatch_pattern_h

#include <stddef.h>

#include "lua.h"
#include "work.h"

/* How deeply items of a pattern that try several ways may be nested, each of which is a call on the stack of C. */
#define PATTERN_DEPTH_MAX 1000

/* In place of the length of a capture: it is not closed yet, or it is a position. */
#define CAPTURE_OPEN (-1)
#define CAPTURE_POSITION (-2)

typedef struct Capture {
  const char *at;
  ptrdiff_t len;
} Capture;

/* The subject, and what the last match has captured of it. */
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

/* Returns where the match of a pattern, without its anchor, ends that begins here; NULL if there is none. */
const char *pattern_match (Match *match, const char *at, const char *pattern);

/* Returns where the first match begins, here or later, and in `to` where it ends; NULL if there is none. */
const char *pattern_search (Match *match, const char *at, const char *pattern, const char **to);

/* Returns where bytes are found in others, NULL if they are not. */
const char *plain_search (Meter *meter, const char *at, size_t len, const char *wanted, size_t wanted_len);

#endif
