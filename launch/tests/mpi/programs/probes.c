/* Everybody looks for messages of unknown source and length until they are all there. */
#include "common.h"

enum { MOST = 20000 };

int main(int argc, char **argv)
{
    static uint64_t out[MOST], in[MOST];
    int rank, size;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t sum = 0;
    for (int step = 0; step < steps(argc, argv); step++) {
        in_step(step);
        MPI_Request *sends = malloc(size * sizeof *sends);
        int count = 1 + scattered(step * 100 + rank) % (step % 16 ? 100 : MOST);
        for (int i = 0; i < count; i++)
            out[i] = scattered(rank + step + i);
        for (int to = 0; to < size; to++)
            MPI_Isend(out, count, MPI_UINT64_T, to, step, MPI_COMM_WORLD, &sends[to]);
        for (int missing = size; missing > 0;) {
            int there, got;
            MPI_Status status;
            MPI_Iprobe(MPI_ANY_SOURCE, step, MPI_COMM_WORLD, &there, &status);
            if (!there)
                continue;
            MPI_Get_count(&status, MPI_UINT64_T, &got);
            MPI_Recv(in, got, MPI_UINT64_T, status.MPI_SOURCE, step, MPI_COMM_WORLD, &status);
            uint64_t one = status.MPI_SOURCE;
            for (int i = 0; i < got; i++)
                one = mixed(one, in[i]);
            /* In any order. */
            sum += scattered(one);
            missing--;
        }
        int done = 0;
        while (!done)
            MPI_Testall(size, sends, &done, MPI_STATUSES_IGNORE);
        free(sends);
    }
    uint64_t all;
    MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    print_checksum(all);
    MPI_Finalize();
    return 0;
}
