/* ranks: 2 4 */
/* mpis: all */
/* pario: yes */
/* calls: at least 20 */
/*
 * The system lets ranks use each other's memory at first, and then no more, on one rank or on all:
 * a filter of system calls is installed, or a process makes itself opaque (not dumpable). Every
 * collective succeeds with right bytes, on files that are open and on new ones.
 */
#include "client.h"
#include "filter.h"

enum { BLOCK = 600000 };

static unsigned char values[BLOCK], back[BLOCK];

static MPI_File open_file(const char *name, const char *strategy, int piece_bytes) {
    MPI_Info info;
    MPI_File file;
    MPI_Datatype piece, filetype;
    MPI_Info_create(&info);
    MPI_Info_set(info, "pario_strategy", strategy);
    /* Windows that only aggregators fill, from the memory of others. */
    MPI_Info_set(info, "pario_common_windows", "disable");
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    MPI_Info_free(&info);
    MPI_Type_contiguous(piece_bytes, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, piece_bytes * (MPI_Aint)client_size, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, (MPI_Offset)piece_bytes * client_rank, MPI_BYTE, filetype, "native",
                         MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&filetype);
    return file;
}

static void exchange(const char *what, MPI_File file, int round) {
    MPI_Status status;
    for (int i = 0; i < BLOCK; i++) values[i] = (unsigned char)(client_rank * 37 + i * 11 % 253 + round);
    OK(MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BLOCK);
    memset(back, 0, BLOCK);
    OK(MPI_File_read_at_all(file, 0, back, BLOCK, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BLOCK);
    EXPECT_BYTES(what, back, values, BLOCK);
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    const char *strategies[] = {"two-phase", "multi-phase", "auto"};
    enum { FILES = 3 };
    MPI_File files[FILES][2];
    char name[64];
    for (int i = 0; i < FILES; i++)
        for (int pieces = 0; pieces < 2; pieces++) {
            snprintf(name, sizeof name, "refused.%d.%d", i, pieces);
            files[i][pieces] = open_file(scratch(name), strategies[i], pieces ? 60000 : 1000);
            exchange("before", files[i][pieces], 1);
        }
    /* One rank first, then all. */
    for (int step = 0; step < 2; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (step == 1 || client_rank == client_size - 1) refuse_process_memory();
        if (step == 1) prctl(PR_SET_DUMPABLE, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < FILES; i++)
            for (int pieces = 0; pieces < 2; pieces++) {
                exchange("a file that was open", files[i][pieces], 2 + step);
                exchange("a file that was open, again", files[i][pieces], 4 + step);
                MPI_File fresh = open_file(scratch("refused.new"), strategies[i], pieces ? 60000 : 1000);
                exchange("a new file", fresh, 6 + step);
                OK(MPI_File_close(&fresh));
            }
    }
    for (int i = 0; i < FILES; i++)
        for (int pieces = 0; pieces < 2; pieces++) {
            OK(MPI_File_close(&files[i][pieces]));
            snprintf(name, sizeof name, "refused.%d.%d", i, pieces);
            if (client_rank == 0) unlink(scratch(name));
        }
    if (client_rank == 0) unlink(scratch("refused.new"));
    return client_end();
}
