/* ranks: 2 4 */
/* mpis: all openmpi4 */
/* pario: yes */
/* calls: unknown */
/*
 * PARIO_DISABLE is set on one rank only: an open by all ranks fails on all of them, with a text
 * that says why, and nobody waits. Ranks that agree open files as before.
 *
 * The variable is read with the first call of MPI-IO, so a rank can set it for itself.
 */
#include "client.h"

enum { MODE = MPI_MODE_RDWR | MPI_MODE_CREATE };

/* Each rank of a communicator whose ranks agree writes its number, and reads it again. */
static void works(MPI_Comm comm, const char *name) {
    int rank, back = -1;
    MPI_File file;
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < 2; i++) {
        OK(MPI_File_open(comm, scratch(name), MODE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                         &file));
        OK(MPI_File_write_at_all(file, 4 * rank, &client_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
        settle(file, comm);
        OK(MPI_File_read_at_all(file, 4 * rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(back == client_rank, "%s: read %d", name, back);
        OK(MPI_File_close(&file));
    }
}

int main(int argc, char **argv) {
    char name[64];
    client_start(&argc, &argv);
    int odd = client_size - 1, is_odd = client_rank == odd;
    if (is_odd) setenv("PARIO_DISABLE", "1", 1);
    for (int i = 0; i < 2; i++) {
        MPI_File file;
        int code = MPI_File_open(MPI_COMM_WORLD, scratch("mixed"), MODE, MPI_INFO_NULL, &file);
        CHECK(class_of(code) == MPI_ERR_NOT_SAME, "open gave class %d: %s", class_of(code),
              text_of(code));
        CHECK(file == MPI_FILE_NULL, "a failed open left a handle");
        /* MPICH 4 has no texts for errors of others. */
        if (code != class_of(code))
            CHECK(strstr(text_of(code), "PARIO_DISABLE is set on rank ") != NULL, "the text is %s",
                  text_of(code));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(access(scratch("mixed"), F_OK) != 0, "a failed open made a file");
    snprintf(name, sizeof name, "self.%d", client_rank);
    works(MPI_COMM_SELF, name);
    MPI_Comm alike;
    MPI_Comm_split(MPI_COMM_WORLD, is_odd, client_rank, &alike);
    works(alike, is_odd ? "passed_on" : "served");
    MPI_Comm_free(&alike);
    return client_end();
}
