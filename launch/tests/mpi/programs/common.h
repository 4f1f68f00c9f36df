/* What the test programs share: the checksum they print, data that anybody can compute again, and how they
   are killed. */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Mixes a number into a checksum whose numbers come in a fixed order (FNV-1a, 64 bits). */
static inline uint64_t mixed(uint64_t sum, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        sum = (sum ^ (number >> 8 * i & 0xff)) * 0x100000001b3;
    return sum;
}

/* Scatters a number (the last step of MurmurHash3). */
static inline uint64_t scattered(uint64_t number)
{
    number = (number ^ number >> 33) * 0xff51afd7ed558ccd;
    number = (number ^ number >> 33) * 0xc4ceb9fe1a85ec53;
    return number ^ number >> 33;
}

/* When this process is to be killed: in which step, if in any, and how far in it. */
static int deadly_step = -1;
static double deadly_part;
static struct timespec begun;

/* MPI_Init. KILL="RANK STEP PART" says which rank is to be killed, in its first life. */
static inline void begin(int *argc, char ***argv)
{
    int rank, victim, step;
    const char *kill = getenv("KILL"), *life = getenv("TAFFRAIL_INCARNATION");
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (kill && life && atoi(life) == 0
        && sscanf(kill, "%d %d %lf", &victim, &step, &deadly_part) == 3 && victim == rank)
        deadly_step = step;
}

/* This rank begins a step. If it is to be killed in it, or in one before that others had, a timer of the
   kernel sends it SIGKILL after that part of the time that a step has taken so far, wherever it is then.
   With KILL_AGENT its parent is killed at once, which is the agent of its node. */
static inline void in_step(int step)
{
    if (deadly_step < 0 || step < deadly_step)
        return;
    if (getenv("KILL_AGENT"))
        kill(getppid(), SIGKILL);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double ns = (now.tv_sec - begun.tv_sec) * 1e9 + (now.tv_nsec - begun.tv_nsec);
    long long after = 1 + (long long)(deadly_part * ns / (step ? step : 1));
    struct itimerspec when = {.it_value = {after / 1000000000, after % 1000000000}};
    struct sigevent death = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &death, &timer) || timer_settime(timer, 0, &when, NULL))
        MPI_Abort(MPI_COMM_WORLD, 4);
    deadly_step = -1;
}

/* How many steps the program is to do: its first argument. */
static inline int steps(int argc, char **argv)
{
    return argc > 1 ? atoi(argv[1]) : 100;
}

/* The one line of the job: the same in every run with as many ranks and steps. */
static inline void print_checksum(uint64_t sum)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("checksum %016llx\n", (unsigned long long)sum);
}
