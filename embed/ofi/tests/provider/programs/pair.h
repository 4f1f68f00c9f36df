// Two endpoints of one process, which know each other's addresses in one vector.
#include "common.h"

static struct world w;
static struct fid_ep *a, *b;
static fi_addr_t to_a, to_b;

// The program's first argument may ask for a domain that threads share.
static void open_pair(int argc, char **argv, enum fi_wait_obj wait) {
    int safe = argc > 1 && strcmp(argv[1], "safe") == 0;
    open_world(&w, safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN, wait);
    a = open_endpoint(&w, 0);
    b = open_endpoint(&w, 0);
    char name[2][ADDRESS];
    size_t len = ADDRESS;
    IS(fi_getname(&a->fid, name[0], &len), 0);
    IS(fi_getname(&b->fid, name[1], &len), 0);
    IS(fi_av_insert(w.av, name[0], 1, &to_a, 0, NULL), 1);
    IS(fi_av_insert(w.av, name[1], 1, &to_b, 0, NULL), 1);
}

static void close_pair(void) {
    IS(fi_close(&a->fid), 0);
    IS(fi_close(&b->fid), 0);
    close_world(&w);
}
