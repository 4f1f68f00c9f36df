// What libfabric's manual says of entries, waits and options, one promise after the other.
#include "pair.h"
#include <poll.h>

// fi_av(3): no address is none.
static void no_addresses(void) {
    char name[ADDRESS];
    IS(fi_av_insert(w.av, name, 0, NULL, 0, NULL), 0);
    IS(fi_av_remove(w.av, NULL, 0, 0), 0);
}

// fi_cq(3): every field of the entry of a message that was too long, however it is received.
static void truncated(void) {
    char in[64], out[200] = "0123456789";
    struct iovec parts[2] = {{in, 2}, {in + 32, 2}};
    for (int way = 0; way < 6; way++) {
        int is_late = way % 2, is_tagged = way < 4;
        for (int late = 0; late < 2; late++) {
            if (late != is_late) {
                if (is_tagged) IS(fi_tinjectdata(a, out, 100, 0x12345678, to_b, 40 + way), 0);
                else IS(fi_injectdata(a, out, 100, 0x12345678, to_b), 0);
                if (!late) for (int i = 0; i < 100; i++) fi_cq_read(w.cq, NULL, 0);
            } else if (way < 2) {
                IS(fi_trecv(b, in, 4, NULL, FI_ADDR_UNSPEC, 40 + way, 0, &way), 0);
            } else if (way < 4) {
                IS(fi_trecvv(b, parts, NULL, 2, FI_ADDR_UNSPEC, 40 + way, 0, &way), 0);
            } else {
                IS(fi_recv(b, in, 4, NULL, FI_ADDR_UNSPEC, &way), 0);
            }
        }
        struct fi_cq_err_entry error = next_failure(&w);
        CHECK(error.op_context == &way);
        IS(error.flags, FI_RECV | FI_REMOTE_CQ_DATA | (is_tagged ? FI_TAGGED : FI_MSG));
        IS(error.err, FI_ETRUNC);
        IS(error.len, 4);
        IS(error.olen, 96);
        IS(error.data, 0x12345678);
        IS(error.tag, is_tagged ? 40 + way : 0);
        CHECK(error.buf == NULL && error.err_data_size == 0);
        CHECK(strstr(fi_cq_strerror(w.cq, error.prov_errno, NULL, NULL, 0), "truncated"));
        CHECK(way / 2 == 1 ? !memcmp(in, "01", 2) && !memcmp(in + 32, "23", 2) : !memcmp(in, "0123", 4));
    }
    // One without data says so.
    IS(fi_trecv(b, in, 4, NULL, FI_ADDR_UNSPEC, 50, 0, in), 0);
    IS(fi_tinject(a, out, 100, to_b, 50), 0);
    IS(next_failure(&w).flags, FI_RECV | FI_TAGGED);
}

