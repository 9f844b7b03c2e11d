/* ranks: 1 2 */
/* mpis: all */
/* pario: yes */
/* calls: at least 10 */
/* preload: libcuda */
/*
 * A buffer in device memory is refused with a text that says so, before anything is touched, on all
 * ranks of a collective; memory that host and device share works.
 *
 * The device is pretended: preload/libcuda.c answers for CUDA's driver, and "device memory" is
 * memory without any permission.
 */
#include "client.h"

#include <sys/mman.h>

enum { BYTES = 1 << 17 };

typedef void (*Ranges)(void *device, size_t device_bytes, void *shared, size_t shared_bytes);

static void expect_refused(const char *what, int code) {
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_OPERATION, "%s: class %d: %s", what, class_of(code),
          text_of(code));
    /* MPICH 4 shows its own text of the class. */
    int has_text = !library_is("MPICH") || !library_is("Version:\t4");
    CHECK(!has_text || strstr(text_of(code), "device memory"), "%s: %s", what, text_of(code));
}

static void device(MPI_File file, char *memory) {
    MPI_Datatype strided, absolute;
    MPI_Status status;
    MPI_Aint place;
    MPI_Request request;
    int one = 64;
    MPI_Type_vector(16, 4, 64, MPI_BYTE, &strided);
    MPI_Get_address(memory, &place);
    MPI_Type_create_hindexed(1, &one, &place, MPI_BYTE, &absolute);
    MPI_Type_commit(&strided);
    MPI_Type_commit(&absolute);
    for (int bytes = 8; bytes <= BYTES; bytes *= 128) {
        expect_refused("write_at", MPI_File_write_at(file, 0, memory, bytes, MPI_BYTE, &status));
        expect_refused("read_at", MPI_File_read_at(file, 0, memory, bytes, MPI_BYTE, &status));
    }
    expect_refused("strided", MPI_File_write_at(file, 0, memory, 1, strided, &status));
    expect_refused("absolute", MPI_File_write_at(file, 0, MPI_BOTTOM, 1, absolute, &status));
    expect_refused("iwrite_at", MPI_File_iwrite_at(file, 0, memory, 8, MPI_BYTE, &request));
    /* One rank's buffer is enough. */
    char host[64] = "host";
    char *mine = client_rank == client_size - 1 ? memory : host;
    expect_refused("write_at_all", MPI_File_write_at_all(file, 0, mine, 64, MPI_BYTE, &status));
    expect_refused("read_at_all", MPI_File_read_at_all(file, 0, mine, 64, MPI_BYTE, &status));
    MPI_Type_free(&strided);
    MPI_Type_free(&absolute);
}

static void works(MPI_File file, char *memory) {
    MPI_Status status;
    char back[64];
    memset(memory, 65 + client_rank, 64);
    OK(MPI_File_write_at_all(file, client_rank * 64, memory, 64, MPI_BYTE, &status));
    EXPECT_COUNT("write_at_all", &status, MPI_BYTE, 64);
    OK(MPI_File_read_at(file, client_rank * 64, back, 64, MPI_BYTE, &status));
    EXPECT_BYTES("read_at", back, memory, 64);
}

int main(int argc, char **argv) {
    Ranges ranges;
    MPI_File file;
    char host[64];
    client_start(&argc, &argv);
    *(void **)&ranges = dlsym(RTLD_DEFAULT, "fake_cuda_ranges");
    CHECK(ranges != NULL, "libcuda.so is not preloaded");
    void *forbidden = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *shared = malloc(BYTES);
    CHECK(forbidden != MAP_FAILED && shared, "no memory");
    ranges(forbidden, BYTES, shared, BYTES);
    remove_first(scratch("device_memory.data"));
    OK(MPI_File_open(MPI_COMM_WORLD, scratch("device_memory.data"),
                     MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_set_size(file, BYTES));
    device(file, forbidden);
    OK(MPI_File_read_at_all(file, 0, shared, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BYTES; i++) CHECK(shared[i] == 0, "byte %d was written", i);
    works(file, shared);
    works(file, host);
    OK(MPI_File_close(&file));
    free(shared);
    return client_end();
}
