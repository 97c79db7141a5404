/*
** Work of native functions. Executed instructions are counted to interrupt a script; a native function that may take long
** counts its steps, so that it can be interrupted, too.
*/

#ifndef keylatch_work_h
#define keylatch_work_h

#include <stddef.h>

#include "lua.h"

/* Counts work of a native function as executed instructions. Raises an error when the script must end. */
void lua_work (lua_State *L, size_t units);

/* Approximate number of steps between two calls of `lua_work`. */
#define WORK_BATCH 512
/* Number of bytes that are copied, compared or searched at once, and number of bytes per step. */
#define WORK_PART ((size_t)8192)
#define WORK_BYTES 16
/* Smallest number of steps that is counted at the end of a function. */
#define WORK_TRIFLE 64

/* Counts steps until they are worth a call of `lua_work`. */
typedef struct Meter {
  lua_State *L;
  size_t steps;
} Meter;

static inline void meter_flush (Meter *meter) {
  size_t steps = meter->steps;
  meter->steps = 0;
  lua_work(meter->L, steps);
}

/* Counts steps; may raise an error, so that the caller may hold no memory but Lua's. */
static inline void meter_add (Meter *meter, size_t steps) {
  meter->steps += steps;
  if (meter->steps >= WORK_BATCH) meter_flush(meter);
}

/* Counts bytes that are copied or searched. */
static inline void meter_bytes (Meter *meter, size_t bytes) {
  meter_add(meter, bytes / WORK_BYTES + 1);
}

/* Counts the remaining steps at the end of a function. */
static inline void meter_end (Meter *meter) {
  if (meter->steps >= WORK_TRIFLE) meter_flush(meter);
}

#endif