// fi_cq(3): a multi-receive's buffer is released with a message, or by an entry of its own.
static void released(void) {
    static char room[1000];
    char out[300];
    struct iovec into = {room, sizeof room};
    struct fi_msg msg = {.msg_iov = &into, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = room};
    size_t least = 100, len = sizeof least;
    IS(fi_setopt(&b->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, len), 0);
    for (int used = 0; used < 2; used++) {
        IS(fi_recvmsg(b, &msg, FI_MULTI_RECV), 0);
        if (used) {
            IS(fi_injectdata(a, out, 240, 7, to_b), 0);
            CHECK(next(&w).buf == room);
        }
        IS(fi_cancel(&b->fid, room), 0);
        struct fi_cq_err_entry error = next_failure(&w);
        IS(error.err, FI_ECANCELED);
        IS(error.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
        CHECK(error.op_context == room);
        IS(fi_cancel(&b->fid, room), -FI_ENOENT);
    }
    // A message that is longer than the rest: where it begins, and then the buffer by itself.
    IS(fi_recvmsg(b, &msg, FI_MULTI_RECV), 0);
    for (int i = 0; i < 4; i++) IS(fi_injectdata(a, out, 296, i, to_b), 0);
    for (int i = 0; i < 3; i++) CHECK(next(&w).buf == room + 296 * i);
    struct fi_cq_err_entry error = next_failure(&w);
    IS(error.err, FI_ETRUNC);
    IS(error.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    IS(error.data, 3);
    CHECK(error.buf == room + 3 * 296);
    IS(error.len, 112);
    IS(error.olen, 184);
    struct fi_cq_tagged_entry entry = next(&w);
    IS(entry.flags, FI_MULTI_RECV);
    CHECK(entry.op_context == room);
}

// fi_cq(3): reading no entry, and data of the provider's own in memory of the program.
static void asked_for_nothing(void) {
    char in[8], text[512];
    IS(fi_cq_read(w.cq, NULL, 0), -FI_EAGAIN);
    IS(fi_trecv(b, in, 8, NULL, FI_ADDR_UNSPEC, 60, 0, in), 0);
    IS(fi_cancel(&b->fid, in), 0);
    IS(fi_cq_read(w.cq, NULL, 0), -FI_EAVAIL);
    IS(fi_cq_readfrom(w.cq, NULL, 0, NULL), -FI_EAVAIL);
    IS(fi_cq_sread(w.cq, NULL, 0, NULL, 10), -FI_EAVAIL);
    // Of a cancelled one there are none.
    struct fi_cq_err_entry error = {.err_data = text, .err_data_size = sizeof text};
    IS(fi_cq_readerr(w.cq, &error, 0), 1);
    CHECK(error.err_data == text);
    IS(error.err_data_size, 0);
    IS(fi_tinject(a, "x", 1, to_b, 61), 0);
    IS(fi_trecv(b, in, 8, NULL, FI_ADDR_UNSPEC, 61, 0, in), 0);
    ssize_t n;
    while ((n = fi_cq_read(w.cq, NULL, 0)) == -FI_EAGAIN) {}
    IS(n, 0);
    next(&w);
    // A failure that has more to say, into much, little, and no memory.
    for (int room = 0; room < 3; room++) {
        size_t size[] = {sizeof text, 5, 0};
        IS(fi_read(a, in, 8, NULL, to_b, 0, 4711, in), 0);
        while ((n = fi_cq_read(w.cq, NULL, 0)) == -FI_EAGAIN) {}
        IS(n, -FI_EAVAIL);
        memset(text, '#', sizeof text);
        error = (struct fi_cq_err_entry){.err_data = text, .err_data_size = size[room]};
        IS(fi_cq_readerr(w.cq, &error, 0), 1);
        IS(error.err, FI_ENOKEY);
        const char *why = fi_cq_strerror(w.cq, error.prov_errno, error.err_data, NULL, 0);
        CHECK(strlen(why) > 10);
        if (room == 2) {
            CHECK(error.err_data != text && strcmp(error.err_data, why) == 0);
            IS(error.err_data_size, strlen(why) + 1);
            IS(text[0], '#');
            continue;
        }
        CHECK(error.err_data == text);
        IS(error.err_data_size, room ? 5 : strlen(why) + 1);
        CHECK(strncmp(text, why, error.err_data_size - 1) == 0 && text[error.err_data_size - 1] == 0);
        IS(text[error.err_data_size], '#');
    }
    char part[6];
    CHECK(fi_cq_strerror(w.cq, FI_ENOKEY, NULL, part, sizeof part) && strlen(part) == 5);
    CHECK(strcmp(fi_cq_strerror(w.cq, FI_ECANCELED, NULL, NULL, 0), "the operation was cancelled") == 0);
}

// fi_cntr(3), fi_cq(3): waits with and without an object to wait on.
static void waits(void) {
    enum fi_wait_obj objects[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD};
    for (int k = 0; k < 3; k++) {
        struct fi_cntr_attr attr = {.wait_obj = objects[k]};
        struct fid_cntr *cntr;
        IS(fi_cntr_open(w.domain, &attr, &cntr, NULL), 0);
        IS(fi_cntr_wait(cntr, 0, -1), 0);
        IS(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT);
        double begin = now();
        IS(fi_cntr_wait(cntr, 1, 20), -FI_ETIMEDOUT);
        CHECK(now() - begin > .015);
        IS(fi_cntr_add(cntr, 3), 0);
        IS(fi_cntr_wait(cntr, 3, -1), 0);
        IS(fi_cntr_set(cntr, 9), 0);
        IS(fi_cntr_read(cntr), 9);
        IS(fi_cntr_seterr(cntr, 2), 0);
        IS(fi_cntr_adderr(cntr, 2), 0);
        IS(fi_cntr_readerr(cntr), 4);
        IS(fi_cntr_wait(cntr, 9, -1), 0);
        IS(fi_close(&cntr->fid), 0);
        struct fi_cq_attr of_queue = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = objects[k]};
        struct fid_cq *cq;
        struct fi_cq_entry entry;
        IS(fi_cq_open(w.domain, &of_queue, &cq, NULL), 0);
        IS(fi_cq_sread(cq, &entry, 1, NULL, 0), -FI_EAGAIN);
        IS(fi_cq_sread(cq, &entry, 1, NULL, 20), -FI_EAGAIN);
        IS(fi_cq_signal(cq), k ? 0 : -FI_EINVAL);
        if (k) IS(fi_cq_sread(cq, &entry, 1, NULL, -1), -FI_EAGAIN);
        IS(fi_close(&cq->fid), 0);
    }
}

// fi_eq(3): events of the program's own, and a descriptor that is readable while there are some.
static void events(void) {
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
    struct fid_eq *eq;
    int fd;
    IS(fi_eq_open(w.fabric, &attr, &eq, NULL), 0);
    IS(fi_control(&eq->fid, FI_GETWAIT, &fd), 0);
    struct pollfd p = {fd, POLLIN, 0};
    struct fid *fids[] = {&eq->fid};
    uint32_t event;
    struct fi_eq_entry in, out = {.context = &in, .data = 9};
    IS(fi_eq_read(eq, &event, &in, sizeof in, 0), -FI_EAGAIN);
    IS(fi_trywait(w.fabric, fids, 1), 0);
    IS(poll(&p, 1, 0), 0);
    for (int i = 0; i < 2; i++) IS(fi_eq_write(eq, FI_NOTIFY, &out, sizeof out, 0), sizeof out);
    IS(fi_trywait(w.fabric, fids, 1), -FI_EAGAIN);
    IS(poll(&p, 1, 0), 1);
    IS(fi_eq_read(eq, &event, &in, 4, 0), -FI_ETOOSMALL);
    IS(fi_eq_sread(eq, &event, &in, sizeof in, -1, FI_PEEK), sizeof in);
    for (int i = 0; i < 2; i++) {
        IS(poll(&p, 1, 0), 1);
        IS(fi_eq_sread(eq, &event, &in, sizeof in, -1, 0), sizeof in);
        CHECK(event == FI_NOTIFY && in.data == 9 && in.context == &in);
    }
    IS(poll(&p, 1, 0), 0);
    char mine[4] = "abc";
    struct fi_eq_err_entry error = {.err_data = mine, .err_data_size = sizeof mine};
    IS(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
    CHECK(error.err_data == mine && error.err_data_size == sizeof mine);
    IS(fi_close(&eq->fid), 0);
}

// fi_endpoint(3): options, and cancelling what is not there.
static void options(void) {
    size_t value = 0, len = sizeof value;
    IS(fi_getopt(&a->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &len), 0);
    IS(value, 0);
    len = 2;
    IS(fi_getopt(&a->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len), -FI_ETOOSMALL);
    IS(len, sizeof value);
    IS(fi_getopt(&a->fid, FI_OPT_ENDPOINT, 4711, &value, &len), -FI_ENOPROTOOPT);
    IS(fi_setopt(&a->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, len), -FI_ENOPROTOOPT);
    IS(fi_setopt(&a->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 3), -FI_EINVAL);
    IS(fi_setopt(&a->fid, 99, FI_OPT_MIN_MULTI_RECV, &value, len), -FI_EINVAL);
    IS(fi_cancel(&a->fid, &value), -FI_ENOENT);
    IS(fi_cancel(&a->fid, NULL), -FI_ENOENT);
}

// fi_rma(3), fi_cq(3): a write with data makes an entry at the target.
static void remote_writes(void) {
    static char memory[100000], out[100000];
    size_t lens[] = {0, 1, 4096, 100000};
    struct fid_mr *mr;
    IS(fi_mr_reg(w.domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
    for (int k = 0; k < 8; k++) {
        size_t len = lens[k / 2];
        memset(out, 'a' + k, len);
        if (k % 2 && len <= 4096) {
            IS(fi_inject_writedata(a, out, len, 0xfedcba98, to_b, 0, 5), 0);
        } else {
            IS(fi_writedata(a, out, len, NULL, 0xfedcba98, to_b, 0, 5, out), 0);
        }
        for (int i = 0; i < (k % 2 && len <= 4096 ? 1 : 2); i++) {
            struct fi_cq_tagged_entry entry = next(&w);
            if (entry.flags & FI_WRITE) continue;
            IS(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
            IS(entry.len, len);
            IS(entry.data, 0xfedcba98);
            IS(entry.tag, 0);
            CHECK(entry.op_context == NULL && memcmp(memory, out, len) == 0);
        }
    }
    IS(fi_close(&mr->fid), 0);
}

// fi_getinfo(3): addresses, and what is asked for is there or refused.
static void information(void) {
    struct fi_info *hints = ask(), *found, *again;
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found), 0);
    CHECK(found->src_addr && found->src_addrlen == ADDRESS);
    CHECK(found->domain_attr->max_err_data >= 64);
    // What was given may be handed back.
    again = fi_dupinfo(found);
    fi_freeinfo(found);
    again->dest_addr = calloc(1, ADDRESS);
    again->dest_addrlen = ADDRESS;
    strcpy(again->dest_addr, "somebody");
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, again, &found), 0);
    CHECK(found->dest_addrlen == ADDRESS && strcmp(found->dest_addr, "somebody") == 0);
    fi_freeinfo(found);
    ((char *)again->src_addr)[0] ^= 1;
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, again, &found), -FI_ENODATA);
    IS(fi_getinfo(FI_VERSION(1, 17), "localhost", "9228", FI_SOURCE, again, &found), 0);
    fi_freeinfo(found);
    fi_freeinfo(again);
    hints->ep_attr->max_order_waw_size = 1 << 20;
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found), -FI_ENODATA);
    hints->ep_attr->max_order_waw_size = 0;
    // Programs of old know two ways of registering memory, and get one of them.
    hints->domain_attr->mr_mode = FI_MR_UNSPEC;
    IS(fi_getinfo(FI_VERSION(1, 0), NULL, NULL, 0, hints, &found), 0);
    IS(found->domain_attr->mr_mode, FI_MR_SCALABLE);
    fi_freeinfo(found);
    fi_freeinfo(hints);
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &found), 0);
    fi_freeinfo(found);
}

