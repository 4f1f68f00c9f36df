// What the test programs have in common: a domain with one queue, and endpoints in it.
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                \
    do {                                                                           \
        if (!(what)) {                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);     \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

#define IS(what, expected)                                                         \
    do {                                                                           \
        long long got_ = (long long)(what), want_ = (long long)(expected);         \
        if (got_ != want_) {                                                       \
            fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", __FILE__,        \
                    __LINE__, #what, got_, want_);                                 \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

enum { ADDRESS = 64 };

struct world {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
};

static struct fi_info *ask(void) {
    struct fi_info *hints = fi_allocinfo();
    hints->fabric_attr->prov_name = strdup("taffrail");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED | FI_MSG | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
    hints->domain_attr->mr_mode = FI_MR_ENDPOINT;
    return hints;
}

// Opens what the hints ask for, which are freed.
static void open_asked(struct world *w, struct fi_info *hints, enum fi_wait_obj wait) {
    IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &w->info), 0);
    CHECK(strcmp(w->info->fabric_attr->prov_name, "taffrail") == 0);
    fi_freeinfo(hints);
    IS(fi_fabric(w->info->fabric_attr, &w->fabric, NULL), 0);
    IS(fi_domain(w->fabric, w->info, &w->domain, NULL), 0);
    struct fi_av_attr av = {.type = FI_AV_MAP};
    IS(fi_av_open(w->domain, &av, &w->av, NULL), 0);
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};
    IS(fi_cq_open(w->domain, &cq, &w->cq, NULL), 0);
}

static void open_world(struct world *w, enum fi_threading threading, enum fi_wait_obj wait) {
    struct fi_info *hints = ask();
    hints->domain_attr->threading = threading;
    open_asked(w, hints, wait);
}

static struct fid_ep *open_endpoint(struct world *w, uint64_t selective) {
    struct fid_ep *ep;
    IS(fi_endpoint(w->domain, w->info, &ep, NULL), 0);
    IS(fi_enable(ep), -FI_ENOAV);
    IS(fi_ep_bind(ep, &w->av->fid, 0), 0);
    IS(fi_enable(ep), -FI_ENOCQ);
    IS(fi_ep_bind(ep, &w->cq->fid, FI_TRANSMIT | FI_RECV | selective), 0);
    IS(fi_enable(ep), 0);
    return ep;
}

static void close_world(struct world *w) {
    IS(fi_close(&w->cq->fid), 0);
    IS(fi_close(&w->av->fid), 0);
    IS(fi_close(&w->domain->fid), 0);
    IS(fi_close(&w->fabric->fid), 0);
    fi_freeinfo(w->info);
}

// Tells another process our address, and inserts its.
static fi_addr_t meet(struct world *w, struct fid_ep *ep, int from, int to) {
    char mine[ADDRESS], theirs[ADDRESS];
    size_t len = sizeof mine;
    fi_addr_t other;
    IS(fi_getname(&ep->fid, mine, &len), 0);
    IS(write(to, mine, sizeof mine), sizeof mine);
    IS(read(from, theirs, sizeof theirs), sizeof theirs);
    IS(fi_av_insert(w->av, theirs, 1, &other, 0, NULL), 1);
    return other;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// The next entry; what else there should be is looked for by the caller.
static struct fi_cq_tagged_entry next_from(struct world *w, fi_addr_t *source) {
    struct fi_cq_tagged_entry entry;
    double end = now() + 60;
    for (;;) {
        ssize_t n = fi_cq_readfrom(w->cq, &entry, 1, source);
        if (n == 1) return entry;
        if (n == -FI_EAVAIL) {
            struct fi_cq_err_entry error = {0};
            fi_cq_readerr(w->cq, &error, 0);
            fprintf(stderr, "an operation failed: %s\n",
                    fi_cq_strerror(w->cq, error.prov_errno, NULL, NULL, 0));
            exit(1);
        }
        IS(n, -FI_EAGAIN);
        CHECK(now() < end);
    }
}

static struct fi_cq_tagged_entry next(struct world *w) {
    fi_addr_t source;
    return next_from(w, &source);
}

// The next entry, which is a failure.
static struct fi_cq_err_entry next_failure(struct world *w) {
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    double end = now() + 60;
    ssize_t n;
    while ((n = fi_cq_read(w->cq, &entry, 1)) == -FI_EAGAIN) CHECK(now() < end);
    IS(n, -FI_EAVAIL);
    IS(fi_cq_readerr(w->cq, &error, 0), 1);
    return error;
}

static void nothing(struct world *w) {
    struct fi_cq_tagged_entry entry;
    for (int i = 0; i < 1000; i++) IS(fi_cq_read(w->cq, &entry, 1), -FI_EAGAIN);
}
