/* 8 bytes there and back between two endpoints of one process, through the C library:
 *
 *     library ROUNDS
 *
 * One thread does all of it, so that it is the same instructions in every run. Messages that go there are
 * sent and received by blocking calls, those that come back are started and then tested for. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <taffrail.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "library: line %d: %s: %s\n", __LINE__, #what,     \
                    taffrail_last_error());                                    \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

enum { THERE = 1, BACK = 2 };

static taffrail_t *open_end(char address[TAFFRAIL_ADDRESS_SIZE])
{
    taffrail_t *t;
    CHECK(taffrail_open(TAFFRAIL_VERSION, 8, NULL, &t) == TAFFRAIL_OK);
    CHECK(taffrail_address(t, taffrail_rank(t), address) == TAFFRAIL_OK);
    return t;
}

/* Whether an operation is over. */
static int over(taffrail_t *t, taffrail_request_t request, taffrail_status_t *status)
{
    taffrail_code_t code = taffrail_test(t, request, status);
    CHECK(code == TAFFRAIL_OK || code == TAFFRAIL_PENDING);
    return code == TAFFRAIL_OK;
}

/* Both make progress until the first message has been received. */
static uint32_t meet(taffrail_t *a, taffrail_t *b, uint32_t to_b)
{
    taffrail_request_t send, receive;
    taffrail_status_t status;
    CHECK(taffrail_irecv(b, TAFFRAIL_ANY_SOURCE, THERE, 0, NULL, 0, NULL, &receive) == TAFFRAIL_OK);
    CHECK(taffrail_isend(a, to_b, THERE, NULL, 0, NULL, &send) == TAFFRAIL_OK);
    while (!over(b, receive, &status))
        taffrail_progress(a);
    while (!over(a, send, NULL))
        taffrail_progress(b);
    return status.source;
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    char of_a[TAFFRAIL_ADDRESS_SIZE], of_b[TAFFRAIL_ADDRESS_SIZE];
    taffrail_t *a = open_end(of_a), *b = open_end(of_b);
    uint32_t to_a, to_b;
    CHECK(taffrail_connect(a, of_b, &to_b) == TAFFRAIL_OK);
    to_a = meet(a, b, to_b);
    for (uint64_t i = 1; i <= rounds; i++) {
        uint64_t there = 0, back = 0;
        taffrail_request_t receive;
        CHECK(taffrail_send(a, to_b, THERE, &i, 8, NULL) == TAFFRAIL_OK);
        CHECK(taffrail_recv(b, to_a, THERE, 0, &there, 8, NULL, NULL) == TAFFRAIL_OK);
        CHECK(there == i);
        CHECK(taffrail_irecv(a, to_b, BACK, 0, &back, 8, NULL, &receive) == TAFFRAIL_OK);
        CHECK(taffrail_inject(b, to_a, BACK, &there, 8, NULL) == TAFFRAIL_OK);
        while (!over(a, receive, NULL)) {}
        CHECK(back == i);
    }
    CHECK(taffrail_close(a) == TAFFRAIL_OK);
    CHECK(taffrail_close(b) == TAFFRAIL_OK);
    return 0;
}
