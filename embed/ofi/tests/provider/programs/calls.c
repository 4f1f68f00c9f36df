// Two endpoints of one process: every kind of call, and what it has to answer.
#include "pair.h"

static void addresses(void) {
    char name[2][ADDRESS], text[ADDRESS];
    size_t len = 0;
    IS(fi_getname(&a->fid, NULL, &len), -FI_ETOOSMALL);
    IS(len, ADDRESS);
    IS(fi_getname(&a->fid, name[0], &len), 0);
    IS(fi_getname(&b->fid, name[1], &len), 0);
    fi_addr_t both[2], again;
    IS(fi_av_insert(w.av, name, 2, both, 0, NULL), 2);
    CHECK(both[0] == to_a && both[1] == to_b && to_a != to_b);
    for (int i = 0; i < 2; i++) IS(fi_av_remove(w.av, &both[i], 1, 0), 0);
    len = ADDRESS;
    IS(fi_av_lookup(w.av, to_b, text, &len), 0);
    CHECK(memcmp(text, name[1], ADDRESS) == 0);
    len = sizeof text;
    CHECK(strcmp(fi_av_straddr(w.av, name[0], text, &len), name[0]) == 0);
    memset(text, 'x', sizeof text);
    IS(fi_av_insert(w.av, text, 1, &again, 0, NULL), 0);
    IS(again, FI_ADDR_NOTAVAIL);
}

