// Several threads on one endpoint and one queue, with FI_THREAD_SAFE.
#include "common.h"
#include <pthread.h>

enum { THREADS = 4, MESSAGES = 2000, LONGEST = 9000 };

static struct world w;
static struct fid_ep *a, *b;
static fi_addr_t to_b;
static long ended;

// Whoever finds an entry counts it, whosever it is.
static void read_some(void) {
    struct fi_cq_tagged_entry entries[4];
    ssize_t n = fi_cq_read(w.cq, entries, 4);
    if (n == -FI_EAGAIN) return;
    CHECK(n > 0);
    for (int i = 0; i < n; i++) {
        if (entries[i].flags & FI_RECV) {
            // The context is the buffer; the data are the length.
            unsigned char *in = entries[i].op_context;
            IS(entries[i].len, entries[i].data);
            for (size_t k = 0; k < entries[i].len; k++) IS(in[k], entries[i].tag & 0xff);
            free(in);
        } else {
            free(entries[i].op_context);
        }
    }
    __atomic_fetch_add(&ended, n, __ATOMIC_RELAXED);
}

static void *work(void *argument) {
    size_t me = (size_t)argument;
    for (size_t i = 0; i < MESSAGES; i++) {
        size_t len = i * (me + 7) % LONGEST;
        unsigned char *in = malloc(LONGEST), *out = malloc(LONGEST);
        memset(out, (int)(me * MESSAGES + i), LONGEST);
        uint64_t tag = me * MESSAGES + i;
        IS(fi_trecv(b, in, LONGEST, NULL, FI_ADDR_UNSPEC, tag, 0, in), 0);
        IS(fi_tsenddata(a, out, len, NULL, len, to_b, tag, out), 0);
        read_some();
    }
    while (__atomic_load_n(&ended, __ATOMIC_RELAXED) < 2l * THREADS * MESSAGES) read_some();
    return NULL;
}

int main(void) {
    char name[ADDRESS];
    size_t len = sizeof name;
    open_world(&w, FI_THREAD_SAFE, FI_WAIT_NONE);
    a = open_endpoint(&w, 0);
    b = open_endpoint(&w, 0);
    IS(fi_getname(&b->fid, name, &len), 0);
    IS(fi_av_insert(w.av, name, 1, &to_b, 0, NULL), 1);
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, work, (void *)t) == 0);
    for (size_t t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    nothing(&w);
    IS(fi_close(&a->fid), 0);
    IS(fi_close(&b->fid), 0);
    close_world(&w);
    puts("all messages have arrived once");
    return 0;
}
