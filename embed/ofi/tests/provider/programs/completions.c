// What libfabric's manual says of when operations end and who is told, and of each attribute and flag.
#include "common.h"

enum { LONG = 1 << 20 };
static struct world w;
static struct fid_ep *a, *b;
static fi_addr_t to_b;
static char in[LONG], out[LONG];

// Two endpoints.
static void pair(uint64_t selective) {
    char name[ADDRESS];
    size_t len = ADDRESS;
    a = open_endpoint(&w, selective);
    b = open_endpoint(&w, selective);
    IS(fi_getname(&b->fid, name, &len), 0);
    IS(fi_av_insert(w.av, name, 1, &to_b, 0, NULL), 1);
}

static void part(void) {
    IS(fi_close(&a->fid), 0);
    IS(fi_close(&b->fid), 0);
}

static ssize_t send_msg(const void *buf, size_t len, uint64_t tag, uint64_t flags) {
    struct iovec iov = {(void *)buf, len};
    struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .addr = to_b, .tag = tag, .context = out};
    return fi_tsendmsg(a, &m, flags);
}

static void receive(size_t len, uint64_t tag) {
    memset(in, 0, len);
    IS(fi_trecv(b, in, len, NULL, FI_ADDR_UNSPEC, tag, 0, in), 0);
}

// Waits for something of which nobody is told.
static void arrives(size_t len) {
    double end = now() + 60;
    struct fi_cq_tagged_entry entry;
    while (in[len - 1] != 's') {
        CHECK(now() < end);
        IS(fi_cq_read(w.cq, &entry, 1), -FI_EAGAIN);
    }
}

// An entry for each of a send and a receive, in any order; whether the receive's was the first.
static int both(void) {
    struct fi_cq_tagged_entry one = next(&w), other = next(&w);
    CHECK((one.flags & FI_SEND && other.flags & FI_RECV) || (one.flags & FI_RECV && other.flags & FI_SEND));
    return !!(one.flags & FI_RECV);
}

// fi_msg(3): FI_MORE is a hint. Nothing waits for the operation that was promised.
static void more(void) {
    struct fi_rma_iov theirs = {0, 8, 1};
    struct iovec iov = {out, 8};
    struct fi_msg_rma r = {.msg_iov = &iov, .iov_count = 1, .addr = to_b, .rma_iov = &theirs, .rma_iov_count = 1};
    struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = to_b};
    struct fid_mr *mr;
    for (int k = 0; k < 3; k++) {
        out[0] = 'a' + k;
        receive(LONG, 1);
        IS(send_msg(out, k == 2 ? LONG : 100, 1, FI_MORE | FI_COMPLETION), 0);
        both();
        IS(in[0], 'a' + k);
    }
    struct iovec into = {in, 8};
    struct fi_msg rm = {.msg_iov = &into, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
    IS(fi_recvmsg(b, &rm, FI_MORE | FI_COMPLETION), 0);
    IS(fi_sendmsg(a, &m, FI_MORE | FI_COMPLETION), 0);
    both();
    IS(fi_mr_reg(w.domain, in, 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL), 0);
    out[0] = 'z';
    IS(fi_writemsg(a, &r, FI_MORE | FI_COMPLETION), 0);
    next(&w);
    IS(in[0], 'z');
    IS(fi_readmsg(a, &r, FI_MORE | FI_COMPLETION), 0);
    next(&w);
    IS(fi_close(&mr->fid), 0);
}

