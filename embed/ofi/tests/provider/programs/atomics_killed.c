// Three processes add to a counter of this one, and one of them is killed; then a target is killed.
#include "common.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { CHILDREN = 3, PAIR = 2 };

static struct world w;
static struct fid_ep *ep;
// What each child has seen done, where its parent can look also when it is dead.
static volatile struct seen { uint64_t started, fetched, last; } *seen;

// Adds 1 to each of two numbers, which are equal at all times.
static void child(int from, int to, volatile struct seen *mine) {
    uint64_t ones[PAIR] = {1, 1}, before[PAIR], word = 0;
    struct fid_mr *mr;
    open_world(&w, FI_THREAD_DOMAIN, FI_WAIT_NONE);
    ep = open_endpoint(&w, 0);
    IS(fi_mr_reg(w.domain, &word, sizeof word, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL), 0);
    fi_addr_t parent = meet(&w, ep, from, to);
    for (;;) {
        mine->started++;
        IS(fi_fetch_atomic(ep, ones, PAIR, NULL, before, NULL, parent, 0, 5, FI_UINT64, FI_SUM, before), 0);
        CHECK(next(&w).op_context == before);
        IS(before[0], before[1]);
        CHECK(mine->fetched == 0 || before[0] > mine->last);
        mine->last = before[0];
        mine->fetched++;
    }
}

int main(void) {
    uint64_t pair[PAIR] = {0, 0}, one = 1, before;
    int up[CHILDREN][2], down[CHILDREN][2];
    pid_t pids[CHILDREN];
    fi_addr_t peers[CHILDREN];
    struct fid_mr *mr;
    size_t len = CHILDREN * sizeof *seen;
    seen = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(seen != MAP_FAILED);
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(pipe(up[i]) == 0 && pipe(down[i]) == 0);
        pids[i] = fork();
        if (pids[i] == 0) child(down[i][0], up[i][1], &seen[i]);
    }
    open_world(&w, FI_THREAD_DOMAIN, FI_WAIT_NONE);
    ep = open_endpoint(&w, 0);
    IS(fi_mr_reg(w.domain, pair, sizeof pair, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
    for (int i = 0; i < CHILDREN; i++) peers[i] = meet(&w, ep, up[i][0], down[i][1]);
    // All of them are at it when the first is killed, and the others go on.
    struct fi_cq_tagged_entry entry;
    double end = now() + 60;
    for (int k = 0; k < CHILDREN; k++)
        while (seen[k].fetched < 1000) {
            CHECK(now() < end);
            IS(fi_cq_read(w.cq, &entry, 1), -FI_EAGAIN);
        }
    IS(kill(pids[0], SIGKILL), 0);
    IS(waitpid(pids[0], NULL, 0), pids[0]);
    for (int k = 1; k < CHILDREN; k++)
        for (uint64_t goal = seen[k].fetched + 1000; seen[k].fetched < goal;) {
            CHECK(now() < end);
            IS(fi_cq_read(w.cq, &entry, 1), -FI_EAGAIN);
        }
    // What was seen done was done, once, and nothing but what was started.
    uint64_t least = 0, most = 0;
    for (int k = 1; k < CHILDREN; k++) {
        IS(kill(pids[k], SIGKILL), 0);
        IS(waitpid(pids[k], NULL, 0), pids[k]);
    }
    for (int i = 0; i < 100000; i++) IS(fi_cq_read(w.cq, &entry, 1), -FI_EAGAIN);
    for (int k = 0; k < CHILDREN; k++) least += seen[k].fetched, most += seen[k].started;
    CHECK(least >= (CHILDREN - 1) * 2000 + 1000 && most <= least + CHILDREN);
    IS(pair[0], pair[1]);
    CHECK(least <= pair[0] && pair[0] <= most);
    // The targets are dead: operations fail in the queue, and injected ones say nothing.
    for (int i = 0; i < 100; i++)
        IS(fi_inject_atomic(ep, &one, 1, peers[0], 0, 9, FI_UINT64, FI_SUM), 0);
    IS(fi_atomic(ep, &one, 1, NULL, peers[0], 0, 9, FI_UINT64, FI_SUM, &one), 0);
    struct fi_cq_err_entry error = next_failure(&w);
    CHECK(error.op_context == &one);
    IS(error.err, FI_ECONNRESET);
    IS(fi_fetch_atomic(ep, &one, 1, NULL, &before, NULL, peers[1], 0, 9, FI_UINT64, FI_SUM, &before), 0);
    error = next_failure(&w);
    CHECK(error.op_context == &before);
    IS(error.err, FI_ECONNRESET);
    nothing(&w);
    // One that is killed while it is asked.
    int up2[2], down2[2];
    CHECK(pipe(up2) == 0 && pipe(down2) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct fid_mr *theirs;
        uint64_t word = 0;
        struct world mine = {0};
        open_world(&mine, FI_THREAD_DOMAIN, FI_WAIT_NONE);
        w = mine;
        ep = open_endpoint(&w, 0);
        IS(fi_mr_reg(w.domain, &word, sizeof word, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 9, 0, &theirs, NULL), 0);
        meet(&w, ep, down2[0], up2[1]);
        // Meets its peer, and then looks at nothing any more.
        while (word == 0) fi_cq_read(w.cq, &entry, 1);
        for (;;) pause();
    }
    fi_addr_t peer = meet(&w, ep, up2[0], down2[1]);
    IS(fi_atomic(ep, &one, 1, NULL, peer, 0, 9, FI_UINT64, FI_SUM, &one), 0);
    CHECK(next(&w).op_context == &one);
    uint64_t olds[50];
    for (int i = 0; i < 50; i++)
        IS(fi_fetch_atomic(ep, &one, 1, NULL, &olds[i], NULL, peer, 0, 9, FI_UINT64, FI_SUM, &olds[i]), 0);
    IS(kill(pid, SIGKILL), 0);
    IS(waitpid(pid, NULL, 0), pid);
    int failed = 0;
    for (int i = 0; i < 50; i++) {
        ssize_t n;
        while ((n = fi_cq_read(w.cq, &entry, 1)) == -FI_EAGAIN) CHECK(now() < end + 60);
        if (n == 1) continue;
        memset(&error, 0, sizeof error);
        IS(fi_cq_readerr(w.cq, &error, 0), 1);
        IS(error.err, FI_ECONNRESET);
        failed++;
    }
    nothing(&w);
    IS(fi_close(&mr->fid), 0);
    IS(fi_close(&ep->fid), 0);
    close_world(&w);
    printf("atomic operations end with their targets: %d of 50\n", failed);
    return 0;
}
