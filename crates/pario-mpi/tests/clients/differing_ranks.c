/* ranks: 2 4 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 100 */
/*
 * Ranks that differ in what their environment says: statistics on one of them, hints that change between calls, a
 * system call that the kernel refuses to one of them. Every byte is right or every rank has an error, and nobody waits.
 *
 *     differing_ranks [statistics|hints|refused]      all of them, one after the other, unless told
 */
#include "client.h"
#include "filter.h"

enum { PIECE = 24, PIECES = 500, BYTES = PIECE * PIECES, TURNS = 12 };

static unsigned char values[BYTES], back[BYTES];
static Random random_hints = {7};

static MPI_File open_file(const char *name) {
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, scratch(name), MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    return file;
}

static void fill(int turn) {
    for (int i = 0; i < BYTES; i++) values[i] = (unsigned char)(client_rank * 61 + turn * 17 + i);
}

/* Writes interleaved pieces and reads them again, collectively and alone. */
static void one_turn(MPI_File file, int turn) {
    fill(turn);
    interleave(file, PIECE);
    OK(MPI_File_write_at_all(file, 0, values, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    settle(file, MPI_COMM_WORLD);
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at_all(file, 0, back, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT_BYTES("collective", back, values, BYTES);
    OK(MPI_File_write_at(file, PIECE, values, BYTES - PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, PIECE, back, BYTES - PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT_BYTES("alone", back, values, BYTES - PIECE);
}

static void statistics_on_one_rank(void) {
    if (client_rank == client_size - 1) setenv("PARIO_STATS", "1", 1);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_File file = open_file("statistics");
        one_turn(file, turn);
        OK(MPI_File_close(&file));
    }
}

/* All ranks draw the same numbers. Ranks other than 0 set hints of their own at times: those of rank 0 count. */
static void set_random_hints(MPI_File file) {
    static const char *const names[] = {"cb_buffer_size", "cb_nodes",      "romio_cb_write",       "romio_cb_read",
                                        "romio_ds_write", "romio_ds_read", "pario_shared_windows", "pario_strategy"};
    static const char *const choices[8][3] = {
        {"4096", "65536", "1048576"},           {"1", "2", "4"},
        {"enable", "disable", "automatic"},     {"enable", "disable", "automatic"},
        {"enable", "disable", "automatic"},     {"enable", "disable", "automatic"},
        {"disable", "automatic", "automatic"},  {"auto", "two-phase", "multi-phase"},
    };
    MPI_Info info;
    MPI_Info_create(&info);
    for (int i = 0; i < 3; i++) {
        int name = random_in(&random_hints, 0, 7), choice = random_in(&random_hints, 0, 2);
        int differs = random_in(&random_hints, 0, 1) && client_rank != 0;
        MPI_Info_set(info, names[name], choices[name][differs ? 0 : choice]);
    }
    OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
}

static void hints_between_calls(void) {
    MPI_File file = open_file("hints");
    for (int turn = 0; turn < TURNS; turn++) {
        set_random_hints(file);
        one_turn(file, turn);
    }
    OK(MPI_File_close(&file));
}

/* One rank cannot store scattered pieces. What it is asked to do fails or not, for all ranks alike. */
static void call_refused_to_one_rank(void) {
    MPI_File file = open_file("refused");
    interleave(file, PIECE);
    if (client_rank == client_size - 1) refuse((long[]){SYS_pwritev, SYS_preadv, SYS_pwritev2, SYS_preadv2, -1});
    for (int turn = 0; turn < TURNS; turn++) {
        set_random_hints(file);
        fill(turn);
        int class = class_of(MPI_File_write_at_all(file, 0, values, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        int least, most;
        MPI_Allreduce(&class, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&class, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        CHECK(least == most, "turn %d: classes from %d to %d, here %d", turn, least, most, class);
        CHECK(class == MPI_SUCCESS || class == MPI_ERR_ACCESS, "turn %d: class %d", turn, class);
        if (class != MPI_SUCCESS) continue;
        memset(back, 0, sizeof back);
        class = class_of(MPI_File_read_at_all(file, 0, back, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        if (class == MPI_SUCCESS) EXPECT_BYTES("refused", back, values, BYTES);
    }
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    const char *only = argc > 1 ? argv[1] : "";
    if (!only[0] || strcmp(only, "statistics") == 0) statistics_on_one_rank();
    if (!only[0] || strcmp(only, "hints") == 0) hints_between_calls();
    if (!only[0] || strcmp(only, "refused") == 0) call_refused_to_one_rank();
    return client_end();
}
