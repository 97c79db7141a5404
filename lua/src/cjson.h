/*
** The library `cjson` of scripts: JSON as lua-cjson writes and reads it, settings and complaints included.
*/

#ifndef keylatch_cjson_h
#define keylatch_cjson_h

#include "lua.h"

/* How deep tables may be nested whatever the settings say, because the reader and the writer call themselves. */
#define JSON_DEPTH_MAX 1000

/* What becomes of numbers that JSON does not know, when it is written. */
enum { INVALID_REFUSED, INVALID_WRITTEN, INVALID_NULL };

/* The settings of one copy of the library. */
typedef struct JsonSettings {
  /* Whether very sparse arrays become objects instead of an error. */
  int sparse_convert;
  /* How many times larger than the number of items the greatest index may be; 0 for any. */
  int sparse_ratio;
  /* Up to which index an array may be as sparse as it likes. */
  int sparse_safe;
  int encode_depth_max;
  int decode_depth_max;
  int encode_invalid;
  int decode_invalid;
  /* Significant digits of numbers. */
  int precision;
  /* Has no effect here. */
  int keep_buffer;
} JsonSettings;

/* The functions that write and read; their first upvalue is a userdata with the settings. */
int json_encode (lua_State *L);
int json_decode (lua_State *L);

#endif
