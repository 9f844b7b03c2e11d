/* ranks: 2 */
/* mpis: mpich5 mpich5-abi openmpi5 */
/* pario: yes */
/* calls: at least 1000 */
/*
 * Calls that are made again and again keep no memory: after some thousand of each kind the heap is as large as before.
 * Pools of the libraries may grow in some rounds; what a call loses is lost in every round. So is what a table keeps
 * that doubles when it is full: each round but the first makes as many calls as all before it, so that it doubles then.
 *
 * Natively Open MPI 5.0.11 loses 2416 bytes for each write with a negative offset, and about 50 for each independent
 * non-blocking write whose request is freed; on pario none for these. MPICH 4.0.2 is left out: in some
 * processes it loses 64 bytes for each datatype that is committed and freed, without any file.
 */
#include "client.h"

#include <malloc.h>

enum { BYTES = 64, ALLOWED_BYTES = 1024 };

static MPI_File file;
static char data[BYTES];

static size_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static MPI_Offset mine(void) { return (MPI_Offset)client_rank * BYTES; }

static void independent(void) { OK(MPI_File_write_at(file, mine(), data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE)); }

static void collective(void) { OK(MPI_File_write_at_all(file, mine(), data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE)); }

static void non_blocking(void) {
    MPI_Request request;
    OK(MPI_File_iwrite_at(file, mine(), data, BYTES, MPI_BYTE, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void non_blocking_collective(void) {
    MPI_Request request;
    OK(MPI_File_iwrite_at_all(file, mine(), data, BYTES, MPI_BYTE, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void split(void) {
    OK(MPI_File_write_at_all_begin(file, mine(), data, BYTES, MPI_BYTE));
    OK(MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE));
}

static void refused(void) {
    CHECK(MPI_File_write_at(file, -5, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS, "a negative offset");
}

static void view(void) {
    MPI_Datatype filetype;
    MPI_Type_vector(4, 1, client_size, MPI_INT, &filetype);
    MPI_Type_commit(&filetype);
    OK(MPI_File_set_view(file, 4 * client_rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void hints(void) {
    MPI_Info info;
    OK(MPI_File_get_info(file, &info));
    OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
}

static MPI_File open_other(MPI_Comm comm, const char *name) {
    const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    MPI_File other;
    OK(MPI_File_open(comm, scratch(name), amode, MPI_INFO_NULL, &other));
    return other;
}

static void open_and_close(MPI_Comm comm, const char *name) {
    MPI_File other = open_other(comm, name);
    OK(MPI_File_close(&other));
}

/* Nobody asks for the request again: the close ends it, and lets the file go. */
static void freed(void) {
    MPI_File other = open_other(MPI_COMM_WORLD, "memory_of_calls.freed");
    MPI_Request request;
    OK(MPI_File_iwrite_at_all(other, mine(), data, BYTES, MPI_BYTE, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_File_close(&other));
}

static void open_together(void) { open_and_close(MPI_COMM_WORLD, "memory_of_calls.other"); }

static void open_alone(void) {
    char name[64];
    snprintf(name, sizeof name, "memory_of_calls.%d", client_rank);
    open_and_close(MPI_COMM_SELF, name);
}

/*
 * All ranks make the same calls, so that none stops early. Pools that fill on a busy machine may need more rounds until
 * one of them keeps nothing; what grows with the calls keeps more in each.
 */
static void measure(const char *what, void (*call)(void)) {
    enum { FIRST = 256, ROUNDS = 5, ROUNDS_MAX = 10 };
    size_t least = SIZE_MAX, before = heap_bytes();
    int done = 0;
    for (int round = 0, count = FIRST, calls = 0; round < ROUNDS || (!done && round < ROUNDS_MAX); round++, count = calls) {
        for (int i = 0; i < count; i++) call();
        calls += count;
        MPI_Barrier(MPI_COMM_WORLD); /* nothing of the others is on its way */
        size_t after = heap_bytes(), kept = after > before ? after - before : 0;
        if (kept < least) least = kept;
        int own = least <= ALLOWED_BYTES;
        OK(MPI_Allreduce(&own, &done, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        before = after;
    }
    CHECK(least <= ALLOWED_BYTES, "%s: every round keeps %zu bytes or more", what, least);
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("memory_of_calls.data"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    measure("independent", independent);
    measure("collective", collective);
    measure("non-blocking", non_blocking);
    measure("non-blocking collective", non_blocking_collective);
    measure("split", split);
    measure("refused", refused);
    measure("view", view);
    measure("hints", hints);
    measure("open together", open_together);
    measure("freed", freed);
    measure("open alone", open_alone);
    OK(MPI_File_close(&file));
    return client_end();
}
