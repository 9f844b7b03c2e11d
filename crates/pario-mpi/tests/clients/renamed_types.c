/* ranks: 1 */
/* mpis: all openmpi4 */
/* pario: both */
/* calls: at least 20 */
/*
 * A name of a datatype is decoration: a program may give any name to any type, also to predefined
 * ones (MPI-4.1, section 7.8). Pairs keep their holes and other types have none, whatever their
 * names. Each type gets its new name before the first call that uses it.
 */
#include "client.h"
#include <stddef.h>

enum { COUNT = 3, BYTES_MAX = 256 };

static MPI_File file;

/* The data bytes of one value, at most two runs of them. */
typedef struct {
    int first, second_at, second;
} Runs;

/* Writes values of a type as they are in memory, and reads them back around their holes. */
static void moves_its_bytes(const char *what, MPI_Datatype type, Runs runs, int extent) {
    unsigned char memory[BYTES_MAX], expected[BYTES_MAX], found[BYTES_MAX], back[BYTES_MAX];
    int bytes = 0;
    CHECK(extent * COUNT <= BYTES_MAX, "%s: room", what);
    for (int i = 0; i < BYTES_MAX; i++) memory[i] = (unsigned char)(i * 11 + 5);
    memset(back, 0xee, sizeof back);
    for (int value = 0; value < COUNT; value++) {
        memcpy(expected + bytes, memory + value * extent, (size_t)runs.first);
        bytes += runs.first;
        memcpy(expected + bytes, memory + value * extent + runs.second_at, (size_t)runs.second);
        bytes += runs.second;
    }
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_write_at(file, 0, memory, COUNT, type, MPI_STATUS_IGNORE));
    MPI_Offset size = -1;
    OK(MPI_File_get_size(file, &size));
    CHECK(size == bytes, "%s: %lld bytes in the file, expected %d", what, (long long)size, bytes);
    OK(MPI_File_read_at(file, 0, found, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT_BYTES(what, found, expected, (size_t)bytes);
    OK(MPI_File_read_at(file, 0, back, COUNT, type, MPI_STATUS_IGNORE));
    for (int i = 0; i < BYTES_MAX; i++) {
        int at = i % extent, inside = i < COUNT * extent;
        int data = inside && (at < runs.first || (at >= runs.second_at && at < runs.second_at + runs.second));
        CHECK(back[i] == (data ? memory[i] : 0xee), "%s: read back byte %d is 0x%02x", what, i, back[i]);
    }
}

static void renamed(MPI_Datatype type, const char *name) { OK(MPI_Type_set_name(type, name)); }

static void pairs(void) {
    struct { long double value; int index; } wide;
    const char *name = "position and its cost";
    MPI_Datatype types[] = {MPI_SHORT_INT, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT,
                            MPI_LONG_DOUBLE_INT};
    for (int i = 0; i < 6; i++) renamed(types[i], name);
    moves_its_bytes("MPI_SHORT_INT", MPI_SHORT_INT, (Runs){2, 4, 4}, 8);
    moves_its_bytes("MPI_FLOAT_INT", MPI_FLOAT_INT, (Runs){4, 4, 4}, 8);
    moves_its_bytes("MPI_DOUBLE_INT", MPI_DOUBLE_INT, (Runs){8, 8, 4}, 16);
    moves_its_bytes("MPI_LONG_INT", MPI_LONG_INT, (Runs){8, 8, 4}, 16);
    moves_its_bytes("MPI_2INT", MPI_2INT, (Runs){4, 4, 4}, 8);
    moves_its_bytes("MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT,
                    (Runs){16, 16, 4}, (int)sizeof wide);
}

/* What has no holes does not get any from the name of a type that has. */
static void others(void) {
    MPI_Datatype numbers, gapped, copy;
    renamed(MPI_DOUBLE, "MPI_SHORT_INT");
    renamed(MPI_UINT64_T, "MPI_DOUBLE_INT");
    moves_its_bytes("MPI_DOUBLE", MPI_DOUBLE, (Runs){8, 8, 0}, 8);
    moves_its_bytes("MPI_UINT64_T", MPI_UINT64_T, (Runs){8, 8, 0}, 8);
    OK(MPI_Type_contiguous(8, MPI_BYTE, &numbers));
    OK(MPI_Type_commit(&numbers));
    renamed(numbers, "MPI_SHORT_INT");
    moves_its_bytes("a type of 8 bytes", numbers, (Runs){8, 8, 0}, 8);
    OK(MPI_Type_create_resized(MPI_CHAR, 0, 8, &gapped));
    OK(MPI_Type_commit(&gapped));
    renamed(gapped, "MPI_DOUBLE");
    moves_its_bytes("a byte in 8", gapped, (Runs){1, 1, 0}, 8);
    OK(MPI_Type_dup(MPI_SHORT_INT, &copy));
    renamed(copy, "MPI_2INT");
    moves_its_bytes("a duplicate of MPI_SHORT_INT", copy, (Runs){2, 4, 4}, 8);
    OK(MPI_Type_free(&copy));
    OK(MPI_Type_free(&gapped));
    OK(MPI_Type_free(&numbers));
}

/* Types of Fortran have no size where the library was built without it. */
static void fortran(void) {
    struct { const char *name; MPI_Datatype type; } pair[] = {
        {"MPI_2INTEGER", MPI_2INTEGER}, {"MPI_2REAL", MPI_2REAL},
        {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION},
    };
    for (int i = 0; i < 3; i++) {
        int size = 0;
        if (pair[i].type == MPI_DATATYPE_NULL) continue;
        if (MPI_Type_size(pair[i].type, &size) != MPI_SUCCESS || size <= 0) continue;
        renamed(pair[i].type, "MPI_DOUBLE_INT");
        moves_its_bytes(pair[i].name, pair[i].type, (Runs){size, size, 0}, size);
    }
    MPI_Datatype real, integer;
    int size = 0;
    if (MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real) == MPI_SUCCESS) {
        if (real != MPI_DATATYPE_NULL) MPI_Type_size(real, &size);
        if (size == 8) moves_its_bytes("a real of 15 digits", real, (Runs){8, 8, 0}, 8);
    }
    size = 0;
    if (MPI_Type_create_f90_integer(9, &integer) == MPI_SUCCESS) {
        if (integer != MPI_DATATYPE_NULL) MPI_Type_size(integer, &size);
        if (size == 4) moves_its_bytes("an integer of 9 digits", integer, (Runs){4, 4, 0}, 4);
    }
}

