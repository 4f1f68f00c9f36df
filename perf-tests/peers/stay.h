/* What the programs beside this share; it is put in front of each. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before MPI starts, so that it and its threads find themselves on one CPU under every launcher. */
static void stay(char **cpus)
{
    const char *launched = getenv("OMPI_COMM_WORLD_RANK");
    if (!launched)
        launched = getenv("PMI_RANK");
    if (!launched || atoi(launched) < 0 || atoi(launched) > 1) {
        fprintf(stderr, "expected OMPI_COMM_WORLD_RANK or PMI_RANK to be 0 or 1\n");
        exit(2);
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(cpus[atoi(launched)]), &set);
    if (sched_setaffinity(0, sizeof set, &set)) {
        perror("pinning to a CPU");
        exit(2);
    }
}

