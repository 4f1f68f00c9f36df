/* Persistent requests between neighbours, waited for in any order; MPI_Sendrecv_replace around; and
   synchronous sends. */
#include "common.h"

enum { COUNT = 3000 };

int main(int argc, char **argv)
{
    static uint64_t out[2][COUNT], in[2][COUNT], round[COUNT];
    int rank, size;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Request requests[4];
    MPI_Recv_init(in[0], COUNT, MPI_UINT64_T, last, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in[1], COUNT, MPI_UINT64_T, next, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Send_init(out[0], COUNT, MPI_UINT64_T, next, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Ssend_init(out[1], COUNT, MPI_UINT64_T, last, 1, MPI_COMM_WORLD, &requests[3]);
    uint64_t sum = rank;
    for (int step = 0; step < steps(argc, argv); step++) {
        in_step(step);
        for (int i = 0; i < COUNT; i++) {
            out[0][i] = scattered(sum + i);
            out[1][i] = scattered(sum - i);
            round[i] = out[0][i] ^ out[1][i];
        }
        MPI_Startall(4, requests);
        for (int left = 4; left > 0;) {
            int count, which[4];
            MPI_Waitsome(4, requests, &count, which, MPI_STATUSES_IGNORE);
            left -= count;
        }
        for (int turn = 0; turn < size; turn++)
            MPI_Sendrecv_replace(round, COUNT, MPI_UINT64_T, next, 2, last, 2, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE);
        for (int i = 0; i < COUNT; i++) {
            /* It has come back. */
            if (round[i] != (out[0][i] ^ out[1][i]))
                MPI_Abort(MPI_COMM_WORLD, 3);
            sum = mixed(sum, in[0][i] + in[1][i]);
        }
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);
    uint64_t all;
    MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    print_checksum(all);
    MPI_Finalize();
    return 0;
}
