/* A number goes round a ring of ranks, and each of them changes it. The answer depends on the number of
 * ranks and of rounds, and on nothing else.
 *
 *     mpicc -O2 -o ring examples/mpi/ring.c
 *     taffrail mpi -n 4 ./ring [ROUNDS]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size;
    unsigned long number = 0;
    long rounds = argc > 1 ? atol(argv[1]) : 1000000;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (long round = 0; round < rounds; round++) {
        if (rank != 0)
            MPI_Recv(&number, 1, MPI_UNSIGNED_LONG, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        number = number * 6364136223846793005UL + round + rank;
        MPI_Send(&number, 1, MPI_UNSIGNED_LONG, next, 0, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&number, 1, MPI_UNSIGNED_LONG, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        printf("%d ranks, %ld rounds: %016lx\n", size, rounds, number);
    MPI_Finalize();
    return 0;
}
