/* A message goes around, of another length in each step, and every rank changes it. */
#include "common.h"

enum { MOST = 40000 };

int main(int argc, char **argv)
{
    static uint64_t words[MOST];
    int rank, size;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    uint64_t sum = 0;
    for (int step = 0; step < steps(argc, argv); step++) {
        in_step(step);
        /* 8 bytes to 320 KB. */
        int count = 1 + scattered(step) % (step % 8 ? 200 : MOST);
        MPI_Status status;
        if (rank == 0) {
            for (int i = 0; i < count; i++)
                words[i] = scattered(sum + i);
            MPI_Send(words, count, MPI_UINT64_T, next, step, MPI_COMM_WORLD);
        }
        MPI_Recv(words, MOST, MPI_UINT64_T, last, step, MPI_COMM_WORLD, &status);
        int got;
        MPI_Get_count(&status, MPI_UINT64_T, &got);
        sum = mixed(sum, got);
        for (int i = 0; i < got; i++)
            sum = mixed(sum, words[i] += rank + i);
        if (rank != 0)
            MPI_Send(words, got, MPI_UINT64_T, next, step, MPI_COMM_WORLD);
    }
    print_checksum(sum);
    MPI_Finalize();
    return 0;
}
