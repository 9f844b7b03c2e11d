/* ranks: 4 */
/* mpis: mpich5 openmpi5 openmpi4 */
/* pario: yes */
/* calls: at least 3 */
/* alone: yes */
/*
 * Who waits for a non-blocking collective gives the processor away: all ranks share one core, one of
 * them computes before it makes the call, and the others wait in MPI_Wait meanwhile. They may use a
 * fraction of the processor time that it uses.
 */
#include "client.h"

#include <sched.h>
#include <time.h>

enum { BLOCK = 4096 };

static double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* All ranks on the first core that rank 0 may use. */
static void share_a_core(void) {
    cpu_set_t cores, one;
    int core = 0;
    CHECK(sched_getaffinity(0, sizeof cores, &cores) == 0, "sched_getaffinity");
    while (!CPU_ISSET(core, &cores)) core++;
    MPI_Bcast(&core, 1, MPI_INT, 0, MPI_COMM_WORLD);
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

int main(int argc, char **argv) {
    static char values[BLOCK];
    const double computed = 0.3;
    MPI_File file;
    MPI_Request request;
#ifdef LEVEL
    int provided = -1;
    MPI_Init_thread(&argc, &argv, LEVEL, &provided);
    client_describe(argv[0]);
    if (provided < LEVEL) {
        if (client_rank == 0) printf("SKIP this library has no such level of threads\n");
        return client_end();
    }
#else
    client_start(&argc, &argv);
#endif
    share_a_core();
    memset(values, client_rank + 1, BLOCK);
    const char *name = scratch("waits_asleep.data");
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = cpu_seconds();
    while (client_rank == 0 && cpu_seconds() - begin < computed) {}
    begin = cpu_seconds();
    OK(MPI_File_iwrite_at_all(file, client_rank * BLOCK, values, BLOCK, MPI_BYTE, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    double used = cpu_seconds() - begin;
    if (client_rank == 1) printf("NOTE used %.3f s of processor time to wait\n", used);
    CHECK(client_rank == 0 || used < computed / 2, "used %.3f s of processor time to wait", used);
    OK(MPI_File_close(&file));
    if (client_rank == 0) unlink(name);
    return client_end();
}
