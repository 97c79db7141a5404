/*
** Work that native functions do. Executed instructions are counted to interrupt a script; a native function that works
** for long counts its steps, so that it can be interrupted like them.
*/

#ifndef keylatch_work_h
#define keylatch_work_h

#include <stddef.h>

#include "lua.h"

/* Counts work of a native function as executed instructions. Raises an error when the script must end. */
void lua_work (lua_State *L, size_t units);

/* How many steps are done between two calls of `lua_work`, about. */
#define WORK_BATCH 512
/* How many bytes are copied, compared or searched at once, and how many of them are a step. */
#define WORK_PART ((size_t)8192)
#define WORK_BYTES 16
/* The least number of steps that is counted at the end of a function. */
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

/* Counts steps; may raise an error, so that no memory may be held but Lua's. */
static inline void meter_add (Meter *meter, size_t steps) {
  meter->steps += steps;
  if (meter->steps >= WORK_BATCH) meter_flush(meter);
}

/* Counts bytes that are copied or searched. */
static inline void meter_bytes (Meter *meter, size_t bytes) {
  meter_add(meter, bytes / WORK_BYTES + 1);
}

/* Counts what is left at the end of a function. */
static inline void meter_end (Meter *meter) {
  if (meter->steps >= WORK_TRIFLE) meter_flush(meter);
}

#endif
