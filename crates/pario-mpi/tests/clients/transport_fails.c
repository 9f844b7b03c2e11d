/* ranks: 2 4 5 */
/* mpis: all */
/* pario: yes */
/* calls: at least 40 */
/* env: PARIO_NODE_MEMORY=none */
/* preload: fail_mpi */
/*
 * A message between ranks fails, on one of them: that is an error of all ranks, with one class;
 * nobody waits for ever, and bytes that did not arrive are not taken for bytes.
 *
 * What fails in the last message of a call is an error of its receiver alone, since the others have
 * left. They learn of it in the next call; and what they were told of this one is true.
 *
 * Faults come from preload/fail_mpi.c. Messages go by MPI, as between nodes.
 */
#include "client.h"

/* As in fail_mpi.c. */
enum { FAIL_NOTHING, FAIL_ISEND, FAIL_IMPROBE, FAIL_IMRECV, FAIL_TEST, FAIL_GET_COUNT };
enum { PIECE = 256, BLOCK = 128 * 1024 };

typedef void (*Arm)(int call, int nth, int times);
typedef int (*Disarm)(void);
static Arm arm;
static Disarm disarm;

static char values[BLOCK], back[BLOCK];

static void find_fail_mpi(void) {
    *(void **)&arm = dlsym(RTLD_DEFAULT, "fail_mpi_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "fail_mpi_disarm");
    CHECK(arm && disarm, "fail_mpi.so is not preloaded");
}

static MPI_File open_file(const char *name, int amode) {
    MPI_Info info;
    MPI_File file;
    MPI_Datatype piece, filetype;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "16384");
    MPI_Info_set(info, "cb_nodes", "2");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    OK(MPI_File_open(MPI_COMM_WORLD, name, amode, info, &file));
    MPI_Info_free(&info);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, PIECE * (MPI_Aint)client_size, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, PIECE * client_rank, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&filetype);
    return file;
}

static int most(int mine) {
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static void fill(int round) {
    for (int i = 0; i < BLOCK; i++) values[i] = (char)(client_rank * 31 + i * 7 + round + 1);
}

/* What this rank wrote, or was to write, read without the ranks' help. */
static void expect_on_disk(const char *what, const char *name) {
    MPI_File file;
    MPI_Status status;
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    for (int piece = 0; piece < BLOCK / PIECE; piece++) {
        MPI_Offset offset = ((MPI_Offset)piece * client_size + client_rank) * PIECE;
        OK(MPI_File_read_at(file, offset, back + piece * PIECE, PIECE, MPI_BYTE, &status));
    }
    EXPECT_BYTES(what, back, values, BLOCK);
    OK(MPI_File_close(&file));
}

/* The error handler returns: whatever close says, the file is closed. */
static int close_file(MPI_File *file) { return class_of(MPI_File_close(file)); }

typedef struct { const char *name; int call; } Fault;
static const Fault faults[] = {
    {"MPI_Isend", FAIL_ISEND},   {"MPI_Improbe", FAIL_IMPROBE},     {"MPI_Imrecv", FAIL_IMRECV},
    {"MPI_Test", FAIL_TEST},     {"MPI_Get_count", FAIL_GET_COUNT},
};
enum { FAULTS = sizeof faults / sizeof *faults };

/* One collective call with one fault; returns whether the fault was met. */
static int one_call(const Fault *fault, int victim, int nth, int writes, const char *name) {
    char what[160];
    MPI_Status status;
    int count = -1, code, class, fired, met, worst;
    MPI_File file = open_file(name, MPI_MODE_RDWR);
    snprintf(what, sizeof what, "%s, %s number %d fails on rank %d",
             writes ? "write_at_all" : "read_at_all", fault->name, nth, victim);
    memset(back, 0, sizeof back);
    MPI_Barrier(MPI_COMM_WORLD);
    if (client_rank == victim) arm(fault->call, nth, 1);
    if (writes)
        code = MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status);
    else
        code = MPI_File_read_at_all(file, 0, back, BLOCK, MPI_BYTE, &status);
    class = class_of(code);
    fired = disarm();
    met = most(fired);
    worst = most(class);
    CHECK(!fired || class != MPI_SUCCESS,
          "%s: the call was told that all went well", what);
    CHECK(class == MPI_SUCCESS || class == worst, "%s: class %d here, %d elsewhere", what, class, worst);
    CHECK(met || worst == MPI_SUCCESS, "%s: class %d without a fault", what, worst);
    if (class == MPI_SUCCESS) {
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == BLOCK, "%s: success, and counts %d", what, count);
        if (writes) expect_on_disk(what, name); else EXPECT_BYTES(what, back, values, BLOCK);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (worst != MPI_SUCCESS) {
        /* Nobody may go on as if nothing had happened. */
        code = MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status);
        CHECK(class_of(code) == worst, "%s: the next call gives class %d, not %d", what, class_of(code), worst);
        CHECK(close_file(&file) == worst, "%s: close says nothing", what);
    } else {
        OK(MPI_File_close(&file));
    }
    return worst != MPI_SUCCESS;
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    find_fail_mpi();
    const char *name = scratch("transport_fails.data");
    fill(0);
    MPI_File file = open_file(name, MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    for (int writes = 0; writes < 2; writes++)
        for (int i = 0; i < FAULTS; i++) {
            int met = 0;
            for (int victim = 0; victim < client_size; victim += client_size - 1)
                for (int nth = 1; nth <= 9; nth += 4)
                    met += one_call(&faults[i], victim, nth, writes, name);
            CHECK(met > 0, "no fault of %s was met", faults[i].name);
            fill(i + 1);
            /* The next file is none the worse for it. */
            file = open_file(name, MPI_MODE_RDWR);
            OK(MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
            OK(MPI_File_close(&file));
            expect_on_disk("after the faults", name);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    if (client_rank == 0) unlink(name);
    return client_end();
}
