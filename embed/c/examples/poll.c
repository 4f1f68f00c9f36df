/* An event loop that waits for messages and for other descriptors alike, here a pipe.
 *
 *     taffrail run -n 2 ./poll
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <poll.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 1, MESSAGES = 3 };

static void loop(taffrail_t *t, int other)
{
    struct pollfd fds[2] = {{taffrail_fd(t), POLLIN, 0}, {other, POLLIN, 0}};
    char byte, into[4];
    int received = 0, bytes = 0;
    taffrail_request_t receive;
    CHECK(fds[0].fd);
    CHECK(taffrail_irecv(t, 1, TAG, 0, into, sizeof into, NULL, &receive));
    while (received < MESSAGES || bytes == 0) {
        while (received < MESSAGES) {
            int code = taffrail_test(t, receive, NULL);
            CHECK(code);
            if (code == TAFFRAIL_PENDING)
                break;
            if (++received < MESSAGES)
                CHECK(taffrail_irecv(t, 1, TAG, 0, into, sizeof into, NULL, &receive));
        }
        if (received == MESSAGES && bytes > 0)
            break;
        /* Sleep only if nothing has come meanwhile. */
        int armed = taffrail_arm(t);
        CHECK(armed);
        if (armed == TAFFRAIL_READY)
            continue;
        EXPECT(poll(fds, 2, -1) > 0);
        if (fds[1].revents & POLLIN) {
            EXPECT(read(other, &byte, 1) == 1);
            bytes++;
        }
    }
    printf("%d messages and %d byte\n", received, bytes);
}

int main(void)
{
    taffrail_t *t;
    CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    if (taffrail_rank(t) == 0) {
        int ends[2];
        EXPECT(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
        loop(t, ends[0]);
    } else {
        struct timespec pause = {0, 50 * 1000 * 1000};
        for (int i = 0; i < MESSAGES; i++) {
            nanosleep(&pause, NULL);
            CHECK(taffrail_send(t, 0, TAG, "tick", 4, NULL));
        }
    }
    CHECK(taffrail_close(t));
    return 0;
}