static void tagged(void) {
    char out[100000], in[100000];
    size_t lens[] = {0, 1, 40, 300, 4096, 5000, 70000, 100000};
    for (size_t k = 0; k < sizeof lens / sizeof *lens; k++) {
        size_t len = lens[k];
        uint64_t data = k % 2 ? UINT32_MAX - (k - 1) / 2 : 1000 * k * k;
        memset(out, 'a' + k, sizeof out);
        memset(in, 0, sizeof in);
        IS(fi_trecv(b, in, sizeof in, NULL, to_a, 7, 0xff00, &in), 0);
        IS(fi_tsenddata(a, out, len, NULL, data, to_b, 0x3207, &out), 0);
        struct fi_cq_tagged_entry sent = {0}, got = {0};
        for (int i = 0; i < 2; i++) {
            fi_addr_t source = 99;
            struct fi_cq_tagged_entry entry = next_from(&w, &source);
            if (entry.op_context == &in) {
                got = entry;
                IS(source, to_a);
            } else {
                sent = entry;
            }
        }
        CHECK(sent.op_context == &out);
        IS(sent.flags, FI_SEND | FI_TAGGED);
        IS(got.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
        IS(got.len, len);
        IS(got.tag, 0x3207);
        IS(got.data, data);
        CHECK(memcmp(in, out, len) == 0);
    }
    // From several places to several, with and without FI_INJECT.
    char x[] = "from", y[] = " several places";
    struct iovec from[2] = {{x, 4}, {y, 15}}, into[2] = {{in, 10}, {in + 50, 50}};
    for (int inject = 0; inject < 2; inject++) {
        struct fi_msg_tagged msg = {.msg_iov = from, .iov_count = 2, .addr = to_b, .tag = 9};
        IS(fi_trecvv(b, into, NULL, 2, FI_ADDR_UNSPEC, 9, 0, in), 0);
        IS(fi_tsendmsg(a, &msg, FI_COMPLETION | (inject ? FI_INJECT : 0)), 0);
        next(&w);
        next(&w);
        CHECK(memcmp(in, "from sever", 10) == 0 && memcmp(in + 50, "al places", 9) == 0);
    }
    // A synchronous send ends when it is matched.
    struct iovec one = {x, 4};
    struct fi_msg_tagged msg = {.msg_iov = &one, .iov_count = 1, .addr = to_b, .tag = 11};
    msg.context = x;
    IS(fi_tsendmsg(a, &msg, FI_COMPLETION | FI_MATCH_COMPLETE), 0);
    nothing(&w);
    IS(fi_trecv(b, in, sizeof in, NULL, FI_ADDR_UNSPEC, 11, 0, in), 0);
    next(&w);
    next(&w);
    // One that only wants to be delivered ends before, however long it is below the eager limit.
    struct iovec some = {out, 5000};
    msg.msg_iov = &some;
    IS(fi_tsendmsg(a, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
    CHECK(next(&w).op_context == x);
    IS(fi_trecv(b, in, sizeof in, NULL, FI_ADDR_UNSPEC, 11, 0, in), 0);
    CHECK(next(&w).op_context == in);
    CHECK(memcmp(in, out, 5000) == 0);
    // Too long for its receive.
    IS(fi_trecv(b, in, 3, NULL, FI_ADDR_UNSPEC, 12, 0, in), 0);
    IS(fi_tinject(a, "12345", 5, to_b, 12), 0);
    struct fi_cq_err_entry error = next_failure(&w);
    IS(error.err, FI_ETRUNC);
    IS(error.len, 3);
    IS(error.olen, 2);
    CHECK(error.op_context == in);
    CHECK(strstr(fi_cq_strerror(w.cq, error.prov_errno, NULL, NULL, 0), "truncated"));
    IS(fi_cq_readerr(w.cq, &error, 0), -FI_EAGAIN);
    // Cancelled.
    IS(fi_trecv(b, in, 3, NULL, FI_ADDR_UNSPEC, 13, 0, in), 0);
    IS(fi_cancel(&b->fid, in), 0);
    error = next_failure(&w);
    IS(error.err, FI_ECANCELED);
    CHECK(error.op_context == in);
    IS(fi_cancel(&b->fid, in), -FI_ENOENT);
    // No bytes at no address are a message, bytes are a mistake.
    IS(fi_tsend(a, NULL, 4, NULL, to_b, 1, NULL), -FI_EINVAL);
    IS(fi_tinject(a, out, 4097, to_b, 1), -FI_EINVAL);
    IS(fi_tinjectdata(a, out, 4, 1ull << 32, to_b, 1), -FI_EINVAL);
    IS(fi_tinject(a, out, 4, 77, 1), -FI_EINVAL);
}

static void peek(void) {
    char in[64];
    struct fi_context one, other;
    struct fi_msg_tagged look = {.addr = FI_ADDR_UNSPEC, .tag = 20, .context = &one};
    IS(fi_trecvmsg(b, &look, FI_PEEK), 0);
    IS(next_failure(&w).err, FI_ENOMSG);
    for (int i = 0; i < 4; i++) IS(fi_tinjectdata(a, "abcd", 1 + i, 50 + i, to_b, 20), 0);
    struct fi_cq_tagged_entry entry;
    for (;;) {
        ssize_t n;
        IS(fi_trecvmsg(b, &look, FI_PEEK), 0);
        while ((n = fi_cq_read(w.cq, &entry, 1)) == -FI_EAGAIN) {}
        if (n == 1) break;
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(w.cq, &error, 0);
        IS(error.err, FI_ENOMSG);
    }
    IS(entry.len, 1);
    IS(entry.data, 50);
    // Claimed: nobody else gets it.
    IS(fi_trecvmsg(b, &look, FI_PEEK | FI_CLAIM), 0);
    IS(next(&w).len, 1);
    look.context = &other;
    IS(fi_trecvmsg(b, &look, FI_PEEK | FI_DISCARD), 0);
    IS(next(&w).len, 2);
    IS(fi_trecvmsg(b, &look, FI_PEEK | FI_CLAIM), 0);
    IS(next(&w).len, 3);
    struct iovec into = {in, sizeof in};
    look.context = &one;
    look.msg_iov = &into;
    look.iov_count = 1;
    IS(fi_trecvmsg(b, &look, FI_CLAIM), 0);
    entry = next(&w);
    CHECK(entry.op_context == &one && entry.len == 1 && in[0] == 'a');
    look.context = &other;
    IS(fi_trecvmsg(b, &look, FI_CLAIM | FI_DISCARD), 0);
    CHECK(next(&w).op_context == &other);
    IS(fi_trecvmsg(b, &look, FI_CLAIM), -FI_EINVAL);
    IS(fi_trecv(b, in, sizeof in, NULL, FI_ADDR_UNSPEC, 20, 0, in), 0);
    entry = next(&w);
    CHECK(entry.len == 4 && memcmp(in, "abcd", 4) == 0);
}

static void multi(void) {
    static char room[1000];
    size_t least = 100, len = sizeof least;
    IS(fi_setopt(&b->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, len), 0);
    least = 0;
    IS(fi_getopt(&b->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len), 0);
    IS(least, 100);
    struct iovec into = {room, sizeof room};
    struct fi_msg msg = {.msg_iov = &into, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = room};
    IS(fi_recvmsg(b, &msg, FI_MULTI_RECV), 0);
    char out[300];
    for (int i = 0; i < 4; i++) {
        memset(out, 'p' + i, sizeof out);
        IS(fi_injectdata(a, out, 240, i, to_b), 0);
    }
    for (int i = 0; i < 4; i++) {
        struct fi_cq_tagged_entry entry = next(&w);
        memset(out, 'p' + i, sizeof out);
        CHECK(entry.op_context == room && memcmp(entry.buf, out, 240) == 0);
        IS(entry.len, 240);
        IS(entry.data, i);
        IS(!!(entry.flags & FI_MULTI_RECV), i == 3);
        IS(entry.flags & ~FI_MULTI_RECV, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    }
    IS(fi_recvmsg(b, &msg, FI_MULTI_RECV), 0);
    IS(fi_cancel(&b->fid, room), 0);
    IS(next_failure(&w).err, FI_ECANCELED);
    // Messages without a tag do not meet receives with one.
    char in[8];
    IS(fi_trecv(b, in, 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, in), 0);
    IS(fi_inject(a, "msg", 4, to_b), 0);
    nothing(&w);
    IS(fi_recv(b, in + 4, 4, NULL, FI_ADDR_UNSPEC, in + 4), 0);
    CHECK(next(&w).op_context == in + 4);
    IS(fi_cancel(&b->fid, in), 0);
    IS(next_failure(&w).err, FI_ECANCELED);
}

static void rma(void) {
    static char memory[200000], out[200000], in[200000];
    struct fid_mr *mr, *twice;
    struct fid_cntr *writes, *reads;
    struct fi_cntr_attr attr = {0};
    struct fid_ep *c;
    IS(fi_mr_reg(w.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), 0);
    IS(fi_mr_key(mr), 0);
    IS(fi_mr_reg(w.domain, memory, 1, FI_REMOTE_READ, 0, 0, 0, &twice, NULL), -FI_ENOKEY);
    for (size_t i = 0; i < sizeof out; i++) out[i] = i * 7;
    IS(fi_write(a, out, sizeof out, NULL, to_b, 0, 0, out), 0);
    struct fi_cq_tagged_entry entry = next(&w);
    CHECK(entry.op_context == out);
    IS(entry.flags, FI_RMA | FI_WRITE);
    CHECK(memcmp(memory, out, sizeof out) == 0);
    struct iovec parts[2] = {{in, 100000}, {in + 100000, 100000}};
    IS(fi_readv(a, parts, NULL, 2, to_b, 0, 0, in), 0);
    entry = next(&w);
    IS(entry.flags, FI_RMA | FI_READ);
    CHECK(memcmp(in, out, sizeof in) == 0);
    IS(fi_writedata(a, "there", 5, NULL, 4711, to_b, 1000, 0, out), 0);
    for (int i = 0; i < 2; i++) {
        entry = next(&w);
        if (entry.flags & FI_REMOTE_WRITE) {
            IS(entry.data, 4711);
            CHECK(memcmp(memory + 1000, "there", 5) == 0);
        } else {
            CHECK(entry.op_context == out);
        }
    }
    // Outside, and with no such key.
    IS(fi_read(a, in, 8, NULL, to_b, sizeof memory - 7, 0, in), 0);
    IS(next_failure(&w).err, FI_ENOKEY);
    IS(fi_read(a, in, 8, NULL, to_b, 0, 1, in), 0);
    IS(next_failure(&w).err, FI_ENOKEY);
    // Counted.
    IS(fi_cntr_open(w.domain, &attr, &writes, NULL), 0);
    IS(fi_cntr_open(w.domain, &attr, &reads, NULL), 0);
    IS(fi_endpoint(w.domain, w.info, &c, NULL), 0);
    IS(fi_ep_bind(c, &w.av->fid, 0), 0);
    IS(fi_ep_bind(c, &w.cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION), 0);
    IS(fi_ep_bind(c, &writes->fid, FI_WRITE), 0);
    IS(fi_ep_bind(c, &reads->fid, FI_READ), 0);
    IS(fi_enable(c), 0);
    for (int i = 0; i < 10; i++) IS(fi_inject_write(c, &i, sizeof i, to_b, i * sizeof i, 0), 0);
    IS(fi_read(c, in, 16, NULL, to_b, 0, 0, in), 0);
    while (fi_cntr_read(writes) < 10 || fi_cntr_read(reads) < 1) nothing(&w);
    for (int i = 0; i < 10; i++) IS(((int *)memory)[i], i);
    IS(fi_cntr_readerr(writes), 0);
    IS(fi_cntr_add(writes, 5), 0);
    IS(fi_cntr_read(writes), 15);
    IS(fi_close(&writes->fid), -FI_EBUSY);
    IS(fi_close(&c->fid), 0);
    IS(fi_close(&writes->fid), 0);
    IS(fi_close(&reads->fid), 0);
    IS(fi_close(&mr->fid), 0);
    IS(fi_read(a, in, 8, NULL, to_b, 0, 0, in), 0);
    IS(next_failure(&w).err, FI_ENOKEY);
}

// Nobody reads: at some time a program is asked to try again, and nothing is lost.
static void flood(void) {
    char out[4096] = {0}, in[4096];
    int sent = 0;
    for (; sent < 1000000; sent++) {
        memcpy(out, &sent, sizeof sent);
        ssize_t said = fi_tinject(a, out, sizeof out, to_b, 30);
        if (said == -FI_EAGAIN) break;
        IS(said, 0);
    }
    CHECK(sent > 1000 && sent < 1000000);
    for (int i = 0; i < sent; i++) {
        int number;
        IS(fi_trecv(b, in, sizeof in, NULL, FI_ADDR_UNSPEC, 30, 0, in), 0);
        CHECK(next(&w).len == sizeof in);
        memcpy(&number, in, sizeof number);
        IS(number, i);
    }
    IS(fi_tinject(a, out, 1, to_b, 31), 0);
    IS(fi_trecv(b, in, 1, NULL, FI_ADDR_UNSPEC, 31, 0, in), 0);
    next(&w);
}

// What is not offered is refused, and nothing breaks.
static void refusals(void) {
    char x[8] = {0};
    struct fid_ep *other;
    IS(fi_scalable_ep(w.domain, w.info, &other, NULL), -FI_ENOSYS);
    IS(fi_srx_context(w.domain, w.info->rx_attr, &other, NULL), -FI_ENOSYS);
    for (int i = 0; i < 2; i++) IS(fi_connect(a, x, NULL, 0), -FI_ENOSYS);
    for (int i = 0; i < 2; i++) IS(fi_atomic(a, x, 1, NULL, to_b, 0, 0, FI_FLOAT, FI_BXOR, NULL), -FI_EOPNOTSUPP);
    IS(fi_setname(&a->fid, x, 8), -FI_ENOSYS);
    struct fid_pep *pep;
    IS(fi_passive_ep(w.fabric, w.info, &pep, NULL), -FI_ENOSYS);
    struct fi_poll_attr poll = {0};
    struct fid_poll *set;
    IS(fi_poll_open(w.domain, &poll, &set), -FI_ENOSYS);
    fi_addr_t number;
    IS(fi_av_insertsvc(w.av, "localhost", "1", &number, 0, NULL), -FI_ENOSYS);
    struct fi_info *hints = ask(), *found;
    hints->caps |= FI_NAMED_RX_CTX;
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found), -FI_ENODATA);
    fi_freeinfo(hints);
    IS(fi_close(&w.domain->fid), -FI_EBUSY);
    IS(fi_close(&w.cq->fid), -FI_EBUSY);
}

int main(int argc, char **argv) {
    open_pair(argc, argv, FI_WAIT_NONE);
    addresses();
    tagged();
    peek();
    multi();
    rma();
    flood();
    refusals();
    close_pair();
    puts("all calls answer as they should");
    return 0;
}
