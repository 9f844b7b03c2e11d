/* ranks: 1 2 */
/* mpis: all */
/* pario: yes */
/* calls: at least 20 */
/*
 * Datatypes at the edges: without data, with bounds below zero, of large-count constructors, null.
 * What is written is compared with MPI_Pack of the library, which is not part of MPI-IO. (ROMIO ends
 * the program for some of these types.)
 */
#include "client.h"

enum { ROOM = 4096 };

static MPI_File file;
static unsigned char memory[ROOM];

/* Writes `count` values around the middle of the memory, and reads them back. */
static void moves(const char *what, MPI_Datatype type, int count) {
    static unsigned char packed[ROOM], found[ROOM], back[ROOM], expected[ROOM];
    int bytes = 0, size = 0, position = 0;
    MPI_Offset file_bytes = -1;
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(type, &size));
    OK(MPI_Pack(memory + ROOM / 2, count, type, packed, ROOM, &bytes, MPI_COMM_SELF));
    CHECK(bytes == size * count, "%s: %d bytes packed", what, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_size(file, 0));
    MPI_Offset at = (MPI_Offset)client_rank * bytes;
    OK(MPI_File_write_at_all(file, at, memory + ROOM / 2, count, type, MPI_STATUS_IGNORE));
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &file_bytes));
    CHECK(file_bytes == (MPI_Offset)bytes * client_size, "%s: %lld bytes in the file", what,
          (long long)file_bytes);
    OK(MPI_File_read_at(file, at, found, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT_BYTES(what, found, packed, (size_t)bytes);
    memset(back, 0xee, sizeof back);
    memset(expected, 0xee, sizeof expected);
    if (bytes > 0)
        OK(MPI_Unpack(packed, bytes, &position, expected + ROOM / 2, count, type, MPI_COMM_SELF));
    OK(MPI_File_read_at_all(file, at, back + ROOM / 2, count, type, MPI_STATUS_IGNORE));
    EXPECT_BYTES(what, back, expected, sizeof back);
    OK(MPI_Type_free(&type));
}

static void without_data(void) {
    MPI_Datatype type, inner, outer;
    OK(MPI_Type_contiguous(0, MPI_INT, &type));
    moves("contiguous of nothing", type, 3);
    OK(MPI_Type_vector(0, 3, 5, MPI_INT, &type));
    moves("vector of nothing", type, 1);
    OK(MPI_Type_indexed(2, (int[]){0, 0}, (int[]){4, 2}, MPI_INT, &type));
    moves("indexed of nothing", type, 2);
    OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &type));
    moves("struct of nothing", type, 2);
    OK(MPI_Type_contiguous(0, MPI_INT, &inner));
    OK(MPI_Type_create_resized(inner, 0, 12, &outer));
    OK(MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){0, 4},
                              (MPI_Datatype[]){outer, MPI_SHORT}, &type));
    moves("nothing with bounds in a struct", type, 3);
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_free(&outer));
}

static void below_zero(void) {
    MPI_Datatype type, inner, outer;
    OK(MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){-40, -8}, MPI_INT, &type));
    moves("displacements below zero", type, 3);
    OK(MPI_Type_create_resized(MPI_INT, -12, 20, &type));
    moves("a lower bound below zero", type, 4);
    OK(MPI_Type_vector(3, 2, -4, MPI_SHORT, &type));
    moves("a stride below zero", type, 2);
    OK(MPI_Type_create_resized(MPI_INT, 0, -8, &inner));
    OK(MPI_Type_contiguous(3, inner, &type));
    moves("an extent below zero", type, 1);
    OK(MPI_Type_create_resized(MPI_SHORT, 6, 2, &outer));
    OK(MPI_Type_vector(2, 2, 3, outer, &type));
    moves("a lower bound after the data", type, 2);
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_free(&outer));
}

