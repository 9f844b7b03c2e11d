/* A program that opens no file: with statistics, pario says so once, with the likely reasons.
 *
 * ranks: 3
 * env: PARIO_STATS=1
 * calls: unknown
 * says: rank 0 opened no file through pario
 */
#include <mpi.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("PASS\n");
    MPI_Finalize();
    return 0;
}
