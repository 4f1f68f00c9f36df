/* What the test programs share: the checksum they print, and data that anybody can compute again. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

/* MPI_Init; on standard error all ranks say when all are through it. */
static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Barrier(MPI_COMM_WORLD);
    fputs("ready\n", stderr);
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