/* Pairs of MPI-4.1 that have no name (section 5.1.13 and 6.9.4). */
static void value_index(void) {
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    struct { short value; int64_t index; } far;
    struct { double value; int64_t index; } even;
    MPI_Datatype type;
    OK(MPI_Type_get_value_index(MPI_SHORT, MPI_INT, &type));
    CHECK(type == MPI_SHORT_INT, "the pair of short and int is MPI_SHORT_INT");
    OK(MPI_Type_get_value_index(MPI_SHORT, MPI_INT64_T, &type));
    if (type != MPI_DATATYPE_NULL)
        moves_its_bytes("short and int64_t", type, (Runs){2, (int)((char *)&far.index - (char *)&far), 8},
                        (int)sizeof far);
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, &type));
    if (type != MPI_DATATYPE_NULL) {
        MPI_Datatype copy;
        moves_its_bytes("double and int64_t", type, (Runs){8, 8, 8}, (int)sizeof even);
        OK(MPI_File_set_view(file, 0, type, type, "native", MPI_INFO_NULL));
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        OK(MPI_Type_dup(type, &copy));
        moves_its_bytes("a duplicate of it", copy, (Runs){8, 8, 8}, (int)sizeof even);
        OK(MPI_Type_free(&copy));
    }
#endif
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const char *path = scratch("renamed.data");
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    /* ROMIO of MPICH 4 ends the program when it sees a pair. */
    if (!(client_is_native && library_is("MPICH Version:	4"))) {
        pairs();
        others();
        fortran();
        value_index();
    }
    OK(MPI_File_close(&file));
    return client_end();
}
