/* Collective operations in sub-communicators that overlap, made and freed again and again. */
#include "common.h"

enum { COUNT = 600 };

int main(int argc, char **argv)
{
    static uint64_t mine[COUNT], all[COUNT];
    int rank, size;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t sum = 0;
    for (int step = 0; step < steps(argc, argv); step++) {
        in_step(step);
        MPI_Comm half, twin;
        int place, members;
        MPI_Comm_split(MPI_COMM_WORLD, (rank + step) % 2, -rank, &half);
        MPI_Comm_dup(half, &twin);
        MPI_Comm_rank(half, &place);
        MPI_Comm_size(half, &members);
        for (int i = 0; i < COUNT; i++)
            mine[i] = scattered(sum + rank + i);
        MPI_Allreduce(mine, all, COUNT, MPI_UINT64_T, MPI_BXOR, half);
        MPI_Bcast(all, COUNT, MPI_UINT64_T, step % members, twin);
        MPI_Request request;
        MPI_Ibarrier(twin, &request);
        uint64_t before = 0;
        MPI_Exscan(&all[place], &before, 1, MPI_UINT64_T, MPI_SUM, half);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sum = mixed(sum, all[step % COUNT] + (place ? before : 0));
        uint64_t *parts = malloc(size * sizeof *parts), *others = malloc(size * sizeof *others);
        for (int i = 0; i < size; i++)
            parts[i] = scattered(sum + i);
        MPI_Alltoall(parts, 1, MPI_UINT64_T, others, 1, MPI_UINT64_T, MPI_COMM_WORLD);
        for (int i = 0; i < size; i++)
            sum = mixed(sum, others[i]);
        free(parts);
        free(others);
        MPI_Comm_free(&twin);
        MPI_Comm_free(&half);
    }
    uint64_t total;
    MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    print_checksum(total);
    MPI_Finalize();
    return 0;
}
