/* ranks: 2 */
/* mpis: mpich5 */
/* pario: both */
/* calls: at least 2000 */
/* leaves: hdf5_many_writes.h5 */
/* needs: HDF5 1.14 */
/* seconds: 240 */
/*
 * HDF5 1.14: the last of 2,000 collective H5Dwrite calls takes as long as the first. HDF5 sets a view
 * with the hints of the file before and after each of them.
 *
 * The time of a block of calls is that of its shortest call, which a busy machine hardly changes. A
 * block that takes 5 times as long as the first one is growth, if that is seen in three files.
 */
#include "client.h"

#include <hdf5.h>

enum { WRITES = 2000, BLOCK = 100, BLOCKS = WRITES / BLOCK, ELEMENTS = 512, TRIES = 3 };

static const double GROWTH = 5;

#define H5(call) h5_ok(__FILE__, __LINE__, #call, (long long)(call))
static hid_t h5_ok(const char *file, int line, const char *call, long long result) {
    if (result < 0) client_fail(file, line, "%s failed", call);
    return (hid_t)result;
}

typedef struct {
    hid_t file, data, memory, space, transfer;
} Dataset;

/* Every rank has each of its elements beside those of the others. */
static Dataset create(const char *name) {
    hsize_t all = (hsize_t)ELEMENTS * (hsize_t)client_size, own = ELEMENTS;
    hsize_t start = (hsize_t)client_rank, stride = (hsize_t)client_size;
    hid_t access = H5(H5Pcreate(H5P_FILE_ACCESS));
    Dataset set;

    H5(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    set.file = H5(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    set.space = H5(H5Screate_simple(1, &all, NULL));
    set.memory = H5(H5Screate_simple(1, &own, NULL));
    set.data = H5(H5Dcreate2(set.file, "data", H5T_NATIVE_INT, set.space, H5P_DEFAULT, H5P_DEFAULT,
                             H5P_DEFAULT));
    H5(H5Sselect_hyperslab(set.space, H5S_SELECT_SET, &start, &stride, &own, NULL));
    set.transfer = H5(H5Pcreate(H5P_DATASET_XFER));
    H5(H5Pset_dxpl_mpio(set.transfer, H5FD_MPIO_COLLECTIVE));
    H5(H5Pclose(access));
    return set;
}

static void check_last(Dataset set) {
    static int values[ELEMENTS];
    int i;
    H5(H5Dread(set.data, H5T_NATIVE_INT, set.memory, set.space, set.transfer, values));
    for (i = 0; i < ELEMENTS; i++) {
        int expected = (WRITES - 1) * ELEMENTS * client_size + i * client_size + client_rank;
        CHECK(values[i] == expected, "element %d is %d, not %d", i, values[i], expected);
    }
}

static void discard(Dataset set) {
    H5(H5Dclose(set.data));
    H5(H5Sclose(set.space));
    H5(H5Sclose(set.memory));
    H5(H5Pclose(set.transfer));
    H5(H5Fclose(set.file));
}

/* The seconds of the shortest write of a block, on the rank where it is longest. */
static double shortest(Dataset set, int block) {
    static int values[ELEMENTS];
    double least = 1e9, slowest;
    int call, i;
    for (call = block * BLOCK; call < (block + 1) * BLOCK; call++) {
        double begin, seconds;
        for (i = 0; i < ELEMENTS; i++)
            values[i] = call * ELEMENTS * client_size + i * client_size + client_rank;
        begin = MPI_Wtime();
        H5(H5Dwrite(set.data, H5T_NATIVE_INT, set.memory, set.space, set.transfer, values));
        seconds = MPI_Wtime() - begin;
        if (seconds < least) least = seconds;
    }
    MPI_Allreduce(&least, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Writes until a block takes much longer than the first; whether none does. */
static int stays_equal(void) {
    Dataset set = create(scratch("hdf5_many_writes.h5"));
    double first = 0, last = 0;
    int block, equal = 1;
    for (block = 0; block < BLOCKS && equal; block++) {
        last = shortest(set, block);
        if (block == 0) first = last;
        equal = last <= GROWTH * first;
    }
    if (equal) check_last(set);
    discard(set);
    if (client_rank == 0)
        printf("TABLE %.0f us a write at first, %.0f after %d\n", first * 1e6, last * 1e6, block * BLOCK);
    return equal;
}

int main(int argc, char **argv) {
    int tried = 1;
    client_start(&argc, &argv);
    while (!stays_equal()) {
        CHECK(tried < TRIES, "writes take longer and longer, in %d files", tried);
        tried++;
    }
    return client_end();
}
