/* ranks: 2 4 */
/* mpis: all */
/* pario: yes */
/* calls: at least 100 */
/*
 * MPI_THREAD_MULTIPLE: two threads in each rank, each with a file of all ranks on a communicator of its own, make
 * non-blocking collectives, several at a time. They end them by Wait, Waitall and Test, in other orders than they
 * began them.
 *
 *     threads_nonblocking [rounds]
 */
#include "client.h"

#include <pthread.h>

enum { THREADS = 2, PIECE = 100, PIECES = 40, BYTES = PIECE * PIECES, AT_ONCE = 3 };

static int rounds = 20;

typedef struct {
    int number;
    MPI_Comm comm;
    unsigned char values[AT_ONCE][BYTES], back[AT_ONCE][BYTES];
} Worker;

static void fill(Worker *worker, int round) {
    for (int i = 0; i < AT_ONCE; i++)
        for (int byte = 0; byte < BYTES; byte++)
            worker->values[i][byte] = (unsigned char)(worker->number * 101 + client_rank * 61 + round * 17 + i * 5 + byte);
}

static void end_all(MPI_Request *requests, int round) {
    int done = 0;
    switch (round % 3) {
    case 0:
        OK(MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE));
        break;
    case 1:
        for (int i = AT_ONCE - 1; i >= 0; i--) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        break;
    default:
        while (!done) OK(MPI_Testall(AT_ONCE, requests, &done, MPI_STATUSES_IGNORE));
    }
}

static void one_round(Worker *worker, MPI_File file, int round) {
    MPI_Request requests[AT_ONCE];
    fill(worker, round);
    for (int i = 0; i < AT_ONCE; i++)
        OK(MPI_File_iwrite_at_all(file, (MPI_Offset)i * BYTES, worker->values[i], BYTES, MPI_BYTE, &requests[i]));
    end_all(requests, round);
    settle(file, worker->comm);
    for (int i = 0; i < AT_ONCE; i++)
        OK(MPI_File_iread_at_all(file, (MPI_Offset)i * BYTES, worker->back[i], BYTES, MPI_BYTE, &requests[i]));
    end_all(requests, round + 1);
    EXPECT_BYTES("read again", worker->back, worker->values, sizeof worker->values);
}

static void *work(void *argument) {
    Worker *worker = argument;
    char path[4096];
    const char *directory = getenv("PARIO_TEST_DIR"); /* scratch() is for one thread */
    MPI_File file;
    MPI_Datatype piece, filetype;
    snprintf(path, sizeof path, "%s/threads_nonblocking.%d", directory ? directory : ".", worker->number);
    OK(MPI_File_open(worker->comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, PIECE * (MPI_Aint)client_size, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, (MPI_Offset)PIECE * client_rank, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&filetype);
    for (int round = 0; round < rounds; round++) one_round(worker, file, round);
    OK(MPI_File_close(&file));
    return NULL;
}

int main(int argc, char **argv) {
    static Worker workers[THREADS];
    int provided = -1;
    pthread_t others[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    client_describe(argv[0]);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (client_rank == 0) printf("SKIP no MPI_THREAD_MULTIPLE\n");
        return client_end();
    }
    if (argc > 1) rounds = atoi(argv[1]);
    double begin = MPI_Wtime();
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 1; i < THREADS; i++)
        CHECK(pthread_create(&others[i], NULL, work, &workers[i]) == 0, "pthread_create");
    work(&workers[0]);
    for (int i = 1; i < THREADS; i++) CHECK(pthread_join(others[i], NULL) == 0, "pthread_join");
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&workers[i].comm);
    if (client_rank == 0) printf("SECONDS %.3f\n", MPI_Wtime() - begin);
    return client_end();
}