// Pieces of memory as the tests use them: `count` of 3 bytes each, 7 apart.
static char pieces_of[128];
static struct iovec *pieces(size_t count) {
    static struct iovec iov[9];
    for (size_t i = 0; i < count; i++) iov[i] = (struct iovec){pieces_of + 7 * i, 3};
    memset(pieces_of, '.', sizeof pieces_of);
    return iov;
}

static void are_filled(size_t count, const char *text) {
    for (size_t i = 0; i < count; i++) CHECK(memcmp(pieces_of + 7 * i, text + 3 * i, 3) == 0);
    for (size_t i = 0; i < sizeof pieces_of; i++)
        if (i / 7 >= count || i % 7 >= 3) IS(pieces_of[i], '.');
}

// fi_endpoint(3): iov_limit and rma_iov_limit. Every call takes as many pieces, and no more.
static void limits(void) {
    const char text[] = "abcdefghijklmnopqrstuvwxyz";
    struct fi_context context;
    size_t most = w.info->rx_attr->iov_limit;
    IS(w.info->tx_attr->iov_limit, most);
    IS(w.info->tx_attr->rma_iov_limit, 1);
    for (size_t count = 0; count <= most + 1; count++) {
        int bad = count > most;
        struct fi_msg_tagged t = {.msg_iov = pieces(count), .iov_count = count, .addr = FI_ADDR_UNSPEC, .tag = 70, .context = &context};
        struct fi_msg m = {.msg_iov = t.msg_iov, .iov_count = count, .addr = FI_ADDR_UNSPEC, .context = &context};
        // Receives: four calls, and a claimed message.
        for (int way = 0; way < 4; way++) {
            pieces(count);
            ssize_t said = way == 0   ? fi_trecvv(b, t.msg_iov, NULL, count, FI_ADDR_UNSPEC, 70, 0, &context)
                           : way == 1 ? fi_trecvmsg(b, &t, 0)
                           : way == 2 ? fi_recvv(b, t.msg_iov, NULL, count, FI_ADDR_UNSPEC, &context)
                                      : fi_recvmsg(b, &m, 0);
            IS(said, bad ? -FI_EINVAL : 0);
            if (bad) continue;
            IS(way < 2 ? fi_tinject(a, text, 3 * count, to_b, 70) : fi_inject(a, text, 3 * count, to_b), 0);
            struct fi_cq_tagged_entry entry = next(&w);
            CHECK(entry.op_context == &context && entry.len == 3 * count);
            are_filled(count, text);
        }
        IS(fi_tinject(a, text, bad ? 24 : 3 * count, to_b, 71), 0);
        t.tag = 71;
        for (;;) {
            IS(fi_trecvmsg(b, &t, FI_PEEK | FI_CLAIM), 0);
            ssize_t n;
            struct fi_cq_tagged_entry entry;
            struct fi_cq_err_entry error = {0};
            while ((n = fi_cq_read(w.cq, &entry, 1)) == -FI_EAGAIN) {}
            if (n == 1) break;
            IS(fi_cq_readerr(w.cq, &error, 0), 1);
        }
        if (bad) {
            // It is still claimed.
            IS(fi_trecvmsg(b, &t, FI_CLAIM), -FI_EINVAL);
            t.iov_count = most;
        }
        pieces(t.iov_count);
        IS(fi_trecvmsg(b, &t, FI_CLAIM), 0);
        CHECK(next(&w).op_context == &context);
        are_filled(t.iov_count, text);
        // Sends: four calls, some with copies.
        t = (struct fi_msg_tagged){.msg_iov = t.msg_iov, .iov_count = count, .addr = to_b, .tag = 72};
        m = (struct fi_msg){.msg_iov = t.msg_iov, .iov_count = count, .addr = to_b};
        for (int way = 0; way < 8; way++) {
            uint64_t how[] = {0, FI_INJECT, FI_MATCH_COMPLETE, FI_INJECT | FI_MATCH_COMPLETE, 0, FI_INJECT, 0, 0};
            char in[32];
            pieces(count);
            for (size_t i = 0; i < count; i++) memcpy(pieces_of + 7 * i, text + 3 * i, 3);
            if (!bad) IS(way < 5 ? fi_trecv(b, in, 32, NULL, FI_ADDR_UNSPEC, 72, 0, in) : fi_recv(b, in, 32, NULL, FI_ADDR_UNSPEC, in), 0);
            ssize_t said = way < 4    ? fi_tsendmsg(a, &t, how[way] | FI_COMPLETION)
                           : way == 4 ? fi_tsendv(a, t.msg_iov, NULL, count, to_b, 72, NULL)
                           : way < 7  ? fi_sendmsg(a, &m, how[way] | FI_COMPLETION)
                                      : fi_sendv(a, t.msg_iov, NULL, count, to_b, NULL);
            IS(said, bad ? -FI_EINVAL : 0);
            if (bad) continue;
            if (how[way] & FI_INJECT) memset(pieces_of, 'x', sizeof pieces_of);
            next(&w);
            next(&w);
            CHECK(memcmp(in, text, 3 * count) == 0);
        }
    }
    IS(fi_tsendmsg(a, &(struct fi_msg_tagged){.addr = to_b}, FI_FENCE), -FI_EBADFLAGS);
    IS(fi_sendmsg(a, &(struct fi_msg){.addr = to_b}, FI_FENCE), -FI_EBADFLAGS);
    IS(fi_trecvmsg(b, &(struct fi_msg_tagged){.addr = FI_ADDR_UNSPEC}, FI_FENCE), -FI_EBADFLAGS);
    IS(fi_recvmsg(b, &(struct fi_msg){.addr = FI_ADDR_UNSPEC}, FI_PEEK), -FI_EBADFLAGS);
    // As many bytes as inject_size says, and no more.
    size_t inject = w.info->tx_attr->inject_size;
    char *out = calloc(1, inject + 1), *in = calloc(1, inject + 1);
    IS(fi_inject(a, out, inject + 1, to_b), -FI_EINVAL);
    IS(fi_recv(b, in, inject, NULL, FI_ADDR_UNSPEC, in), 0);
    memset(out, 'i', inject);
    IS(fi_inject(a, out, inject, to_b), 0);
    CHECK(next(&w).len == inject && memcmp(in, out, inject) == 0);
    free(out);
    free(in);
}

