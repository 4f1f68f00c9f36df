// A synchronous send to a rank that takes it from any source, which is an event. mpi-gate DIR BYTES, two ranks, each a set: they make
// the files there.RANK, and go on when there is go; then received.0, and goes_on.1 when the send has ended. Right: while the event
// logger is stopped there is no goes_on.1.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static const char *folder;
static int rank;
static const char *name(const char *what) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", folder, what, rank);
    return path;
}
static void say(const char *what) {
    FILE *file = fopen(name(what), "w");
    if (!file || fclose(file)) MPI_Abort(MPI_COMM_WORLD, 9);
}
int main(int argc, char **argv) {
    char go[4096];
    int bytes = atoi(argv[2]), wrong = 0;
    folder = argv[1];
    char *buf = calloc(bytes, 1);
    snprintf(go, sizeof go, "%s/go", folder);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    say("there");
    while (access(go, F_OK)) usleep(1000);
    if (rank == 0) {
        // A long message is here only when its sender has heard of the match.
        MPI_Request request;
        int ended = 0;
        MPI_Irecv(buf, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request);
        double begun = MPI_Wtime();
        while (!ended && MPI_Wtime() < begun + 0.1) MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
        say("received");
        if (!ended) MPI_Wait(&request, MPI_STATUS_IGNORE);
        wrong = buf[0] != 'x' || buf[bytes - 1] != 'x';
        puts(wrong ? "WRONG" : "OK");
    } else {
        for (int i = 0; i < bytes; i++) buf[i] = 'x';
        MPI_Ssend(buf, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        say("goes_on");
    }
    MPI_Finalize();
    return wrong;
}
