// Messages of every kind to rank 0, which takes them from anybody: by probe, matched probe, receive.
#include <mpi.h>
#include <stdio.h>

enum { MESSAGES = 1000, LONGEST = 1500 };

int main(int argc, char **argv) {
    int me, n, words[LONGEST + 1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (me != 0) {
        for (int i = 0; i < MESSAGES; i++) {
            words[0] = me * MESSAGES + i;
            // Open MPI 4.1 does not acknowledge what is received by a matched probe.
            int synchronous = argc > 1 && i % 7 == 0;
            int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm) =
                synchronous ? MPI_Ssend : MPI_Send;
            send(words, 1 + i % LONGEST, MPI_INT, 0, i, MPI_COMM_WORLD);
        }
    }
    long total = 0;
    for (int i = 0; me == 0 && i < MESSAGES * (n - 1); i++) {
        MPI_Status status;
        MPI_Message message;
        int count, found = 0;
        switch (i % 3) {
        case 0:
            while (!found)
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
            MPI_Recv(words, LONGEST, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
            break;
        case 1:
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
            MPI_Mrecv(words, LONGEST, MPI_INT, &message, &status);
            break;
        default:
            MPI_Recv(words, LONGEST, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        }
        MPI_Get_count(&status, MPI_INT, &count);
        if (words[0] != status.MPI_SOURCE * MESSAGES + status.MPI_TAG ||
            count != 1 + status.MPI_TAG % LONGEST) {
            fprintf(stderr, "%d from %d with tag %d and %d words\n", words[0], status.MPI_SOURCE,
                    status.MPI_TAG, count);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        total += words[0];
    }
    long all;
    MPI_Allreduce(&total, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0) printf("total %ld\n", all);
    MPI_Finalize();
    return 0;
}
