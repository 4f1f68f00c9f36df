// Waits for a counter that never changes, MS milliseconds at a time: none MS, object MS.
#include "common.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    struct world w;
    open_world(&w, FI_THREAD_SAFE, FI_WAIT_NONE);
    struct fi_cntr_attr attr = {.wait_obj = strcmp(argv[1], "none") ? FI_WAIT_UNSPEC : FI_WAIT_NONE};
    struct fid_cntr *cntr;
    IS(fi_cntr_open(w.domain, &attr, &cntr, NULL), 0);
    struct fid_ep *ep;
    IS(fi_endpoint(w.domain, w.info, &ep, NULL), 0);
    IS(fi_ep_bind(ep, &w.av->fid, 0), 0);
    IS(fi_ep_bind(ep, &w.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    IS(fi_ep_bind(ep, &cntr->fid, FI_RECV), 0);
    IS(fi_enable(ep), 0);
    char in[8];
    IS(fi_trecv(ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 7, 0, NULL), 0);
    // Several short waits are one long one.
    for (int k = 0; k < 2; k++) IS(fi_cntr_wait(cntr, 1, atoi(argv[2])), -FI_ETIMEDOUT);
    IS(fi_cancel(&ep->fid, NULL), 0);
    IS(fi_close(&ep->fid), 0);
    IS(fi_close(&cntr->fid), 0);
    close_world(&w);
    printf("it has waited\n");
    return 0;
}
