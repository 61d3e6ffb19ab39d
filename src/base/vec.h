/*
 * A growable array. `struct { T *items; size_t count, room; }` declared with VEC(T); the owner
 * frees it with vec_free. Running out of memory ends the process with a line on stderr: only
 * offline code uses this, never the runtime.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <stddef.h>
#include <stdlib.h>

#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *items;                                                                                  \
        size_t count, room;                                                                        \
    }

/* Memory that cannot be had is not an error that anyone could handle better than by stopping. */
void *must_realloc(void *old, size_t count, size_t size);
void *must_calloc(size_t count, size_t size);
char *must_strdup(const char *text);
char *must_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define vec_reserve(v, n)                                                                          \
    do {                                                                                           \
        if ((v)->room < (n)) {                                                                     \
            size_t room_ = (v)->room ? (v)->room * 2 : 16;                                         \
            while (room_ < (n))                                                                    \
                room_ *= 2;                                                                        \
            (v)->items = must_realloc((v)->items, room_, sizeof *(v)->items);                      \
            (v)->room = room_;                                                                     \
        }                                                                                          \
    } while (0)

#define vec_push(v, ...)                                                                           \
    do {                                                                                           \
        vec_reserve((v), (v)->count + 1);                                                          \
        (v)->items[(v)->count++] = (__VA_ARGS__);                                                  \
    } while (0)

#define vec_free(v)                                                                                \
    do {                                                                                           \
        free((v)->items);                                                                          \
        (v)->items = NULL;                                                                         \
        (v)->count = (v)->room = 0;                                                                \
    } while (0)

#endif
