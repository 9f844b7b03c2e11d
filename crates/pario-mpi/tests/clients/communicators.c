/* ranks: 1 2 5 8 */
/* mpis: all */
/* pario: both */
/* calls: at least 800 */
/*
 * Files on split, reordered, duplicated and self communicators, several at once; what was passed to
 * a call (communicator, datatype, info) may be freed as soon as the call returns.
 */
#include "client.h"

enum { OPENS = 200 };

static MPI_File open_on(MPI_Comm comm, const char *name) {
    MPI_File file;
    OK(MPI_File_open(comm, scratch(name), MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    return file;
}

/* Each process writes its world rank at its place in `comm`; all places are then checked. */
static void exchange_ranks(MPI_File file, MPI_Comm comm, const char *what) {
    int rank, size, expected[64], got[64], me = client_rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    OK(MPI_File_write_at_all(file, rank * 4, &me, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file, comm);
    OK(MPI_File_read_at_all(file, 0, got, size, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Allgather(&me, 1, MPI_INT, expected, 1, MPI_INT, comm);
    for (int i = 0; i < size; i++)
        CHECK(got[i] == expected[i], "%s: place %d: expected %d, got %d", what, i, expected[i], got[i]);
}

static void split_and_reordered(void) {
    MPI_Comm half, reversed;
    MPI_File file;
    MPI_Group of_file, of_comm;
    int result = -1, word = client_rank;
    MPI_Comm_split(MPI_COMM_WORLD, client_rank % 2, client_rank, &half);
    file = open_on(half, client_rank % 2 ? "communicators.odd" : "communicators.even");
    exchange_ranks(file, half, "split");
    OK(MPI_File_close(&file));

    MPI_Comm_split(MPI_COMM_WORLD, 0, -client_rank, &reversed);
    file = open_on(reversed, "communicators.reversed");
    exchange_ranks(file, reversed, "reversed");
    OK(MPI_File_get_group(file, &of_file));
    MPI_Comm_group(reversed, &of_comm);
    MPI_Group_compare(of_file, of_comm, &result);
    CHECK(result == MPI_IDENT, "the group of a reordered file differs: %d", result);
    MPI_Group_free(&of_file);
    MPI_Group_free(&of_comm);
    /* Ordered calls follow the ranks of the file's communicator, not of the world. */
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_ordered(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file, reversed);
    OK(MPI_File_read_at(file, client_size - 1 - client_rank, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(word == client_rank, "ordered on a reversed communicator: got %d", word);
    MPI_Barrier(reversed);
    OK(MPI_File_close(&file));
    MPI_Comm_free(&half);
    MPI_Comm_free(&reversed);
}

static void self_files(void) {
    char name[64];
    MPI_File file;
    int word = 7 * client_rank, back = -1;
    snprintf(name, sizeof name, "communicators.self.%d", client_rank);
    file = open_on(MPI_COMM_SELF, name);
    OK(MPI_File_write_all(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 0, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(back == word, "self: expected %d, got %d", word, back);
    OK(MPI_File_close(&file));
}

/* Everything handed over is freed before the file is used. */
static void freed_after_use(void) {
    MPI_Comm duplicate;
    MPI_Info info;
    MPI_Datatype etype, filetype;
    MPI_File file;
    int word = client_rank, back = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    OK(MPI_File_open(duplicate, scratch("communicators.freed"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info, &file));
    MPI_Comm_free(&duplicate);
    MPI_Type_contiguous(1, MPI_INT, &etype);
    MPI_Type_commit(&etype);
    MPI_Type_create_resized(etype, 0, 4 * client_size, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, 4 * client_rank, etype, filetype, "native", info));
    MPI_Info_free(&info);
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    /* New types may get the freed handles; the view must not notice. */
    MPI_Type_contiguous(3, MPI_DOUBLE, &etype);
    MPI_Type_vector(4, 1, 9, MPI_DOUBLE, &filetype);
    for (int i = 0; i < 4; i++) OK(MPI_File_write_all(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < 4; i++) {
        OK(MPI_File_read_at(file, i * client_size + client_rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(back == word, "freed types: tile %d: expected %d, got %d", i, word, back);
    }
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    OK(MPI_File_close(&file));
}

static void several_at_once(void) {
    MPI_File files[5];
    char name[64];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "communicators.%d", i);
        files[i] = open_on(MPI_COMM_WORLD, name);
    }
    for (int i = 4; i >= 0; i--) {
        int word = 10 * i + client_rank;
        OK(MPI_File_write_at_all(files[i], client_rank * 4, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < 5; i++) {
        int back = -1;
        OK(MPI_File_read_at(files[i], client_rank * 4, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_PARIO(back == 10 * i + client_rank, "file %d of five: expected %d, got %d", i,
                    10 * i + client_rank, back);
    }
    for (int i = 0; i < 5; i++) OK(MPI_File_close(&files[(i * 2) % 5]));
}

static void open_and_close_often(void) {
    for (int i = 0; i < OPENS; i++) {
        MPI_File file;
        int word = i, back = -1;
        OK(MPI_File_open(MPI_COMM_SELF, scratch(client_rank % 2 ? "communicators.b" : "communicators.a"),
                         MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
        OK(MPI_File_write_at(file, client_rank * 4, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(file, client_rank * 4, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(back == word, "open %d: expected %d, got %d", i, word, back);
        OK(MPI_File_close(&file));
    }
    for (int i = 0; i < OPENS / 10; i++) {
        MPI_File file = open_on(MPI_COMM_WORLD, "communicators.often");
        OK(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD); /* DELETE_ON_CLOSE must not hit the next open */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == 0) {
        unlink(scratch("communicators.a"));
        unlink(scratch("communicators.b"));
    }
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    split_and_reordered();
    self_files();
    freed_after_use();
    several_at_once();
    open_and_close_often();
    return client_end();
}
