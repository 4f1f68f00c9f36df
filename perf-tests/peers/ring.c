/* A token of 8 bytes round a ring of MPI ranks, more of them than CPUs, for argv[1] seconds.
 * Rank 0 writes the microseconds of every lap to the file argv[2], as a JSON array. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_LAPS 4000000
#define WARM_UP_SECONDS 0.2

static int rank, size;

/* Sends the token on its way; on rank 0, until it is back. */
static void lap(uint64_t *token)
{
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    if (rank == 0)
        MPI_Send(token, 1, MPI_UINT64_T, next, 1, MPI_COMM_WORLD);
    MPI_Recv(token, 1, MPI_UINT64_T, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(token, 1, MPI_UINT64_T, next, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    double seconds = atof(argv[1]);
    uint64_t more = 1;
    if (rank != 0) {
        while (more)
            lap(&more);
        MPI_Finalize();
        return 0;
    }
    double *laps = malloc(MOST_LAPS * sizeof *laps);
    if (!laps)
        MPI_Abort(MPI_COMM_WORLD, 1);
    long count = 0;
    double begin = MPI_Wtime(), before = begin, now = begin;
    while (now - begin < seconds + WARM_UP_SECONDS && count < MOST_LAPS) {
        lap(&more);
        now = MPI_Wtime();
        if (now - begin > WARM_UP_SECONDS)
            laps[count++] = (now - before) * 1e6;
        before = now;
    }
    more = 0;
    lap(&more);
    FILE *file = fopen(argv[2], "w");
    if (!file)
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (long i = 0; i < count; i++)
        fprintf(file, "%c%.3f", i ? ',' : '[', laps[i]);
    fputs(count ? "]\n" : "[]\n", file);
    if (fclose(file))
        MPI_Abort(MPI_COMM_WORLD, 4);
    MPI_Finalize();
    return 0;
}
