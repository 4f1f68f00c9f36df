/* Operations that are started and asked for later: gathered and scattered, synchronous, cancelled,
 * claimed, many into one buffer, told in the order in which they end, and with callbacks. By itself, in a
 * job of one.
 *
 *     ./requests
 */
#include "check.h"
#include <string.h>

enum { ME = 0 };

static void gathered_and_scattered(taffrail_t *t)
{
    char head[] = "head", body[] = "body", first[1], rest[7];
    struct iovec out[3] = {{head, 4}, {NULL, 0}, {body, 4}}, in[2] = {{first, 1}, {rest, 7}};
    taffrail_request_t requests[2];
    taffrail_status_t statuses[2];
    CHECK(taffrail_irecvv(t, ME, 1, 0, in, 2, NULL, &requests[0]));
    CHECK(taffrail_isendv(t, ME, 1, out, 3, NULL, &requests[1]));
    CHECK(taffrail_wait_all(t, requests, 2, statuses));
    EXPECT(statuses[0].len == 8 && first[0] == 'h' && memcmp(rest, "eadbody", 7) == 0);
    /* A request is used up by its result. */
    EXPECT(taffrail_test(t, requests[0], NULL) == TAFFRAIL_ERROR_STALE_REQUEST);
    puts("gathered and scattered");
}

static void synchronous(taffrail_t *t)
{
    char into[8];
    taffrail_options_t options;
    taffrail_request_t send;
    options.fields = TAFFRAIL_OPTION_SYNC | TAFFRAIL_OPTION_CONTEXT;
    options.context = 9;
    CHECK(taffrail_isend(t, ME, 2, "sync", 4, &options, &send));
    EXPECT(taffrail_test(t, send, NULL) == TAFFRAIL_PENDING);
    /* In another context there is no such message. */
    EXPECT(taffrail_probe(t, ME, 2, 0, NULL, NULL) == TAFFRAIL_PENDING);
    options.fields = TAFFRAIL_OPTION_CONTEXT;
    CHECK(taffrail_recv(t, ME, 2, 0, into, sizeof into, &options, NULL));
    CHECK(taffrail_wait(t, send, NULL));
    puts("synchronous");
}

static void cancelled(taffrail_t *t)
{
    char into[8];
    taffrail_request_t receive;
    taffrail_status_t status;
    CHECK(taffrail_irecv(t, TAFFRAIL_ANY_SOURCE, 3, 0, into, sizeof into, NULL, &receive));
    EXPECT(taffrail_cancel(t, receive) == TAFFRAIL_OK);
    EXPECT(taffrail_wait(t, receive, &status) == TAFFRAIL_ERROR_CANCELLED);
    EXPECT(status.code == TAFFRAIL_ERROR_CANCELLED && status.source == TAFFRAIL_ANY_SOURCE);
    puts("cancelled");
}

static void claimed(taffrail_t *t)
{
    char into[8];
    taffrail_message_t *message, *other;
    taffrail_status_t status;
    taffrail_request_t receive;
    CHECK(taffrail_send(t, ME, 4, "one", 3, NULL));
    CHECK(taffrail_send(t, ME, 4, "two", 3, NULL));
    CHECK(taffrail_send(t, ME, 4, "three", 5, NULL));
    EXPECT(taffrail_claim(t, ME, 4, 0, NULL, &message, &status) == TAFFRAIL_OK && status.len == 3);
    EXPECT(taffrail_claim(t, ME, 4, 0, NULL, &other, NULL) == TAFFRAIL_OK);
    CHECK(taffrail_discard(other));
    CHECK(taffrail_recv_message(t, message, into, sizeof into, &status));
    EXPECT(memcmp(into, "one", 3) == 0);
    CHECK(taffrail_claim(t, TAFFRAIL_ANY_SOURCE, 0, UINT64_MAX, NULL, &message, NULL));
    CHECK(taffrail_irecv_message(t, message, into, sizeof into, NULL, &receive));
    CHECK(taffrail_wait(t, receive, &status));
    EXPECT(status.len == 5 && memcmp(into, "three", 5) == 0);
    EXPECT(taffrail_claim(t, ME, 4, 0, NULL, &message, NULL) == TAFFRAIL_PENDING && message == NULL);
    puts("claimed");
}

