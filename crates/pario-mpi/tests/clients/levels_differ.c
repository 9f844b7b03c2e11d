/* ranks: 2 4 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 40 */
/*
 * Ranks that asked MPI for different levels of threads make non-blocking collectives: whether these go on in the
 * background is the same on all ranks. Requests end, and an error of one rank is the outcome of all.
 */
#include "client.h"

enum { ROUNDS = 10 };

int main(int argc, char **argv) {
    const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    /* The launchers' numbers of ranks. */
    const char *rank = getenv("PMI_RANK") ? getenv("PMI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
    int provided = -1, level = rank && atoi(rank) % 2 == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, level, &provided);
    client_describe(argv[0]);
    CHECK(level == (client_rank % 2 == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE), "level %d", level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_File file;
        MPI_Request request;
        MPI_Status status;
        int values[2] = {client_rank, round}, back[2] = {-1, -1};
        MPI_Offset mine = (MPI_Offset)sizeof values * client_rank;
        OK(MPI_File_open(MPI_COMM_WORLD, scratch("levels_differ"), amode, MPI_INFO_NULL, &file));
        OK(MPI_File_iwrite_at_all(file, mine, values, 2, MPI_INT, &request));
        OK(MPI_Wait(&request, &status));
        EXPECT_COUNT("iwrite_at_all", &status, MPI_INT, 2);
        OK(MPI_File_iread_at_all(file, mine, back, 2, MPI_INT, &request));
        OK(MPI_Wait(&request, &status));
        EXPECT_BYTES("iread_at_all", back, values, sizeof values);
        /* The last rank's offset is wrong. */
        MPI_Offset wrong = client_rank == client_size - 1 ? -1 : mine;
        int code = MPI_File_iwrite_at_all(file, wrong, values, 2, MPI_INT, &request);
        if (code == MPI_SUCCESS) code = MPI_Wait(&request, &status);
        CHECK(code != MPI_SUCCESS, "a wrong offset on the last rank was no error here");
        OK(MPI_File_close(&file));
    }
    return client_end();
}
