// Two endpoints of one process: every atomic operation on every type, in every form, beside a model.
#include "common.h"
#include <complex.h>

enum { MOST = 4096, FORMS = 3, TYPES = 17, OPS = 20 };
enum form { WRITE, FETCH, COMPARE };

static struct world w;
static struct fid_ep *a, *b;
static fi_addr_t to_b;
static struct fid_cntr *writes, *reads;
static uint64_t written, fetched;

// What an element becomes.
#define EQUAL(T)                                                     \
    case FI_LOR: *o = *o != 0 || x != 0; return;                     \
    case FI_LAND: *o = *o != 0 && x != 0; return;                    \
    case FI_LXOR: *o = (*o != 0) != (x != 0); return;                \
    case FI_SUM: *o = (T)(*o + x); return;                           \
    case FI_PROD: *o = (T)(*o * x); return;                          \
    case FI_ATOMIC_READ: return;                                     \
    case FI_ATOMIC_WRITE: *o = x; return;                            \
    case FI_CSWAP: if (c == *o) *o = x; return;                      \
    case FI_CSWAP_NE: if (c != *o) *o = x; return;
#define ORDERED                                                      \
    case FI_MIN: if (x < *o) *o = x; return;                         \
    case FI_MAX: if (x > *o) *o = x; return;                         \
    case FI_CSWAP_LE: if (c <= *o) *o = x; return;                   \
    case FI_CSWAP_LT: if (c < *o) *o = x; return;                    \
    case FI_CSWAP_GE: if (c >= *o) *o = x; return;                   \
    case FI_CSWAP_GT: if (c > *o) *o = x; return;
#define BITS                                                         \
    case FI_BOR: *o |= x; return;                                    \
    case FI_BAND: *o &= x; return;                                   \
    case FI_BXOR: *o ^= x; return;                                   \
    case FI_MSWAP: *o = (x & c) | (*o & ~c); return;
#define MODEL(name, T, cases)                                        \
    static void name(int op, void *old, const void *operand, const void *other) { \
        T *o = old, x = *(const T *)operand, c = *(const T *)other;  \
        (void)c;                                                     \
        switch (op) { cases }                                        \
        CHECK(!"an operation of the model");                         \
    }
typedef __int128 i128;
typedef unsigned __int128 u128;
typedef float complex c32;
typedef double complex c64;
#define INTEGER(T) MODEL(model_##T, T, EQUAL(T) ORDERED BITS)
// Integers wrap (-fwrapv).
INTEGER(uint8_t) INTEGER(uint16_t) INTEGER(uint32_t) INTEGER(uint64_t) INTEGER(u128)
INTEGER(int8_t) INTEGER(int16_t) INTEGER(int32_t) INTEGER(int64_t) INTEGER(i128)
MODEL(model_float, float, EQUAL(float) ORDERED)
MODEL(model_double, double, EQUAL(double) ORDERED)
MODEL(model_c32, c32, EQUAL(c32))
MODEL(model_c64, c64, EQUAL(c64))

static const struct type {
    size_t size;
    void (*model)(int, void *, const void *, const void *);
    int kind; // 0 none, 1 complex, 2 real, 3 integer
} types[TYPES] = {
    [FI_INT8] = {1, model_int8_t, 3},    [FI_UINT8] = {1, model_uint8_t, 3},
    [FI_INT16] = {2, model_int16_t, 3},  [FI_UINT16] = {2, model_uint16_t, 3},
    [FI_INT32] = {4, model_int32_t, 3},  [FI_UINT32] = {4, model_uint32_t, 3},
    [FI_INT64] = {8, model_int64_t, 3},  [FI_UINT64] = {8, model_uint64_t, 3},
    [FI_FLOAT] = {4, model_float, 2},    [FI_DOUBLE] = {8, model_double, 2},
    [FI_FLOAT_COMPLEX] = {8, model_c32, 1},
    [FI_DOUBLE_COMPLEX] = {16, model_c64, 1},
    [FI_INT128] = {16, model_i128, 3},   [FI_UINT128] = {16, model_u128, 3},
};

static int there_is(int type, int op, enum form form) {
    int kind = types[type].kind;
    switch (op) {
    case FI_MIN: case FI_MAX: return form != COMPARE && kind >= 2;
    case FI_BOR: case FI_BAND: case FI_BXOR: return form != COMPARE && kind == 3;
    case FI_SUM: case FI_PROD: case FI_LOR: case FI_LAND: case FI_LXOR: case FI_ATOMIC_WRITE:
        return form != COMPARE && kind >= 1;
    case FI_ATOMIC_READ: return form == FETCH && kind >= 1;
    case FI_CSWAP: case FI_CSWAP_NE: return form == COMPARE && kind >= 1;
    case FI_CSWAP_LE: case FI_CSWAP_LT: case FI_CSWAP_GE: case FI_CSWAP_GT:
        return form == COMPARE && kind >= 2;
    case FI_MSWAP: return form == COMPARE && kind == 3;
    default: return 0;
    }
}

