/* ranks: 2 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: at least 20 */
/* under: pid ipc user hostname no-shm read-only-shm no-process-memory no-memfd */
/*
 * Each rank in an environment of its own, as in containers: processes have other numbers there,
 * other memory in common, or system calls are refused. Every byte is right, whatever pario finds that it can use; and files that
 * are not pario's stay as they are, whatever their descriptors are.
 */
#include "client.h"
#include "filter.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { BLOCK = 600000, OWN_BYTES = 64 << 20, DESCRIPTORS = 200 };

static unsigned char values[BLOCK], back[BLOCK];

/* A file of this rank's own, under every descriptor that is free. */
static int open_own(const char *name) {
    int own = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(own >= 0 && ftruncate(own, OWN_BYTES) == 0, "cannot make %s", name);
    CHECK(pwrite(own, "first", 5, 0) == 5 && pwrite(own, "last", 4, OWN_BYTES - 4) == 4, "write");
    for (int number = 3; number < DESCRIPTORS; number++)
        if (fcntl(number, F_GETFD) < 0) dup2(own, number);
    return own;
}

static void check_own(int own) {
    struct stat found;
    char text[5];
    CHECK(fstat(own, &found) == 0 && found.st_size == OWN_BYTES,
          "a file that is not pario's has %lld bytes now", (long long)found.st_size);
    CHECK(pread(own, text, 5, 0) == 5 && memcmp(text, "first", 5) == 0, "its first bytes changed");
    CHECK(pread(own, text, 4, OWN_BYTES - 4) == 4 && memcmp(text, "last", 4) == 0, "its last bytes changed");
}

static void expect_on_disk(const char *what, const char *name, int piece_bytes) {
    FILE *file = fopen(name, "rb");
    CHECK(file, "cannot open %s", name);
    for (int at = 0; at < BLOCK; at += piece_bytes) {
        fseek(file, (long)at * client_size + (long)client_rank * piece_bytes, SEEK_SET);
        CHECK(fread(back + at, 1, piece_bytes, file) == (size_t)piece_bytes, "%s: too short", what);
    }
    fclose(file);
    EXPECT_BYTES(what, back, values, BLOCK);
}

static void pieces(const char *name, int piece_bytes, int collective_buffering) {
    char what[64];
    MPI_Info info;
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    snprintf(what, sizeof what, "pieces of %d bytes", piece_bytes);
    for (int i = 0; i < BLOCK; i++)
        values[i] = (unsigned char)(client_rank * 37 + i * 11 % 253 + piece_bytes);
    MPI_Info_create(&info);
    if (collective_buffering) MPI_Info_set(info, "romio_cb_write", "enable");
    if (collective_buffering) MPI_Info_set(info, "romio_cb_read", "enable");
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    MPI_Info_free(&info);
    interleave(file, piece_bytes);
    OK(MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status));
    EXPECT_COUNT(what, &status, MPI_BYTE, BLOCK);
    MPI_Barrier(MPI_COMM_WORLD);
    expect_on_disk(what, name, piece_bytes);
    memset(back, 0, BLOCK);
    OK(MPI_File_read_at_all(file, 0, back, BLOCK, MPI_BYTE, &status));
    EXPECT_BYTES(what, back, values, BLOCK);
    memset(back, 0, BLOCK);
    OK(MPI_File_iread_at_all(file, 0, back, BLOCK, MPI_BYTE, &request));
    OK(MPI_Wait(&request, &status));
    EXPECT_BYTES(what, back, values, BLOCK);
    OK(MPI_File_close(&file));
    if (client_rank == 0) unlink(name);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    char own_name[64];
    const char *filter = getenv("PARIO_TEST_FILTER");
    if (filter && strcmp(filter, "memfd") == 0) refuse((long[]){SYS_memfd_create, -1});
    if (filter && strcmp(filter, "process-memory") == 0) refuse_process_memory();
    client_start(&argc, &argv);
    const char *name = scratch("contained.data");
    snprintf(own_name, sizeof own_name, "own.%d", client_rank);
    int own = client_rank > 0 ? open_own(scratch(own_name)) : -1;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int buffered = 0; buffered < 2; buffered++) {
        pieces(name, 8, buffered);
        pieces(name, 1000, buffered);
        pieces(name, 60000, buffered);
    }
    if (own >= 0) {
        check_own(own);
        unlink(scratch(own_name));
    }
    return client_end();
}
