/* ranks: 1 2 5 8 */
/* mpis: all */
/* pario: both */
/* calls: at least 90 */
/* under: hostname */
/*
 * Shared pointers under contention: every record of every rank is in the file exactly once and
 * whole; ordered calls put records in the order of ranks; both move one and the same pointer.
 */
#include "client.h"

enum { ROUNDS = 12, LARGEST = 9 };

/* A record names its writer, its number and its length, so that a reader can walk the file. */
typedef struct { int rank, number, ints; } Head;
enum { HEAD = sizeof(Head) / sizeof(int) };

static int filler(int rank, int number, int index) { return rank * 100000 + number * 100 + index; }

static int length_of(int rank, int number) { return (rank * 5 + number * 3) % LARGEST; }

static int make_record(int *record, int number) {
    Head head = {client_rank, number, length_of(client_rank, number)};
    memcpy(record, &head, sizeof head);
    for (int i = 0; i < head.ints; i++) record[HEAD + i] = filler(client_rank, number, i);
    return HEAD + head.ints;
}

/* Walks all records and counts each; returns the number of ints they fill. */
static int count_records(const int *words, int total, int *seen, int numbers) {
    int at = 0;
    while (at < total) {
        Head head;
        CHECK(at + (int)HEAD <= total, "a record is cut off at int %d of %d", at, total);
        memcpy(&head, words + at, sizeof head);
        CHECK(head.rank >= 0 && head.rank < client_size && head.number >= 0 && head.number < numbers,
              "no record at int %d: rank %d, number %d", at, head.rank, head.number);
        CHECK(head.ints == length_of(head.rank, head.number), "record at int %d has length %d", at, head.ints);
        for (int i = 0; i < head.ints; i++)
            CHECK(words[at + HEAD + i] == filler(head.rank, head.number, i),
                  "record %d of rank %d: int %d: expected %d, got %d", head.number, head.rank, i,
                  filler(head.rank, head.number, i), words[at + HEAD + i]);
        seen[head.rank * numbers + head.number]++;
        at += HEAD + head.ints;
    }
    return at;
}

static void expect_each_once(MPI_File file, int numbers) {
    MPI_Offset bytes = 0, position = -1;
    MPI_Status status;
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &bytes));
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position * 4 == bytes, "shared position %lld ints, size %lld bytes", (long long)position,
          (long long)bytes);
    int total = (int)(bytes / 4);
    int *words = malloc((size_t)bytes + 4), *seen = calloc((size_t)(client_size * numbers), sizeof *seen);
    OK(MPI_File_read_at(file, 0, words, total, MPI_INT, &status));
    EXPECT_COUNT("read of the whole file", &status, MPI_INT, total);
    count_records(words, total, seen, numbers);
    for (int i = 0; i < client_size * numbers; i++)
        CHECK(seen[i] == 1, "record %d of rank %d is there %d times", i % numbers, i / numbers, seen[i]);
    free(words);
    free(seen);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void write_contended(MPI_File file, int first) {
    int record[HEAD + LARGEST];
    MPI_Request request;
    MPI_Status status;
    for (int number = first; number < first + ROUNDS; number++) {
        int ints = make_record(record, number);
        if (number % 3 == 2) {
            OK(MPI_File_iwrite_shared(file, record, ints, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        } else {
            OK(MPI_File_write_shared(file, record, ints, MPI_INT, &status));
        }
        EXPECT_COUNT("write_shared", &status, MPI_INT, ints);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void write_in_order(MPI_File file, int first) {
    int record[HEAD + LARGEST];
    MPI_Status status;
    for (int number = first; number < first + ROUNDS; number++) {
        int ints = make_record(record, number);
        if (number % 2 == 0) {
            OK(MPI_File_write_ordered(file, record, ints, MPI_INT, &status));
        } else {
            OK(MPI_File_write_ordered_begin(file, record, ints, MPI_INT));
            OK(MPI_File_write_ordered_end(file, record, &status));
        }
        EXPECT_COUNT("write_ordered", &status, MPI_INT, ints);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What write_in_order wrote must be, round by round, rank 0, 1, 2, ... */
static void expect_order(MPI_File file, MPI_Offset start, int first) {
    MPI_Offset at = start;
    for (int number = first; number < first + ROUNDS; number++)
        for (int rank = 0; rank < client_size; rank++) {
            Head head = {-1, -1, -1};
            OK(MPI_File_read_at(file, at, &head, HEAD, MPI_INT, MPI_STATUS_IGNORE));
            CHECK(head.rank == rank && head.number == number,
                  "int %lld: expected record %d of rank %d, got %d of %d", (long long)at, number, rank,
                  head.number, head.rank);
            at += HEAD + head.ints;
        }
}

/* Fixed-size tickets, read by the rank that comes first: each is drawn exactly once. */
static void draw_tickets(void) {
    const char *path = scratch("shared_pointers.tickets");
    int tickets = 16 * client_size, *drawn = calloc((size_t)tickets, sizeof *drawn);
    MPI_File file;
    MPI_Status status;
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = client_rank * 16; i < client_rank * 16 + 16; i++)
        OK(MPI_File_write_at(file, i, &i, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file, MPI_COMM_WORLD);
    for (int round = 0; round < 16; round++) {
        int ticket = -1;
        OK(MPI_File_read_shared(file, &ticket, 1, MPI_INT, &status));
        EXPECT_COUNT("read_shared", &status, MPI_INT, 1);
        CHECK(ticket >= 0 && ticket < tickets, "drew ticket %d of %d", ticket, tickets);
        drawn[ticket]++;
    }
    MPI_Allreduce(MPI_IN_PLACE, drawn, tickets, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < tickets; i++) CHECK(drawn[i] == 1, "ticket %d drawn %d times", i, drawn[i]);
    free(drawn);
    OK(MPI_File_close(&file));
}

/* Two opens of one file have two shared pointers (MPI-4.1, 14.4.4: one per collective open). */
static void separate_pointers(MPI_File first) {
    MPI_Offset position = -1;
    MPI_File second;
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("shared_pointers.data"), MPI_MODE_RDWR, MPI_INFO_NULL, &second));
    OK(MPI_File_get_position_shared(second, &position));
    CHECK_PARIO(position == 0, "a second open starts at shared position %lld", (long long)position);
    OK(MPI_File_close(&second));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(first, &position));
    CHECK_PARIO(position > 0, "closing another handle reset the shared pointer");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Who keeps the pointer has to answer while its program waits inside MPI. */
static void others_wait_inside_mpi(MPI_File file) {
    MPI_Offset position = -1;
    for (int asking = 0; asking < client_size; asking++) {
        if (client_rank == asking) {
            OK(MPI_File_get_position_shared(file, &position));
            for (int rank = 0; rank < client_size; rank++)
                if (rank != asking) MPI_Send(&position, 1, MPI_OFFSET, rank, 7, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&position, 1, MPI_OFFSET, asking, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        CHECK_PARIO(position > 0, "the shared pointer is at %lld", (long long)position);
    }
}

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Offset start = -1;
    client_start(&argc, &argv);
    const char *path = scratch("shared_pointers.data");
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    write_contended(file, 0);
    expect_each_once(file, ROUNDS);
    OK(MPI_File_get_position_shared(file, &start));
    MPI_Barrier(MPI_COMM_WORLD);
    write_in_order(file, ROUNDS);
    expect_each_once(file, 2 * ROUNDS);
    expect_order(file, start, ROUNDS);
    separate_pointers(file);
    others_wait_inside_mpi(file);
    OK(MPI_File_close(&file));
    draw_tickets();
    return client_end();
}
