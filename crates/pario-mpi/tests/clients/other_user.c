/* ranks: 2 4 */
/* mpis: mpich5 mpich5-abi openmpi5 openmpi4 */
/* pario: yes */
/* calls: unknown */
/* bound: no */
/* tidies: no */
/*
 * One rank drops its rights after MPI_Init, as servers do: from then on the system lets it neither
 * use the memory of the others nor have its own used by them. MPICH's single copies of long
 * messages then fail, on one rank. Every call ends, with one class on all ranks; where it is
 * success, every byte is in the file.
 *
 * MPICH 5 has barriers in shared memory for ranks that are bound. It makes them after some barriers, and
 * then ends with a segmentation fault where one rank may not open that memory, also without pario; so
 * the ranks are not bound.
 *
 * The rank without rights cannot remove what MPICH has put into shared memory.
 *
 * Needs to be root, and is skipped aloud elsewhere.
 */
#include "client.h"

#include <sys/stat.h>

enum { BLOCK = 600000, PIECE = 1000, NOBODY = 65534 };

static unsigned char values[BLOCK], back[BLOCK];

static void expect_on_disk(const char *name) {
    FILE *file = fopen(name, "rb");
    CHECK(file, "cannot open %s", name);
    for (int piece = 0; piece < BLOCK / PIECE; piece++) {
        fseek(file, ((long)piece * client_size + client_rank) * PIECE, SEEK_SET);
        CHECK(fread(back + piece * PIECE, 1, PIECE, file) == PIECE, "piece %d is missing", piece);
    }
    fclose(file);
    EXPECT_BYTES("a write that was told to be good", back, values, BLOCK);
}

/* The greatest number of all ranks, by messages: a few collectives crash MPICH 5 by itself here, if
 * its ranks are bound to cores. */
static int most(int mine) {
    int other;
    for (int rank = 1; rank < client_size; rank++) {
        if (client_rank == rank) MPI_Send(&mine, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        if (client_rank != 0) continue;
        MPI_Recv(&other, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (other > mine) mine = other;
    }
    for (int rank = 1; rank < client_size; rank++) {
        if (client_rank == 0) MPI_Send(&mine, 1, MPI_INT, rank, 4, MPI_COMM_WORLD);
        if (client_rank == rank) MPI_Recv(&mine, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return mine;
}

/* The greatest and the least class of all ranks; they must be the same. */
static int agreed(const char *what, int code) {
    int class = class_of(code), greatest = most(class), least = -most(-class);
    CHECK(greatest == least, "%s: class %d here, from %d to %d elsewhere", what, class, least, greatest);
    return class;
}

static void one_file(const char *strategy) {
    const char *name = scratch("other_user.data");
    MPI_Info info;
    MPI_File file;
    MPI_Status status;
    int class;
    MPI_Info_create(&info);
    MPI_Info_set(info, "pario_strategy", strategy);
    int code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file);
    MPI_Info_free(&info);
    class = agreed("open", code);
    if (class != MPI_SUCCESS) return;
    interleave(file, PIECE);
    class = agreed(strategy, MPI_File_write_at_all(file, 0, values, BLOCK, MPI_BYTE, &status));
    if (class == MPI_SUCCESS) {
        EXPECT_COUNT(strategy, &status, MPI_BYTE, BLOCK);
        most(0);
        expect_on_disk(name);
        memset(back, 0, BLOCK);
        class = agreed("read", MPI_File_read_at_all(file, 0, back, BLOCK, MPI_BYTE, &status));
        if (class == MPI_SUCCESS) EXPECT_BYTES("read", back, values, BLOCK);
    }
    if (client_rank == 0) printf("NOTE %s ends with class %d\n", strategy, class);
    MPI_File_close(&file);
    most(0);
    if (client_rank == 0) unlink(name);
}

int main(int argc, char **argv) {
    umask(0);
    client_start(&argc, &argv);
    for (int i = 0; i < BLOCK; i++) values[i] = (unsigned char)(client_rank * 37 + i * 11 % 253 + 1);
    if (geteuid() != 0) {
        if (client_rank == 0) printf("SKIPPED a rank that drops its rights: needs root\n");
        return client_end();
    }
    if (client_rank == 1 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) FAIL("cannot drop rights");
    most(0);
    one_file("two-phase");
    return client_end();
}
