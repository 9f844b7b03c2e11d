/* The shortest whole life of a file: open, view, collective write and read, close, delete.
 *
 * Each rank owns every size-th integer of the file, so that a wrong view or a wrong exchange
 * gives a wrong file. Run it first: if it fails, the others say nothing.
 *
 * ranks: 1 2 5 16
 * mpis: all openmpi4
 * pario: both
 * calls: at least 8
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

static const char path[] = "smoke.dat";

static void check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    printf("%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void require(int holds, const char *what)
{
    if (holds)
        return;
    printf("does not hold: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What belongs at a place of the whole file. */
static int expected(int rank, int size, int index)
{
    return 7 * (rank + index * size) + 1;
}

int main(int argc, char **argv)
{
    int rank, size, count;
    int written[COUNT], back[COUNT];
    MPI_Datatype filetype;
    MPI_File file;
    MPI_Offset bytes = 0;
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int index = 0; index < COUNT; index++) {
        written[index] = expected(rank, size, index);
        back[index] = -1;
    }

    MPI_Type_vector(COUNT, 1, size, MPI_INT, &filetype);
    MPI_Type_commit(&filetype);
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
          "open");
    check(MPI_File_set_view(file, (MPI_Offset)rank * (MPI_Offset)sizeof(int), MPI_INT, filetype,
                            "native", MPI_INFO_NULL),
          "set_view");
    check(MPI_File_write_all(file, written, COUNT, MPI_INT, &status), "write_all");
    MPI_Get_count(&status, MPI_INT, &count);
    require(count == COUNT, "the status of the write counts all integers");

    check(MPI_File_sync(file), "sync");
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_File_get_size(file, &bytes), "get_size");
    require(bytes == (MPI_Offset)size * COUNT * (MPI_Offset)sizeof(int), "the file has its size");

    check(MPI_File_seek(file, 0, MPI_SEEK_SET), "seek");
    check(MPI_File_read_all(file, back, COUNT, MPI_INT, &status), "read_all");
    MPI_Get_count(&status, MPI_INT, &count);
    require(count == COUNT, "the status of the read counts all integers");
    for (int index = 0; index < COUNT; index++)
        require(back[index] == written[index], "what was written is read");
    check(MPI_File_close(&file), "close");
    MPI_Type_free(&filetype);

    /* The whole file as one rank sees it without a view. */
    if (rank == 0) {
        int *whole = malloc((size_t)bytes);
        require(whole != NULL, "there is memory for the whole file");
        check(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open");
        check(MPI_File_read_at(file, 0, whole, size * COUNT, MPI_INT, &status), "read_at");
        for (int index = 0; index < size * COUNT; index++)
            require(whole[index] == expected(0, 1, index), "the integers are in their places");
        check(MPI_File_close(&file), "close");
        free(whole);
        check(MPI_File_delete(path, MPI_INFO_NULL), "delete");
    }
    MPI_Finalize();
    if (rank == 0)
        printf("PASS\n");
    return 0;
}
