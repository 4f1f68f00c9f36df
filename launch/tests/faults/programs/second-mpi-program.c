/* A rank runs another MPI program, which inherits the descriptors and the environment of the rank.
 * Words: WHEN HOW; WHEN: before, one-before, after (MPI_Init); HOW: as-is (it asks to join as the same rank), alone (without PMI_*).
 * The program is this one with the word "other". Right: the job ends, and whoever is refused is named. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void run(const char *self, const char *how, const char *when) {
    char command[4096];
    const char *unset = strcmp(how, "alone") ? "" : "env -u PMI_FD -u PMI_RANK -u PMI_SIZE ";
    snprintf(command, sizeof command, "%s%s other", unset, self);
    int status = system(command);
    printf("%s: %s\n", when, status == 0 ? "it ran" : "it failed");
    fflush(stdout);
}

int main(int argc, char **argv) {
    int rank, size, sum;
    const char *when = argv[1], *how = argc > 2 ? argv[2] : "";
    int other = !strcmp(when, "other");
    const char *number = getenv("PMI_RANK"); /* gone where it runs alone */
    if (!strcmp(when, "before") || !strcmp(when, "one-before") && number && !strcmp(number, "0")) run(argv[0], how, when);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(when, "after") && rank == 0) run(argv[0], how, when);
    int one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%s %d of %d: sum %d\n", other ? "other" : "rank", rank, size, sum);
    MPI_Finalize();
    return 0;
}
