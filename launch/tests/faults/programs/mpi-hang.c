// Ranks that wait for what never comes: for MODE recv, any, probe, send, wrong, coll, fin. Rank 0 waits; the others sleep SECS and exit.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size;
    char *big = calloc(1, 8 << 20);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *mode = argv[1];
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        if (!strcmp(mode, "recv")) MPI_Recv(big, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!strcmp(mode, "any")) MPI_Recv(big, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!strcmp(mode, "wrong")) MPI_Recv(big, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!strcmp(mode, "probe")) MPI_Probe(1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!strcmp(mode, "send")) MPI_Ssend(big, 8 << 20, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
        if (!strcmp(mode, "coll")) MPI_Bcast(big, 8 << 20, MPI_CHAR, 1, MPI_COMM_WORLD);
    } else {
        if (!strcmp(mode, "wrong")) MPI_Send(big, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
        sleep(atoi(argv[2]));
        _exit(0);
    }
    MPI_Finalize();
    return 0;
}
