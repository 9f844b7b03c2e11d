/* ranks: 2 */
/* mpis: all */
/* pario: yes */
/* calls: at least 4 */
/* says: statistics cannot be written to */
/*
 * FIFOs where one rank alone is told to find a profile, hints, and room for statistics: no open and no close waits for
 * somebody at their other end.
 *
 * The variables are read with the first call of MPI-IO, so a rank can set them for itself.
 */
#include "client.h"

#include <sys/stat.h>

int main(int argc, char **argv) {
    const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    const char *fifo = scratch("own_files.fifo");
    client_start(&argc, &argv);
    remove_first(fifo);
    if (client_rank == 0) CHECK(mkfifo(fifo, 0600) == 0, "no FIFO");
    MPI_Barrier(MPI_COMM_WORLD);
    /* Rank 0 writes the statistics of all. */
    char statistics[4200];
    snprintf(statistics, sizeof statistics, "json:%s", fifo);
    if (client_rank == 0) setenv("PARIO_STATS", statistics, 1);
    if (client_rank == 1) setenv("PARIO_PROFILE", fifo, 1);
    if (client_rank == 1) setenv("ROMIO_HINTS", fifo, 1);
    MPI_File file;
    int back = -1;
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("own_files.data"), amode, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at_all(file, 4 * client_rank, &client_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, 4 * client_rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(back == client_rank, "read %d", back);
    OK(MPI_File_close(&file));
    remove_first(fifo);
    return client_end();
}
