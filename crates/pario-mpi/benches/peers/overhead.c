/*
 * What short calls cost, in the page cache.
 *
 *     overhead PATH
 *
 * On one file of all ranks, each at places of its own: contiguous, independent writes and reads of 4 bytes and of
 * 1 MB; an MPI_File_sync with nothing to sync; a write of 1 KiB and a sync, in turn. On a file of each rank alone
 * (MPI_COMM_SELF): independent and collective writes and reads of 1 KiB.
 *
 * Prints `RESULT what microseconds`: the median of some repetitions, of the slowest rank.
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

/* A call, or some that follow each other, and how often it is made. */
struct kind {
    const char *name;
    void (*call)(MPI_File file, MPI_Offset at, char *data, int bytes);
    int bytes, calls;
};

static void write_at(MPI_File file, MPI_Offset at, char *data, int bytes) {
    check(MPI_File_write_at(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
}

static void read_at(MPI_File file, MPI_Offset at, char *data, int bytes) {
    check(MPI_File_read_at(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "read");
}

static void write_at_all(MPI_File file, MPI_Offset at, char *data, int bytes) {
    check(MPI_File_write_at_all(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "collective write");
}

static void read_at_all(MPI_File file, MPI_Offset at, char *data, int bytes) {
    check(MPI_File_read_at_all(file, at, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "collective read");
}

static void sync_file(MPI_File file, MPI_Offset at, char *data, int bytes) {
    (void)at, (void)data, (void)bytes;
    check(MPI_File_sync(file), "sync");
}

static void write_and_sync(MPI_File file, MPI_Offset at, char *data, int bytes) {
    write_at(file, at, data, bytes);
    sync_file(file, at, data, bytes);
}

static void measure(MPI_File file, const struct kind *kind, char *data) {
    double all[REPETITIONS];
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < kind->calls; i++) {
            MPI_Offset at = ((MPI_Offset)(i % PLACES) * size + rank) * kind->bytes;
            kind->call(file, at, data, kind->bytes);
        }
        double mine = (MPI_Wtime() - begin) / kind->calls * 1e6;
        MPI_Allreduce(&mine, &all[repetition], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    qsort(all, REPETITIONS, sizeof *all, compare);
    if (rank == 0) printf("RESULT %s %.4f\n", kind->name, all[REPETITIONS / 2]);
}

static void measure_all(MPI_Comm comm, const char *path, const struct kind *kinds, char *data) {
    MPI_File file;
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    check(MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file), "open");
    for (; kinds->name; kinds++) measure(file, kinds, data);
    check(MPI_File_close(&file), "close");
}

int main(int argc, char **argv) {
    static const struct kind shared[] = {
        {"write-1000000", write_at, LARGE, 128},  {"read-1000000", read_at, LARGE, 128},
        {"write-4", write_at, 4, 20000},          {"read-4", read_at, 4, 20000},
        {"sync", sync_file, 0, 20000},            {"write-1024", write_at, 1024, 20000},
        {"write-1024-sync", write_and_sync, 1024, 20000}, {NULL, NULL, 0, 0},
    };
    static const struct kind alone[] = {
        {"self-write-1024", write_at, 1024, 20000},         {"self-read-1024", read_at, 1024, 20000},
        {"self-write-all-1024", write_at_all, 1024, 20000}, {"self-read-all-1024", read_at_all, 1024, 20000},
        {NULL, NULL, 0, 0},
    };
    char own_path[4096];
    char *data = malloc(LARGE);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || !data) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(data, rank, LARGE);
    measure_all(MPI_COMM_WORLD, argv[1], shared, data);
    snprintf(own_path, sizeof own_path, "%s.%d", argv[1], rank);
    measure_all(MPI_COMM_SELF, own_path, alone, data);
    MPI_Finalize();
    free(data);
    return 0;
}
