/* Rank 0 has a table; each rank writes its row of it, and reads that of its neighbour, without help of
 * rank 0. The table once is memory of the program, and once a buffer of the library.
 *
 *     taffrail run -n 3 ./onesided
 */
#include "check.h"
#include <string.h>

enum { ROW = 5000, KEY = 1 };

static void fill(unsigned char *row, uint32_t rank)
{
    for (int i = 0; i < ROW; i++)
        row[i] = (unsigned char)(i * 3 + (int)rank * 7 + 1);
}

/* Each rank gets a key from rank 0, and uses it. */
static void use(taffrail_t *t, const taffrail_key_t *key)
{
    unsigned char mine[ROW], expected[ROW], row[ROW];
    uint32_t me = taffrail_rank(t), next = (me + 1) % taffrail_size(t);
    fill(mine, me);
    fill(expected, next);

    /* One half in one call, the other in the background. */
    taffrail_request_t request;
    CHECK(taffrail_put(t, 0, key, (uint64_t)me * ROW, mine, ROW / 2));
    CHECK(taffrail_iput(t, 0, key, (uint64_t)me * ROW + ROW / 2, mine + ROW / 2, ROW / 2, &request));
    CHECK(taffrail_wait(t, request, NULL));
    CHECK(taffrail_barrier(t));

    CHECK(taffrail_get(t, 0, key, (uint64_t)next * ROW, row, ROW / 2));
    CHECK(taffrail_iget(t, 0, key, (uint64_t)next * ROW + ROW / 2, row + ROW / 2, ROW / 2, &request));
    CHECK(taffrail_wait(t, request, NULL));
    EXPECT(memcmp(row, expected, ROW) == 0);

    /* Beyond the end there is nothing to be read. */
    uint64_t end = (uint64_t)taffrail_size(t) * ROW;
    EXPECT(taffrail_get(t, 0, key, end - 1, row, 2) == TAFFRAIL_ERROR_MEMORY);
    CHECK(taffrail_barrier(t));
}

static void hand_out(taffrail_t *t, uint32_t region, const taffrail_buffer_t *buffer)
{
    taffrail_key_t key, own;
    for (uint32_t rank = 0; rank < taffrail_size(t); rank++) {
        if (buffer != NULL)
            CHECK(taffrail_buffer_key(t, rank, buffer, &key));
        else
            CHECK(taffrail_key(t, rank, region, &key));
        if (rank == 0)
            own = key;
        else
            CHECK(taffrail_send(t, rank, KEY, &key, sizeof key, NULL));
    }
    use(t, &own);
}

int main(void)
{
    taffrail_t *t;
    CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    uint32_t size = taffrail_size(t);
    if (taffrail_rank(t) == 0) {
        size_t len = (size_t)size * ROW;
        unsigned char *table = (unsigned char *)calloc(size, ROW);
        uint32_t region;
        EXPECT(table != NULL);
        CHECK(taffrail_register(t, table, len, &region));
        hand_out(t, region, NULL);
        CHECK(taffrail_deregister(t, region));
        EXPECT(taffrail_deregister(t, region) == TAFFRAIL_ERROR_MEMORY);

        taffrail_buffer_t *buffer;
        CHECK(taffrail_alloc(t, len, &buffer));
        hand_out(t, 0, buffer);
        EXPECT(memcmp(taffrail_buffer_bytes(buffer, NULL), table, len) == 0);
        CHECK(taffrail_buffer_free(buffer));
        free(table);
    } else {
        for (int i = 0; i < 2; i++) {
            taffrail_key_t key;
            CHECK(taffrail_recv(t, 0, KEY, 0, &key, sizeof key, NULL, NULL));
            use(t, &key);
        }
    }
    printf("rank %u has read its neighbour's rows\n", taffrail_rank(t));
    CHECK(taffrail_close(t));
    return 0;
}
