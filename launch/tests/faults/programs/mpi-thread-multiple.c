// Asks for MPI_THREAD_MULTIPLE and does nothing with it.
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    usleep(300000);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return provided != MPI_THREAD_MULTIPLE;
}
