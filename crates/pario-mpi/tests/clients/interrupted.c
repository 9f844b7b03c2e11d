/* ranks: 4 */
/* mpis: none */
/* pario: yes */
/* calls: unknown */
/* ends: badly */
/* leaves: interrupted.data */
/*
 * An end in the middle of writing: the last rank aborts while the others are inside a collective
 * write. With the argument `endless` all ranks write until somebody kills them. Either way nothing
 * may be left behind but the file. PASS says that writing has begun; the steps after it give the
 * launcher time to pass that on.
 */
#include "client.h"

enum { COUNT = 4096, STEPS_BEFORE = 5, STEPS = 200 };

int main(int argc, char **argv) {
    int words[COUNT];
    MPI_Datatype every;
    MPI_File file, shared;
    client_start(&argc, &argv);
    int endless = argc > 1 && strcmp(argv[1], "endless") == 0;
    for (int i = 0; i < COUNT; i++) words[i] = client_rank;
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("interrupted.data"), MPI_MODE_RDWR | MPI_MODE_CREATE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("interrupted.data"), MPI_MODE_RDWR, MPI_INFO_NULL,
                     &shared));
    MPI_Type_vector(COUNT, 1, client_size, MPI_INT, &every);
    MPI_Type_commit(&every);
    OK(MPI_File_set_view(file, client_rank * (MPI_Offset)sizeof(int), MPI_INT, every, "native",
                         MPI_INFO_NULL));
    for (int step = 0; endless || step <= STEPS; step++) {
        if (!endless && step == STEPS && client_rank == client_size - 1) {
            MPI_Abort(MPI_COMM_WORLD, 3);
            /* MPICH only asks its launcher for the end, and may return before it comes. */
            for (;;) pause();
        }
        OK(MPI_File_write_at_all(file, 0, words, COUNT, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_seek_shared(shared, 0, MPI_SEEK_SET));
        OK(MPI_File_write_shared(shared, words, 16, MPI_INT, MPI_STATUS_IGNORE));
        if (step == STEPS_BEFORE && client_rank == 0) {
            printf("PASS\n");
            fflush(stdout);
        }
    }
    FAIL("nobody came to end this program");
}
