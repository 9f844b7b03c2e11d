/* ranks: 2 4 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 8 */
/* preload: fail_io */
/*
 * What the system says when a file is closed, or a range of it unlocked, is not lost: all ranks
 * learn of a close that fails on one of them, and after an unlock that fails nobody waits for the
 * lock for ever.
 */
#include "client.h"

#include <errno.h>

/* As in fail_io.c. */
enum { FAIL_CLOSE = 5, FAIL_UNLOCK = 6 };
enum { PIECE = 64, COUNT = 100 };

typedef void (*Arm)(int call, int nth, int error, int times, const char *path);
typedef int (*Disarm)(void);
static Arm arm;
static Disarm disarm;

static MPI_File open_file(void) {
    MPI_Info info;
    MPI_File file;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_ds_write", "enable");
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("close_and_unlock.data"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    MPI_Info_free(&info);
    return file;
}

/* Every rank in turn is the one whose close fails. */
static void closing(void) {
    for (int failing = 0; failing < client_size; failing++) {
        MPI_File file = open_file();
        char byte = 7;
        OK(MPI_File_write_at_all(file, client_rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        if (client_rank == failing) arm(FAIL_CLOSE, 1, ENOSPC, 1, "close_and_unlock.data");
        int code = MPI_File_close(&file);
        int fired = client_rank == failing ? disarm() : 1;
        CHECK(fired == 1, "%d calls were made to fail", fired);
        CHECK(class_of(code) == MPI_ERR_NO_SPACE, "close gave %s", text_of(code));
        CHECK(file == MPI_FILE_NULL, "the file is not closed");
    }
}

/* Pieces with holes, read and written back under a lock by each rank after the other. */
static void unlocking(void) {
    static char data[PIECE * COUNT];
    MPI_Datatype filetype;
    MPI_File file = open_file();
    OK(MPI_File_set_size(file, 3 * PIECE * COUNT));
    MPI_Type_vector(COUNT, PIECE, 3 * PIECE, MPI_BYTE, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    for (int turn = 0; turn < client_size; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn != client_rank) continue;
        if (turn == 0) arm(FAIL_UNLOCK, 1, EIO, 1 << 30, "close_and_unlock.data");
        memset(data, 'a' + client_rank, sizeof data);
        int code = MPI_File_write_at(file, 0, data, PIECE * COUNT, MPI_BYTE, MPI_STATUS_IGNORE);
        if (turn == 0) {
            CHECK(disarm() > 0, "nothing was unlocked");
            CHECK(class_of(code) == MPI_ERR_IO, "a failed unlock gave %s", text_of(code));
        } else {
            CHECK(code == MPI_SUCCESS, "write gave %s", text_of(code));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_read_at(file, 0, data, PIECE * COUNT, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int at = 0; at < PIECE * COUNT; at++)
        CHECK(data[at] == 'a' + client_size - 1, "byte %d is %c", at, data[at]);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    *(void **)&arm = dlsym(RTLD_DEFAULT, "fail_io_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "fail_io_disarm");
    CHECK(arm && disarm, "fail_io.so is not preloaded");
    closing();
    unlocking();
    if (client_rank == 0) OK(MPI_File_delete(scratch("close_and_unlock.data"), MPI_INFO_NULL));
    return client_end();
}
