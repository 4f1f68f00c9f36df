/* Where things are in memory: what each life of a rank allocates between its messages has to be where the one
   before had it. Each life writes down where that was, in the file ADDRESSES.RANK, or compares. */
#include "common.h"
#include <string.h>

enum { COUNT = 30000, KEPT = 40 };

static FILE *seen;

/* The end of the file is what the life before has not come to, or its last line, not all of which was written. */
static void compare(int step, void *address)
{
    char now[64], then[64];
    snprintf(now, sizeof now, "%d %p.\n", step, address);
    long place = ftell(seen);
    if (fgets(then, sizeof then, seen) && strchr(then, '.')) {
        if (strcmp(now, then)) {
            fprintf(stderr, "a life had %s and now there is %s", then, now);
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
        return;
    }
    fseek(seen, place, SEEK_SET);
    fputs(now, seen);
    fflush(seen);
}

int main(int argc, char **argv)
{
    static uint64_t out[COUNT], in[COUNT];
    static void *kept[KEPT];
    int rank, size;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", getenv("ADDRESSES"), rank);
    fclose(fopen(path, "a"));
    seen = fopen(path, "r+");
    uint64_t sum = 0;
    for (int step = 0; step < steps(argc, argv); step++) {
        in_step(step);
        /* Everybody meets everybody, some late. */
        int next = (rank + 1 + step % (size - 1)) % size;
        for (int message = 0; message < 10; message++) {
            /* Some short, some long, and some before they are expected. */
            int tag = 16 * step + message;
            uint64_t random = scattered(tag);
            int length = 1 + random % (message % 3 ? 100 : COUNT), is_early = random >> 40 & 1;
            for (int i = 0; i < length; i++)
                out[i] = sum + i;
            MPI_Request sent, got;
            if (!is_early)
                MPI_Irecv(in, length, MPI_UINT64_T, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &got);
            MPI_Isend(out, length, MPI_UINT64_T, next, tag, MPI_COMM_WORLD, &sent);
            if (is_early)
                MPI_Irecv(in, length, MPI_UINT64_T, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &got);
            MPI_Wait(&got, MPI_STATUS_IGNORE);
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
            sum = mixed(sum, in[length - 1]);
            int which = random % KEPT;
            free(kept[which]);
            kept[which] = malloc(1 + random % (message % 5 ? 3000 : 400000));
            compare(step, kept[which]);
        }
    }
    uint64_t total;
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    print_checksum(total);
    MPI_Finalize();
    return 0;
}
