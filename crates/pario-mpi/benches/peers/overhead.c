/*
 * What a contiguous, independent MPI_File_write_at or MPI_File_read_at costs, of 4 bytes and of 1 MB:
 * on one file of all ranks, each at places of its own, in the page cache.
 *
 *     overhead PATH
 *
 * Prints `RESULT operation bytes microseconds`: the median of some repetitions, of the slowest rank.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPETITIONS = 9, PLACES = 64, LARGE = 1000 * 1000 };

static int rank, size;

static int compare(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return difference < 0 ? -1 : difference > 0;
}

static void check(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    fprintf(stderr, "rank %d: %s failed\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void measure(MPI_File file, int write, char *data, int bytes, int calls) {
    double all[REPETITIONS];
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < calls; i++) {
            MPI_Offset at = ((MPI_Offset)(i % PLACES) * size + rank) * bytes;
            if (write)
                check(MPI_File_write_at(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
            else
                check(MPI_File_read_at(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "read");
        }
        double mine = (MPI_Wtime() - begin) / calls * 1e6;
        MPI_Allreduce(&mine, &all[repetition], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    qsort(all, REPETITIONS, sizeof *all, compare);
    if (rank == 0)
        printf("RESULT %s-%d %.4f\n", write ? "write" : "read", bytes, all[REPETITIONS / 2]);
}

int main(int argc, char **argv) {
    MPI_File file;
    char *data = malloc(LARGE);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || !data) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(data, rank, LARGE);
    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                        MPI_INFO_NULL, &file), "open");
    measure(file, 1, data, LARGE, 128);
    measure(file, 0, data, LARGE, 128);
    measure(file, 1, data, 4, 20000);
    measure(file, 0, data, 4, 20000);
    check(MPI_File_close(&file), "close");
    MPI_Finalize();
    free(data);
    return 0;
}
