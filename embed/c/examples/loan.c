/* A long message goes round without being copied: each rank hands on a buffer, and looks at the one that
 * it gets in place.
 *
 *     taffrail run -n 2 ./loan
 */
#include "check.h"

enum { LEN = 3000000, TAG = 5, ROUNDS = 4 };

int main(void)
{
    taffrail_t *t;
    CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    uint32_t me = taffrail_rank(t), size = taffrail_size(t);
    uint32_t next = (me + 1) % size, previous = (me + size - 1) % size;

    for (unsigned round = 0; round < ROUNDS; round++) {
        taffrail_buffer_t *buffer;
        size_t len;
        CHECK(taffrail_alloc(t, LEN, &buffer));
        unsigned char *bytes = (unsigned char *)taffrail_buffer_bytes(buffer, &len);
        EXPECT(len == LEN);
        EXPECT(taffrail_buffer_truncate(buffer, LEN + 1) == TAFFRAIL_ERROR_ARGUMENT);
        CHECK(taffrail_buffer_truncate(buffer, LEN - round));
        bytes[0] = (unsigned char)(me + 1);
        bytes[LEN - round - 1] = (unsigned char)(100 + round);
        /* From here on the buffer is not ours. */
        CHECK(taffrail_loan(t, next, TAG, buffer, NULL));

        taffrail_view_t *view;
        taffrail_status_t status;
        CHECK(taffrail_recv_view(t, previous, TAG, 0, NULL, &view, &status));
        const unsigned char *seen = (const unsigned char *)taffrail_view_bytes(view, &len);
        EXPECT(taffrail_view_is_loan(view) && len == LEN - round && status.len == len);
        EXPECT(seen[0] == previous + 1 && seen[len - 1] == 100 + round);
        CHECK(taffrail_view_free(view));
    }
    printf("rank %u: %d loans\n", me, ROUNDS);
    CHECK(taffrail_barrier(t));
    CHECK(taffrail_close(t));
    return 0;
}