static void large_counts(void) {
#if HAVE_LARGE_COUNT
    MPI_Datatype type;
    OK(MPI_Type_contiguous_c(3, MPI_INT, &type));
    moves("contiguous_c", type, 2);
    OK(MPI_Type_vector_c(3, 2, 4, MPI_SHORT, &type));
    moves("vector_c", type, 2);
    OK(MPI_Type_create_hvector_c(3, 2, -32, MPI_SHORT, &type));
    moves("hvector_c", type, 2);
    OK(MPI_Type_indexed_c(2, (MPI_Count[]){1, 2}, (MPI_Count[]){3, 7}, MPI_INT, &type));
    moves("indexed_c", type, 2);
    OK(MPI_Type_create_hindexed_c(2, (MPI_Count[]){1, 2}, (MPI_Count[]){3, 70}, MPI_INT, &type));
    moves("hindexed_c", type, 2);
    OK(MPI_Type_create_indexed_block_c(2, 2, (MPI_Count[]){3, 7}, MPI_INT, &type));
    moves("indexed_block_c", type, 2);
    OK(MPI_Type_create_hindexed_block_c(2, 2, (MPI_Count[]){3, 70}, MPI_INT, &type));
    moves("hindexed_block_c", type, 2);
    OK(MPI_Type_create_struct_c(2, (MPI_Count[]){1, 3}, (MPI_Count[]){0, 8},
                                (MPI_Datatype[]){MPI_CHAR, MPI_SHORT}, &type));
    moves("struct_c", type, 2);
    OK(MPI_Type_create_resized_c(MPI_INT, -4, 16, &type));
    moves("resized_c", type, 3);
    OK(MPI_Type_create_subarray_c(2, (MPI_Count[]){5, 7}, (MPI_Count[]){2, 3}, (MPI_Count[]){1, 2},
                                  MPI_ORDER_FORTRAN, MPI_SHORT, &type));
    moves("subarray_c", type, 2);
    OK(MPI_Type_create_darray_c(4, 3, 2, (MPI_Count[]){6, 10},
                                (int[]){MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
                                (int[]){MPI_DISTRIBUTE_DFLT_DARG, 2}, (int[]){2, 2}, MPI_ORDER_C,
                                MPI_SHORT, &type));
    moves("darray_c", type, 2);

    /* Displacements and counts above 2^31 in a view: nothing of that size is written. */
    const MPI_Count far = (MPI_Count)3 << 31;
    unsigned char byte = (unsigned char)(client_rank + 7), found = 0;
    MPI_Offset offset = -1;
    OK(MPI_Type_vector_c(far, 1, far / 64, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_File_set_view(file, client_rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, far - 1, &offset));
    CHECK(offset == client_rank + (far - 1) * (far / 64), "byte offset %lld", (long long)offset);
    OK(MPI_File_write_at(file, 80, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, 80, &found, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(found == byte, "read %d, wrote %d", found, byte);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_Type_free(&type));
#endif
}

/* On one rank of a collective; the others do not wait for it. */
static void null(void) {
    MPI_Datatype type = client_rank == 0 ? MPI_DATATYPE_NULL : MPI_BYTE;
    int code = MPI_File_write_at_all(file, 0, memory, 1, type, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TYPE, "write of MPI_DATATYPE_NULL gave class %d", class_of(code));
    code = MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_TYPE, "a filetype MPI_DATATYPE_NULL gave class %d", class_of(code));
    code = MPI_File_set_view(file, 0, type, MPI_BYTE, "external32", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_TYPE, "an etype MPI_DATATYPE_NULL gave class %d", class_of(code));
}

/* A view that shows no bytes: offset 0 is at its displacement, and there is no other. */
static void empty_view(void) {
    MPI_Datatype empty;
    MPI_Offset at = -1;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    OK(MPI_File_set_view(file, 24, MPI_INT, empty, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, 0, &at));
    CHECK(at == 24, "offset 0 is at %lld", (long long)at);
    CHECK(MPI_File_get_byte_offset(file, 1, &at) != MPI_SUCCESS, "offset 1 is at %lld", (long long)at);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&empty);
}

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    const char *path = scratch("odd.data");
    for (int i = 0; i < ROOM; i++) memory[i] = (unsigned char)(i * 7 + i / 256 + client_rank);
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    without_data();
    below_zero();
    large_counts();
    null();
    if (!client_is_native) empty_view();
    OK(MPI_File_close(&file));
    return client_end();
}
