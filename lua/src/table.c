/*
** The functions of `table` whose work can be long, and `unpack`: see libs.h. As in stock Lua, none of them calls
** metamethods of the table.
*/

#include <limits.h>

#include "lua.h"

#include "lauxlib.h"
#include "buffer.h"
#include "libs.h"
#include "scratch.h"

/* Smallest number of results that is rejected, whatever the stack allows. */
#define UNPACKED_MAX 8000
/* Number of results that are counted at once. */
#define UNPACKED_PART 256
/* Maximum number of parts of an array that wait to be sorted; each part is at least as large as all later ones. */
#define PARTS_MAX 40
/* Cost of a call of the order function, or of a comparison by metamethods, besides the instructions it executes. */
#define COMPARISON_STEPS 4

/* Returns the length of the table that is argument 1; an index beyond it is still in range. */
static int length_of (lua_State *L) {
  size_t len;
  luaL_checktype(L, 1, LUA_TTABLE);
  len = lua_objlen(L, 1);
  return len < INT_MAX ? (int)len : INT_MAX - 1;
}

static void move_item (lua_State *L, Meter *meter, int from, int to) {
  lua_rawgeti(L, 1, from);
  lua_rawseti(L, 1, to);
  meter_add(meter, 1);
}

int table_insert (lua_State *L) {
  Meter meter = {L, 0};
  int end = length_of(L) + 1;
  int position = end;
  int index;
  switch (lua_gettop(L)) {
    case 2:
      break;
    case 3:
      position = luaL_checkint(L, 2);
      for (index = end; index > position; index--) move_item(L, &meter, index - 1, index);
      break;
    default:
      return luaL_error(L, "wrong number of arguments to " LUA_QL("insert"));
  }
  lua_rawseti(L, 1, position);
  meter_end(&meter);
  return 0;
}

static int table_remove (lua_State *L) {
  Meter meter = {L, 0};
  int len = length_of(L);
  int position = luaL_optint(L, 2, len);
  if (position < 1 || position > len) return 0;
  lua_rawgeti(L, 1, position);
  for (; position < len; position++) move_item(L, &meter, position + 1, position);
  lua_pushnil(L);
  lua_rawseti(L, 1, len);
  meter_end(&meter);
  return 1;
}

static int table_maxn (lua_State *L) {
  Meter meter = {L, 0};
  lua_Number greatest = 0;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_pushnil(L);
  while (lua_next(L, 1) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TNUMBER) {
      lua_Number key = lua_tonumber(L, -1);
      if (key > greatest) greatest = key;
    }
    meter_add(&meter, 1);
  }
  meter_end(&meter);
  lua_pushnumber(L, greatest);
  return 1;
}

/* Appends an item of the table, counting what the text becomes. */
static void add_item (Meter *meter, luaL_Buffer *out, size_t *total, int index) {
  lua_State *L = meter->L;
  const char *bytes;
  size_t len;
  lua_rawgeti(L, 1, index);
  bytes = lua_tolstring(L, -1, &len);
  if (bytes == NULL) {
    luaL_error(L, "invalid value (%s) at index %d in table for " LUA_QL("concat"), luaL_typename(L, -1), index);
  }
  *total += len;
  if (*total > SCRATCH_MAX) scratch_too_long(L);
  buffer_top(meter, out, bytes, len);
}

static int table_concat (lua_State *L) {
  Meter meter = {L, 0};
  luaL_Buffer out;
  size_t separator_len;
  size_t total = 0;
  const char *separator = luaL_optlstring(L, 2, "", &separator_len);
  int index, last;
  luaL_checktype(L, 1, LUA_TTABLE);
  index = luaL_optint(L, 3, 1);
  last = lua_isnoneornil(L, 4) ? length_of(L) : luaL_checkint(L, 4);
  luaL_buffinit(L, &out);
  for (; index < last; index++) {
    add_item(&meter, &out, &total, index);
    total += separator_len;
    if (total > SCRATCH_MAX) scratch_too_long(L);
    if (separator_len == 1) luaL_addchar(&out, *separator);
    else buffer_bytes(&meter, &out, separator, separator_len);
  }
  if (index == last) add_item(&meter, &out, &total, index);
  meter_end(&meter);
  luaL_pushresult(&out);
  return 1;
}

/* The sort: argument 1 is sorted, by argument 2 if it is not nil. */
typedef struct Sort {
  Meter meter;
  int has_order;
} Sort;

/* Returns true if one value on the stack belongs before another; both are indexed from the top. */
static int is_before (Sort *sort, int one, int other) {
  lua_State *L = sort->meter.L;
  int is;
  meter_add(&sort->meter, COMPARISON_STEPS);
  if (!sort->has_order) return lua_lessthan(L, one, other);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, one - 1);
  lua_pushvalue(L, other - 2);
  lua_call(L, 2, 1);
  is = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

