// A ring in which the last rank goes away at step 20: wrapped HOW [STATUS], below wrap.sh or not. kill: by SIGKILL in its first life
// only; remove FILE: the same, and removes the file; always: by SIGKILL in every life; exit, _exit: with STATUS. Right: the sum in rank 0 where it was started again.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, status = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *life = getenv("TAFFRAIL_INCARNATION"), *how = argv[1];
    long sum = 0;
    for (int step = 0; step < 40; step++) {
        if (step == 20 && rank == size - 1) {
            if (!strcmp(how, "always") || (!strcmp(how, "kill") && (!life || !atoi(life)))) kill(getpid(), SIGKILL);
            if (!strcmp(how, "remove")) { unlink(argv[2]); kill(getpid(), SIGKILL); }
            if (!strcmp(how, "exit")) exit(status);
            if (!strcmp(how, "_exit")) _exit(status);
        }
        int v = rank + step, in = -1;
        MPI_Sendrecv(&v, 1, MPI_INT, (rank + 1) % size, 5, &in, 1, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in;
    }
    if (rank == 0) printf(sum == 40 * (size - 1) + 780 ? "OK\n" : "WRONG: %ld\n", sum);
    MPI_Finalize();
    return 0;
}
