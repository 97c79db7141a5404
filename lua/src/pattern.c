/*
** Matches patterns of Lua: see pattern.h.
**
** The matcher walks through the pattern and calls itself only where it may have to backtrack, or to undo something: for
** repetitions, and for both ends of a capture.
*/

#include <string.h>

#include "lua.h"

#include "lauxlib.h"
#include "pattern.h"

/* Number of bytes of a set that count as `SET_STEPS`; a shorter set costs about as much as the item itself. */
#define SET_PART 32
#define SET_STEPS 8
/* Number of bytes that a repetition takes between two checks of the meter. */
#define RUN_PART 256

static const char *match_here (Match *match, const char *at, const char *pattern);

static unsigned char byte_at (const char *at) {
  return (unsigned char)*at;
}

static int is_between (unsigned byte, unsigned first, unsigned last) {
  return byte - first <= last - first;
}

/* Returns true if a byte belongs to the class of this letter, in the locale "C"; other characters stand for themselves. */
static int is_in_class (unsigned byte, unsigned letter) {
  int is_in;
  /* This bit turns only letters into lower-case letters. */
  switch (letter | 0x20) {
    case 'a': is_in = is_between(byte | 0x20, 'a', 'z'); break;
    case 'c': is_in = byte < 0x20 || byte == 0x7f; break;
    case 'd': is_in = is_between(byte, '0', '9'); break;
    case 'l': is_in = is_between(byte, 'a', 'z'); break;
    case 'p':
      is_in = is_between(byte, '!', '~') && !is_between(byte | 0x20, 'a', 'z') && !is_between(byte, '0', '9');
      break;
    case 's': is_in = byte == ' ' || is_between(byte, '\t', '\r'); break;
    case 'u': is_in = is_between(byte, 'A', 'Z'); break;
    case 'w': is_in = is_between(byte | 0x20, 'a', 'z') || is_between(byte, '0', '9'); break;
    case 'x': is_in = is_between(byte | 0x20, 'a', 'f') || is_between(byte, '0', '9'); break;
    case 'z': is_in = byte == 0; break;
    default: return byte == letter;
  }
  return letter & 0x20 ? is_in : !is_in;
}

/* Returns the end of a set, whose `[` is just before. Its first character is never the `]` that closes it. */
static const char *set_end (Match *match, const char *at) {
  const char *counted = at;
  if (*at == '^') at++;
  do {
    if (*at == '\0') luaL_error(match->meter.L, "malformed pattern (missing " LUA_QL("]") ")");
    if (at - counted >= SET_PART) {
      meter_add(&match->meter, SET_STEPS);
      counted = at;
    }
    if (*at++ == '%' && *at != '\0') at++;
  } while (*at != ']');
  return at + 1;
}

/* Returns the end of an item that matches a single byte: a character, an escape or a set. */
static const char *item_end (Match *match, const char *item) {
  switch (*item) {
    case '%':
      if (item[1] == '\0') luaL_error(match->meter.L, "malformed pattern (ends with " LUA_QL("%%") ")");
      return item + 2;
    case '[':
      return set_end(match, item + 1);
    default:
      return item + 1;
  }
}

/* Returns true if a byte is in the set between its `[` and its `]`. */
static int is_in_set (Match *match, unsigned byte, const char *open, const char *close) {
  const char *at = open + 1;
  const char *counted = at;
  int is_in = 1;
  if (*at == '^') {
    is_in = 0;
    at++;
  }
  for (; at < close; at++) {
    if (at - counted >= SET_PART) {
      meter_add(&match->meter, SET_STEPS);
      counted = at;
    }
    if (*at == '%') {
      at++;
      if (is_in_class(byte, byte_at(at))) return is_in;
    }
    else if (at[1] == '-' && close - at > 2) {
      if (byte_at(at) <= byte && byte <= byte_at(at + 2)) return is_in;
      at += 2;
    }
    else if (byte_at(at) == byte) return is_in;
  }
  return !is_in;
}

/* Returns true if there is a byte here that the item matches. */
static inline int is_matched (Match *match, const char *at, const char *item, const char *item_end) {
  if (at >= match->end) return 0;
  switch (*item) {
    case '.': return 1;
    case '%': return is_in_class(byte_at(at), byte_at(item + 1));
    case '[': return is_in_set(match, byte_at(at), item, item_end - 1);
    default: return *at == *item;
  }
}

/* Matches the rest of a pattern in a nested call, so that the caller can backtrack if there is no match. */
static inline const char *try_rest (Match *match, const char *at, const char *pattern) {
  const char *to;
  if (*pattern == '\0') return at;
  if (match->depth >= PATTERN_DEPTH_MAX) luaL_error(match->meter.L, "pattern too complex");
  match->depth++;
  to = match_here(match, at, pattern);
  match->depth--;
  return to;
}

