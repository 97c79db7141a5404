/*
** string.format: see libs.h.
**
** Most conversions are left to `snprintf`, with the directive as it stands in the format once its parts are checked.
*/

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lua.h"

#include "lauxlib.h"
#include "buffer.h"
#include "libs.h"

#define FLAGS "-+ #0"
#define FLAGS_MAX 5
/* Maximum length of a directive: a percent sign, flags, two digits, a point and two digits, `ll`, the conversion and the end. */
#define DIRECTIVE_MAX 16
/* Maximum length of the result of a conversion: 309 digits, a point and 99 more, a sign and the end. */
#define CONVERTED_MAX 512
/* Strings of this length are not padded. */
#define UNPADDED_LENGTH 100
/* Cost of a conversion in steps. */
#define CONVERSION_STEPS 8

typedef struct Format {
  Meter meter;
  luaL_Buffer out;
} Format;

/* A directive of a format, without its conversion. */
typedef struct Directive {
  char text[DIRECTIVE_MAX];
  size_t len;
  int has_precision;
} Directive;

static int is_digit (char byte) {
  return byte >= '0' && byte <= '9';
}

static const char *skip_two_digits (const char *at) {
  if (is_digit(*at)) at++;
  if (is_digit(*at)) at++;
  return at;
}

/* Reads a directive after its percent sign, and returns the position of its conversion. */
static const char *read_directive (lua_State *L, Directive *directive, const char *from) {
  const char *at = from;
  while (*at != '\0' && strchr(FLAGS, *at) != NULL) {
    at++;
    if (at - from > FLAGS_MAX) luaL_error(L, "invalid format (repeated flags)");
  }
  at = skip_two_digits(at);
  directive->has_precision = *at == '.';
  if (directive->has_precision) at = skip_two_digits(at + 1);
  if (is_digit(*at)) luaL_error(L, "invalid format (width or precision too long)");
  directive->text[0] = '%';
  directive->len = (size_t)(at - from) + 1;
  memcpy(directive->text + 1, from, directive->len - 1);
  return at;
}

/* Completes a directive with its length modifier and its conversion. */
static const char *complete (Directive *directive, const char *modifier, char conversion) {
  size_t len = strlen(modifier);
  char *at = directive->text + directive->len;
  memcpy(at, modifier, len);
  at[len] = conversion;
  at[len + 1] = '\0';
  return directive->text;
}

/* Converts as x86-64 processors do: a number out of range, or NaN, becomes the least integer. */
static long long to_signed (double number) {
  return number >= -0x1p63 && number < 0x1p63 ? (long long)number : LLONG_MIN;
}

/* Converts as compilers for x86-64 do, which have only the conversion above: negative numbers wrap around. */
static unsigned long long to_unsigned (double number) {
  if (number >= 0x1p63) return (unsigned long long)to_signed(number - 0x1p63) ^ (1ULL << 63);
  return (unsigned long long)to_signed(number);
}

/* Converts to 32 bits, of which the lowest eight are a character. */
static int to_character (double number) {
  return number > -0x1p31 - 1 && number < 0x1p31 ? (unsigned char)(int)number : 0;
}

static void add_small (Format *format, const char *text, size_t len) {
  buffer_bytes(&format->meter, &format->out, text, len);
}

/* Writes an integer as `%d` without flags does. */
static void add_decimal (Format *format, long long number) {
  char text[24];
  char *at = text + sizeof text;
  unsigned long long rest = number < 0 ? 0ULL - (unsigned long long)number : (unsigned long long)number;
  do {
    *--at = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest > 0);
  if (number < 0) *--at = '-';
  add_small(format, at, (size_t)(text + sizeof text - at));
}