// Small numbers, so that equal ones meet. The bytes of integers may be anything now and then.
static void numbers(int type, void *at, size_t count) {
    for (size_t k = 0; k < count; k++) {
        int n = rand() % 5 - 2, m = rand() % 5 - 2;
        char *to = (char *)at + k * types[type].size;
        switch (type) {
        case FI_FLOAT: *(float *)to = n / 2.0f; break;
        case FI_DOUBLE: *(double *)to = n / 2.0; break;
        case FI_FLOAT_COMPLEX: *(c32 *)to = n + m * I; break;
        case FI_DOUBLE_COMPLEX: *(c64 *)to = n + m * I; break;
        default:
            memset(to, n < 0 ? 0xff : 0, types[type].size);
            to[0] = n;
            if (m == 2) to[rand() % types[type].size] = rand();
        }
    }
}

static _Alignas(16) char memory[2 * MOST], model[2 * MOST], operands[MOST], others[MOST], old[MOST];
static struct fid_mr *mr;

// Starts one, through one of the calls for it.
static ssize_t start(enum form form, int how, int type, int op, size_t count, size_t offset) {
    size_t size = types[type].size ? types[type].size : 16, head = count / 3, tail = count - head;
    struct fi_ioc x[2] = {{operands, head}, {operands + head * size, tail}};
    struct fi_ioc c[2] = {{others, head}, {others + head * size, tail}};
    struct fi_ioc r[2] = {{old, head}, {old + head * size, tail}};
    struct fi_rma_ioc there = {.addr = offset, .count = count, .key = 5};
    struct fi_msg_atomic msg = {.msg_iov = x, .iov_count = 2, .addr = to_b, .rma_iov = &there,
        .rma_iov_count = 1, .datatype = type, .op = op, .context = old};
    uint64_t flags = how == 3 ? FI_INJECT | FI_DELIVERY_COMPLETE : FI_DELIVERY_COMPLETE;
    switch (form) {
    case WRITE:
        if (how == 0) return fi_atomic(a, operands, count, NULL, to_b, offset, 5, type, op, old);
        if (how == 1) return fi_atomicv(a, x, NULL, 2, to_b, offset, 5, type, op, old);
        return fi_atomicmsg(a, &msg, FI_COMPLETION | flags);
    case FETCH:
        if (op == FI_ATOMIC_READ) msg.msg_iov = NULL, msg.iov_count = 0;
        if (how == 0)
            return fi_fetch_atomic(a, op == FI_ATOMIC_READ ? NULL : operands, count, NULL, old, NULL,
                                   to_b, offset, 5, type, op, old);
        if (how == 1)
            return fi_fetch_atomicv(a, x, NULL, 2, r, NULL, 2, to_b, offset, 5, type, op, old);
        return fi_fetch_atomicmsg(a, &msg, r, NULL, 2, FI_COMPLETION | flags);
    default:
        if (how == 0)
            return fi_compare_atomic(a, operands, count, NULL, others, NULL, old, NULL, to_b, offset,
                                     5, type, op, old);
        if (how == 1)
            return fi_compare_atomicv(a, x, NULL, 2, c, NULL, 2, r, NULL, 2, to_b, offset, 5, type,
                                      op, old);
        return fi_compare_atomicmsg(a, &msg, c, NULL, 2, r, NULL, 2, FI_COMPLETION | flags);
    }
}

static void one(enum form form, int type, int op, size_t count, int how) {
    size_t size = types[type].size, len = count * size, offset = size * (rand() % 4);
    numbers(type, memory, sizeof memory / size);
    memcpy(model, memory, sizeof memory);
    numbers(type, operands, count);
    numbers(type, others, count);
    memset(old, 0x55, sizeof old);
    IS(start(form, how, type, op, count, offset), 0);
    // They are free again, whatever the call was.
    char kept[2][MOST];
    memcpy(kept[0], operands, len);
    memcpy(kept[1], others, len);
    memset(operands, 0xee, sizeof operands);
    memset(others, 0xdd, sizeof others);
    struct fi_cq_tagged_entry entry = next(&w);
    CHECK(entry.op_context == old);
    IS(entry.flags, FI_ATOMIC | (form == WRITE ? FI_WRITE : FI_READ));
    if (form != WRITE) CHECK(memcmp(old, model + offset, len) == 0);
    for (size_t k = 0; k < count; k++)
        types[type].model(op, model + offset + k * size, kept[0] + k * size, kept[1] + k * size);
    if (memcmp(memory, model, sizeof memory) != 0) {
        fprintf(stderr, "form %d, type %d, operation %d, %zu elements: not as in the model\n", form,
                type, op, count);
        exit(1);
    }
    *(form == WRITE ? &written : &fetched) += 1;
}

