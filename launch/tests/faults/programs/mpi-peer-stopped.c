// Rank 1 stops rank 0 and kills itself: its successor cannot get its messages again, and must say for whom it waits.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, pid = getpid(), peer;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *life = getenv("TAFFRAIL_INCARNATION");
    for (int i = 0; i < 20; i++)
        MPI_Sendrecv(&pid, 1, MPI_INT, !rank, 0, &peer, 1, MPI_INT, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1 && life && atoi(life) == 0) {
        kill(peer, SIGSTOP);
        kill(getpid(), SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
