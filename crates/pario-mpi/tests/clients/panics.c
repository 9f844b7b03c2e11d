/* ranks: 2 3 4 5 */
/* mpis: all */
/* pario: yes */
/* calls: unknown */
/* ends: badly */
/* preload: fail_clock */
/* leaves: panics.data */
/* says: pario: rank 1: a panic in */
/*
 * A panic inside pario ends the job: the other ranks would wait for that rank for ever, and could
 * still use its buffer. Rank 1 panics, and a run without its own end is one that hangs.
 *
 * The number of ranks says where: in a collective call (2), in a non-blocking one that a thread of
 * pario's carries on where the library permits, while the program computes (3), in MPI_File_open
 * (4), in a non-blocking one that the program waits for (5).
 *
 * PASS is printed before it. The panic comes from preload/fail_clock.c.
 */
#include "client.h"

/* As in fail_clock.c. */
enum { CLOCK_WORKS, CLOCK_OF_CALLER, CLOCK_OF_OTHERS };
enum { PIECE = 256, BLOCK = 1024 * 1024 };

static char values[BLOCK];

static void arm(int whose) {
    void (*function)(int);
    *(void **)&function = dlsym(RTLD_DEFAULT, "fail_clock_arm");
    CHECK(function, "fail_clock.so is not preloaded");
    if (client_rank == 1) function(whose);
}

static MPI_File open_file(void) {
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("panics.data"), MPI_MODE_RDWR | MPI_MODE_CREATE,
                     MPI_INFO_NULL, &file));
    interleave(file, PIECE);
    return file;
}

int main(int argc, char **argv) {
    int provided = -1, computes;
    MPI_Request request;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    client_describe(argv[0]);
    MPI_File file = open_file();
    if (client_rank == 0) printf("PASS\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(300000); /* A launcher that kills its ranks may lose what they have just printed. */
    switch (client_size) {
    case 2:
        arm(CLOCK_OF_CALLER);
        MPI_File_write_all(file, values, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
        break;
    case 3:
        computes = client_rank == 1 && provided == MPI_THREAD_MULTIPLE;
        arm(computes ? CLOCK_OF_OTHERS : CLOCK_OF_CALLER);
        OK(MPI_File_iwrite_all(file, values, BLOCK, MPI_BYTE, &request));
        while (computes) pause();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case 4:
        arm(CLOCK_OF_CALLER);
        open_file();
        break;
    default:
        /* The others begin when rank 1 is armed: it has everything left to do in its wait. */
        if (client_rank != 1) MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_iwrite_all(file, values, BLOCK, MPI_BYTE, &request));
        arm(CLOCK_OF_CALLER);
        if (client_rank == 1) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    printf("FAIL rank %d is still here after a panic of rank 1\n", client_rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
