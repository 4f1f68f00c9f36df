// Memory of other ranks: written, read, added to.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 100000 };

static void check(int so, const char *what) {
    if (!so) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv) {
    int me, n, *memory, one = 1, before;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int next = (me + 1) % n, previous = (me + n - 1) % n;
    MPI_Win_allocate(WORDS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    int *out = malloc(WORDS * sizeof(int)), *in = malloc(WORDS * sizeof(int));
    for (int i = 0; i < WORDS; i++) out[i] = me * WORDS + i;
    MPI_Win_fence(0, window);
    MPI_Put(out, WORDS, MPI_INT, next, 0, WORDS, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++) check(memory[i] == previous * WORDS + i, "put");
    MPI_Win_fence(0, window);
    MPI_Get(in, WORDS, MPI_INT, next, 0, WORDS, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++) check(in[i] == out[i], "get");
    memory[0] = 0;
    MPI_Win_fence(0, window);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    check(before >= n && before < 2 * n, "fetch and add");
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        printf("counted %d\n", memory[0]);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
