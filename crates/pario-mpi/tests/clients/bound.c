/* A collective write of short interleaved pieces, for ranks that a launcher has bound to cores.
 *
 * The check `bound` compares what pario says of it: aggregators and rounds are those of ranks that
 * are not bound.
 *
 * ranks: 2
 * mpis: none
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { PIECE = 512, COUNT = 4096 };

static void check(int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return;
    printf("FAIL %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    static char data[PIECE * COUNT];
    int rank, size;
    MPI_Datatype filetype;
    MPI_File file;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_vector(COUNT, PIECE, PIECE * size, MPI_BYTE, &filetype);
    MPI_Type_commit(&filetype);
    check(MPI_File_open(MPI_COMM_WORLD, "bound.dat",
                        MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE,
                        MPI_INFO_NULL, &file),
          "open");
    check(MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, filetype, "native",
                            MPI_INFO_NULL),
          "set_view");
    check(MPI_File_write_all(file, data, PIECE * COUNT, MPI_BYTE, MPI_STATUS_IGNORE), "write_all");
    check(MPI_File_close(&file), "close");
    MPI_Type_free(&filetype);
    if (rank == 0)
        printf("PASS\n");
    MPI_Finalize();
    return 0;
}