/* Returns the end of the longest run of bytes that the item matches. */
static const char *run_end (Match *match, const char *at, const char *item, const char *item_end) {
  if (*item == '.') return match->end;
  for (;;) {
    const char *from = at;
    const char *stop = match->end - at > RUN_PART ? at + RUN_PART : match->end;
    while (at < stop && is_matched(match, at, item, item_end)) at++;
    meter_add(&match->meter, (size_t)(at - from));
    if (at < stop || at == match->end) return at;
  }
}

/* Returns true if every match of a pattern begins with its first byte. */
static int begins_literally (const char *pattern) {
  switch (pattern[0]) {
    case '\0': case '(': case ')': case '$': case '%': case '[': case '.': return 0;
    default: break;
  }
  return pattern[1] != '*' && pattern[1] != '?' && pattern[1] != '-';
}

/*
** Returns the byte that must follow for the rest of a pattern to match, or -1 if it is not known. Ends of captures are
** skipped, so this may be called only after the rest was tried, and they were found to be valid.
*/
static int next_byte (const char *pattern) {
  while (*pattern == ')') pattern++;
  return begins_literally(pattern) ? byte_at(pattern) : -1;
}

/* Returns true if the rest of a pattern, which begins with this byte, may match here. */
static int may_match (const Match *match, const char *at, int next) {
  return next < 0 || (at < match->end && byte_at(at) == next);
}

/* Matches an item as often as possible from `at` on, at least until `least`, and then the rest of the pattern. */
static const char *match_most (Match *match, const char *least, const char *item, const char *item_end) {
  const char *at = run_end(match, least, item, item_end);
  const char *to = try_rest(match, at, item_end + 1);
  int next = to == NULL && at > least ? next_byte(item_end + 1) : -1;
  while (to == NULL && at > least) {
    at--;
    if (may_match(match, at, next)) to = try_rest(match, at, item_end + 1);
    else meter_add(&match->meter, 1);
  }
  return to;
}

/* Matches an item as few times as possible, and then the rest of the pattern. */
static const char *match_fewest (Match *match, const char *at, const char *item, const char *item_end) {
  const char *to = try_rest(match, at, item_end + 1);
  int next = to == NULL ? next_byte(item_end + 1) : -1;
  while (to == NULL && is_matched(match, at, item, item_end)) {
    at++;
    if (may_match(match, at, next)) to = try_rest(match, at, item_end + 1);
    else meter_add(&match->meter, 1);
  }
  return to;
}

/* Begins a capture with this length, which encodes its kind, and matches the rest of the pattern. */
static const char *match_open (Match *match, const char *at, const char *pattern, ptrdiff_t len) {
  const char *to;
  Capture *capture;
  if (match->captured >= LUA_MAXCAPTURES) luaL_error(match->meter.L, "too many captures");
  capture = &match->captures[match->captured++];
  capture->at = at;
  capture->len = len;
  to = try_rest(match, at, pattern);
  if (to == NULL) match->captured--;
  return to;
}

/* Ends the open capture that was begun last, and matches the rest of the pattern. */
static const char *match_close (Match *match, const char *at, const char *pattern) {
  const char *to;
  int index = match->captured - 1;
  while (index >= 0 && match->captures[index].len != CAPTURE_OPEN) index--;
  if (index < 0) luaL_error(match->meter.L, "invalid pattern capture");
  match->captures[index].len = at - match->captures[index].at;
  to = try_rest(match, at, pattern);
  if (to == NULL) match->captures[index].len = CAPTURE_OPEN;
  return to;
}

/* Returns the end of a balanced text between the two bytes of `%b`; NULL if there is none. */
static const char *match_balanced (Match *match, const char *at, const char *pair) {
  size_t nested = 1;
  const char *counted = at;
  if (pair[0] == '\0' || pair[1] == '\0') luaL_error(match->meter.L, "unbalanced pattern");
  if (at >= match->end || *at != pair[0]) return NULL;
  for (at++; at < match->end; at++) {
    if (at - counted >= RUN_PART) {
      meter_add(&match->meter, RUN_PART);
      counted = at;
    }
    if (*at == pair[1]) {
      nested--;
      if (nested == 0) break;
    }
    else if (*at == pair[0]) nested++;
  }
  meter_add(&match->meter, (size_t)(at - counted));
  return at < match->end ? at + 1 : NULL;
}

/* Returns the end of the set of a `%f` if there is a frontier here, otherwise NULL. Bytes 0 surround the subject. */
static const char *match_frontier (Match *match, const char *at, const char *set) {
  const char *end;
  unsigned before = at == match->subject ? 0 : byte_at(at - 1);
  unsigned here = at == match->end ? 0 : byte_at(at);
  if (*set != '[') luaL_error(match->meter.L, "missing " LUA_QL("[") " after " LUA_QL("%%f") " in pattern");
  end = set_end(match, set + 1);
  if (is_in_set(match, before, set, end - 1) || !is_in_set(match, here, set, end - 1)) return NULL;
  return end;
}

