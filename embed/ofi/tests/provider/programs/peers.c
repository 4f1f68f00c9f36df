// Two processes: one waits in the kernel for the other's message, and the other is killed.
#include "common.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static struct world w;
static struct fid_ep *ep;
static int from, to;

static void child(void) {
    struct fi_cq_tagged_entry entry;
    char word[8];
    open_world(&w, FI_THREAD_SAFE, FI_WAIT_FD);
    ep = open_endpoint(&w, 0);
    fi_addr_t parent = meet(&w, ep, from, to);
    IS(fi_trecv(ep, word, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    IS(fi_cq_sread(w.cq, &entry, 1, NULL, -1), 1);
    usleep(200000);
    IS(fi_tinject(ep, "pong", 5, parent, 2), 0);
    for (;;) fi_cq_sread(w.cq, &entry, 1, NULL, -1);
}

// Waits as a program does that polls descriptors of its own.
static void wait_by_poll(void) {
    struct fi_cq_tagged_entry entry;
    struct fid *fid = &w.cq->fid;
    double end = now() + 60;
    int fd;
    IS(fi_control(fid, FI_GETWAIT, &fd), 0);
    while (fi_cq_read(w.cq, &entry, 1) == -FI_EAGAIN) {
        CHECK(now() < end);
        if (fi_trywait(w.fabric, &fid, 1) == 0) {
            struct pollfd one = {.fd = fd, .events = POLLIN};
            poll(&one, 1, 1000);
        }
    }
}

int main(void) {
    int down[2], up[2];
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t pid = fork();
    from = pid ? up[0] : down[0];
    to = pid ? down[1] : up[1];
    if (pid == 0) child();
    open_world(&w, FI_THREAD_SAFE, FI_WAIT_FD);
    ep = open_endpoint(&w, 0);
    fi_addr_t peer = meet(&w, ep, from, to);
    char in[8], named[8], anybody[8];
    struct fi_cq_tagged_entry entry;
    IS(fi_cq_sread(w.cq, &entry, 1, NULL, 20), -FI_EAGAIN);
    IS(fi_trecv(ep, in, 8, NULL, FI_ADDR_UNSPEC, 2, 0, in), 0);
    IS(fi_tinject(ep, "ping", 5, peer, 1), 0);
    wait_by_poll();
    CHECK(strcmp(in, "pong") == 0);

    IS(fi_trecv(ep, named, 8, NULL, peer, 3, 0, named), 0);
    IS(fi_trecv(ep, anybody, 8, NULL, FI_ADDR_UNSPEC, 4, 0, anybody), 0);
    IS(kill(pid, SIGKILL), 0);
    IS(waitpid(pid, NULL, 0), pid);
    // Who waits for the dead is told, and who waits for anybody waits on.
    struct fi_cq_err_entry error = next_failure(&w);
    CHECK(error.op_context == named);
    IS(error.err, FI_ECONNRESET);
    nothing(&w);
    // Injected messages go nowhere and say nothing, other operations fail in the queue.
    for (int i = 0; i < 100; i++) IS(fi_tinject(ep, "ping", 5, peer, 1), 0);
    IS(fi_tsend(ep, in, 8, NULL, peer, 1, in), 0);
    error = next_failure(&w);
    CHECK(error.op_context == in);
    IS(error.err, FI_ECONNRESET);
    nothing(&w);
    IS(fi_cancel(&ep->fid, anybody), 0);
    error = next_failure(&w);
    CHECK(error.op_context == anybody);
    IS(error.err, FI_ECANCELED);
    IS(fi_close(&ep->fid), 0);
    close_world(&w);
    puts("the end of a peer is told as it should");
    return 0;
}
