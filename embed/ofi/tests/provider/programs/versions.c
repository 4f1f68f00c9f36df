// Two processes, the other one with the provider in the folder that is the argument. Each sends to the
// other, and is told that it is refused.
#include "common.h"
#include <poll.h>
#include <sys/wait.h>

static struct world w;
static struct fid_ep *ep;

static void refused(int from, int to) {
    char in[8], out[8] = {0}, byte = 0;
    struct pollfd go = {.fd = from, .events = POLLIN};
    struct fi_cq_tagged_entry none;
    open_world(&w, FI_THREAD_DOMAIN, FI_WAIT_NONE);
    ep = open_endpoint(&w, 0);
    fi_addr_t peer = meet(&w, ep, from, to);
    IS(fi_trecv(ep, in, sizeof in, NULL, peer, 1, 0, in), 0);
    IS(fi_tsend(ep, out, sizeof out, NULL, peer, 1, out), 0);
    for (int i = 0; i < 2; i++) {
        struct fi_cq_err_entry error = next_failure(&w);
        IS(error.err, FI_ECONNRESET);
        CHECK(error.op_context == in || error.op_context == out);
    }
    // Neither goes before the other has been told, by whoever still makes progress.
    IS(write(to, &byte, 1), 1);
    while (poll(&go, 1, 0) == 0) IS(fi_cq_read(w.cq, &none, 1), -FI_EAGAIN);
    IS(read(from, &byte, 1), 1);
    IS(fi_close(&ep->fid), 0);
    close_world(&w);
}

int main(int argc, char **argv) {
    int down[2], up[2], status;
    CHECK(argc == 2 && pipe(down) == 0 && pipe(up) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(setenv("FI_PROVIDER_PATH", argv[1], 1) == 0);
        refused(down[0], up[1]);
        return 0;
    }
    refused(up[0], down[1]);
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    puts("both were told");
    return 0;
}
