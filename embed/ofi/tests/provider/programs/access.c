// fi_mr(3): memory is reached as its registration allows, and in no other way. Under two endpoints of one
// process, under one that reaches itself, and between two processes.
#include "common.h"
#include <sys/wait.h>

static struct world w;
static const struct { uint64_t access; int key; } of[] = {
    {0, 1}, {FI_SEND | FI_RECV | FI_READ | FI_WRITE, 2}, {FI_REMOTE_READ, 3}, {FI_REMOTE_WRITE, 4},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, 5}};
enum { ALL = sizeof of / sizeof *of, LEN = 100000 };
// Behind each other, so that a write that misses is seen.
static char memory[ALL][LEN];
static struct fid_mr *mr[ALL];

static void expose(void) {
    for (int i = 0; i < ALL; i++) {
        struct iovec iov = {memory[i], LEN};
        struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = of[i].access, .requested_key = of[i].key};
        if (i % 3 == 0) IS(fi_mr_reg(w.domain, memory[i], LEN, of[i].access, 0, of[i].key, 0, &mr[i], NULL), 0);
        else if (i % 3 == 1) IS(fi_mr_regv(w.domain, &iov, 1, of[i].access, 0, of[i].key, 0, &mr[i], NULL), 0);
        else IS(fi_mr_regattr(w.domain, &attr, 0, &mr[i]), 0);
        memset(memory[i], '0' + i, LEN);
    }
}

enum way { READ, WRITE, ATOMIC, ATOMIC_READ, FETCH, COMPARE, WAYS };

static void start(struct fid_ep *ep, fi_addr_t to, int key, enum way way, char *mine, size_t len, uint64_t *old) {
    static uint64_t operand[1] = {7}, other[1] = {9};
    IS(way == READ          ? fi_read(ep, mine, len, NULL, to, 0, key, mine)
       : way == WRITE       ? fi_write(ep, mine, len, NULL, to, 0, key, mine)
       : way == ATOMIC      ? fi_atomic(ep, operand, 1, NULL, to, 0, key, FI_UINT64, FI_SUM, mine)
       : way == ATOMIC_READ ? fi_fetch_atomic(ep, NULL, 1, NULL, old, NULL, to, 0, key, FI_UINT64, FI_ATOMIC_READ, mine)
       : way == FETCH       ? fi_fetch_atomic(ep, operand, 1, NULL, old, NULL, to, 0, key, FI_UINT64, FI_SUM, mine)
                            : fi_compare_atomic(ep, operand, 1, NULL, other, NULL, old, NULL, to, 0, key, FI_UINT64, FI_CSWAP_NE, mine),
       0);
}

