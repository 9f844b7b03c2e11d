/* ranks: 2 4 */
/* mpis: all */
/* pario: yes */
/* calls: at least 600 */
/*
 * MPI_THREAD_MULTIPLE: a file is closed as soon as its last non-blocking collective has ended. Another
 * thread ended it, and may not have let the file go yet.
 */
#include "client.h"

enum { ROUNDS = 300, BLOCK = 100 };

int main(int argc, char **argv) {
    const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    int provided = -1, values[BLOCK];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    client_describe(argv[0]);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (client_rank == 0) printf("SKIP no MPI_THREAD_MULTIPLE\n");
        return client_end();
    }
    for (int i = 0; i < BLOCK; i++) values[i] = client_rank * BLOCK + i;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_File file;
        MPI_Request request;
        MPI_Offset mine = (MPI_Offset)sizeof values * client_rank;
        OK(MPI_File_open(MPI_COMM_WORLD, scratch("closed_after_wait"), amode, MPI_INFO_NULL, &file));
        OK(MPI_File_iwrite_at_all(file, mine, values, BLOCK, MPI_INT, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_File_close(&file));
    }
    return client_end();
}