static void many_into_one(taffrail_t *t)
{
    char into[64], text[8];
    taffrail_request_t receive;
    taffrail_status_t status;
    CHECK(taffrail_irecv_multi(t, ME, 0, UINT64_MAX, into, sizeof into, 56, NULL, &receive));
    for (int i = 0; i < 2; i++) {
        int len = sprintf(text, "no. %d", i);
        CHECK(taffrail_send(t, ME, 10 + i, text, (size_t)len, NULL));
    }
    /* Fewer than 56 bytes are free. */
    CHECK(taffrail_wait(t, receive, NULL));
    for (uint64_t i = 0; i < 2; i++) {
        int len = sprintf(text, "no. %d", (int)i);
        EXPECT(taffrail_landed(t, receive, &status) == TAFFRAIL_OK);
        EXPECT(status.fields == TAFFRAIL_STATUS_OFFSET && status.tag == 10 + i);
        EXPECT(status.len == (size_t)len && memcmp(into + status.offset, text, status.len) == 0);
    }
    EXPECT(taffrail_landed(t, receive, &status) == TAFFRAIL_PENDING);
    puts("many into one");
}

static void first_of_several(taffrail_t *t)
{
    char a[8], b[2];
    taffrail_request_t open[2];
    taffrail_status_t status;
    size_t which;
    CHECK(taffrail_irecv(t, ME, 21, 0, a, sizeof a, NULL, &open[0]));
    CHECK(taffrail_irecv(t, ME, 22, 0, b, sizeof b, NULL, &open[1]));
    EXPECT(taffrail_test_any(t, open, 2, &which, NULL) == TAFFRAIL_PENDING && which == 2);
    CHECK(taffrail_send(t, ME, 22, "too long", 8, NULL));
    EXPECT(taffrail_wait_any(t, open, 2, &which, &status) == TAFFRAIL_ERROR_TRUNCATED);
    EXPECT(which == 1 && status.len == 8 && status.tag == 22 && memcmp(b, "to", 2) == 0);
    EXPECT(taffrail_wait_any(t, open, 2, &which, NULL) == TAFFRAIL_ERROR_STALE_REQUEST);
    EXPECT(which == 2);
    CHECK(taffrail_send(t, ME, 21, "fits", 4, NULL));
    EXPECT(taffrail_wait_any(t, open, 1, &which, &status) == TAFFRAIL_OK && which == 0);
    puts("first of several");
}

static void told_in_their_order(taffrail_t *t)
{
    enum { RECEIVES = 4 };
    char into[RECEIVES][4];
    int belongs[64];
    taffrail_options_t report;
    taffrail_request_t request;
    taffrail_status_t status;
    report.fields = TAFFRAIL_OPTION_REPORT;
    for (int i = 0; i < RECEIVES; i++) {
        CHECK(taffrail_irecv(t, ME, 30 + i, 0, into[i], 4, &report, &request));
        /* What belongs to a request is found by its index, which is small. */
        EXPECT(request.index < 64);
        belongs[request.index] = i;
    }
    EXPECT(taffrail_next_ended(t, &request, &status) == TAFFRAIL_PENDING);
    for (int i = RECEIVES - 1; i >= 0; i--)
        CHECK(taffrail_inject(t, ME, 30 + i, "told", i == 1 ? 5 : 4, NULL));
    for (int i = RECEIVES - 1; i >= 0; i--) {
        while (taffrail_next_ended(t, &request, &status) == TAFFRAIL_PENDING)
            ;
        EXPECT(belongs[request.index] == i && status.tag == (uint64_t)(30 + i));
        EXPECT(status.code == (i == 1 ? TAFFRAIL_ERROR_TRUNCATED : TAFFRAIL_OK));
        EXPECT(memcmp(into[i], "told", 4) == 0);
    }
    puts("told in their order");
}

struct counted {
    int ended, landed, next;
};

