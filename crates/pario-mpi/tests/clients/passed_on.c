/* ranks: 1 4 */
/* mpis: all openmpi4 */
/* env: PARIO_DISABLE=1 */
/* calls: unknown */
/*
 * With pario switched off, calls reach the library's own MPI-IO. Programs such as mpi4py look for
 * large-count forms at run time and call what they find: pario has all of them, also where the
 * library has none.
 */
#include "client.h"

typedef int Transfer(MPI_File, MPI_Offset, void *, MPI_Count, MPI_Datatype, MPI_Status *);
typedef int Extent(MPI_File, MPI_Datatype, MPI_Count *);

static void *found(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL, "there is no %s", name);
    return function;
}

int main(int argc, char **argv) {
    int words[10], back[10] = {0};
    MPI_File file;
    MPI_Status status;
    MPI_Count extent = 0;
    client_start(&argc, &argv);
    CHECK(client_is_native, "pario is not switched off");
    Transfer *write = (Transfer *)found("MPI_File_write_at_all_c");
    Transfer *read = (Transfer *)found("MPI_File_read_at_c");
    Extent *get_extent = (Extent *)found("MPI_File_get_type_extent_c");
    MPI_Offset offset = client_rank * (MPI_Offset)sizeof words;
    for (int i = 0; i < 10; i++) words[i] = 100 * client_rank + i;
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("passed_on.data"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    OK(write(file, offset, words, 10, MPI_INT, &status));
    EXPECT_COUNT("write_at_all_c", &status, MPI_INT, 10);
    settle(file, MPI_COMM_WORLD);
    OK(read(file, offset, back, 10, MPI_INT, &status));
    EXPECT_COUNT("read_at_c", &status, MPI_INT, 10);
    EXPECT_BYTES("what was read back", back, words, sizeof words);
    OK(get_extent(file, MPI_INT, &extent));
    CHECK(extent == sizeof(int), "the extent of MPI_INT is %lld", (long long)extent);
    OK(MPI_File_close(&file));
    return client_end();
}