// All ways to all memory. What is there is looked at where it is ours.
static void reach(struct fid_ep *ep, fi_addr_t to, int is_ours) {
    static char mine[LEN], before[LEN];
    static const uint64_t needs[WAYS] = {FI_REMOTE_READ, FI_REMOTE_WRITE, FI_REMOTE_WRITE, FI_REMOTE_READ,
                                         FI_REMOTE_READ | FI_REMOTE_WRITE, FI_REMOTE_READ | FI_REMOTE_WRITE};
    const size_t lens[] = {1, 8, 5000, LEN};
    for (int i = 0; i < ALL; i++)
        for (enum way way = 0; way < WAYS; way++)
            for (int k = 0; k < (way < ATOMIC ? 4 : 1); k++) {
                int is_allowed = (of[i].access & needs[way]) == needs[way];
                uint64_t old = 4711;
                memset(mine, 'm', LEN);
                memcpy(before, memory[i], LEN);
                start(ep, to, of[i].key, way, mine, lens[k], &old);
                if (is_allowed) {
                    CHECK(next(&w).op_context == mine);
                } else {
                    struct fi_cq_err_entry error = next_failure(&w);
                    IS(error.err, FI_EACCES);
                    CHECK(error.op_context == mine);
                    CHECK(strstr(fi_cq_strerror(w.cq, error.prov_errno, error.err_data, NULL, 0), "access"));
                    IS(old, 4711);
                }
                int is_read = way == READ && is_allowed;
                for (size_t j = 0; j < lens[k]; j++) CHECK((mine[j] == 'm') != is_read);
                int changes = is_allowed && way != READ && way != ATOMIC_READ;
                if (is_ours) CHECK((memcmp(memory[i], before, LEN) != 0) == changes);
                if (is_ours) memset(memory[i], '0' + i, LEN);
            }
    // Outside of it, or none: it is not the access that is wrong.
    IS(fi_write(ep, mine, 8, NULL, to, LEN - 7, 3, mine), 0);
    IS(next_failure(&w).err, FI_ENOKEY);
    IS(fi_read(ep, mine, 8, NULL, to, 0, 9, mine), 0);
    IS(next_failure(&w).err, FI_ENOKEY);
    // Nobody is told of an injected write that is refused, and no bytes need no memory.
    IS(fi_inject_write(ep, mine, 8, to, 0, 3), 0);
    nothing(&w);
    // Nor is the target told of writes with data that were not done, and of those that were it is.
    IS(fi_inject_writedata(ep, mine, 8, 77, to, 0, 3), 0);
    IS(fi_inject_writedata(ep, mine, 8, 77, to, LEN - 7, 4), 0);
    nothing(&w);
    IS(fi_writedata(ep, mine, 8, NULL, 77, to, 0, 3, mine), 0);
    IS(next_failure(&w).err, FI_EACCES);
    nothing(&w);
    if (is_ours) {
        IS(fi_inject_writedata(ep, mine, 8, 78, to, 0, 4), 0);
        struct fi_cq_tagged_entry entry = next(&w);
        CHECK(entry.data == 78 && entry.len == 8 && entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
        memset(memory[3], '3', LEN);
    }
    if (is_ours) CHECK(memory[2][0] == '2');
    IS(fi_write(ep, mine, 0, NULL, to, 0, 3, mine), 0);
    CHECK(next(&w).op_context == mine);
}

// A process that reaches this one's memory.
static void child(int from, int to) {
    open_world(&w, FI_THREAD_DOMAIN, FI_WAIT_NONE);
    struct fid_ep *ep = open_endpoint(&w, 0);
    fi_addr_t parent = meet(&w, ep, from, to);
    reach(ep, parent, 0);
    _exit(0);
}

int main(void) {
    int up[2], down[2], status;
    struct fi_cq_tagged_entry entry;
    CHECK(pipe(up) == 0 && pipe(down) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        // It ends with this process.
        close(up[0]);
        close(down[1]);
        child(down[0], up[1]);
    }
    open_world(&w, FI_THREAD_DOMAIN, FI_WAIT_NONE);
    struct fid_ep *a = open_endpoint(&w, 0);
    // What is registered before an endpoint is opened is reached through it as well.
    expose();
    struct fid_ep *b = open_endpoint(&w, 0);
    char name[2][ADDRESS];
    size_t len = ADDRESS;
    fi_addr_t to[2];
    IS(fi_getname(&a->fid, name[0], &len), 0);
    IS(fi_getname(&b->fid, name[1], &len), 0);
    IS(fi_av_insert(w.av, name, 2, to, 0, NULL), 2);
    reach(a, to[0], 1);
    reach(a, to[1], 1);
    reach(b, to[0], 1);
    meet(&w, a, up[0], down[1]);
    double end = now() + 60;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        CHECK(now() < end);
        IS(fi_cq_read(w.cq, &entry, 1), -FI_EAGAIN);
    }
    IS(status, 0);
    for (size_t j = 0; j < LEN; j++) {
        CHECK(memory[0][j] == '0' && memory[1][j] == '1' && memory[2][j] == '2');
        CHECK(memory[3][j] == 'm' || j < 8);
    }
    for (int i = 0; i < ALL; i++) IS(fi_close(&mr[i]->fid), 0);
    IS(fi_close(&a->fid), 0);
    IS(fi_close(&b->fid), 0);
    close_world(&w);
    puts("memory is reached as it allows");
    return 0;
}
