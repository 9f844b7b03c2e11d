/* ranks: 1 4 */
/* mpis: all mpich4 */
/* pario: both */
/* calls: at least 6 */
/* leaves: hints.txt */
/* says: pario: nobody_knows=1 (hint file) has no effect: unknown hint */
/*
 * A hint file is a default: the program's own hints count more. The promise of no independent accesses
 * is the exception. ROMIO looks at it last, so that it switches collective buffering on in spite of the
 * program. Buffers of any size are taken. MPICH's own MPI-IO does the same; that of Open MPI reads no
 * hint file.
 */
#include "client.h"

static int reads_hint_files(void) { return !client_is_native || library_is("MPICH"); }

static void check_value(MPI_File file, const char *key, const char *expected) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    MPI_Info info;
    int found = 0;
    OK(MPI_File_get_info(file, &info));
    OK(MPI_Info_get(info, (char *)key, MPI_MAX_INFO_VAL, value, &found));
    OK(MPI_Info_free(&info));
    if (!reads_hint_files()) return;
    CHECK(found && strcmp(value, expected) == 0, "%s is %s and not %s", key, value, expected);
}

int main(int argc, char **argv) {
    static const char text[] = "# of the site\nromio_cb_read enable\nind_rd_buffer_size 49\n"
                               "romio_no_indep_rw true\ncb_buffer_size 98304\nnobody_knows 1\n";
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    char data[200], back[200];
    MPI_Info info;
    MPI_File file;
    client_start(&argc, &argv);
    if (client_rank == 0) {
        FILE *hints = fopen("hints.txt", "w");
        CHECK(hints && fputs(text, hints) >= 0 && fclose(hints) == 0, "hints.txt is not written");
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    setenv("ROMIO_HINTS", "hints.txt", 1);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_read", "disable"));
    OK(MPI_Info_set(info, "cb_buffer_size", "65536"));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("system_hints"), amode, info, &file));
    check_value(file, "romio_no_indep_rw", "true");
    check_value(file, "romio_cb_read", "enable");
    check_value(file, "romio_cb_write", "enable");
    check_value(file, "ind_rd_buffer_size", "49");
    check_value(file, "cb_buffer_size", "65536");
    for (int i = 0; i < (int)sizeof data; i++) data[i] = (char)(i + client_rank);
    OK(MPI_File_write_at_all(file, client_rank * (MPI_Offset)sizeof data, data, sizeof data, MPI_BYTE,
                             MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all(file, client_rank * (MPI_Offset)sizeof back, back, sizeof back, MPI_BYTE,
                            MPI_STATUS_IGNORE));
    CHECK(memcmp(data, back, sizeof data) == 0, "other bytes were read");
    OK(MPI_File_close(&file));
    OK(MPI_Info_free(&info));
    return client_end();
}
