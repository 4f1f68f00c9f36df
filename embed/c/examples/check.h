/* What all examples do about errors: say what has happened, and end. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <taffrail.h>

#define CHECK(call) check((call), #call)

static inline void check(int code, const char *call)
{
    if (code >= 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, taffrail_strerror(code), taffrail_last_error());
    exit(1);
}

/* For what must be so. */
#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

#endif
