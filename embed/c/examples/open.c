/* Two processes that no launcher has started: each opens an endpoint, and they tell each other their
 * addresses over pipes. Any other way would do.
 *
 *     ./open
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEATS = 8, TAG = 3 };

static taffrail_t *endpoint(int to_other, char address[TAFFRAIL_ADDRESS_SIZE])
{
    taffrail_t *t;
    CHECK(taffrail_open(TAFFRAIL_VERSION, SEATS, NULL, &t));
    CHECK(taffrail_address(t, taffrail_rank(t), address));
    EXPECT(write(to_other, address, TAFFRAIL_ADDRESS_SIZE) == TAFFRAIL_ADDRESS_SIZE);
    return t;
}

/* Calls the child by its address. */
static void parent(int from_child, int to_child)
{
    char own[TAFFRAIL_ADDRESS_SIZE] = "", address[TAFFRAIL_ADDRESS_SIZE], text[32];
    taffrail_t *t = endpoint(to_child, own);
    uint32_t child, again;
    taffrail_status_t status;
    EXPECT(read(from_child, address, sizeof address) == (ssize_t)sizeof address);
    CHECK(taffrail_connect(t, address, &child));
    CHECK(taffrail_connect(t, address, &again));
    EXPECT(child == again && child != taffrail_rank(t));
    CHECK(taffrail_send(t, child, TAG, "ahoy", 4, NULL));
    CHECK(taffrail_recv(t, child, TAG, 0, text, sizeof text, NULL, &status));
    printf("the child answers: %.*s\n", (int)status.len, text);
    taffrail_options_t options;
    options.fields = TAFFRAIL_OPTION_CONTEXT;
    options.context = 9;
    EXPECT(taffrail_send(t, child, TAG, "ahoy", 4, &options) == TAFFRAIL_ERROR_ARGUMENT);
    EXPECT(taffrail_connect(t, "no address", &child) == TAFFRAIL_ERROR_UNREACHABLE);
    CHECK(taffrail_close(t));
}

/* Waits for whoever comes, and looks who it is. */
static void child(int from_parent, int to_parent)
{
    char own[TAFFRAIL_ADDRESS_SIZE] = "", address[TAFFRAIL_ADDRESS_SIZE];
    char who[TAFFRAIL_ADDRESS_SIZE], text[32];
    taffrail_t *t = endpoint(to_parent, own);
    taffrail_status_t status;
    EXPECT(read(from_parent, address, sizeof address) == (ssize_t)sizeof address);
    CHECK(taffrail_recv(t, TAFFRAIL_ANY_SOURCE, TAG, 0, text, sizeof text, NULL, &status));
    CHECK(taffrail_address(t, status.source, who));
    EXPECT(strcmp(who, address) == 0);
    int len = sprintf(who, "%.*s yourself", (int)status.len, text);
    CHECK(taffrail_send(t, status.source, TAG, who, (size_t)len, NULL));
    CHECK(taffrail_close(t));
}

int main(void)
{
    int down[2], up[2], ended;
    EXPECT(pipe(down) == 0 && pipe(up) == 0);
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        child(down[0], up[1]);
        return 0;
    }
    parent(up[0], down[1]);
    EXPECT(waitpid(pid, &ended, 0) == pid && ended == 0);
    return 0;
}
