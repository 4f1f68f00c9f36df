/* What each rank has is made of what its neighbours had, again and again; little is computed:
 *
 *     killed CPU CPU borders|ring ITERATIONS BYTES LIVES [RANK AT]
 *
 * Rank r stays on the r-th CPU. In each iteration of `borders` a rank sends BYTES to both neighbours, and
 * every 16 iterations all add up a number; in one of `ring` a token of BYTES goes round once. RANK kills
 * itself with SIGKILL when it has done AT iterations, in its first life. Each process appends to the file
 * LIVES what it went through, as a line of JSON, in nanoseconds of the clock that all processes share.
 * Nothing that is sent depends on a clock. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ADD_EVERY 16

static int rank, size, incarnation;
static const char *lives;
static uint64_t begun, ready, caught_up;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "killed: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* In one piece: other processes add theirs. */
static void tell(int killed, const uint64_t *answer)
{
    char line[512], text[32] = "null", where[32] = "null";
    if (answer && rank == 0)
        snprintf(text, sizeof text, "\"%016llx\"", (unsigned long long)*answer);
    if (caught_up)
        snprintf(where, sizeof where, "%llu", (unsigned long long)caught_up);
    int length = snprintf(line, sizeof line,
        "{\"rank\":%d,\"incarnation\":%d,\"begun_ns\":%llu,\"ready_ns\":%llu,\"caught_up_ns\":%s,"
        "\"over_ns\":%llu,\"killed\":%s,\"checksum\":%s}\n",
        rank, incarnation, (unsigned long long)begun, (unsigned long long)ready, where,
        (unsigned long long)now(), killed ? "true" : "false", text);
    FILE *file = fopen(lives, "a");
    if (!file || fwrite(line, 1, length, file) != (size_t)length || fclose(file))
        fail("cannot write what it went through");
}

static uint64_t mixed(uint64_t sum, uint64_t number)
{
    sum = (sum ^ number) * 0x9e3779b97f4a7c15;
    return sum ^ sum >> 29;
}

/* What a rank has, and where it gets what its neighbours have. */
static uint64_t *mine, *up, *down, all;
static int bytes, words, above, below;

/* Sends to one neighbour, receives from the other. */
static void shift(uint64_t *in, int to, int from)
{
    MPI_Sendrecv(mine, bytes, MPI_BYTE, to, 1, in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void exchange_borders(long done)
{
    shift(up, above, below);
    shift(down, below, above);
    long at = done % words;
    mine[at] = mixed(mixed(done, up[at]), down[at]) + all;
    if ((done + 1) % ADD_EVERY == 0) {
        uint64_t part = mine[0];
        MPI_Allreduce(&part, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void give_token(void)
{
    MPI_Request request;
    MPI_Isend(mine, bytes, MPI_BYTE, above, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void take_token(long done)
{
    MPI_Request request;
    MPI_Irecv(mine, bytes, MPI_BYTE, below, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    mine[done % words] = mixed(mine[done % words], done + rank);
}

static void pass_token(long done)
{
    if (rank == 0)
        give_token();
    take_token(done);
    if (rank != 0)
        give_token();
}

int main(int argc, char **argv)
{
    begun = now();
    int borders = argc > 3 && strcmp(argv[3], "borders") == 0;
    if ((argc != 7 && argc != 9) || (!borders && strcmp(argv[3], "ring") != 0)) {
        fprintf(stderr, "usage: killed CPU CPU borders|ring ITERATIONS BYTES LIVES [RANK AT]\n");
        return 2;
    }
    stay(argv + 1);
    long iterations = atol(argv[4]);
    bytes = atoi(argv[5]);
    lives = argv[6];
    int victim = argc == 9 ? atoi(argv[7]) : -1;
    long at = argc == 9 ? atol(argv[8]) : -1;
    const char *started = getenv("TAFFRAIL_INCARNATION");
    incarnation = started ? atoi(started) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    words = (bytes + 7) / 8, above = (rank + 1) % size, below = (rank + size - 1) % size;
    mine = calloc(words, 8), up = calloc(words, 8), down = calloc(words, 8);
    if (!mine || !up || !down)
        fail("no memory for borders");
    for (int i = 0; i < words; i++)
        mine[i] = mixed(rank + 1, i);
    ready = now();
    for (long done = 0; done < iterations;) {
        borders ? exchange_borders(done) : pass_token(done);
        if (++done == at && rank == victim) {
            if (incarnation == 0) {
                tell(1, NULL);
                kill(getpid(), SIGKILL);
            }
            caught_up = now();
        }
    }
    uint64_t sum = 0, part = 0;
    for (int i = 0; i < words; i++)
        part = mixed(part, mine[i]);
    MPI_Allreduce(&part, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    tell(0, &sum);
    return 0;
}
