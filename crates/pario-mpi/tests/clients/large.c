/* ranks: 1 2 5 */
/* mpis: all */
/* pario: both */
/* calls: at least 20 */
/*
 * Offsets beyond 2^31 and 2^32, extents beyond 2^32, and counts beyond 2^31 where the library has
 * large-count calls; with little memory and a sparse file.
 */
#include "client.h"

#include <sys/mman.h>

#define GIB ((MPI_Offset)1 << 30)

static MPI_File open_fresh(void) {
    const char *path = scratch("large.data");
    MPI_File file;
    remove_first(path);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    return file;
}

static void far_offsets(MPI_File file) {
    static const int gibibytes[] = {2, 4, 6};
    MPI_Offset size = -1, position = -1, bytes = -1;
    for (int i = 0; i < 3; i++) {
        MPI_Offset at = gibibytes[i] * GIB - 2 + client_rank * 8;
        int word = 100 * i + client_rank, back = -1;
        OK(MPI_File_write_at_all(file, at, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
        settle(file, MPI_COMM_WORLD);
        OK(MPI_File_read_at(file, at, &back, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(back == word, "offset %lld: expected %d, got %d", (long long)at, word, back);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 6 * GIB - 2 + (client_size - 1) * 8 + 4, "size %lld", (long long)size);
    OK(MPI_File_seek(file, 5 * GIB, MPI_SEEK_SET));
    OK(MPI_File_get_position(file, &position));
    CHECK(position == 5 * GIB, "position %lld", (long long)position);
    OK(MPI_File_seek_shared(file, 5 * GIB + 3, MPI_SEEK_SET));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &position));
    CHECK(position == 5 * GIB + 3, "shared position %lld", (long long)position);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_view(file, 3 * GIB, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_get_byte_offset(file, GIB, &bytes));
    CHECK(bytes == 7 * GIB, "byte offset %lld", (long long)bytes);
}

/* One int per rank every 3 GiB. */
static void far_tiles(MPI_File file) {
    MPI_Datatype sparse;
    MPI_Aint extent = -1;
    int words[3], back[3] = {-1, -1, -1};
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)(3 * GIB), &sparse);
    MPI_Type_commit(&sparse);
    OK(MPI_File_get_type_extent(file, sparse, &extent));
    CHECK(extent == 3 * GIB, "extent %lld", (long long)extent);
    OK(MPI_File_set_view(file, client_rank * 4, MPI_INT, sparse, "native", MPI_INFO_NULL));
    for (int i = 0; i < 3; i++) words[i] = 1000 * i + client_rank;
    OK(MPI_File_write_at_all(file, 0, words, 3, MPI_INT, MPI_STATUS_IGNORE));
    settle(file, MPI_COMM_WORLD);
    OK(MPI_File_read_at_all(file, 0, back, 3, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT_BYTES("tiles of 3 GiB", back, words, sizeof words);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 6 * GIB + client_rank * 4, back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(back[0] == words[2], "third tile: expected %d, got %d", words[2], back[0]);
    MPI_Type_free(&sparse);
}

/* Memory that is far apart: two ints with 2.5 GiB of address space between, never touched. */
static void far_memory(MPI_File file) {
    MPI_Datatype apart;
    MPI_Aint stride = (MPI_Aint)(5 * GIB / 2);
    int lengths[2] = {1, 1}, back[2] = {0, 0};
    MPI_Aint displacements[2] = {0, stride};
    char *memory = malloc((size_t)stride + 64);
    if (!memory) return; /* the address space is limited here */
    *(int *)memory = 31;
    *(int *)(memory + stride) = 32;
    MPI_Type_create_hindexed(2, lengths, displacements, MPI_INT, &apart);
    MPI_Type_commit(&apart);
    OK(MPI_File_write_at(file, client_rank * 8, memory, 1, apart, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(file, client_rank * 8, back, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(back[0] == 31 && back[1] == 32, "far memory: got %d, %d", back[0], back[1]);
    MPI_Type_free(&apart);
    free(memory);
}

#if HAVE_LARGE_COUNT
/* Types that only the large-count constructors can make. */
static void large_count_types(MPI_File file) {
    MPI_Datatype type, children[1] = {MPI_INT};
    MPI_Count lengths[2] = {1, 2}, at[2] = {0, 5 * GIB}, one[1] = {1}, here[1] = {4};
    MPI_Count sizes[2] = {3 * GIB, 2}, subsizes[2] = {1, 1}, starts[2] = {GIB, 1};
    int words[3] = {1, 2, 3}, back[3] = {0, 0, 0};

    MPI_Type_create_hindexed_c(2, lengths, at, MPI_INT, &type);
    MPI_Type_commit(&type);
    OK(MPI_File_set_view(file, client_rank * 16, MPI_INT, type, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all_c(file, 0, words, 3, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at_all_c(file, 0, back, 3, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT_BYTES("hindexed_c", back, words, sizeof words);
    MPI_Type_free(&type);

    MPI_Type_create_struct_c(1, one, here, children, &type);
    MPI_Type_commit(&type);
    back[0] = back[1] = 0;
    OK(MPI_File_read_at_c(file, 0, back, 1, type, MPI_STATUS_IGNORE));
    CHECK(back[0] == 0 && back[1] == 1, "struct_c: got %d, %d", back[0], back[1]);
    MPI_Type_free(&type);

    MPI_Type_create_subarray_c(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_commit(&type);
    OK(MPI_File_set_view(file, client_rank * 16, MPI_INT, type, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all_c(file, 0, words, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_c(file, (2 * GIB + 1) * 4 + client_rank * 16, back, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(back[0] == 1, "subarray_c: got %d", back[0]);
    MPI_Type_free(&type);
}

/* The read stops at the end of the file, so a count of 2^32 needs only what is there. */
static void large_counts(MPI_File file) {
    MPI_Count count = -1;
    MPI_Status status;
    size_t reserved = (size_t)(4 * GIB + 4096); /* address space only, never touched */
    char *bytes = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) return;
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_size(file, 64));
    OK_PARIO(MPI_File_read_at_c(file, 16, bytes, 4 * GIB + 7, MPI_BYTE, &status));
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK_PARIO(count == 48, "read of 2^32 + 7 bytes over the end: count %lld", (long long)count);
    munmap(bytes, reserved);
}

/* 2^31 + 5 pieces of a zero-size type move nothing, but the count must not be cut to an int. */
static void large_zero(MPI_File file) {
    MPI_Datatype nothing;
    MPI_Status status;
    int byte = 0;
    MPI_Count count = -1;
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    OK(MPI_File_write_at_c(file, 0, &byte, 2 * GIB + 5, nothing, &status));
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    CHECK(count == 0, "2^31 + 5 times nothing: %lld bytes", (long long)count);
    MPI_Type_free(&nothing);
}
#endif

int main(int argc, char **argv) {
    client_start(&argc, &argv);
    MPI_File file = open_fresh();
    far_offsets(file);
    OK(MPI_File_close(&file));
    file = open_fresh();
    far_tiles(file);
    OK(MPI_File_close(&file));
    file = open_fresh();
    far_memory(file);
#if HAVE_LARGE_COUNT
    OK(MPI_File_close(&file));
    file = open_fresh();
    /* MPICH 4.0.2 aborts: its ROMIO asks a large-count type for its envelope with int counts, and
       asserts count <= INT_MAX in its large-count calls. */
    if (!client_is_native || !library_is("MPICH Version:\t4.")) {
        large_count_types(file);
        large_counts(file);
        large_zero(file);
    }
#endif
    OK(MPI_File_close(&file));
    return client_end();
}