// fi_endpoint(3): with FI_SELECTIVE_COMPLETION only what asks for an entry, and every failure, has one.
static void selective(void) {
    char small[4];
    memset(out, 's', 100);
    for (int asks = 0; asks < 2; asks++) {
        receive(100, 2);
        IS(send_msg(out, 100, 2, asks ? FI_COMPLETION : 0), 0);
        if (asks) IS(next(&w).flags, FI_SEND | FI_TAGGED);
        arrives(100);
        nothing(&w);
        CHECK(memcmp(in, out, 100) == 0);
        struct iovec iov = {in, 100};
        struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3, .context = in};
        memset(in, 0, 100);
        IS(fi_trecvmsg(b, &m, asks ? FI_COMPLETION : 0), 0);
        IS(fi_tsend(a, out, 100, NULL, to_b, 3, NULL), 0);
        if (asks) CHECK(next(&w).op_context == in);
        else arrives(100);
        nothing(&w);
        // One that is discarded as well. Looks go on with the send, though they make nothing but failures.
        IS(fi_tinject(a, out, 10, to_b, 4), 0);
        struct fi_msg_tagged p = {.addr = FI_ADDR_UNSPEC, .tag = 4, .context = small};
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error = {0};
        ssize_t n;
        do {
            IS(fi_trecvmsg(b, &p, FI_PEEK | FI_CLAIM), 0);
            while ((n = fi_cq_read(w.cq, &entry, 1)) == -FI_EAGAIN) {}
            if (n == -FI_EAVAIL) IS(fi_cq_readerr(w.cq, &error, 0), 1);
        } while (n != 1);
        IS(fi_trecvmsg(b, &p, FI_CLAIM | FI_DISCARD | (asks ? FI_COMPLETION : 0)), 0);
        if (asks) CHECK(next(&w).op_context == small);
        nothing(&w);
    }
    IS(fi_trecv(b, small, 4, NULL, FI_ADDR_UNSPEC, 5, 0, small), 0);
    IS(fi_tsend(a, out, 5, NULL, to_b, 5, NULL), 0);
    IS(next_failure(&w).err, FI_ETRUNC);
    IS(fi_trecv(b, small, 4, NULL, FI_ADDR_UNSPEC, 5, 0, small), 0);
    IS(fi_cancel(&b->fid, small), 0);
    IS(next_failure(&w).err, FI_ECANCELED);
}

// fi_cq(3): what a program may do, and know, when a send of each level has ended.
static void levels(void) {
    const uint64_t level[] = {0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE};
    const size_t lens[] = {0, 8, 5000, LONG};
    for (int l = 0; l < 5; l++)
        for (int k = 0; k < 4; k++)
            for (int late = 0; late < 2; late++) {
                for (size_t i = 0; i < lens[k]; i++) out[i] = (char)(i * 7 + l + late);
                if (!late) receive(LONG, 10);
                IS(send_msg(out, lens[k], 10, level[l] | FI_COMPLETION), 0);
                struct fi_cq_tagged_entry entry;
                int ended = 0;
                for (int i = 0; late && i < 300; i++) {
                    ssize_t n = fi_cq_read(w.cq, &entry, 1);
                    if (n == 1) IS(entry.flags, FI_SEND | FI_TAGGED);
                    ended |= n == 1;
                }
                // Nobody has matched it, or it would not be whole.
                if (late && level[l] == FI_MATCH_COMPLETE) CHECK(!ended);
                if (ended) memset(out, 'x', LONG);
                if (late) receive(LONG, 10);
                int seen = ended;
                while (seen < 2) {
                    entry = next(&w);
                    if (entry.flags & FI_SEND) memset(out, 'x', LONG);
                    else IS(entry.len, lens[k]);
                    seen++;
                }
                for (size_t i = 0; i < lens[k]; i++) CHECK(in[i] == (char)(i * 7 + l + late));
            }
    // Delivered, though the sender is no more: it cannot send it again.
    for (int k = 0; k < 3; k++) {
        memset(out, 'd', LONG);
        IS(send_msg(out, lens[k], 11, FI_DELIVERY_COMPLETE | FI_COMPLETION), 0);
        next(&w);
        IS(fi_close(&a->fid), 0);
        receive(LONG, 11);
        IS(next(&w).len, lens[k]);
        for (size_t i = 0; i < lens[k]; i++) CHECK(in[i] == 'd');
        IS(fi_close(&b->fid), 0);
        pair(0);
    }
}

