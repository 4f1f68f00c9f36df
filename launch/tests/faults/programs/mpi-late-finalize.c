// The last rank computes for so many seconds before MPI_Finalize: mpi-late-finalize SECONDS. Right: "OK" of each rank, and after ten seconds
// somebody says for whom the others wait.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) sleep(atoi(argv[1]));
    MPI_Finalize();
    printf("OK\n");
    return 0;
}