static void add_number (lua_State *L, Format *format, Directive *directive, char conversion, int arg) {
  double number = luaL_checknumber(L, arg);
  char text[CONVERTED_MAX];
  const char *at;
  switch (conversion) {
    case 'd': case 'i':
      if (directive->len == 1) {
        add_decimal(format, to_signed(number));
        return;
      }
      snprintf(text, sizeof text, complete(directive, "ll", conversion), to_signed(number));
      break;
    case 'o': case 'u': case 'x': case 'X':
      snprintf(text, sizeof text, complete(directive, "ll", conversion), to_unsigned(number));
      break;
    case 'c':
      snprintf(text, sizeof text, complete(directive, "", conversion), to_character(number));
      break;
    default:
      snprintf(text, sizeof text, complete(directive, "", conversion), number);
      break;
  }
  /* A byte 0 ends the text, as in stock Lua. */
  at = memchr(text, '\0', sizeof text);
  add_small(format, text, (size_t)(at - text));
}

/* Returns the escape of a byte between quotes, NULL if it has none. */
static const char *quoted (char byte) {
  switch (byte) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\\n";
    case '\r': return "\\r";
    case '\0': return "\\000";
    default: return NULL;
  }
}

/* Appends a string in quotes, in the form that Lua's parser reads. */
static void add_quoted (lua_State *L, Format *format, int arg) {
  size_t len;
  const char *at = luaL_checklstring(L, arg, &len);
  const char *end = at + len;
  luaL_addchar(&format->out, '"');
  for (; at < end; at++) {
    const char *escape = quoted(*at);
    if (escape == NULL) luaL_addchar(&format->out, *at);
    else while (*escape != '\0') {
      luaL_addchar(&format->out, *escape);
      escape++;
    }
    if ((end - at) % 8 == 0) meter_add(&format->meter, 2);
  }
  luaL_addchar(&format->out, '"');
}

/* Appends a string: a long one unchanged, a short one by `snprintf`, which ends it at its first byte 0. */
static void add_string (lua_State *L, Format *format, Directive *directive, int arg) {
  size_t len;
  const char *string = luaL_checklstring(L, arg, &len);
  char text[CONVERTED_MAX];
  if (!directive->has_precision && len >= UNPADDED_LENGTH) {
    lua_pushvalue(L, arg);
    buffer_value(&format->meter, &format->out);
    return;
  }
  if (directive->len == 1) {
    const char *zero = memchr(string, '\0', len);
    add_small(format, string, zero == NULL ? len : (size_t)(zero - string));
    return;
  }
  snprintf(text, sizeof text, complete(directive, "", 's'), string);
  add_small(format, text, strlen(text));
}

/* Converts an argument by the directive whose percent sign is just before, and returns the end of the directive. */
static const char *add_directive (lua_State *L, Format *format, const char *at, int arg) {
  Directive directive;
  at = read_directive(L, &directive, at);
  switch (*at) {
    case 'c': case 'd': case 'i': case 'o': case 'u': case 'x': case 'X':
    case 'e': case 'E': case 'f': case 'g': case 'G':
      add_number(L, format, &directive, *at, arg);
      break;
    case 'q':
      add_quoted(L, format, arg);
      break;
    case 's':
      add_string(L, format, &directive, arg);
      break;
    default:
      luaL_error(L, "invalid option " LUA_QL("%%%c") " to " LUA_QL("format"), *at);
  }
  meter_add(&format->meter, CONVERSION_STEPS);
  return at + 1;
}

int string_format (lua_State *L) {
  Format format;
  int args = lua_gettop(L);
  int arg = 1;
  size_t len;
  const char *at = luaL_checklstring(L, 1, &len);
  const char *end = at + len;
  format.meter.L = L;
  format.meter.steps = 0;
  luaL_buffinit(L, &format.out);
  while (at < end) {
    size_t part = (size_t)(end - at) < WORK_PART ? (size_t)(end - at) : WORK_PART;
    const char *percent = memchr(at, '%', part);
    if (percent != at) {
      part = percent == NULL ? part : (size_t)(percent - at);
      buffer_bytes(&format.meter, &format.out, at, part);
      at += part;
      continue;
    }
    at++;
    if (*at == '%') {
      luaL_addchar(&format.out, *at);
      at++;
      meter_add(&format.meter, 1);
      continue;
    }
    arg++;
    if (arg > args) luaL_argerror(L, arg, "no value");
    at = add_directive(L, &format, at, arg);
  }
  meter_end(&format.meter);
  luaL_pushresult(&format.out);
  return 1;
}
