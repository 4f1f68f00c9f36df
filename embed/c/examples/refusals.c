/* What is refused, and what is said then. By itself, in a job of one.
 *
 *     ./refusals
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The code, and a part of the text that goes with it. */
static void refused(int code, int expected, const char *part)
{
    if (code != expected || strstr(taffrail_last_error(), part) == NULL) {
        fprintf(stderr, "%d (%s): %s\nexpected: %d with \"%s\"\n", code, taffrail_strerror(code),
                taffrail_last_error(), expected, part);
        exit(1);
    }
}

int main(void)
{
    taffrail_t *t = NULL;
    taffrail_params_t params;
    taffrail_options_t options;
    taffrail_request_t request = {1000, 7};
    uint32_t rank;
    char byte = 0;

    /* Nothing has failed yet. */
    EXPECT(strcmp(taffrail_last_error(), "") == 0);
    EXPECT(taffrail_version() == TAFFRAIL_VERSION);

    refused(taffrail_join(TAFFRAIL_VERSION + 0x100, NULL, &t), TAFFRAIL_ERROR_VERSION,
            "compiled with taffrail.h 0.2.0, and libtaffrail.so is 0.1.0");
    refused(taffrail_join(TAFFRAIL_VERSION, NULL, NULL), TAFFRAIL_ERROR_ARGUMENT, "null pointer");
    params.fields = UINT64_C(1) << 63;
    refused(taffrail_join(TAFFRAIL_VERSION, &params, &t), TAFFRAIL_ERROR_ARGUMENT, "params.fields");
    EXPECT(t == NULL);

    params.fields = TAFFRAIL_PARAM_EAGER_MAX | TAFFRAIL_PARAM_SPIN;
    params.eager_max = 1000;
    params.spin = 10;
    CHECK(taffrail_join(TAFFRAIL_VERSION, &params, &t));
    char *text = taffrail_explain(t);
    EXPECT(text != NULL && strlen(text) > 0);
    taffrail_free_text(text);

    refused(taffrail_send(t, 5, 0, &byte, 1, NULL), TAFFRAIL_ERROR_NO_SUCH_RANK, "no rank 5 in a job of 1");
    refused(taffrail_send(t, 0, 0, &byte, (size_t)-1, NULL), TAFFRAIL_ERROR_ARGUMENT, "negative");
    options.fields = TAFFRAIL_OPTION_SYNC | 0x1000;
    refused(taffrail_send(t, 0, 0, &byte, 1, &options), TAFFRAIL_ERROR_ARGUMENT, "0x1000");
    refused(taffrail_wait(t, request, NULL), TAFFRAIL_ERROR_STALE_REQUEST, "1000");
    refused(taffrail_cancel(t, request), TAFFRAIL_ERROR_STALE_REQUEST, "finished already");
    refused(taffrail_cancel(NULL, request), TAFFRAIL_ERROR_ARGUMENT, "the endpoint is a null pointer");
    refused(taffrail_probe(NULL, 0, 0, 0, NULL, NULL), TAFFRAIL_ERROR_ARGUMENT, "null pointer");
    refused(taffrail_on_am(t, 1, NULL, NULL), TAFFRAIL_ERROR_ARGUMENT, "the handler");
    refused(taffrail_connect(t, "elsewhere", &rank), TAFFRAIL_ERROR_UNREACHABLE, "elsewhere");
    refused(taffrail_wait_any(t, NULL, 0, NULL, NULL), TAFFRAIL_ERROR_ARGUMENT, "null pointer");
    refused(taffrail_get(t, 0, NULL, 0, &byte, 1), TAFFRAIL_ERROR_ARGUMENT, "the key");
    EXPECT(taffrail_explain(NULL) == NULL);
    EXPECT(taffrail_fd(NULL) == TAFFRAIL_ERROR_ARGUMENT);

    /* The child of a fork has no endpoint, but its parent's in its memory. */
    int ended;
    pid_t pid = fork();
    if (pid == 0) {
        refused(taffrail_send(t, 0, 0, &byte, 1, NULL), TAFFRAIL_ERROR_FORKED, "open one of your own");
        CHECK(taffrail_close(t));
        _exit(0);
    }
    EXPECT(waitpid(pid, &ended, 0) == pid && ended == 0);

    /* What is not there need not be freed. */
    CHECK(taffrail_buffer_free(NULL));
    CHECK(taffrail_view_free(NULL));
    CHECK(taffrail_discard(NULL));
    taffrail_free_text(NULL);

    /* Nothing is logged. */
    taffrail_counters_t counters;
    CHECK(taffrail_counters(t, &counters));
    EXPECT(counters.messages == 0);
    CHECK(taffrail_close(t));
    CHECK(taffrail_close(NULL));
    puts("refused what was to be refused");
    return 0;
}
