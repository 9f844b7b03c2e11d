/* ranks: 4 */
/* mpis: all */
/* pario: yes */
/* calls: at least 10 */
/* env: PARIO_STATS=calls.jsonl */
/* leaves: calls.jsonl */
/* after: grep -o ignored_hints":\[\],"served calls.jsonl */
/* after: awk /ignored_hints":\[[{]/{exit(1)} calls.jsonl */
/* expect: ignored_hints":[],"served */
/*
 * MPI_File_get_info says how the last collective read and write were served. Given back to the file, or
 * to another one, as HDF5 does, these keys are neither hints nor reported as ignored.
 */
#include "client.h"

enum { PIECE = 64, COUNT = 1024 };

static const char *const keys[] = {
    "pario_read_strategy",  "pario_read_reason",  "pario_read_predicted_us",
    "pario_write_strategy", "pario_write_reason", "pario_write_predicted_us",
};

/* The value of a key; nothing if there is none. */
static const char *value_of(MPI_Info info, const char *key) {
    static char value[MPI_MAX_INFO_VAL + 1];
    int found = 0;
    OK(MPI_Info_get(info, (char *)key, MPI_MAX_INFO_VAL, value, &found));
    if (!found) value[0] = 0;
    return value;
}

int main(int argc, char **argv) {
    static char data[PIECE * COUNT], seen[6][MPI_MAX_INFO_VAL + 1];
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_Datatype filetype;
    MPI_Info info, got, served;
    MPI_File file, other;
    client_start(&argc, &argv);
    OK(MPI_Type_vector(COUNT, PIECE, PIECE * client_size, MPI_BYTE, &filetype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("info_of_calls"), amode, info, &file));
    OK(MPI_File_get_info(file, &got));
    for (int i = 0; i < 6; i++) CHECK(value_of(got, keys[i])[0] == 0, "%s before any call", keys[i]);
    OK(MPI_Info_free(&got));
    for (int round = 0; round < 3; round++) {
        OK(MPI_File_get_info(file, &got));
        OK(MPI_File_set_view(file, (MPI_Offset)client_rank * PIECE, MPI_BYTE, filetype, "native", got));
        OK(MPI_Info_free(&got));
        OK(MPI_File_write_at_all(file, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at_all(file, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_get_info(file, &got));
        OK(MPI_File_set_info(file, got));
        OK(MPI_Info_free(&got));
    }
    OK(MPI_File_get_info(file, &got));
    OK(MPI_Info_create(&served));
    for (int i = 0; i < 6; i++) {
        strcpy(seen[i], value_of(got, keys[i]));
        CHECK(seen[i][0] != 0, "%s is missing", keys[i]);
        OK(MPI_Info_set(served, (char *)keys[i], seen[i]));
        char first[MPI_MAX_INFO_VAL + 1];
        memcpy(first, seen[i], sizeof first);
        OK(MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD));
        CHECK(strcmp(first, seen[i]) == 0, "%s is %s and not %s", keys[i], seen[i], first);
    }
    CHECK(strcmp(seen[3], "two-phase") == 0, "the write was served by %s", seen[3]);
    CHECK(strcmp(seen[4], "collective buffering is switched on") == 0, "because %s", seen[4]);
    CHECK(atof(seen[5]) > 0, "the write is predicted to take %s us", seen[5]);
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("info_of_calls_2"), amode, served, &other));
    OK(MPI_File_write_at(other, client_rank, data, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&other));
    OK(MPI_File_close(&file));
    OK(MPI_Info_free(&served));
    OK(MPI_Info_free(&got));
    OK(MPI_Info_free(&info));
    OK(MPI_Type_free(&filetype));
    return client_end();
}
