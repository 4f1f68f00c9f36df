// Two processes. One has posted a receive, shown memory, and calls nothing more: what the other sends and
// asks for goes on all the same with FI_PROGRESS_AUTO, and does not without.
#include "common.h"
#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { LONG = 1 << 20, KEY = 5 };

static struct world w;
static struct fid_ep *ep;
static int is_automatic;
static enum fi_threading threading;
static char message[LONG];

static void join(void) {
    struct fi_info *hints = ask();
    hints->domain_attr->threading = threading;
    if (is_automatic) hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    open_asked(&w, hints, FI_WAIT_FD);
    enum fi_progress got = is_automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
    IS(w.info->domain_attr->data_progress, got);
    IS(w.info->domain_attr->control_progress, got);
    ep = open_endpoint(&w, 0);
}

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    CHECK(tasks);
    for (struct dirent *one; (one = readdir(tasks));) count += one->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static double used(void) {
    struct rusage usage;
    IS(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
        + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void leave(void) {
    IS(threads(), 1 + is_automatic);
    IS(fi_close(&ep->fid), 0);
    close_world(&w);
    IS(threads(), 1);
}

// As a program does that polls descriptors of its own.
static struct fi_cq_tagged_entry polled(void) {
    struct fi_cq_tagged_entry entry;
    struct fid *fid = &w.cq->fid;
    double end = now() + 60;
    struct pollfd fd = {.events = POLLIN};
    IS(fi_control(fid, FI_GETWAIT, &fd.fd), 0);
    for (;;) {
        ssize_t n = fi_cq_read(w.cq, &entry, 1);
        if (n == 1) return entry;
        IS(n, -FI_EAGAIN);
        CHECK(now() < end);
        if (fi_trywait(w.fabric, &fid, 1) == 0) CHECK(poll(&fd, 1, 1000) >= 0);
    }
}

static void target(int from, int to) {
    static uint64_t memory[4] = {7};
    static char in[LONG], small[2][8];
    struct fid_mr *mr;
    struct fi_cq_tagged_entry entry;
    char byte;
    join();
    IS(fi_mr_reg(w.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    IS(fi_trecv(ep, in, LONG, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
    IS(fi_trecv(ep, small[0], 8, NULL, FI_ADDR_UNSPEC, 2, 0, small[0]), 0);
    IS(fi_trecv(ep, small[1], 8, NULL, FI_ADDR_UNSPEC, 3, 0, small[1]), 0);
    fi_addr_t other = meet(&w, ep, from, to);
    IS(read(from, &byte, 1), 1);
    CHECK(polled().op_context == in);
    CHECK(memcmp(in, message, LONG) == 0);
    IS(memory[0], 8);
    // Who sleeps is woken, whoever takes the message.
    IS(fi_tinject(ep, "a", 2, other, 2), 0);
    CHECK(polled().op_context == small[0]);
    IS(fi_tinject(ep, "b", 2, other, 2), 0);
    IS(fi_cq_sread(w.cq, &entry, 1, NULL, -1), 1);
    CHECK(entry.op_context == small[1]);
    // And who has nothing to do costs nothing.
    double before = used();
    usleep(500000);
    CHECK(used() - before < 0.25);
    IS(write(to, "", 1), 1);
    IS(fi_close(&mr->fid), 0);
    leave();
}

static void initiator(int from, int to) {
    uint64_t one = 1, old = 0;
    char in[8], byte;
    struct fi_cq_tagged_entry entry;
    join();
    fi_addr_t peer = meet(&w, ep, from, to);
    usleep(20000);
    IS(fi_tsend(ep, message, LONG, NULL, peer, 1, message), 0);
    IS(fi_fetch_atomic(ep, &one, 1, NULL, &old, NULL, peer, 0, KEY, FI_UINT64, FI_SUM, &old), 0);
    if (is_automatic) {
        for (int i = 0; i < 2; i++) {
            void *context = next(&w).op_context;
            CHECK(context == message || context == &old);
        }
        IS(old, 7);
        IS(write(to, "", 1), 1);
    } else {
        for (double end = now() + 0.3; now() < end;) IS(fi_cq_read(w.cq, &entry, 1), -FI_EAGAIN);
        IS(write(to, "", 1), 1);
        for (int i = 0; i < 2; i++) next(&w);
    }
    for (uint64_t tag = 2; tag < 4; tag++) {
        IS(fi_trecv(ep, in, 8, NULL, peer, 2, 0, in), 0);
        CHECK(next(&w).op_context == in);
        usleep(100000);
        IS(fi_tinject(ep, "c", 2, peer, tag), 0);
    }
    IS(read(from, &byte, 1), 1);
    leave();
}

int main(int argc, char **argv) {
    int down[2], up[2], status;
    CHECK(argc == 3 && pipe(down) == 0 && pipe(up) == 0);
    is_automatic = strcmp(argv[1], "automatic") == 0;
    threading = strcmp(argv[2], "domain") == 0 ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
    for (int i = 0; i < LONG; i++) message[i] = (char)(i * 7 + i / 251);
    pid_t pid = fork();
    if (pid == 0) {
        target(down[0], up[1]);
        return 0;
    }
    initiator(up[0], down[1]);
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    puts("all as it should be");
    return 0;
}
