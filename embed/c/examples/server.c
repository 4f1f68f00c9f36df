/* Rank 0 serves whoever asks: requests of any rank and length, of two kinds that their tags tell.
 *
 *     taffrail run -n 4 ./server
 */
#include "check.h"
#include <string.h>

enum {
    REQUEST = 0x100, /* the low eight bits are the kind */
    SUM = 1,
    LARGEST = 2,
    ANSWER = 0x200,
    REQUESTS = 10
};

static uint32_t answer(uint64_t kind, const unsigned char *bytes, size_t len)
{
    uint32_t sum = 0, largest = 0;
    for (size_t i = 0; i < len; i++) {
        sum += bytes[i];
        if (bytes[i] > largest)
            largest = bytes[i];
    }
    return kind == SUM ? sum : largest;
}

static void serve(taffrail_t *t)
{
    uint32_t left = (taffrail_size(t) - 1) * REQUESTS, served = 0;
    while (left > 0) {
        taffrail_status_t status;
        /* Only the kind may be anything. */
        int found = taffrail_probe(t, TAFFRAIL_ANY_SOURCE, REQUEST, 0xff, NULL, &status);
        CHECK(found);
        if (found == TAFFRAIL_PENDING)
            continue;
        unsigned char *bytes = (unsigned char *)malloc(status.len);
        EXPECT(bytes != NULL);
        CHECK(taffrail_recv(t, status.source, status.tag, 0, bytes, status.len, NULL, &status));

        /* The answer is a number beside a message without bytes. */
        taffrail_options_t beside;
        beside.fields = TAFFRAIL_OPTION_DATA;
        beside.data = answer(status.tag & 0xff, bytes, status.len);
        CHECK(taffrail_inject(t, status.source, ANSWER, NULL, 0, &beside));
        free(bytes);
        left--;
        served++;
    }
    printf("served %u requests\n", served);
}

static void ask(taffrail_t *t)
{
    uint32_t me = taffrail_rank(t);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        unsigned char bytes[1000];
        size_t len = 100 * i + me;
        memset(bytes, (int)(i + me), len);
        CHECK(taffrail_send(t, 0, REQUEST | (i % 2 ? SUM : LARGEST), bytes, len, NULL));

        taffrail_status_t status;
        CHECK(taffrail_recv(t, 0, ANSWER, 0, NULL, 0, NULL, &status));
        EXPECT(status.fields == TAFFRAIL_STATUS_DATA);
        EXPECT(status.data == (i % 2 ? (i + me) * (uint32_t)len : i + me));
    }
    printf("client %u: %d right answers\n", me, REQUESTS);
}

int main(void)
{
    taffrail_t *t;
    CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    if (taffrail_rank(t) == 0)
        serve(t);
    else
        ask(t);
    CHECK(taffrail_close(t));
    return 0;
}
