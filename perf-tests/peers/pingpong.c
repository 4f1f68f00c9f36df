/* What NetPIPE and osu_mbw_mr measure, between two MPI ranks:
 *
 *     pingpong CPU CPU BATCHES SECONDS [SIZE [apart|each]]
 *
 * Rank r stays on the r-th CPU. Under a heading a figure for each batch: the microseconds of half a
 * round trip of SIZE bytes or, without SIZE, messages of 8 bytes a second in windows of 64. A batch
 * takes about SECONDS, unless its messages have too many bytes. What has come is sent back out of the
 * same buffer, as NetPIPE does; `apart`, received into another, and what is sent never changes. `each`: a
 * batch is one round trip, timed alone. */
/* Bytes that are sent in each direction, so that a log stays in memory. */
#define MOST_BYTES (320L << 20)

/* A window of the message rate: so many messages are on their way before one is waited for. */
#define WINDOW 64
#define SHORT 8

/* Steps of the warm-up at least, each of up to twice as many as the one before. */
#define STEPS 10

enum { CONTROL = 1, MESSAGE, WINDOW_IS_HERE };

static int rank, batches;
static double seconds;

/* One message, or those of a window. */
static unsigned char *out, *in;
static int size;

/* So many round trips, or windows; both ranks call it. */
typedef void exchange(long count);

static void fail(const char *what)
{
    fprintf(stderr, "pingpong: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void send(int tag)
{
    MPI_Send(out, size, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD);
}

static void receive(int tag)
{
    MPI_Recv(in, size, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ping_pong(long count)
{
    for (long i = 0; i < count; i++) {
        if (rank == 0) {
            send(MESSAGE);
            receive(MESSAGE);
        } else {
            receive(MESSAGE);
            send(MESSAGE);
        }
    }
}

/* Windows from rank 0 to rank 1, each answered by a short message. */
static void windows(long count)
{
    MPI_Request requests[WINDOW];
    for (long i = 0; i < count; i++) {
        for (int w = 0; w < WINDOW; w++) {
            if (rank == 0)
                MPI_Isend(out + w * SHORT, SHORT, MPI_BYTE, 1, MESSAGE, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(in + w * SHORT, SHORT, MPI_BYTE, 0, MESSAGE, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, 1, WINDOW_IS_HERE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, 0, WINDOW_IS_HERE, MPI_COMM_WORLD);
    }
}

/* Tells rank 1 how many there are, and returns how many seconds they take; 0 ends it. */
static double lead(exchange *some, long count)
{
    MPI_Send(&count, 1, MPI_LONG, 1, CONTROL, MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    some(count);
    return MPI_Wtime() - begin;
}

/* Does what rank 0 tells. */
static void follow(exchange *some)
{
    long count;
    do {
        MPI_Recv(&count, 1, MPI_LONG, 0, CONTROL, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        some(count);
    } while (count > 0);
}

/* Warms up, which tells how many make a batch, and then has batches; the seconds of one of each go
 * to `each`. */
static void measure(exchange *some, void (*each)(double))
{
    long most = MOST_BYTES / size / (batches + 1);
    most = most > 0 ? most : 1;
    if (rank == 1) {
        follow(some);
        return;
    }
    long count = 1, warmed = 0;
    double best = 1e9, begin = MPI_Wtime();
    /* The first ones may take long: they connect, or the other is not there yet. */
    for (int step = 0; step < STEPS || MPI_Wtime() - begin < seconds * 2; step++) {
        if (warmed >= most)
            break;
        double took = lead(some, count);
        best = took / count < best ? took / count : best;
        warmed += count;
        if (took < seconds / 2)
            count *= 2;
        if (count > most - warmed)
            count = most - warmed;
    }
    double wanted = seconds / best;
    count = wanted < 1 ? 1 : wanted > most ? most : (long)wanted;
    for (int batch = 0; batch < batches; batch++)
        each(lead(some, count) / count);
    lead(some, 0);
}

static void round_trip(double took)
{
    printf("%.6f\n", took / 2 * 1e6);
}

static void window(double took)
{
    printf("%.1f\n", WINDOW / took);
}

/* As many round trips as there are batches, each with a figure of its own, after some that warm up. */
static void time_each(void)
{
    double *took = malloc((batches + 1) * sizeof *took);
    if (!took)
        fail("no memory for times");
    ping_pong(batches / 10 + STEPS);
    for (int trip = 0; trip < batches; trip++) {
        double begin = MPI_Wtime();
        ping_pong(1);
        took[trip] = MPI_Wtime() - begin;
    }
    for (int trip = 0; rank == 0 && trip < batches; trip++)
        round_trip(took[trip]);
    free(took);
}

/* Each rank's bytes differ from the other's, and from place to place. */
static unsigned char byte(int from, int at)
{
    return 1 + (at * 31 + (at >> 8) * 7 + from * 113) % 255;
}

/* Buffers with something to send, and nothing received. */
static void prepare(int bytes, int apart)
{
    size = bytes;
    out = malloc(bytes);
    in = apart ? malloc(bytes) : out;
    if (!out || !in)
        fail("no memory for a message");
    memset(in, 0, bytes);
    for (int at = 0; at < bytes; at++)
        out[at] = byte(rank, at);
}

/* What has come must be what a rank sent. */
static void check(int from)
{
    for (int at = 0; at < size; at++)
        if (in[at] != byte(from, at))
            fail("a message arrived changed");
}

/* A last round trip of something else than what both have by now. */
static void check_round_trip(void)
{
    for (int at = 0; rank == 0 && at < size; at++)
        out[at] = byte(2, at);
    if (rank == 0) {
        send(MESSAGE);
        memset(in, 0, size);
        receive(MESSAGE);
        check(in == out ? 2 : 1);
    } else {
        receive(MESSAGE);
        check(2);
        send(MESSAGE);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 7) {
        fprintf(stderr, "usage: pingpong CPU CPU BATCHES SECONDS [SIZE [apart|each]]\n");
        return 2;
    }
    stay(argv + 1);
    batches = atoi(argv[3]);
    seconds = atof(argv[4]);
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2)
        fail("there must be two ranks");
    if (rank == 0)
        printf("figure\n");
    if (argc > 5) {
        int each = argc > 6 && strcmp(argv[6], "each") == 0;
        prepare(atoi(argv[5]), argc > 6 && !each);
        each ? time_each() : measure(ping_pong, round_trip);
        check_round_trip();
    } else {
        prepare(WINDOW * SHORT, 1);
        measure(windows, window);
        if (rank == 1)
            check(0);
    }
    MPI_Finalize();
    return 0;
}
