/* ranks: 2 5 8 */
/* mpis: all */
/* pario: yes */
/* calls: at least 20 */
/*
 * Legal programs that need a non-blocking collective to end while its caller is elsewhere in MPI.
 *
 * Natively MPICH 4.0.2 and 5.0.2 hang in the `waits_first` parts: ROMIO's two-phase write goes on
 * only inside Wait and Test of that very request, so a rank that receives first never does its
 * share. Open MPI's own MPI-IO ends (it writes independently). `nonblocking_order independent`
 * runs the other parts only and passes natively.
 */
#include "client.h"

enum { BLOCK = 4096, MANY = 500, TAG = 17 };

typedef enum { WAIT, WAITALL, WAITANY, TEST_LOOP, WAYS } Completion;

static MPI_File open_fresh(void) {
    const char *path = scratch("nonblocking_order.data");
    MPI_Info info;
    MPI_File file;
    remove_first(path);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable"); /* or ROMIO writes independently and is safe */
    MPI_Info_set(info, "romio_cb_read", "enable");
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     info, &file));
    MPI_Info_free(&info);
    return file;
}

static void complete(MPI_Request *request, MPI_Status *status, Completion way) {
    int done = 0, index = -1;
    switch (way) {
    case WAIT: OK(MPI_Wait(request, status)); break;
    case WAITALL: OK(MPI_Waitall(1, request, status)); break;
    case WAITANY: OK(MPI_Waitany(1, request, &index, status)); break;
    default: while (!done) OK(MPI_Test(request, &done, status));
    }
}

static void expect_block(const char *what, MPI_File file, char expected) {
    char back[BLOCK];
    MPI_Status status;
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at(file, 0, back, BLOCK, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BLOCK);
    for (int i = 0; i < BLOCK; i++)
        CHECK(back[i] == expected, "%s: byte %d: expected %d, got %d", what, i, expected, back[i]);
}