static void limits_of_memory(void) {
    const char text[] = "abcdefghijklmnopqrstuvwxyz";
    static char memory[64];
    static int numbers[16];
    struct fid_mr *mr, *mr_of_numbers;
    size_t most = w.info->tx_attr->iov_limit;
    IS(fi_mr_reg(w.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 6, 0, &mr, NULL), 0);
    IS(fi_mr_reg(w.domain, numbers, sizeof numbers, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr_of_numbers, NULL), 0);
    for (size_t count = 0; count <= most + 1; count++) {
        int bad = count > most;
        struct fi_rma_iov theirs[2] = {{0, 3 * count, 6}, {0, 0, 6}};
        struct fi_msg_rma m = {.msg_iov = pieces(count), .iov_count = count, .addr = to_b, .rma_iov = theirs, .rma_iov_count = 1};
        for (int way = 0; way < 5; way++) {
            int reads = way > 2;
            pieces(count);
            memset(memory, '.', sizeof memory);
            if (reads) memcpy(memory, text, 3 * count);
            else for (size_t i = 0; i < count; i++) memcpy(pieces_of + 7 * i, text + 3 * i, 3);
            ssize_t said = way == 0   ? fi_writev(a, m.msg_iov, NULL, count, to_b, 0, 6, NULL)
                           : way == 1 ? fi_writemsg(a, &m, FI_COMPLETION)
                           : way == 2 ? fi_writemsg(a, &m, FI_COMPLETION | FI_INJECT)
                           : way == 3 ? fi_readv(a, m.msg_iov, NULL, count, to_b, 0, 6, NULL)
                                      : fi_readmsg(a, &m, FI_COMPLETION);
            IS(said, bad ? -FI_EINVAL : 0);
            if (bad) continue;
            if (way == 2) memset(pieces_of, 'x', sizeof pieces_of);
            next(&w);
            if (reads) are_filled(count, text);
            else CHECK(memcmp(memory, text, 3 * count) == 0);
        }
        m.rma_iov_count = 2;
        IS(fi_readmsg(a, &m, 0), -FI_EINVAL);
        IS(fi_writemsg(a, &m, 0), -FI_EINVAL);
        IS(fi_writemsg(a, &m, FI_FENCE), -FI_EINVAL);
        if (!count) continue;
        // Atomic operations: as many operands, results and values to compare with.
        int ones[9], old[9], same[9];
        struct fi_ioc o[9], r[9], c[9];
        for (size_t i = 0; i < count; i++) {
            ones[i] = numbers[i] + 1;
            same[i] = numbers[i];
            old[i] = -1;
            o[i] = (struct fi_ioc){ones + i, 1};
            r[i] = (struct fi_ioc){old + i, 1};
            c[i] = (struct fi_ioc){same + i, 1};
        }
        struct fi_rma_ioc target = {0, count, 7};
        struct fi_msg_atomic am = {.msg_iov = o, .iov_count = count, .addr = to_b, .rma_iov = &target, .rma_iov_count = 1, .datatype = FI_INT32, .op = FI_CSWAP};
        IS(fi_compare_atomicmsg(a, &am, c, NULL, count, r, NULL, count, FI_COMPLETION), bad ? -FI_EINVAL : 0);
        if (!bad) next(&w);
        for (size_t i = 0; !bad && i < count; i++) CHECK(numbers[i] == ones[i] && old[i] == same[i]);
        am.op = FI_SUM;
        IS(fi_fetch_atomicmsg(a, &am, r, NULL, count, FI_COMPLETION), bad ? -FI_EINVAL : 0);
        if (!bad) next(&w);
        for (size_t i = 0; !bad && i < count; i++) CHECK(numbers[i] == 2 * ones[i] && old[i] == ones[i]);
        IS(fi_atomicv(a, o, NULL, count, to_b, 0, 7, FI_INT32, FI_SUM, NULL), bad ? -FI_EINVAL : 0);
        if (!bad) next(&w);
        for (size_t i = 0; !bad && i < count; i++) IS(numbers[i], 3 * ones[i]);
        IS(fi_atomicmsg(a, &am, FI_FENCE), -FI_EBADFLAGS);
    }
    IS(fi_close(&mr->fid), 0);
    IS(fi_close(&mr_of_numbers->fid), 0);
}

