/* A program that the launcher of another MPI starts: every rank is alone in its world, and pario
 * warns once. The check `run` starts it.
 *
 * ranks: 4
 * mpis: none
 * calls: unknown
 * leaves: alone.dat
 * says: each is alone in the world of
 */
#include <mpi.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    int size = 0;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File_open(MPI_COMM_WORLD, "alone.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                  &file);
    MPI_File_close(&file);
    printf(size == 1 ? "PASS\n" : "FAIL size %d\n", size);
    MPI_Finalize();
    return 0;
}
