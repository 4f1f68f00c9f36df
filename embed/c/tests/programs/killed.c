/* Rank 0 takes words of all others as they come, in three ways that leave the order to chance, and
 * answers each with what it has so far. The rank that is named kills itself once, half-way.
 *
 *     killed MARKER RANK join|open
 */
#define _POSIX_C_SOURCE 200809L
#include "../../examples/check.h"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { WORD = 1, SO_FAR = 2, ROUNDS = 40 };

static void die_once(const char *marker)
{
    int fd = open(marker, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd >= 0)
        raise(SIGKILL);
}

/* By probing until something is there. */
static uint64_t probed(taffrail_t *t, uint32_t *source)
{
    uint64_t word;
    taffrail_status_t status;
    int code;
    while ((code = taffrail_probe(t, TAFFRAIL_ANY_SOURCE, WORD, 0, NULL, &status)) == TAFFRAIL_PENDING)
        ;
    CHECK(code);
    CHECK(taffrail_recv(t, status.source, WORD, 0, &word, sizeof word, NULL, NULL));
    *source = status.source;
    return word;
}

/* By asking for a receive until it is over. */
static uint64_t tested(taffrail_t *t, uint32_t *source)
{
    uint64_t word;
    taffrail_status_t status;
    taffrail_request_t receive;
    int code;
    CHECK(taffrail_irecv(t, TAFFRAIL_ANY_SOURCE, WORD, 0, &word, sizeof word, NULL, &receive));
    while ((code = taffrail_test(t, receive, &status)) == TAFFRAIL_PENDING)
        ;
    CHECK(code);
    *source = status.source;
    return word;
}

/* By being told that a receive is over. */
static uint64_t told(taffrail_t *t, uint32_t *source)
{
    uint64_t word;
    taffrail_status_t status;
    taffrail_request_t receive;
    taffrail_options_t report;
    int code;
    report.fields = TAFFRAIL_OPTION_REPORT;
    CHECK(taffrail_irecv(t, TAFFRAIL_ANY_SOURCE, WORD, 0, &word, sizeof word, &report, &receive));
    while ((code = taffrail_next_ended(t, &receive, &status)) == TAFFRAIL_PENDING)
        ;
    CHECK(code);
    EXPECT(status.code == TAFFRAIL_OK);
    *source = status.source;
    return word;
}

int main(int argc, char **argv)
{
    taffrail_t *t;
    EXPECT(argc == 4);
    /* Where messages are logged, an endpoint that is opened is a rank of the launcher's job, too. */
    if (argv[3][0] == 'j')
        CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    else
        CHECK(taffrail_open(TAFFRAIL_VERSION, 16, NULL, &t));
    uint32_t me = taffrail_rank(t), others = taffrail_size(t) - 1, victim = (uint32_t)atoi(argv[2]);
    uint64_t sum = 0;
    if (me == 0) {
        for (uint32_t i = 0; i < ROUNDS * others; i++) {
            uint32_t source;
            sum += i % 3 == 0 ? probed(t, &source) : i % 3 == 1 ? tested(t, &source) : told(t, &source);
            CHECK(taffrail_send(t, source, SO_FAR, &sum, sizeof sum, NULL));
            if (victim == 0 && i == ROUNDS * others / 2)
                die_once(argv[1]);
        }
    } else {
        for (uint64_t i = 0; i < ROUNDS; i++) {
            uint64_t word = me * 1000 + i, so_far;
            CHECK(taffrail_send(t, 0, WORD, &word, sizeof word, NULL));
            CHECK(taffrail_recv(t, 0, SO_FAR, 0, &so_far, sizeof so_far, NULL, NULL));
            EXPECT(so_far >= sum + word);
            sum = so_far;
            if (victim == me && i == ROUNDS / 2)
                die_once(argv[1]);
        }
    }
    CHECK(taffrail_barrier(t));
    if (me == 0)
        printf("%lu\n", (unsigned long)sum);
    CHECK(taffrail_close(t));
    return 0;
}