// Bytes at no address are refused by every call, and no bytes are not.
static void nowhere(void) {
    static char x[8];
    struct iovec bad[2] = {{x, 4}, {NULL, 4}}, good[2] = {{NULL, 0}, {x, 4}};
    struct fi_rma_iov theirs = {0, 8, 8};
    struct fid_mr *mr;
    IS(fi_mr_reg(w.domain, x, 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 8, 0, &mr, NULL), 0);
    struct fi_msg_tagged t = {.msg_iov = bad, .iov_count = 2, .addr = to_b, .tag = 80};
    struct fi_msg m = {.msg_iov = bad + 1, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
    struct fi_msg_rma r = {.msg_iov = bad, .iov_count = 2, .addr = to_b, .rma_iov = &theirs, .rma_iov_count = 1};
    IS(fi_tsendmsg(a, &t, 0), -FI_EINVAL);
    IS(fi_tsendmsg(a, &t, FI_INJECT), -FI_EINVAL);
    IS(fi_tsendv(a, bad, NULL, 2, to_b, 80, NULL), -FI_EINVAL);
    IS(fi_tinject(a, NULL, 4, to_b, 80), -FI_EINVAL);
    IS(fi_trecv(b, NULL, 4, NULL, FI_ADDR_UNSPEC, 80, 0, NULL), -FI_EINVAL);
    IS(fi_trecvv(b, bad, NULL, 2, FI_ADDR_UNSPEC, 80, 0, NULL), -FI_EINVAL);
    IS(fi_recvmsg(b, &m, FI_MULTI_RECV), -FI_EINVAL);
    IS(fi_recvmsg(b, &m, 0), -FI_EINVAL);
    IS(fi_read(a, NULL, 4, NULL, to_b, 0, 8, NULL), -FI_EINVAL);
    IS(fi_write(a, NULL, 4, NULL, to_b, 0, 8, NULL), -FI_EINVAL);
    IS(fi_inject_write(a, NULL, 4, to_b, 0, 8), -FI_EINVAL);
    IS(fi_readv(a, bad, NULL, 2, to_b, 0, 8, NULL), -FI_EINVAL);
    IS(fi_writev(a, bad, NULL, 2, to_b, 0, 8, NULL), -FI_EINVAL);
    IS(fi_readmsg(a, &r, 0), -FI_EINVAL);
    IS(fi_writemsg(a, &r, FI_INJECT), -FI_EINVAL);
    IS(fi_av_insert(w.av, NULL, 1, NULL, 0, NULL), -FI_EINVAL);
    IS(fi_trecvv(b, good, NULL, 2, FI_ADDR_UNSPEC, 80, 0, x), 0);
    IS(fi_tinject(a, "1234", 4, to_b, 80), 0);
    CHECK(next(&w).len == 4 && memcmp(x, "1234", 4) == 0);
    IS(fi_close(&mr->fid), 0);
    // An address that was taken out stands for nobody.
    fi_addr_t number;
    char name[ADDRESS] = "taffrail-somebody";
    size_t len = 0;
    IS(fi_av_insert(w.av, name, 1, &number, 0, NULL), 1);
    IS(fi_av_lookup(w.av, number, name, &len), 0);
    IS(len, ADDRESS);
    IS(fi_av_remove(w.av, &number, 1, 0), 0);
    IS(fi_av_remove(w.av, &number, 1, 0), -FI_EINVAL);
    IS(fi_av_lookup(w.av, number, name, &len), -FI_EINVAL);
    IS(fi_tinject(a, x, 1, number, 80), -FI_EINVAL);
    IS(fi_tsend(a, x, 1, NULL, FI_ADDR_NOTAVAIL, 80, NULL), -FI_EINVAL);
}

int main(int argc, char **argv) {
    open_pair(argc, argv, FI_WAIT_UNSPEC);
    no_addresses();
    truncated();
    released();
    asked_for_nothing();
    waits();
    events();
    options();
    remote_writes();
    limits();
    limits_of_memory();
    nowhere();
    information();
    close_pair();
    puts("all promises are kept");
    return 0;
}
