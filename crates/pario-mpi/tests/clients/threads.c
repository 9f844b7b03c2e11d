/* ranks: 1 2 4 */
/* mpis: all */
/* pario: yes */
/* calls: at least 100 */
/*
 * MPI_THREAD_MULTIPLE: two threads per rank, each with a file of all ranks (on a communicator of its
 * own) and a file of its own, collective and independent, at the same time.
 *
 * Natively MPICH 4.0.2 and 5.0.2 hang: ROMIO keeps one lock for all files during a collective call,
 * so two threads that enter two collectives in another order on each rank wait for each other.
 * Open MPI 5.0.11 gives MPI_ERR_OTHER from MPI_File_sync while the other thread is at work.
 */
#include "client.h"

#include <pthread.h>

enum { ROUNDS = 10, BLOCK = 1000 };

typedef struct {
    int number;
    MPI_Comm comm;
} Worker;

static int value(int thread, int round, int index) {
    return thread * 1000000 + round * 10000 + client_rank * 1000 + index;
}

static void expect(const char *what, const int *got, int thread, int round) {
    for (int i = 0; i < BLOCK; i++)
        CHECK(got[i] == value(thread, round, i), "%s, thread %d, round %d, int %d: expected %d, got %d",
              what, thread, round, i, value(thread, round, i), got[i]);
}

static void one_round(const Worker *worker, MPI_File together, MPI_File alone, int round) {
    int values[BLOCK], back[BLOCK];
    MPI_Offset mine = (MPI_Offset)sizeof values * client_rank;
    MPI_Request request;
    for (int i = 0; i < BLOCK; i++) values[i] = value(worker->number, round, i);
    OK(MPI_File_write_at_all(together, mine, values, BLOCK, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_iwrite_at(alone, 0, values, BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    settle(together, worker->comm);
    OK(MPI_File_read_at_all(together, mine, back, BLOCK, MPI_INT, MPI_STATUS_IGNORE));
    expect("collective", back, worker->number, round);
    OK(MPI_File_iread_at(alone, 0, back, BLOCK, MPI_INT, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect("independent", back, worker->number, round);
}

static void *work(void *argument) {
    const Worker *worker = argument;
    const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    char name[64], path[4096];
    const char *directory = getenv("PARIO_TEST_DIR"); /* scratch() is for one thread */
    MPI_File together, alone;
    snprintf(name, sizeof name, "threads.%d", worker->number);
    snprintf(path, sizeof path, "%s/%s", directory ? directory : ".", name);
    OK(MPI_File_open(worker->comm, path, amode, MPI_INFO_NULL, &together));
    snprintf(path, sizeof path, "%s/%s.%d", directory ? directory : ".", name, client_rank);
    OK(MPI_File_open(MPI_COMM_SELF, path, amode, MPI_INFO_NULL, &alone));
    for (int round = 0; round < ROUNDS; round++) one_round(worker, together, alone, round);
    OK(MPI_File_close(&alone));
    OK(MPI_File_close(&together));
    return NULL;
}

int main(int argc, char **argv) {
    int provided = -1;
    pthread_t other;
    Worker workers[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    client_describe(argv[0]);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (client_rank == 0) printf("SKIP no MPI_THREAD_MULTIPLE\n");
        return client_end();
    }
    for (int i = 0; i < 2; i++) {
        workers[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    CHECK(pthread_create(&other, NULL, work, &workers[1]) == 0, "pthread_create");
    work(&workers[0]);
    CHECK(pthread_join(other, NULL) == 0, "pthread_join");
    for (int i = 0; i < 2; i++) MPI_Comm_free(&workers[i].comm);
    return client_end();
}
