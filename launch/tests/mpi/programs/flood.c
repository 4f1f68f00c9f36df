/* Rank 1 sends far more messages than rank 0 receives meanwhile: for a second it probes in vain, computes, or is stopped. Then
   it receives them in order. Or (sleeps) each message has a tag of its own, and rank 0 sleeps for three seconds, waits for a message behind
   all of them, and receives them from any tag. Each of the two prints what that has taken of its memory at the most.
   flood MESSAGES WORDS probes|computes|stopped|sleeps */
#include "common.h"
#include <string.h>
#include <sys/wait.h>

enum { WORDS_MAX = 1000, ALL_SENT = 1 };

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

/* What comes is taken in, and none of it is received. */
static void probe(void)
{
    int flag;
    for (double end = MPI_Wtime() + 1; MPI_Wtime() < end;)
        MPI_Iprobe(1, 1000, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void compute(void)
{
    for (double end = MPI_Wtime() + 1; MPI_Wtime() < end;)
        ;
}

/* All its threads are, until a child lets them continue. */
static void stop(void)
{
    pid_t child = fork();
    if (child == 0) {
        sleep(1);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    waitpid(child, NULL, 0);
}

static void wait_for_all(void)
{
    sleep(3);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, ALL_SENT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static uint64_t words[WORDS_MAX];
    int rank, count = argc > 2 ? atoi(argv[2]) : 1;
    const char *how = argc > 3 ? argv[3] : "probes";
    uint64_t sum = 0;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long before = peak();
    int sleeps = !strcmp(how, "sleeps");
    double start = MPI_Wtime();
    if (rank == 0)
        (sleeps ? wait_for_all : *how == 'p' ? probe : *how == 'c' ? compute : stop)();
    if (rank == 0 && sleeps)
        printf("all were sent after %.1f s, which took %ld KiB of rank 0\n", MPI_Wtime() - start, peak() - before);
    for (int step = 0; step < steps(argc, argv) && rank < 2; step++) {
        int tag = sleeps ? ALL_SENT + 1 + step : step % 1000;
        in_step(step);
        if (rank == 1) {
            words[0] = words[count - 1] = scattered(step);
            MPI_Send(words, count, MPI_UINT64_T, 0, tag, MPI_COMM_WORLD);
            continue;
        }
        MPI_Status status;
        MPI_Recv(words, count, MPI_UINT64_T, 1, sleeps ? MPI_ANY_TAG : tag, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG != tag) {
            fprintf(stderr, "message %d: tag %d\n", step, status.MPI_TAG);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        sum = mixed(mixed(sum, words[0]), words[count - 1]);
    }
    if (rank == 1 && sleeps)
        MPI_Send(NULL, 0, MPI_BYTE, 0, ALL_SENT, MPI_COMM_WORLD);
    if (rank == 0 && sleeps)
        printf("all were received after %.1f s\n", MPI_Wtime() - start);
    printf("rank %d grown by %ld KiB\n", rank, peak() - before);
    print_checksum(sum);
    MPI_Finalize();
    return 0;
}
