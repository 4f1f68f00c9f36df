/* Two ranks send messages of growing length there and back.
 *
 *     taffrail run -n 2 ./pingpong
 */
#include "check.h"
#include <string.h>

enum { TAG = 7, ROUNDS = 20 };

int main(void)
{
    static const size_t lengths[] = {0, 8, 300, 4096, 100000, 2000000};
    taffrail_t *t;
    CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    EXPECT(taffrail_size(t) == 2);
    uint32_t me = taffrail_rank(t), other = 1 - me;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t len = lengths[i];
        unsigned char *data = (unsigned char *)malloc(len + 1);
        EXPECT(data != NULL);
        for (int round = 0; round < ROUNDS; round++) {
            taffrail_status_t status;
            unsigned char mark = (unsigned char)(round + 1);
            if (me == 0) {
                memset(data, mark, len);
                CHECK(taffrail_send(t, other, TAG, data, len, NULL));
                memset(data, 0, len);
            }
            CHECK(taffrail_recv(t, other, TAG, 0, data, len, NULL, &status));
            EXPECT(status.source == other && status.tag == TAG && status.len == len);
            EXPECT(len == 0 || (data[0] == mark && data[len - 1] == mark));
            if (me == 1)
                CHECK(taffrail_send(t, other, TAG, data, len, NULL));
        }
        if (me == 0)
            printf("%lu bytes: %d round trips\n", (unsigned long)len, ROUNDS);
        free(data);
    }
    CHECK(taffrail_close(t));
    return 0;
}
