/* One of several programs of a job: appnum N. It is to be the Nth of them, in a world of three ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int *appnum, found, size, sum, one = 1, n = argc > 1 ? atoi(argv[1]) : -1, bad = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
    if (size != 3 || sum != 3) bad = printf("WRONG: %d ranks, sum %d\n", size, sum);
    if (!found || *appnum != n) bad = printf("WRONG: program %d says it is %d\n", n, found ? *appnum : -1);
    MPI_Finalize();
    return bad > 0;
}
