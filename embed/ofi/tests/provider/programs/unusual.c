// Arguments at the edge of what one-sided calls and counters take: nothing, nowhere, odd addresses, closed keys.
#include "pair.h"

static char memory[4096] __attribute__((aligned(16)));

static void done(void) {
    struct fi_cq_tagged_entry entry = next(&w);
    CHECK(entry.flags & (FI_RMA | FI_ATOMIC));
}

// The operation, if it was started at all, ends with this error.
static void fails(ssize_t started, int err) {
    if (started == 0) IS(next_failure(&w).err, err);
    else IS(started, -err);
}

// fi_rma(3): no bytes, from or to no address, are an operation that completes.
static void no_bytes(void) {
    IS(fi_write(a, NULL, 0, NULL, to_b, 0, 1, NULL), 0);
    done();
    IS(fi_read(a, NULL, 0, NULL, to_b, 0, 1, NULL), 0);
    done();
    IS(fi_writev(a, NULL, NULL, 0, to_b, 0, 1, NULL), 0);
    done();
    IS(fi_readv(a, NULL, NULL, 0, to_b, 0, 1, NULL), 0);
    done();
    IS(fi_write(a, NULL, 0, NULL, to_b, sizeof memory, 1, NULL), 0);
    done();
    IS(fi_inject_write(a, NULL, 0, to_b, 0, 1), 0);
    IS(fi_writedata(a, NULL, 0, NULL, 12, to_b, 0, 1, NULL), 0);
    int sent = 0, came = 0;
    for (int i = 0; i < 2; i++) {
        struct fi_cq_tagged_entry entry = next(&w);
        if (entry.flags & FI_REMOTE_WRITE) came += entry.data == 12 && entry.len == 0;
        else sent++;
    }
    CHECK(sent == 1 && came == 1);
    nothing(&w);
}

// Bytes at no address are a mistake of the caller.
static void bytes_nowhere(void) {
    IS(fi_write(a, NULL, 4, NULL, to_b, 0, 1, NULL), -FI_EINVAL);
    IS(fi_read(a, NULL, 4, NULL, to_b, 0, 1, NULL), -FI_EINVAL);
    IS(fi_inject_write(a, NULL, 4, to_b, 0, 1), -FI_EINVAL);
    uint64_t one = 1;
    IS(fi_atomic(a, NULL, 1, NULL, to_b, 0, 1, FI_UINT64, FI_SUM, NULL), -FI_EINVAL);
    IS(fi_fetch_atomic(a, &one, 1, NULL, NULL, NULL, to_b, 0, 1, FI_UINT64, FI_SUM, NULL), -FI_EINVAL);
    nothing(&w);
}

// Sums of an offset and a length that wrap around are outside, and so is one byte behind the end.
static void outside(void) {
    char in[16];
    fails(fi_read(a, in, 16, NULL, to_b, UINT64_MAX - 7, 1, in), FI_ENOKEY);
    fails(fi_write(a, in, 1, NULL, to_b, sizeof memory, 1, in), FI_ENOKEY);
    uint64_t one = 1;
    fails(fi_atomic(a, &one, 1, NULL, to_b, sizeof memory - 7, 1, FI_UINT64, FI_SUM, &one), FI_ENOKEY);
    fails(fi_atomic(a, &one, 1, NULL, to_b, UINT64_MAX - 3, 1, FI_UINT64, FI_SUM, &one), FI_ENOKEY);
}

// Elements at odd addresses, of the peer's memory and of the caller's.
static void misaligned(void) {
    static char operands[64], results[64];
    for (int at = 1; at < 8; at++) {
        uint64_t start = 1ull << 40, add = 0x0101010101010101, got;
        memcpy(memory + 64 + at, &start, 8);
        memcpy(operands + at, &add, 8);
        ssize_t started = fi_fetch_atomic(a, operands + at, 1, NULL, results + at, NULL, to_b, 64 + at, 1, FI_UINT64,
                                          FI_SUM, NULL);
        if (started == -FI_EINVAL) continue;
        IS(started, 0);
        done();
        memcpy(&got, results + at, 8);
        IS(got, start);
        memcpy(&got, memory + 64 + at, 8);
        IS(got, start + add);
    }
}

// A key is nobody's when its registration is closed, and somebody's again when it is given once more.
static void closed(struct fid_mr *mr) {
    char in[8] = "kept";
    IS(fi_close(&mr->fid), 0);
    uint64_t one = 1;
    fails(fi_read(a, in, 8, NULL, to_b, 0, 1, in), FI_ENOKEY);
    fails(fi_write(a, in, 8, NULL, to_b, 0, 1, in), FI_ENOKEY);
    fails(fi_atomic(a, &one, 1, NULL, to_b, 0, 1, FI_UINT64, FI_SUM, in), FI_ENOKEY);
    CHECK(!strcmp(in, "kept"));
    IS(fi_mr_reg(w.domain, memory, 16, FI_REMOTE_READ, 0, 1, 0, &mr, NULL), 0);
    memcpy(memory, "again!!", 8);
    IS(fi_read(a, in, 8, NULL, to_b, 0, 1, in), 0);
    done();
    CHECK(!strcmp(in, "again!!"));
    IS(fi_close(&mr->fid), 0);
}

// fi_cntr(3): thresholds that are reached, values that wrap around, waits that do not wait.
static void counters(void) {
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *cntr;
    IS(fi_cntr_open(w.domain, &attr, &cntr, NULL), 0);
    IS(fi_cntr_wait(cntr, 0, 0), 0);
    IS(fi_cntr_wait(cntr, 0, -1), 0);
    IS(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT);
    IS(fi_cntr_set(cntr, UINT64_MAX), 0);
    IS(fi_cntr_read(cntr), UINT64_MAX);
    IS(fi_cntr_wait(cntr, UINT64_MAX, -1), 0);
    IS(fi_cntr_add(cntr, 3), 0);
    IS(fi_cntr_read(cntr), 2);
    IS(fi_cntr_adderr(cntr, 1), 0);
    IS(fi_cntr_readerr(cntr), 1);
    // Only a change of the errors ends a wait.
    IS(fi_cntr_wait(cntr, 1000, 50), -FI_ETIMEDOUT);
    IS(fi_cntr_seterr(cntr, 0), 0);
    IS(fi_cntr_readerr(cntr), 0);
    IS(fi_cntr_wait(cntr, 2, 100), 0);
    IS(fi_close(&cntr->fid), 0);
}

int main(int argc, char **argv) {
    struct fid_mr *mr, *none;
    open_pair(argc, argv, FI_WAIT_NONE);
    IS(fi_mr_reg(w.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL), 0);
    no_bytes();
    bytes_nowhere();
    outside();
    misaligned();
    ssize_t registered = fi_mr_reg(w.domain, NULL, 0, FI_REMOTE_READ, 0, 2, 0, &none, NULL);
    if (registered == 0) IS(fi_close(&none->fid), 0);
    else IS(registered, -FI_EINVAL);
    closed(mr);
    counters();
    close_pair();
    puts("unusual arguments are taken or refused");
    return 0;
}
