/* ranks: 2 4 8 */
/* mpis: all */
/* pario: yes */
/* calls: at least 40 */
/* preload: fail_io */
/*
 * One rank's storage fails (full disk, quota, permission, I/O error, missing file): every rank of a
 * collective returns, with the one right class, and the handle works again afterwards.
 *
 * It runs under pario only: MPICH's own MPI-IO hangs at the first fault, and Open MPI's tells the
 * other ranks that all went well. Faults come from preload/fail_io.c, preloaded before pario.
 */
#include "client.h"

#include <errno.h>

/* Any rank may serve a window, so only a fault that waits on all ranks is met for certain. */
enum { ALL_RANKS = -1 };
/* As in fail_io.c. */
enum { FAIL_NOTHING, FAIL_WRITE, FAIL_READ, FAIL_OPEN, FAIL_SYNC };
enum { PIECE = 256, BLOCK = 128 * 1024 };

typedef void (*Arm)(int call, int nth, int error, int times, const char *path);
typedef int (*Disarm)(void);
static Arm arm;
static Disarm disarm;

typedef struct { const char *name; int error, class; } Fault;

static char values[BLOCK], back[BLOCK];

static void find_fail_io(void) {
    *(void **)&arm = dlsym(RTLD_DEFAULT, "fail_io_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "fail_io_disarm");
    CHECK(arm && disarm, "fail_io.so is not preloaded");
}

/* Many rounds on few aggregators, so that the fault hits in the middle. */
static MPI_File open_file(int amode) {
    MPI_Info info;
    MPI_File file;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "16384");
    MPI_Info_set(info, "cb_nodes", "2");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("one_rank_fails.data"), amode, info, &file));
    MPI_Info_free(&info);
    return file;
}

static int any(int mine) {
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static void arm_on(int victim, int call, int nth, int error) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == victim || victim == ALL_RANKS) arm(call, nth, error, 1, "one_rank_fails.data");
}

/* After the call: all ranks have `class` if the fault was met anywhere, success if it was not. */
static int expect_agreed(const char *what, int code, int class) {
    int fired = any(disarm());
    int expected = fired ? class : MPI_SUCCESS;
    CHECK(class_of(code) == expected, "%s: class %d (%s), expected %d", what, class_of(code),
          code == MPI_SUCCESS ? "success" : text_of(code), expected);
    return fired;
}

/* Something did not reach the file, so the ranks together cannot have moved everything. */
static void expect_true_counts(const char *what, MPI_Status *status) {
    int count = -1;
    long long mine, all = 0;
    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK(count >= 0 && count <= BLOCK, "%s: status counts %d", what, count);
    mine = count;
    MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all < (long long)BLOCK * client_size, "%s: a failed call claims all %lld bytes", what, all);
}

/* The same call without a fault: the handle must have survived. */
static void expect_usable(const char *what, MPI_File file) {
    MPI_Status status;
    OK(MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BLOCK);
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at_all(file, 0, back, BLOCK, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BLOCK);
    EXPECT_BYTES(what, back, values, BLOCK);
}

static const Fault faults[] = {
    {"ENOSPC", ENOSPC, MPI_ERR_NO_SPACE}, {"EDQUOT", EDQUOT, MPI_ERR_QUOTA},
    {"EACCES", EACCES, MPI_ERR_ACCESS},   {"EROFS", EROFS, MPI_ERR_READ_ONLY},
    {"EIO", EIO, MPI_ERR_IO},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static void collective_writes(MPI_File file) {
    char what[128];
    MPI_Status status;
    int met = 0;
    for (int i = 0; i < FAULTS; i++)
        for (int victim = ALL_RANKS; victim < client_size; victim++)
            for (int nth = 1; nth <= 3; nth++) {
                snprintf(what, sizeof what, "write_at_all, %s at write %d of rank %d", faults[i].name, nth, victim);
                arm_on(victim, FAIL_WRITE, nth, faults[i].error);
                int code = MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status);
                int fired = expect_agreed(what, code, faults[i].class);
                CHECK(fired || victim != ALL_RANKS || nth > 1, "%s: pario's writes went past fail_io", what);
                if (!fired) continue;
                met++;
                expect_true_counts(what, &status);
            }
    if (client_rank == 0) printf("FAULTS met in %d collective writes\n", met);
    expect_usable("after failed collective writes", file);
}

static void collective_reads(MPI_File file) {
    char what[128];
    MPI_Status status;
    for (int victim = ALL_RANKS; victim < client_size; victim++)
        for (int nth = 1; nth <= 2; nth++) {
            snprintf(what, sizeof what, "read_at_all, EIO at read %d of rank %d", nth, victim);
            arm_on(victim, FAIL_READ, nth, EIO);
            int code = MPI_File_read_at_all(file, 0, back, BLOCK, MPI_BYTE, &status);
            int fired = expect_agreed(what, code, MPI_ERR_IO);
            CHECK(fired || victim != ALL_RANKS || nth > 1, "%s: pario's reads went past fail_io", what);
            if (fired) expect_true_counts(what, &status);
        }
    expect_usable("after failed collective reads", file);
}

