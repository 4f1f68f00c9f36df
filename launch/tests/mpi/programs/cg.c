/* Conjugate gradients on a one-dimensional Poisson equation, its rows divided among the ranks:
   neighbours exchange borders without blocking, all add up scalar products. */
#include "common.h"
#include <math.h>

enum { ROWS = 4096 };

static int rank, size;
static double x[ROWS], r[ROWS], p[ROWS + 2], q[ROWS];

static double product(const double *a, const double *b)
{
    double mine = 0, all;
    for (int i = 0; i < ROWS; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* q = A p, with the rows of the neighbours beside one's own. */
static void multiply(void)
{
    MPI_Request requests[4];
    int below = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int above = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    p[0] = p[ROWS + 1] = 0;
    MPI_Irecv(&p[0], 1, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&p[ROWS + 1], 1, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&p[1], 1, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&p[ROWS], 1, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < ROWS; i++)
        q[i] = 2.5 * p[i + 1] - p[i] - p[i + 2];
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t sum = 0;
    /* It converges in some tens of steps: then the next right-hand side is solved. */
    for (int left = steps(argc, argv), side = 0; left > 0; side++) {
        for (int i = 0; i < ROWS; i++) {
            x[i] = 0;
            r[i] = p[i + 1] = 1 + (double)(scattered(side * 131 + rank * ROWS + i) % 1000) / 1000;
        }
        double rr = product(r, r);
        for (int turn = 0; turn < 50 && left > 0; turn++, left--) {
            in_step(steps(argc, argv) - left);
            multiply();
            double alpha = rr / product(p + 1, q);
            for (int i = 0; i < ROWS; i++) {
                x[i] += alpha * p[i + 1];
                r[i] -= alpha * q[i];
            }
            double rest = product(r, r);
            for (int i = 0; i < ROWS; i++)
                p[i + 1] = r[i] + rest / rr * p[i + 1];
            rr = rest;
        }
        /* Rounded: MPIs may add in different orders. */
        double all = product(x, x);
        sum = mixed(sum, (uint64_t)llround(all * 1000));
    }
    print_checksum(sum);
    MPI_Finalize();
    return 0;
}
