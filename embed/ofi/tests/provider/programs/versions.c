// Two processes, the other one with the provider in the folder that is the argument. Each sends to the
// other, and is told that it is refused.
#include "common.h"
#include <sys/wait.h>
#include <unistd.h>

static struct world w;
static struct fid_ep *ep;

static void refused(int from, int to) {
    char mine[ADDRESS], theirs[ADDRESS], in[8], byte = 0;
    size_t len = sizeof mine;
    fi_addr_t peer;
    open_world(&w, FI_THREAD_DOMAIN, FI_WAIT_NONE);
    ep = open_endpoint(&w, 0);
    IS(fi_getname(&ep->fid, mine, &len), 0);
    IS(write(to, mine, sizeof mine), sizeof mine);
    IS(read(from, theirs, sizeof theirs), sizeof theirs);
    IS(fi_av_insert(w.av, theirs, 1, &peer, 0, NULL), 1);
    IS(fi_trecv(ep, in, sizeof in, NULL, peer, 1, 0, in), 0);
    IS(fi_tsend(ep, in, sizeof in, NULL, peer, 1, mine), 0);
    for (int i = 0; i < 2; i++) {
        struct fi_cq_err_entry error = next_failure(&w);
        IS(error.err, FI_ECONNRESET);
        CHECK(error.op_context == in || error.op_context == mine);
    }
    // Neither goes before the other has been told.
    IS(write(to, &byte, 1), 1);
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