/* Starts the next send when one is over. */
static void go_on(taffrail_t *t, taffrail_request_t request, const taffrail_status_t *status,
                  void *argument)
{
    struct counted *counted = (struct counted *)argument;
    taffrail_options_t options;
    (void)request;
    EXPECT(status->code == TAFFRAIL_OK);
    if (status->fields & TAFFRAIL_STATUS_OFFSET) {
        counted->landed++;
        return;
    }
    counted->ended++;
    if (counted->next > 0) {
        counted->next--;
        options.fields = TAFFRAIL_OPTION_CALLBACK;
        options.callback = go_on;
        options.argument = argument;
        CHECK(taffrail_isend(t, ME, 41, "next one", 8, &options, &request));
    }
    EXPECT(taffrail_close(t) == TAFFRAIL_ERROR_ARGUMENT);
}

static void failed(taffrail_t *t, taffrail_request_t request, const taffrail_status_t *status,
                   void *argument)
{
    (void)t, (void)request;
    *(int *)argument = status->code;
}

static void with_callbacks(taffrail_t *t)
{
    enum { SENDS = 200 };
    char many[8 * SENDS], one[2], other[4];
    int code = 0;
    struct counted sends = {0, 0, SENDS - 1}, receive = {0, 0, 0};
    taffrail_options_t options;
    taffrail_request_t request, reported, told;
    taffrail_status_t status;
    options.fields = TAFFRAIL_OPTION_CALLBACK;
    options.callback = NULL;
    EXPECT(taffrail_isend(t, ME, 41, "next one", 8, &options, &request) == TAFFRAIL_ERROR_ARGUMENT);
    options.callback = go_on;
    options.argument = &receive;
    CHECK(taffrail_irecv_multi(t, ME, 41, 0, many, sizeof many, 8, &options, &request));
    options.argument = &sends;
    CHECK(taffrail_isend(t, ME, 41, "next one", 8, &options, &request));
    /* None runs inside of the call that starts it. */
    EXPECT(sends.ended == 0);
    /* One that is reported, in between. */
    options.fields = TAFFRAIL_OPTION_REPORT;
    CHECK(taffrail_irecv(t, ME, 42, 0, other, sizeof other, &options, &reported));
    CHECK(taffrail_send(t, ME, 42, "mine", 4, NULL));
    while (receive.ended == 0 || sends.ended < SENDS)
        EXPECT(taffrail_progress(t) >= 0);
    EXPECT(receive.landed == SENDS && memcmp(many + 8 * (SENDS - 1), "next one", 8) == 0);
    EXPECT(taffrail_next_ended(t, &told, &status) == TAFFRAIL_OK && told.index == reported.index);
    EXPECT(taffrail_next_ended(t, &told, &status) == TAFFRAIL_PENDING);
    /* Of an operation that runs already; it fails, and taffrail_next_ended() runs it. */
    CHECK(taffrail_irecv(t, ME, 43, 0, one, sizeof one, NULL, &request));
    EXPECT(taffrail_on_ended(t, request, NULL, NULL) == TAFFRAIL_ERROR_ARGUMENT);
    CHECK(taffrail_on_ended(t, request, failed, &code));
    CHECK(taffrail_send(t, ME, 43, "long", 4, NULL));
    while (code == 0)
        EXPECT(taffrail_next_ended(t, &told, &status) == TAFFRAIL_PENDING);
    EXPECT(code == TAFFRAIL_ERROR_TRUNCATED);
    EXPECT(taffrail_on_ended(t, request, failed, &code) == TAFFRAIL_ERROR_STALE_REQUEST);
    puts("with callbacks");
}

int main(void)
{
    taffrail_t *t;
    CHECK(taffrail_join(TAFFRAIL_VERSION, NULL, &t));
    EXPECT(taffrail_rank(t) == ME && taffrail_size(t) == 1);
    gathered_and_scattered(t);
    synchronous(t);
    cancelled(t);
    claimed(t);
    many_into_one(t);
    first_of_several(t);
    told_in_their_order(t);
    with_callbacks(t);
    CHECK(taffrail_close(t));
    return 0;
}
