/* ranks: 1 2 3 */
/* mpis: all */
/* pario: both */
/* calls: at least 6 */
/*
 * The extents of etypes are the same on all ranks, their sizes need not be (MPI-4.1, section 14.3).
 * Offsets and the shared file pointer count etypes, each rank its own: all are slots of one extent.
 */
#include "client.h"

enum { SLOT = 8, SLOTS_MAX = 16 };

static int size_of(int rank) { return 8 >> rank % 3; }

static void expect_slots(MPI_File file, const char *what, const int *owner, int slots) {
    unsigned char found[SLOT * SLOTS_MAX];
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    memset(found, 0, sizeof found);
    OK(MPI_File_read_at_all(file, 0, found, SLOT * slots, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < SLOT * slots; i++) {
        int rank = owner[i / SLOT], expected = i % SLOT < size_of(rank) ? rank + 1 : 0;
        CHECK_PARIO(found[i] == expected, "%s: byte %d is %d, expected %d", what, i, found[i], expected);
    }
    OK(MPI_File_set_size(file, 0));
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    const char *path = scratch("etypes.data");
    unsigned char data[SLOT * 3];
    int owner[SLOTS_MAX], slots = 0;
    MPI_Datatype bytes, etype;
    MPI_File file;
    MPI_Offset shared = -1;
    remove_first(path);
    OK(MPI_Type_contiguous(size_of(client_rank), MPI_BYTE, &bytes));
    OK(MPI_Type_create_resized(bytes, 0, SLOT, &etype));
    OK(MPI_Type_commit(&etype));
    memset(data, client_rank + 1, sizeof data);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));

    OK(MPI_File_set_view(file, 0, etype, etype, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(file, client_rank, data, size_of(client_rank), MPI_BYTE, MPI_STATUS_IGNORE));
    for (int rank = 0; rank < client_size; rank++) owner[rank] = rank;
    expect_slots(file, "write_at_all", owner, client_size);

    OK(MPI_File_set_view(file, 0, etype, etype, "native", MPI_INFO_NULL));
    OK(MPI_File_write_ordered(file, data, size_of(client_rank) * (client_rank + 1), MPI_BYTE, MPI_STATUS_IGNORE));
    for (int rank = 0; rank < client_size; rank++)
        for (int i = 0; i <= rank; i++) owner[slots++] = rank;
    OK(MPI_File_get_position_shared(file, &shared));
    CHECK_PARIO(shared == slots, "the shared file pointer is %lld, expected %d", (long long)shared, slots);
    expect_slots(file, "write_ordered", owner, slots);

    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&etype));
    OK(MPI_Type_free(&bytes));
    return client_end();
}
