/* 8 bytes there and back between two endpoints of one process, by tags, through libfabric:
 *
 *     provider ROUNDS
 *
 * One thread does all of it, so that it is the same instructions in every run. Half of the messages are
 * injected, the others sent with an entry for the sender. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "provider: line %d: %s\n", __LINE__, #what);       \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    fi_addr_t other;
};

static struct end open_end(struct fid_domain *domain, struct fi_info *info, struct fid_av *av)
{
    struct end end = {0};
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    CHECK(fi_endpoint(domain, info, &end.ep, NULL) == 0);
    CHECK(fi_cq_open(domain, &attr, &end.cq, NULL) == 0);
    CHECK(fi_ep_bind(end.ep, &av->fid, 0) == 0);
    CHECK(fi_ep_bind(end.ep, &end.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_enable(end.ep) == 0);
    return end;
}

static fi_addr_t insert(struct fid_av *av, struct fid_ep *ep)
{
    char name[64];
    size_t len = sizeof name;
    fi_addr_t address;
    CHECK(fi_getname(&ep->fid, name, &len) == 0);
    CHECK(fi_av_insert(av, name, 1, &address, 0, NULL) == 1);
    return address;
}

/* The next entry of a queue; `else_look` makes progress as well, while the two meet. */
static void next(struct fid_cq *cq, struct fid_cq *else_look, uint64_t flag)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n;
    while ((n = fi_cq_read(cq, &entry, 1)) != 1) {
        CHECK(n == -FI_EAGAIN);
        if (else_look != NULL)
            CHECK(fi_cq_read(else_look, NULL, 0) == -FI_EAGAIN);
    }
    CHECK(entry.flags & flag);
}

static void round_trip(const struct end *a, const struct end *b, uint64_t number, int meeting)
{
    uint64_t there, back;
    CHECK(fi_trecv(b->ep, &there, 8, NULL, b->other, 1, 0, NULL) == 0);
    CHECK(fi_tinject(a->ep, &number, 8, a->other, 1) == 0);
    next(b->cq, meeting ? a->cq : NULL, FI_RECV);
    CHECK(there == number);
    CHECK(fi_trecv(a->ep, &back, 8, NULL, a->other, 2, 0, NULL) == 0);
    CHECK(fi_tsend(b->ep, &there, 8, NULL, b->other, 2, NULL) == 0);
    next(b->cq, NULL, FI_SEND);
    next(a->cq, NULL, FI_RECV);
    CHECK(back == number);
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    hints->fabric_attr->prov_name = strdup("taffrail");
    hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
    CHECK(fi_av_open(domain, &attr, &av, NULL) == 0);
    struct end a = open_end(domain, info, av), b = open_end(domain, info, av);
    b.other = insert(av, a.ep);
    a.other = insert(av, b.ep);
    round_trip(&a, &b, 0, 1);
    for (uint64_t i = 1; i <= rounds; i++)
        round_trip(&a, &b, i, 0);
    return 0;
}
