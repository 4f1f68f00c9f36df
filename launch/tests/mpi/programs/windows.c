/* Memory of other ranks: written, read and added to, between fences, between posts and waits, and under locks. */
#include "common.h"

enum { COUNT = 3000 };

int main(int argc, char **argv)
{
    static uint64_t out[COUNT], in[COUNT];
    uint64_t *memory, counters[2] = {0, 0};
    int rank, size;
    begin(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Win window, counting;
    MPI_Win_allocate(COUNT * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_create(counters, sizeof counters, sizeof *counters, MPI_INFO_NULL, MPI_COMM_WORLD, &counting);
    MPI_Group all, to, from;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &next, &to);
    MPI_Group_incl(all, 1, &last, &from);
    uint64_t sum = 0, drawn = 0;
    for (int step = 0; step < steps(argc, argv); step++) {
        in_step(step);
        int length = 1 + scattered(step) % COUNT;
        for (int i = 0; i < COUNT; i++) {
            out[i] = scattered(sum + rank + i);
            memory[i] = i;
        }
        MPI_Win_fence(0, window);
        MPI_Accumulate(out, length, MPI_UINT64_T, next, 0, length, MPI_UINT64_T, MPI_SUM, window);
        MPI_Win_fence(0, window);
        MPI_Get(in, length, MPI_UINT64_T, last, 0, length, MPI_UINT64_T, window);
        MPI_Win_fence(0, window);
        sum = mixed(sum, in[length - 1] + memory[length / 2]);
        MPI_Win_post(from, 0, window);
        MPI_Win_start(to, 0, window);
        MPI_Put(out, length, MPI_UINT64_T, next, COUNT - length, length, MPI_UINT64_T, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        sum = mixed(sum, memory[COUNT - 1]);
        /* Who draws which number is chance, but not what all have drawn. */
        uint64_t one = 1, number;
        MPI_Win_lock(MPI_LOCK_SHARED, step % size, 0, counting);
        MPI_Fetch_and_op(&one, &number, MPI_UINT64_T, step % size, 0, MPI_SUM, counting);
        MPI_Win_unlock(step % size, counting);
        drawn += number;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, counting);
        MPI_Get(in, 1, MPI_UINT64_T, next, 1, 1, MPI_UINT64_T, counting);
        MPI_Win_flush(next, counting);
        in[0] += scattered(step);
        MPI_Put(in, 1, MPI_UINT64_T, next, 1, 1, MPI_UINT64_T, counting);
        MPI_Win_unlock(next, counting);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, counting);
    sum = mixed(mixed(sum, counters[0]), counters[1]);
    MPI_Win_unlock(rank, counting);
    uint64_t mine[2] = {sum, drawn}, total[2];
    MPI_Reduce(mine, total, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    print_checksum(mixed(total[0], total[1]));
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Group_free(&all);
    MPI_Win_free(&counting);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
