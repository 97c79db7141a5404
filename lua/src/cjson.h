/*
** The library `cjson` of scripts: JSON as lua-cjson writes and reads it, including settings and error messages.
*/

#ifndef keylatch_cjson_h
#define keylatch_cjson_h

#include "lua.h"

/* Maximum depth of nested tables, whatever the settings say, because the reader and the writer are recursive. */
#define JSON_DEPTH_MAX 1000

/* Treatment of numbers that JSON does not have, in writing. */
enum { INVALID_REFUSED, INVALID_WRITTEN, INVALID_NULL };

/* The settings of one copy of the library. */
typedef struct JsonSettings {
  /* True if very sparse arrays become objects instead of an error. */
  int sparse_convert;
  /* Maximum ratio of the greatest index to the number of items; 0 for any. */
  int sparse_ratio;
  /* Index up to which an array may have any gaps. */
  int sparse_safe;
  int encode_depth_max;
  int decode_depth_max;
  int encode_invalid;
  int decode_invalid;
  /* Significant digits of numbers. */
  int precision;
  /* Accepted without effect. */
  int keep_buffer;
} JsonSettings;

/* The functions that write and read; their first upvalue is a userdata with the settings. */
int json_encode (lua_State *L);
int json_decode (lua_State *L);

#endif
