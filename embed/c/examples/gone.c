/* A peer that is killed: what was to come from it is over with an error that names it, and its number
 * may be given to another.
 *
 *     ./gone
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEATS = 2, TAG = 3 };

/* Says hello to the parent, and dies. */
static void child(int from_parent)
{
    char address[TAFFRAIL_ADDRESS_SIZE];
    uint32_t parent;
    taffrail_t *t;
    CHECK(taffrail_open(TAFFRAIL_VERSION, SEATS, NULL, &t));
    EXPECT(read(from_parent, address, sizeof address) == (ssize_t)sizeof address);
    CHECK(taffrail_connect(t, address, &parent));
    CHECK(taffrail_send(t, parent, TAG, "hello", 5, NULL));
    /* Until the parent has it. */
    CHECK(taffrail_recv(t, parent, TAG, 0, NULL, 0, NULL, NULL));
    raise(SIGKILL);
}

int main(void)
{
    int down[2];
    EXPECT(pipe(down) == 0);
    for (int life = 0; life < 2; life++) {
        static taffrail_t *t;
        char own[TAFFRAIL_ADDRESS_SIZE] = "", text[8];
        taffrail_status_t status;
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0)
            child(down[0]);
        if (life == 0)
            CHECK(taffrail_open(TAFFRAIL_VERSION, SEATS, NULL, &t));
        CHECK(taffrail_address(t, taffrail_rank(t), own));
        EXPECT(write(down[1], own, sizeof own) == (ssize_t)sizeof own);

        CHECK(taffrail_recv(t, TAFFRAIL_ANY_SOURCE, TAG, 0, text, sizeof text, NULL, &status));
        uint32_t peer = status.source;
        EXPECT(status.len == 5 && memcmp(text, "hello", 5) == 0);
        EXPECT(taffrail_forget(t, peer) == TAFFRAIL_PENDING);
        CHECK(taffrail_send(t, peer, TAG, NULL, 0, NULL));

        int code = taffrail_recv(t, peer, TAG, 0, text, sizeof text, NULL, &status);
        EXPECT(code == TAFFRAIL_ERROR_PEER && status.source == peer);
        printf("%s: %s\n", taffrail_strerror(code), taffrail_last_error());
        /* There is one seat for others: the next child gets it. */
        CHECK(taffrail_forget(t, peer));
        EXPECT(waitpid(pid, NULL, 0) == pid);
        if (life == 1)
            CHECK(taffrail_close(t));
    }
    return 0;
}