// fi_cntr(3): messages of a multi-receive, those that failed, and not the entry that only releases the buffer.
static void counters(void) {
    static char room[1000];
    struct iovec into = {room, sizeof room};
    struct fi_msg msg = {.msg_iov = &into, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = room};
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;
    size_t least = 100;
    char name[ADDRESS];
    size_t len = ADDRESS;
    IS(fi_cntr_open(w.domain, &attr, &cntr, NULL), 0);
    struct fid_ep *c;
    IS(fi_endpoint(w.domain, w.info, &c, NULL), 0);
    IS(fi_ep_bind(c, &w.av->fid, 0), 0);
    IS(fi_ep_bind(c, &w.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    IS(fi_ep_bind(c, &cntr->fid, FI_RECV), 0);
    IS(fi_enable(c), 0);
    fi_addr_t to_c;
    IS(fi_getname(&c->fid, name, &len), 0);
    IS(fi_av_insert(w.av, name, 1, &to_c, 0, NULL), 1);
    IS(fi_setopt(&c->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
    IS(fi_recvmsg(c, &msg, FI_MULTI_RECV), 0);
    for (int i = 0; i < 4; i++) IS(fi_inject(a, out, 296, to_c), 0);
    for (int i = 0; i < 3; i++) next(&w);
    IS(next_failure(&w).err, FI_ETRUNC);
    IS(next(&w).flags, FI_MULTI_RECV);
    IS(fi_cntr_read(cntr), 3);
    IS(fi_cntr_readerr(cntr), 1);
    IS(fi_recvmsg(c, &msg, FI_MULTI_RECV), 0);
    IS(fi_cancel(&c->fid, room), 0);
    IS(next_failure(&w).err, FI_ECANCELED);
    IS(fi_cntr_read(cntr), 3);
    IS(fi_cntr_readerr(cntr), 2);
    IS(fi_close(&c->fid), 0);
    IS(fi_close(&cntr->fid), 0);
}

// fi_tagged(3): the entry of a look says what a receive would, and a discarded message is gone.
static void looks(void) {
    struct fi_context context;
    for (int claims = 0; claims < 2; claims++)
        for (int k = 0; k < 2; k++) {
            size_t len = k ? LONG : 100;
            struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = 20, .context = &context};
            struct fi_cq_tagged_entry entry;
            struct fi_cq_err_entry error = {0};
            ssize_t n;
            IS(fi_tsenddata(a, out, len, NULL, 77, to_b, 20, out), 0);
            IS(fi_tinject(a, "s", 1, to_b, 21), 0);
            int sent = 0;
            uint64_t flags = FI_PEEK | (claims ? FI_CLAIM : FI_DISCARD);
            IS(fi_trecvmsg(b, &m, flags), 0);
            for (;;) {
                while ((n = fi_cq_read(w.cq, &entry, 1)) == -FI_EAGAIN) {}
                if (n == 1 && entry.flags & FI_SEND) { sent = 1; continue; }
                if (n == 1) break;
                IS(fi_cq_readerr(w.cq, &error, 0), 1);
                IS(error.err, FI_ENOMSG);
                CHECK(error.op_context == &context);
                IS(fi_trecvmsg(b, &m, flags), 0);
            }
            CHECK(entry.op_context == &context);
            IS(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
            IS(entry.len, len);
            IS(entry.tag, 20);
            IS(entry.data, 77);
            if (claims) {
                // It is nobody's but the claim's.
                IS(fi_trecvmsg(b, &m, FI_PEEK), 0);
                do n = fi_cq_read(w.cq, &entry, 1), sent |= n == 1; while (n == 1 || n == -FI_EAGAIN);
                IS(fi_cq_readerr(w.cq, &error, 0), 1);
                IS(error.err, FI_ENOMSG);
                IS(fi_trecvmsg(b, &m, FI_CLAIM | FI_DISCARD), 0);
                do { entry = next(&w); sent |= entry.flags & FI_SEND; } while (entry.flags & FI_SEND);
                CHECK(entry.op_context == &context);
                IS(fi_trecvmsg(b, &m, FI_CLAIM | FI_DISCARD), -FI_EINVAL);
            }
            if (!sent) IS(next(&w).flags, FI_SEND | FI_TAGGED);
            // The one behind it is there, and nothing else is.
            receive(1, 21);
            IS(next(&w).len, 1);
            IS(fi_trecvmsg(b, &m, FI_PEEK), 0);
            IS(next_failure(&w).err, FI_ENOMSG);
        }
}

// fi_av(3): text of an address, and addresses that are looked up with too little room.
static void addresses(void) {
    char name[ADDRESS], text[ADDRESS + 1], part[5] = "####";
    size_t len = ADDRESS, room = sizeof text;
    fi_addr_t number = 4711;
    IS(fi_getname(&b->fid, name, &len), 0);
    CHECK(fi_av_straddr(w.av, name, text, &room) == text && strcmp(text, name) == 0);
    IS(room, strlen(name) + 1);
    room = 4;
    fi_av_straddr(w.av, name, part, &room);
    CHECK(strlen(part) == 3 && strncmp(part, name, 3) == 0);
    IS(room, strlen(name) + 1);
    IS(fi_av_insert(w.av, name, 0, &number, 0, NULL), 0);
    IS(number, 4711);
    char found[ADDRESS];
    memset(found, '#', ADDRESS);
    len = 4;
    IS(fi_av_lookup(w.av, to_b, found, &len), 0);
    IS(len, ADDRESS);
    CHECK(memcmp(found, name, 4) == 0 && found[4] == '#');
    IS(fi_av_lookup(w.av, to_b, found, &len), 0);
    CHECK(memcmp(found, name, ADDRESS) == 0);
}

// fi_endpoint(3), fi_domain(3): numbers are as offered.
static void attributes(void) {
    struct fi_info *i = w.info;
    const uint64_t data[] = {0, 1, 16381, 16382, 16383, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff};
    IS(i->domain_attr->cq_data_size, 4);
    for (size_t k = 0; k < sizeof data / sizeof *data; k++)
        for (int way = 0; way < 2; way++) {
            size_t len = way ? LONG : 8;
            receive(LONG, 30);
            if (way) IS(fi_tsenddata(a, out, len, NULL, data[k], to_b, 30, out), 0);
            else IS(fi_tinjectdata(a, out, len, data[k], to_b, 30), 0);
            for (int n = 0; n <= way; n++) {
                struct fi_cq_tagged_entry entry = next(&w);
                if (entry.flags & FI_SEND) continue;
                IS(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
                IS(entry.data, data[k]);
            }
        }
    IS(fi_tinjectdata(a, out, 8, 1ull << 32, to_b, 30), -FI_EINVAL);
    IS(fi_tsenddata(a, out, 8, NULL, 1ull << 32, to_b, 30, NULL), -FI_EINVAL);
    // Every call that injects takes as much, and no more.
    size_t inject = i->tx_attr->inject_size;
    struct fid_mr *mr;
    struct fi_cq_tagged_entry entry;
    IS(fi_mr_reg(w.domain, in, LONG, FI_REMOTE_WRITE, 0, 2, 0, &mr, NULL), 0);
    for (size_t more = 0; more < 2; more++) {
        int expected = more ? -FI_EINVAL : 0;
        memset(out, 'i' + (int)more, inject + 1);
        IS(fi_inject_write(a, out, inject + more, to_b, 0, 2), expected);
        memset(out, 'y', inject + 1);
        double end = now() + 60;
        while (in[inject - 1] != 'i') {
            CHECK(now() < end);
            IS(fi_cq_read(w.cq, &entry, 1), -FI_EAGAIN);
        }
        CHECK(in[0] == 'i' && in[inject] != 'y');
        IS(fi_tinject(a, out, inject + more, to_b, 31), expected);
        if (more) continue;
        receive(inject, 31);
        CHECK(next(&w).len == inject && in[inject - 1] == 'y');
        memset(in, 'i', inject);
    }
    IS(fi_close(&mr->fid), 0);
    IS(i->rx_attr->total_buffered_recv, 0);
    IS(i->rx_attr->comp_order, FI_ORDER_NONE);
    IS(i->tx_attr->comp_order, FI_ORDER_NONE);
    IS(i->domain_attr->max_err_data, 512);
}

// fi_endpoint(3): atomic operations that overlap, up to max_order_*_size, are done in their order.
static void order(void) {
    static uint64_t memory[512], got[2][512], put[512];
    size_t most = w.info->ep_attr->max_order_waw_size, count = most / 8;
    struct fid_mr *mr;
    IS(w.info->ep_attr->max_order_raw_size, most);
    IS(w.info->ep_attr->max_order_war_size, most);
    CHECK(count <= 512);
    IS(fi_mr_reg(w.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 3, 0, &mr, NULL), 0);
    for (uint64_t k = 1; k < 50; k++) {
        for (size_t i = 0; i < count; i++) put[i] = k;
        IS(fi_fetch_atomic(a, NULL, count, NULL, got[0], NULL, to_b, 0, 3, FI_UINT64, FI_ATOMIC_READ, NULL), 0);
        IS(fi_atomic(a, put, count, NULL, to_b, 0, 3, FI_UINT64, FI_ATOMIC_WRITE, NULL), 0);
        for (size_t i = 0; i < count; i++) put[i] = 2 * k;
        IS(fi_atomic(a, put, count, NULL, to_b, 0, 3, FI_UINT64, FI_ATOMIC_WRITE, NULL), 0);
        IS(fi_fetch_atomic(a, NULL, count, NULL, got[1], NULL, to_b, 0, 3, FI_UINT64, FI_ATOMIC_READ, NULL), 0);
        for (int i = 0; i < 4; i++) next(&w);
        for (size_t i = 0; i < count; i++) CHECK(got[0][i] == 2 * (k - 1) && got[1][i] == 2 * k);
    }
    IS(fi_close(&mr->fid), 0);
}

int main(int argc, char **argv) {
    int safe = argc > 1 && strcmp(argv[1], "safe") == 0;
    open_world(&w, safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN, FI_WAIT_UNSPEC);
    pair(FI_SELECTIVE_COMPLETION);
    selective();
    part();
    pair(0);
    more();
    levels();
    counters();
    looks();
    addresses();
    attributes();
    order();
    part();
    close_world(&w);
    puts("operations end as they should");
    return 0;
}