static void every_operation(void) {
    int (*valid[FORMS])(struct fid_ep *, enum fi_datatype, enum fi_op, size_t *) = {
        fi_atomicvalid, fi_fetch_atomicvalid, fi_compare_atomicvalid};
    uint64_t asked[FORMS] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
    for (int type = 0; type < TYPES; type++)
        for (int op = 0; op < OPS; op++)
            for (int form = 0; form < FORMS; form++) {
                size_t most = 0;
                struct fi_atomic_attr attr = {0};
                int is = there_is(type, op, form) ? 0 : -FI_EOPNOTSUPP;
                IS(valid[form](a, type, op, &most), is);
                IS(fi_query_atomic(w.domain, type, op, &attr, asked[form]), is);
                if (is != 0) {
                    IS(start(form, 0, type, op, 1, 0), is);
                    continue;
                }
                IS(attr.count, most);
                IS(attr.size, types[type].size);
                IS(most, MOST / types[type].size);
                for (int how = 0; how < 4; how++) {
                    one(form, type, op, 3, how);
                    one(form, type, op, 1 + rand() % 40 % most, how);
                    one(form, type, op, most, how);
                }
                one(form, type, op, 1, 0);
                IS(start(form, 0, type, op, 0, 0), -FI_EINVAL);
                IS(start(form, 0, type, op, most + 1, 0), -FI_EINVAL);
            }
    while (fi_cntr_read(writes) < written || fi_cntr_read(reads) < fetched) nothing(&w);
    IS(fi_cntr_read(writes), written);
    IS(fi_cntr_read(reads), fetched);
}

static void injected(void) {
    int64_t numbers[4] = {1, -2, 3, -4}, sum[4] = {0};
    memset(memory, 0, sizeof memory);
    for (int i = 0; i < 5000; i++) {
        IS(fi_inject_atomic(a, numbers, 4, to_b, 8, 5, FI_INT64, FI_SUM), 0);
        for (int k = 0; k < 4; k++) sum[k] += numbers[k];
    }
    written += 5000;
    while (fi_cntr_read(writes) < written) nothing(&w);
    CHECK(memcmp(memory + 8, sum, sizeof sum) == 0);
    // Nothing is told of a failure either.
    IS(fi_inject_atomic(a, numbers, 4, to_b, 8, 6, FI_INT64, FI_SUM), 0);
    nothing(&w);
}

static void refused(void) {
    memset(memory, 7, sizeof memory);
    memcpy(model, memory, sizeof memory);
    // Outside, and with no such key.
    IS(fi_atomic(a, operands, 1, NULL, to_b, sizeof memory - 7, 5, FI_INT64, FI_SUM, old), 0);
    struct fi_cq_err_entry error = next_failure(&w);
    IS(error.err, FI_ENOKEY);
    CHECK(error.op_context == old);
    IS(fi_fetch_atomic(a, operands, 1, NULL, old, NULL, to_b, 0, 6, FI_INT64, FI_SUM, old), 0);
    IS(next_failure(&w).err, FI_ENOKEY);
    CHECK(memcmp(memory, model, sizeof memory) == 0);
    // What a message may not have.
    struct fi_ioc x = {operands, 2};
    struct fi_rma_ioc there = {.addr = 0, .count = 1, .key = 5};
    struct fi_msg_atomic msg = {.msg_iov = &x, .iov_count = 1, .addr = to_b, .rma_iov = &there,
        .rma_iov_count = 1, .datatype = FI_INT32, .op = FI_SUM};
    IS(fi_atomicmsg(a, &msg, 0), -FI_EINVAL);
    there.count = 2;
    IS(fi_atomicmsg(a, &msg, FI_FENCE), -FI_EBADFLAGS);
    msg.rma_iov_count = 2;
    IS(fi_atomicmsg(a, &msg, 0), -FI_EINVAL);
    IS(fi_atomic(a, NULL, 1, NULL, to_b, 0, 5, FI_INT64, FI_SUM, old), -FI_EINVAL);
    IS(fi_atomic(a, operands, 1, NULL, 77, 0, 5, FI_INT64, FI_SUM, old), -FI_EINVAL);
}

int main(int argc, char **argv) {
    int safe = argc > 1 && strcmp(argv[1], "safe") == 0;
    char name[ADDRESS];
    size_t len = sizeof name;
    struct fi_cntr_attr attr = {0};
    open_world(&w, safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN, FI_WAIT_NONE);
    CHECK(w.info->caps & FI_ATOMIC);
    IS(fi_cntr_open(w.domain, &attr, &writes, NULL), 0);
    IS(fi_cntr_open(w.domain, &attr, &reads, NULL), 0);
    a = open_endpoint(&w, 0);
    b = open_endpoint(&w, 0);
    IS(fi_ep_bind(a, &writes->fid, FI_WRITE), 0);
    IS(fi_ep_bind(a, &reads->fid, FI_READ), 0);
    IS(fi_getname(&b->fid, name, &len), 0);
    IS(fi_av_insert(w.av, name, 1, &to_b, 0, NULL), 1);
    IS(fi_mr_reg(w.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
    every_operation();
    injected();
    refused();
    IS(fi_close(&mr->fid), 0);
    IS(fi_close(&a->fid), 0);
    IS(fi_close(&b->fid), 0);
    IS(fi_close(&writes->fid), 0);
    IS(fi_close(&reads->fid), 0);
    close_world(&w);
    printf("%llu operations are as in the model\n", (unsigned long long)(written + fetched));
    return 0;
}
