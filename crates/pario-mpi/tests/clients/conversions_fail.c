/* ranks: 2 3 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 20 */
/*
 * A conversion function of a registered data representation that fails on one rank: all ranks of a
 * collective return MPI_ERR_CONVERSION, and are in step afterwards. A failing one of a write is
 * announced before anything is written.
 *
 * It runs under pario only: the libraries have no conversions.
 */
#include "client.h"

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif
/* Elsewhere each rank does its part of a non-blocking collective at once (docs/mpi.md). */
#if defined(OPEN_MPI) || defined(MPIX_ASYNC_DONE) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 50000000)
#define GOES_ON_INSIDE_MPI 1
#else
#define GOES_ON_INSIDE_MPI 0
#endif
enum { INTS = 8 };

static int fails_reading, fails_writing, is_done_at_once;

static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *state) {
    MPI_Aint lower;
    (void)state;
    return MPI_Type_get_extent(datatype, &lower, extent);
}

static int convert_read(void *user, MPI_Datatype datatype, int count, void *file,
                        MPI_Offset position, void *state) {
    (void)datatype, (void)state;
    memcpy((char *)user + position * 4, file, (size_t)count * 4);
    return fails_reading ? MPI_ERR_CONVERSION : MPI_SUCCESS;
}

static int convert_write(void *user, MPI_Datatype datatype, int count, void *file,
                         MPI_Offset position, void *state) {
    (void)datatype, (void)state;
    memcpy(file, (char *)user + position * 4, (size_t)count * 4);
    return fails_writing ? MPI_ERR_CONVERSION : MPI_SUCCESS;
}

static int values[INTS], back[INTS];

static void expect_class(const char *what, int code, int class) {
    CHECK(class_of(code) == class, "%s: class %d, expected %d", what, class_of(code), class);
}

static void in_step(MPI_File file) {
    MPI_Status status;
    fails_reading = fails_writing = 0;
    for (int i = 0; i < INTS; i++) values[i] = 100 * client_rank + i;
    OK(MPI_File_write_at_all(file, client_rank * INTS, values, INTS, MPI_INT, &status));
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at_all(file, client_rank * INTS, back, INTS, MPI_INT, &status));
    EXPECT_COUNT("in step", &status, MPI_INT, INTS);
    EXPECT_BYTES("in step", back, values, sizeof back);
}

/* The class that MPI_Wait gives, and the bytes of this rank. */
static void expect_wait(const char *what, int started, MPI_Request *request, int class, int ints) {
    MPI_Status status;
    OK(started);
    expect_class(what, MPI_Wait(request, &status), class);
    EXPECT_COUNT(what, &status, MPI_INT, ints);
}

static void one_fails_in_background(MPI_File file, MPI_Offset mine, int is_wrong) {
    MPI_Request requests[2];
    int read_ints = is_wrong ? 0 : INTS;
    OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
    fails_reading = fails_writing = is_wrong;
    memset(back, 0, sizeof back);
    expect_wait("iread_at_all", MPI_File_iread_at_all(file, mine, back, INTS, MPI_INT, requests), requests,
                MPI_ERR_CONVERSION, read_ints);
    EXPECT_BYTES("iread_at_all", back, values, sizeof back);
    expect_wait("iread_all", MPI_File_iread_all(file, back, INTS, MPI_INT, requests), requests,
                MPI_ERR_CONVERSION, read_ints);
    expect_wait("iwrite_at_all", MPI_File_iwrite_at_all(file, mine, values, INTS, MPI_INT, requests), requests,
                MPI_ERR_CONVERSION, is_done_at_once && !is_wrong ? INTS : 0);
    in_step(file);
    /* Two at a time, ended in the other order. */
    OK(MPI_File_iread_at_all(file, mine, back, INTS, MPI_INT, &requests[0]));
    OK(MPI_File_iwrite_at_all(file, mine, values, INTS, MPI_INT, &requests[1]));
    expect_wait("iwrite_at_all", MPI_SUCCESS, &requests[1], MPI_SUCCESS, INTS);
    expect_wait("iread_at_all", MPI_SUCCESS, &requests[0], MPI_SUCCESS, INTS);
    EXPECT_BYTES("in the background", back, values, sizeof back);
}

static void one_fails(MPI_File file, int wrong) {
    MPI_Offset mine = client_rank * INTS;
    MPI_Status status;
    int is_wrong = client_rank == wrong;
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    fails_reading = fails_writing = is_wrong;
    expect_class("read_at_all", MPI_File_read_at_all(file, mine, back, INTS, MPI_INT, &status),
                 MPI_ERR_CONVERSION);
    expect_class("read_all", MPI_File_read_all(file, back, INTS, MPI_INT, &status),
                 MPI_ERR_CONVERSION);
    expect_class("read_ordered", MPI_File_read_ordered(file, back, INTS, MPI_INT, &status),
                 MPI_ERR_CONVERSION);
    expect_class("read_at_all_begin", MPI_File_read_at_all_begin(file, mine, back, INTS, MPI_INT),
                 MPI_ERR_CONVERSION);
    in_step(file);
    fails_reading = fails_writing = is_wrong;
    expect_class("write_at_all", MPI_File_write_at_all(file, mine, values, INTS, MPI_INT, &status),
                 MPI_ERR_CONVERSION);
    expect_class("write_all", MPI_File_write_all(file, values, INTS, MPI_INT, &status),
                 MPI_ERR_CONVERSION);
    expect_class("write_ordered", MPI_File_write_ordered(file, values, INTS, MPI_INT, &status),
                 MPI_ERR_CONVERSION);
    in_step(file);
    one_fails_in_background(file, mine, is_wrong);
    /* Alone: nobody else learns of it. */
    fails_reading = fails_writing = is_wrong;
    expect_class("read_at", MPI_File_read_at(file, mine, back, INTS, MPI_INT, &status),
                 is_wrong ? MPI_ERR_CONVERSION : MPI_SUCCESS);
    in_step(file);
}

int main(int argc, char **argv) {
    MPI_File file;
    int provided = -1;
    MPI_Init_thread(&argc, &argv, LEVEL, &provided);
    client_describe(argv[0]);
    is_done_at_once = provided != MPI_THREAD_MULTIPLE && !GOES_ON_INSIDE_MPI;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Register_datarep("failing", convert_read, convert_write, extent_of, NULL));
    remove_first(scratch("conversions_fail.data"));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("conversions_fail.data"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "failing", MPI_INFO_NULL));
    in_step(file);
    for (int wrong = 0; wrong < client_size; wrong++) one_fails(file, wrong);
    OK(MPI_File_close(&file));
    return client_end();
}