/* Returns true if two texts are equal. */
static inline int is_same (Meter *meter, const char *one, const char *other, size_t len) {
  size_t part;
  meter_add(meter, 1);
  /* Most texts are short, or differ early. */
  if (len <= 64) return memcmp(one, other, len) == 0;
  part = 64;
  while (len > 0) {
    if (memcmp(one, other, part) != 0) return 0;
    one += part;
    other += part;
    len -= part;
    part = len < WORK_PART ? len : WORK_PART;
    meter_bytes(meter, part);
  }
  return 1;
}

/* Returns the end of a repetition of the capture with this digit; NULL if there is none. */
static const char *match_capture (Match *match, const char *at, unsigned digit) {
  /* A character below "1" wraps around to a large number. */
  unsigned index = digit - '1';
  size_t len;
  if (index >= (unsigned)match->captured || match->captures[index].len == CAPTURE_OPEN) {
    luaL_error(match->meter.L, "invalid capture index");
  }
  /* A position, which is negative, is longer than any subject. */
  len = (size_t)match->captures[index].len;
  if ((size_t)(match->end - at) < len) return NULL;
  return is_same(&match->meter, match->captures[index].at, at, len) ? at + len : NULL;
}

/*
** Matches an item that is not a single byte: sets `at` and `pattern` after it, or `at` to NULL if it does not match.
** Returns false for any other item.
*/
static inline int match_escape (Match *match, const char **at, const char **pattern) {
  const char *item = *pattern;
  const char *end;
  switch (item[1]) {
    case 'b':
      *at = match_balanced(match, *at, item + 2);
      *pattern = item + 4;
      return 1;
    case 'f':
      end = match_frontier(match, *at, item + 2);
      if (end == NULL) *at = NULL;
      *pattern = end;
      return 1;
    case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
      *at = match_capture(match, *at, byte_at(item + 1));
      *pattern = item + 2;
      return 1;
    default:
      return 0;
  }
}

static const char *match_here (Match *match, const char *at, const char *pattern) {
  for (;;) {
    const char *end;
    meter_add(&match->meter, 1);
    switch (*pattern) {
      case '\0':
        return at;
      case '(':
        if (pattern[1] == ')') return match_open(match, at, pattern + 2, CAPTURE_POSITION);
        return match_open(match, at, pattern + 1, CAPTURE_OPEN);
      case ')':
        return match_close(match, at, pattern + 1);
      case '$':
        if (pattern[1] == '\0') return at == match->end ? at : NULL;
        break;
      case '%':
        if (!match_escape(match, &at, &pattern)) break;
        if (at == NULL) return NULL;
        continue;
      default:
        break;
    }
    end = item_end(match, pattern);
    switch (*end) {
      case '*':
        return match_most(match, at, pattern, end);
      case '+':
        return is_matched(match, at, pattern, end) ? match_most(match, at + 1, pattern, end) : NULL;
      case '-':
        return match_fewest(match, at, pattern, end);
      case '?':
        if (is_matched(match, at, pattern, end)) {
          const char *to = try_rest(match, at + 1, end + 1);
          if (to != NULL) return to;
        }
        pattern = end + 1;
        break;
      default:
        if (!is_matched(match, at, pattern, end)) return NULL;
        at++;
        pattern = end;
        break;
    }
  }
}

const char *pattern_match (Match *match, const char *at, const char *pattern) {
  match->depth = 0;
  match->captured = 0;
  return match_here(match, at, pattern);
}

/* Returns the position of a byte, NULL if there is none. */
static inline const char *byte_search (Meter *meter, const char *at, const char *end, unsigned char byte) {
  while (at < end) {
    size_t part = (size_t)(end - at) < WORK_PART ? (size_t)(end - at) : WORK_PART;
    const char *found = memchr(at, byte, part);
    meter_bytes(meter, found == NULL ? part : (size_t)(found - at));
    if (found != NULL) return found;
    at += part;
  }
  return NULL;
}

const char *pattern_search (Match *match, const char *at, const char *pattern, const char **to) {
  int is_literal = begins_literally(pattern);
  for (;; at++) {
    if (is_literal) {
      at = byte_search(&match->meter, at, match->end, byte_at(pattern));
      if (at == NULL) return NULL;
    }
    *to = pattern_match(match, at, pattern);
    if (*to != NULL) return at;
    if (at == match->end) return NULL;
  }
}

const char *plain_search (Meter *meter, const char *at, size_t len, const char *wanted, size_t wanted_len) {
  const char *stop;
  if (wanted_len == 0) return at;
  if (wanted_len > len) return NULL;
  /* End of the positions at which the whole text fits. */
  stop = at + (len - wanted_len) + 1;
  for (;; at++) {
    at = byte_search(meter, at, stop, byte_at(wanted));
    if (at == NULL || is_same(meter, at + 1, wanted + 1, wanted_len - 1)) return at;
  }
}
