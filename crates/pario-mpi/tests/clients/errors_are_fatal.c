/* ranks: 1 2 */
/* mpis: all */
/* pario: both */
/* calls: unknown */
/* ends: badly */
/* leaves: errors_are_fatal.data */
/*
 * A failed call on a file with MPI_ERRORS_ARE_FATAL ends the program: PASS is printed before it,
 * and a run that gets past it ends well, which is wrong.
 */
#include "client.h"

int main(int argc, char **argv) {
    MPI_File file;
    int word = 1;
    client_start(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("errors_are_fatal.data"), MPI_MODE_RDWR | MPI_MODE_CREATE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL));
    if (client_rank == 0) printf("PASS\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(300000); /* A launcher that kills its ranks may lose what they have just printed. */
    MPI_File_write_at(file, -1, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
    printf("FAIL still here after an error that is fatal\n");
    MPI_Finalize();
    return 0;
}
