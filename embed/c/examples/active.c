/* A counter at rank 0 that the others add to with active messages; what it was comes back by one.
 *
 *     taffrail run -n 3 ./active
 */
#include "check.h"

enum { ADD = 1, WAS = 2, TIMES = 50 };

struct counter {
    uint64_t value, calls;
};

/* At rank 0. A handler uses the endpoint that it is given. */
static void add(taffrail_t *t, const taffrail_am_t *message, void *argument)
{
    struct counter *counter = (struct counter *)argument;
    const unsigned char *payload = (const unsigned char *)message->payload;
    EXPECT(message->handler == ADD && message->len == 2 && payload[1] == 0xaa);
    CHECK(taffrail_send_am(t, message->source, WAS, counter->value, NULL, 0));
    counter->value += message->header * payload[0];
    counter->calls++;
}

/* At the others. */
static void was(taffrail_t *t, const taffrail_am_t *message, void *argument)
{
    struct counter *last = (struct counter *)argument;
    EXPECT(taffrail_rank(t) != 0 && message->source == 0 && message->len == 0);
    EXPECT(last->calls == 0 || message->header > last->value);
    last->value = message->header;
    last->calls++;
    /* The endpoint is in use by the call that runs this. */
    EXPECT(taffrail_close(t) == TAFFRAIL_ERROR_ARGUMENT);
}

int main(void)
{
    taffrail_t *t;
    struct counter counter = {0, 0};
    CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    uint32_t me = taffrail_rank(t), others = taffrail_size(t) - 1;
    CHECK(taffrail_on_am(t, ADD, add, &counter));
    CHECK(taffrail_on_am(t, WAS, was, &counter));
    CHECK(taffrail_barrier(t));

    if (me != 0) {
        unsigned char payload[2] = {2, 0xaa};
        for (int i = 0; i < TIMES; i++)
            CHECK(taffrail_send_am(t, 0, ADD, me, payload, sizeof payload));
    }
    uint64_t expected = TIMES * (uint64_t)(me == 0 ? others : 1);
    while (counter.calls < expected)
        CHECK(taffrail_progress(t));
    CHECK(taffrail_barrier(t));

    if (me == 0) {
        EXPECT(counter.value == (uint64_t)TIMES * 2 * others * (others + 1) / 2);
        printf("counted to %lu\n", (unsigned long)counter.value);
    }
    CHECK(taffrail_close(t));
    return 0;
}
