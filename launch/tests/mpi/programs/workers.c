/* Rank 0 gives the next task to whoever is done first; who that is, chance decides. */
#include "common.h"

int main(int argc, char **argv)
{
    int rank, size;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int tasks = steps(argc, argv), none = -1;
    uint64_t sum = 0;
    if (rank == 0) {
        int given = 0;
        for (int worker = 1; worker < size; worker++, given++)
            MPI_Send(given < tasks ? &given : &none, 1, MPI_INT, worker, 0, MPI_COMM_WORLD);
        for (int done = 0; done < tasks; done++) {
            in_step(done);
            uint64_t answer[2];
            MPI_Status status;
            MPI_Recv(answer, 2, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if ((int)answer[0] % 7 != status.MPI_TAG)
                MPI_Abort(MPI_COMM_WORLD, 3);
            /* In any order. */
            sum += scattered(mixed(answer[0], answer[1]));
            MPI_Send(given < tasks ? &given : &none, 1, MPI_INT, status.MPI_SOURCE, 0, MPI_COMM_WORLD);
            given++;
        }
    } else {
        for (;;) {
            int task;
            MPI_Recv(&task, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (task < 0)
                break;
            in_step(task);
            uint64_t answer[2] = {task, task};
            for (int i = 0; i < 1000 * (1 + task % 5); i++)
                answer[1] = scattered(answer[1] + i);
            MPI_Send(answer, 2, MPI_UINT64_T, 0, task % 7, MPI_COMM_WORLD);
        }
    }
    print_checksum(sum);
    MPI_Finalize();
    return 0;
}
