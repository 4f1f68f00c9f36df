/* Rank 1 sends far more messages than rank 0 receives meanwhile; then rank 0 receives them in order. It prints what they have
   taken of its memory at the most. */
#include "common.h"
#include <string.h>

/* The most memory that this process had, in KiB. */
static long peak(void)
{
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "VmHWM:", 6))
            kib = atol(line + 6);
    if (file)
        fclose(file);
    return kib;
}

int main(int argc, char **argv)
{
    int rank;
    uint64_t word = 0, sum = 0;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* What a connection takes is not meant. */
    MPI_Sendrecv(&word, 1, MPI_UINT64_T, !rank, 1001, &sum, 1, MPI_UINT64_T, !rank, 1001, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    long before = peak();
    for (int step = 0; step < steps(argc, argv); step++) {
        uint64_t sent = scattered(step);
        if (rank == 1)
            MPI_Send(&sent, 1, MPI_UINT64_T, 0, step % 1000, MPI_COMM_WORLD);
        if (rank != 0)
            continue;
        if (step == 0) {
            /* What comes is taken in, and none of it is received. */
            int flag;
            for (double end = MPI_Wtime() + 1; MPI_Wtime() < end;)
                MPI_Iprobe(1, 1000, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        MPI_Recv(&word, 1, MPI_UINT64_T, 1, step % 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum = mixed(sum, word);
    }
    if (rank == 0)
        printf("grown by %ld KiB\n", peak() - before);
    print_checksum(sum);
    MPI_Finalize();
    return 0;
}
