// A peer that goes: what it has left is received, its descriptors are released, and its number goes on standing
// for somebody who is gone.
#include "common.h"
#include <dirent.h>
#include <sys/wait.h>

static struct world w;
static struct fid_ep *ep;

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

// Reads until so many descriptors are open.
static void until_open(int count) {
    double end = now() + 60;
    while (descriptors() != count) {
        CHECK(now() < end);
        nothing(&w);
    }
}

int main(void) {
    int down[2], up[2];
    char in[8], word = 'x';
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t pid = fork();
    int from = pid ? up[0] : down[0], to = pid ? down[1] : up[1];
    struct fi_info *hints = ask();
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    open_asked(&w, hints, FI_WAIT_FD);
    ep = open_endpoint(&w, 0);
    int before = descriptors();
    fi_addr_t source, peer = meet(&w, ep, from, to);
    if (pid == 0) {
        for (int i = 1; i < 4; i++) IS(fi_tinject(ep, "ping", 5, peer, i), 0);
        IS(read(from, &word, 1), 1);
        IS(fi_close(&ep->fid), 0);
        close_world(&w);
        _exit(0);
    }
    IS(fi_trecv(ep, in, 8, NULL, peer, 1, 0, in), 0);
    CHECK(next(&w).op_context == in);
    CHECK(descriptors() > before);
    IS(write(to, &word, 1), 1);
    int status;
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    for (int i = 0; i < 100; i++) nothing(&w);
    CHECK(descriptors() > before);
    for (int i = 2; i < 4; i++) {
        IS(fi_trecv(ep, in, 8, NULL, i == 2 ? peer : FI_ADDR_UNSPEC, i, 0, in), 0);
        CHECK(next_from(&w, &source).op_context == in && strcmp(in, "ping") == 0);
        IS(source, peer);
    }
    until_open(before);
    // Every kind of operation with it fails in the queue, injected ones say nothing, and nothing stays behind.
    struct fi_msg_tagged look = {.addr = peer, .tag = 1, .context = in};
    for (int i = 0; i < 3; i++) {
        IS(fi_tsend(ep, in, 1, NULL, peer, 1, in), 0);
        IS(next_failure(&w).err, FI_ECONNRESET);
        IS(fi_trecv(ep, in, 1, NULL, peer, 1, 0, in), 0);
        IS(next_failure(&w).err, FI_ECONNRESET);
        IS(fi_read(ep, in, 1, NULL, peer, 0, 1, in), 0);
        IS(next_failure(&w).err, FI_ECONNRESET);
        IS(fi_trecvmsg(ep, &look, FI_PEEK), 0);
        IS(next_failure(&w).err, FI_ECONNRESET);
        IS(fi_tinject(ep, in, 1, peer, 1), 0);
    }
    until_open(before);
    IS(fi_av_remove(w.av, &peer, 1, 0), 0);
    IS(fi_tinject(ep, in, 1, peer, 1), -FI_EINVAL);
    IS(fi_close(&ep->fid), 0);
    close_world(&w);
    puts("a peer that is gone has left nothing");
    return 0;
}