/* Rank 0 waits for its write, then sends; the others receive, then wait. */
static void waits_first(MPI_File file, Completion way) {
    char values[BLOCK], token = 1;
    MPI_Request request;
    MPI_Status status;
    memset(values, 10 + (int)way + client_rank, sizeof values);
    OK(MPI_File_iwrite_at_all(file, 0, values, BLOCK, MPI_BYTE, &request));
    if (client_rank == 0) {
        complete(&request, &status, way);
        for (int rank = 1; rank < client_size; rank++)
            MPI_Send(&token, 1, MPI_CHAR, rank, TAG, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&token, 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        complete(&request, &status, way);
    }
    EXPECT_COUNT("iwrite_at_all", &status, MPI_BYTE, BLOCK);
    expect_block("iwrite_at_all", file, (char)(10 + (int)way + client_rank));
}

/* The same for reads, with the pointer of the view. */
static void reads_first(MPI_File file) {
    char back[BLOCK], token = 1;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    OK(MPI_File_iread_all(file, back, BLOCK, MPI_BYTE, &request));
    if (client_rank != 0)
        MPI_Recv(&token, 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_Wait(&request, &status));
    EXPECT_COUNT("iread_all", &status, MPI_BYTE, BLOCK);
    if (client_rank == 0)
        for (int rank = 1; rank < client_size; rank++)
            MPI_Send(&token, 1, MPI_CHAR, rank, TAG, MPI_COMM_WORLD);
}

/* Between begin and end a rank may wait for another that has already ended its part. */
static void split_with_messages(MPI_File file) {
    char values[BLOCK], token = 1;
    MPI_Status status;
    memset(values, 40 + client_rank, sizeof values);
    OK(MPI_File_write_at_all_begin(file, 0, values, BLOCK, MPI_BYTE));
    int next = (client_rank + 1) % client_size, previous = (client_rank + client_size - 1) % client_size;
    MPI_Sendrecv_replace(&token, 1, MPI_CHAR, next, TAG, previous, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_File_write_at_all_end(file, values, &status));
    EXPECT_COUNT("write_at_all_end", &status, MPI_BYTE, BLOCK);
    expect_block("write_at_all_end", file, (char)(40 + client_rank));
}

/* Two collectives outstanding, completed in another order on each rank, beside a receive. */
static void mixed_with_receives(MPI_File first, MPI_File second) {
    char values[2][BLOCK], token = 3, got = 0;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int previous = (client_rank + client_size - 1) % client_size;
    memset(values[0], 50 + client_rank, BLOCK);
    memset(values[1], 60 + client_rank, BLOCK);
    MPI_Irecv(&got, 1, MPI_CHAR, previous, TAG, MPI_COMM_WORLD, &requests[1]);
    OK(MPI_File_iwrite_at_all(first, 0, values[0], BLOCK, MPI_BYTE, &requests[0]));
    OK(MPI_File_iwrite_at_all(second, 0, values[1], BLOCK, MPI_BYTE, &requests[2]));
    MPI_Send(&token, 1, MPI_CHAR, (client_rank + 1) % client_size, TAG, MPI_COMM_WORLD);
    if (client_rank % 2 == 0) {
        OK(MPI_Waitall(3, requests, statuses));
    } else {
        OK(MPI_Wait(&requests[2], &statuses[2]));
        OK(MPI_Wait(&requests[0], &statuses[0]));
        MPI_Wait(&requests[1], &statuses[1]);
    }
    CHECK(got == token, "the receive beside the writes got %d", got);
    EXPECT_COUNT("first of two iwrite_at_all", &statuses[0], MPI_BYTE, BLOCK);
    EXPECT_COUNT("second of two iwrite_at_all", &statuses[2], MPI_BYTE, BLOCK);
    expect_block("first of two iwrite_at_all", first, (char)(50 + client_rank));
    expect_block("second of two iwrite_at_all", second, (char)(60 + client_rank));
}

static void many_outstanding(MPI_File file) {
    static int values[MANY];
    static MPI_Request requests[MANY];
    static MPI_Status statuses[MANY];
    for (int i = 0; i < MANY; i++) {
        values[i] = client_rank * MANY + i;
        OK(MPI_File_iwrite_at(file, 4 * (MPI_Offset)values[i], &values[i], 1, MPI_INT, &requests[i]));
    }
    OK(MPI_Waitall(MANY, requests, statuses));
    for (int i = 0; i < MANY; i++) EXPECT_COUNT("one of many iwrite_at", &statuses[i], MPI_INT, 1);
    for (int i = 0; i < MANY; i++) values[i] = -1;
    for (int i = 0; i < MANY; i++)
        OK(MPI_File_iread_at(file, 4 * (MPI_Offset)(client_rank * MANY + i), &values[i], 1, MPI_INT,
                             &requests[i]));
    for (int left = MANY; left > 0; left--) {
        int index = -1;
        OK(MPI_Waitany(MANY, requests, &index, &statuses[0]));
        CHECK(values[index] == client_rank * MANY + index, "read %d of many: got %d", index, values[index]);
    }
}

/*
 * A freed request still writes. It must have ended before the close, so it is watched by reading, for as long as the
 * run may last. Natively nobody knows whether it ever writes.
 */
static void freed_request(void) {
    const char *path = scratch("nonblocking_order.freed");
    MPI_File file;
    int word = 1000 + client_rank, back = 0;
    MPI_Request request;
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_iwrite_at(file, 4 * (MPI_Offset)client_rank, &word, 1, MPI_INT, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL, "a freed request is not MPI_REQUEST_NULL");
    while (back != word && !client_is_native)
        OK(MPI_File_read_at(file, 4 * (MPI_Offset)client_rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    int independent_only = argc > 1 && strcmp(argv[1], "independent") == 0;
    MPI_File file = open_fresh(), second;
    const char *path = scratch("nonblocking_order.second");
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &second));
    many_outstanding(file);
    MPI_Barrier(MPI_COMM_WORLD);
    interleave(file, 64);
    interleave(second, 64);
    if (!independent_only)
        for (int way = WAIT; way < WAYS; way++) waits_first(file, (Completion)way);
    if (!independent_only) reads_first(file);
    if (!independent_only) mixed_with_receives(file, second);
    split_with_messages(file);
    OK(MPI_File_close(&second));
    OK(MPI_File_close(&file));
    freed_request();
    return client_end();
}