/* An interrupted call is no failure. */
static void interrupted(MPI_File file) {
    MPI_Status status;
    for (int victim = 0; victim < client_size; victim++) {
        arm_on(victim, FAIL_WRITE, 1, EINTR);
        int code = MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status);
        disarm();
        OK(code);
        EXPECT_COUNT("an interrupted write", &status, MPI_BYTE, BLOCK);
    }
    expect_usable("after interrupted writes", file);
}

/* Only the rank that wrote hears of it. */
static void independent_writes(MPI_File file) {
    MPI_Status status;
    int count = -1, code;
    arm_on(client_size - 1, FAIL_WRITE, 1, ENOSPC);
    code = MPI_File_write_at(file, 0, values, BLOCK, MPI_BYTE, &status);
    int fired = disarm();
    CHECK(class_of(code) == (fired ? MPI_ERR_NO_SPACE : MPI_SUCCESS), "independent write: class %d", class_of(code));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(fired ? count < BLOCK : count == BLOCK, "independent write: status counts %d", count);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The rank that failed must hear of it; the others may, with the same class. */
static void nonblocking_writes(MPI_File file) {
    MPI_Request request = MPI_REQUEST_NULL;
    arm_on(0, FAIL_WRITE, 1, ENOSPC);
    int code = MPI_File_iwrite_at_all(file, 0, values, BLOCK, MPI_BYTE, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    int fired = disarm(), class = class_of(code);
    CHECK(!fired || class == MPI_ERR_NO_SPACE, "iwrite_at_all on a full disk: class %d", class);
    CHECK(class == MPI_SUCCESS || class == MPI_ERR_NO_SPACE, "iwrite_at_all: class %d", class);
    expect_usable("after a failed iwrite_at_all", file);
}

static void split_and_ordered(MPI_File file) {
    MPI_Status status;
    arm_on(0, FAIL_WRITE, 1, EDQUOT);
    int code = MPI_File_write_at_all_begin(file, 0, values, BLOCK, MPI_BYTE);
    if (code == MPI_SUCCESS) code = MPI_File_write_at_all_end(file, values, &status);
    expect_agreed("write_at_all_end", code, MPI_ERR_QUOTA);
    /* Ordered and shared pointers want one view on all ranks. */
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    arm_on(client_size - 1, FAIL_WRITE, 1, ENOSPC);
    code = MPI_File_write_ordered(file, values, BLOCK, MPI_BYTE, &status);
    expect_agreed("write_ordered", code, MPI_ERR_NO_SPACE);
    interleave(file, PIECE);
    expect_usable("after a failed ordered write", file);
}

/* Ranks do not wait for each other in a sync of what they wrote by themselves. So the rank whose sync fails knows it
 * at once, and all ranks when they close the file. */
static void failing_sync(MPI_File *file) {
    OK(MPI_File_write_at(*file, client_rank, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE));
    arm_on(client_size - 1, FAIL_SYNC, 1, EIO);
    int class = class_of(MPI_File_sync(*file));
    CHECK(client_rank != client_size - 1 || class == MPI_ERR_IO, "sync: class %d", class);
    expect_agreed("close after a failed sync", MPI_File_close(file), MPI_ERR_IO);
}

static void failing_open(int error, int class, const char *what) {
    MPI_File file = MPI_FILE_NULL;
    for (int victim = 0; victim < client_size; victim++) {
        arm_on(victim, FAIL_OPEN, 1, error);
        int code = MPI_File_open(MPI_COMM_WORLD, scratch("one_rank_fails.data"), MPI_MODE_RDWR,
                                 MPI_INFO_NULL, &file);
        int fired = expect_agreed(what, code, class);
        CHECK(!fired || file == MPI_FILE_NULL, "%s: a failed open left a handle", what);
        if (code == MPI_SUCCESS) OK(MPI_File_close(&file));
    }
}

/* A name that is gone while the file is open hurts nobody; opening it again does, everywhere. */
static void vanished(MPI_File file) {
    MPI_File again = MPI_FILE_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == 0) unlink(scratch("one_rank_fails.data"));
    MPI_Barrier(MPI_COMM_WORLD);
    expect_usable("after its name vanished", file);
    int code = MPI_File_open(MPI_COMM_WORLD, scratch("one_rank_fails.data"), MPI_MODE_RDWR, MPI_INFO_NULL, &again);
    CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE, "open of a vanished file: class %d", class_of(code));
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    find_fail_io();
    /* Errors of requests are raised on a communicator by some libraries. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    memset(values, 65 + client_rank, sizeof values);
    remove_first(scratch("one_rank_fails.data"));
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE);
    interleave(file, PIECE);
    expect_usable("at the start", file);
    collective_writes(file);
    collective_reads(file);
    interrupted(file);
    independent_writes(file);
    nonblocking_writes(file);
    split_and_ordered(file);
    failing_open(EACCES, MPI_ERR_ACCESS, "open, permission denied on one rank");
    failing_open(ENOENT, MPI_ERR_NO_SUCH_FILE, "open, file missing on one rank");
    vanished(file);
    failing_sync(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    return client_end();
}
