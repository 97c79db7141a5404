/*
** Compiling a text.
*/

#ifndef keylatch_chunk_h
#define keylatch_chunk_h

#include <stddef.h>

#include "lua.h"

/* The longest text that is compiled, in bytes: far below the number of characters that the compiler's counters hold
** (CVE-2025-46819). */
#define CHUNK_MAX ((size_t)256 << 20)

/*
** Compiles a text whose name is the string on the top, which it replaces by the function, or by the message of an error.
** Returns 0 or the status of the error. Compiled code is rejected: forged code could do anything to the program. The
** collector is stopped meanwhile, and the name stays on the stack (CVE-2025-49844). Needs four free slots.
*/
int chunk_load (lua_State *L, const char *text, size_t len);

/* The functions `load` and `loadstring`. */
int chunk_from_function (lua_State *L);
int chunk_from_string (lua_State *L);

#endif