/* Stores the two values on the top, the upper one at the first index. */
static void store_two (lua_State *L, int first, int second) {
  lua_rawseti(L, 1, first);
  lua_rawseti(L, 1, second);
}

/* Puts the first and the last item in order. */
static void order_ends (Sort *sort, int low, int high) {
  lua_State *L = sort->meter.L;
  lua_rawgeti(L, 1, low);
  lua_rawgeti(L, 1, high);
  if (is_before(sort, -1, -2)) store_two(L, low, high);
  else lua_pop(L, 2);
}

/* Puts an item in order with the first and the last one. */
static void order_middle (Sort *sort, int low, int middle, int high) {
  lua_State *L = sort->meter.L;
  lua_rawgeti(L, 1, middle);
  lua_rawgeti(L, 1, low);
  if (is_before(sort, -2, -1)) {
    store_two(L, middle, low);
    return;
  }
  lua_pop(L, 1);
  lua_rawgeti(L, 1, high);
  if (is_before(sort, -1, -2)) store_two(L, middle, high);
  else lua_pop(L, 2);
}

static void invalid_order (lua_State *L) {
  luaL_error(L, "invalid order function for sorting");
}

/*
** Partitions items, of which the first, the middle and the last one are in order, by the middle one: returns its final
** position, with no greater item before it and no lesser one after it.
*/
static int divide (Sort *sort, int low, int middle, int high) {
  lua_State *L = sort->meter.L;
  int up = low;
  int down = high - 1;
  /* The pivot stays on the stack, and its item is kept before the last item. */
  lua_rawgeti(L, 1, middle);
  lua_pushvalue(L, -1);
  lua_rawgeti(L, 1, down);
  store_two(L, middle, down);
  for (;;) {
    while (lua_rawgeti(L, 1, ++up), is_before(sort, -1, -2)) {
      if (up > high) invalid_order(L);
      lua_pop(L, 1);
    }
    while (lua_rawgeti(L, 1, --down), is_before(sort, -3, -1)) {
      if (down < low) invalid_order(L);
      lua_pop(L, 1);
    }
    if (down < up) break;
    store_two(L, up, down);
  }
  lua_pop(L, 3);
  lua_rawgeti(L, 1, high - 1);
  lua_rawgeti(L, 1, up);
  store_two(L, high - 1, up);
  return up;
}

/* Sorts until there is a part to divide; returns the position of the division, or 0 when all is sorted. */
static int sort_step (Sort *sort, int low, int high) {
  int middle;
  if (low >= high) return 0;
  order_ends(sort, low, high);
  if (high - low == 1) return 0;
  middle = low + (high - low) / 2;
  order_middle(sort, low, middle, high);
  if (high - low == 2) return 0;
  return divide(sort, low, middle, high);
}

/* The quicksort of Sedgewick, with the pivot from the middle; the smaller part is always sorted first. */
static void sort_items (Sort *sort, int len) {
  struct { int low, high; } parts[PARTS_MAX];
  int waiting = 0;
  int low = 1, high = len;
  for (;;) {
    int pivot = sort_step(sort, low, high);
    if (pivot == 0) {
      if (waiting == 0) return;
      waiting--;
      low = parts[waiting].low;
      high = parts[waiting].high;
    }
    else if (pivot - low < high - pivot) {
      parts[waiting].low = pivot + 1;
      parts[waiting++].high = high;
      high = pivot - 1;
    }
    else {
      parts[waiting].low = low;
      parts[waiting++].high = pivot - 1;
      low = pivot + 1;
    }
  }
}

static int table_sort (lua_State *L) {
  Sort sort;
  int len = length_of(L);
  luaL_checkstack(L, 40, "");
  sort.meter.L = L;
  sort.meter.steps = 0;
  sort.has_order = !lua_isnoneornil(L, 2);
  if (sort.has_order) luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  sort_items(&sort, len);
  meter_end(&sort.meter);
  return 0;
}

int table_unpack (lua_State *L) {
  Meter meter = {L, 0};
  int first, last, index;
  long long count;
  luaL_checktype(L, 1, LUA_TTABLE);
  first = luaL_optint(L, 2, 1);
  last = lua_isnoneornil(L, 3) ? length_of(L) : luaL_checkint(L, 3);
  if (first > last) return 0;
  count = (long long)last - first + 1;
  if (count >= UNPACKED_MAX || !lua_checkstack(L, (int)count)) {
    return luaL_error(L, "too many results to unpack");
  }
  for (index = 0; index < (int)count; index++) {
    lua_rawgeti(L, 1, first + index);
    if (index % UNPACKED_PART == UNPACKED_PART - 1) meter_add(&meter, UNPACKED_PART);
  }
  meter.steps += (size_t)count % UNPACKED_PART;
  meter_end(&meter);
  return (int)count;
}

const luaL_Reg table_functions[] = {
  {"concat", table_concat},
  {"insert", table_insert},
  {"maxn", table_maxn},
  {"remove", table_remove},
  {"sort", table_sort},
  {NULL, NULL}
};
